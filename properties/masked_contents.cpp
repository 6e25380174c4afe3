// masked-contents, nonfinite-masked: the contents of keys that take part in no row change nothing.
//
// Exact, for subjects that claim `deterministic`: rows of k and v that no query reads get other contents.
// masked-contents: other values, with other numbers at masked pairs of the bias, then the largest finite values.
// nonfinite-masked: NaN, then infinities, if the contract says that masked keys are never read.
//
// Preconditions (docs/bounds.md):
// - keys masked by keep, causality, window or length: any value that is finite in storage and operand;
// - keys that only a bias of -inf excludes, and all of these where the contract says that masks are added: any such v,
//   and k whose raw score is finite in every format it may be held in, since inf + -inf is a NaN;
// - NaN and infinities at the keys that `masked_unread` names, those of a bias excepted;
// - rows without a key are compared only if the contract's empty row does not depend on values (zero or NaN).
// Memory that stride-0 axes share counts as read if any of its logical keys is.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

constexpr Index most_masked_scores = Index{1} << 24;

Reason masked_contents_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  const bool edited = std::ranges::any_of(p.edits, [](const Edit& edit) {
    return edit.tensor == Edit::Tensor::bias && edit.value == -std::numeric_limits<double>::infinity();
  });
  const bool masks = p.causal || p.window_left >= 0 || p.window_right >= 0 || p.keep != Keep::none ||
                     p.lengths != Lengths::none || may_exclude(p.bias) || edited;
  if (!masks) return "no mask";
  if (p.b * p.hq * p.lq * p.lk > most_masked_scores) return "too many scores to look for masked keys";
  return needs_deterministic(p, contract, info);
}

Reason nonfinite_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (contract.masked_unread == MaskedUnread::no) return "masked keys may be read";
  if (contract.masked_unread == MaskedUnread::beyond_length && p.lengths == Lengths::none) return "no key lengths";
  return masked_contents_not_applicable(p, contract, info);
}

// The most that any row makes of what is stored once, over the first `axes` axes: indices along stride-0 axes fall
// together.
class Use {
 public:
  Use(const Tensor& tensor, std::size_t axes) : strides_(tensor.strides()), extents_(stored_extents(tensor)) {
    std::fill(extents_.begin() + static_cast<std::ptrdiff_t>(axes), extents_.end(), 1);
    parts_.resize(static_cast<std::size_t>(extents_[0] * extents_[1] * extents_[2] * extents_[3]), Part::masked);
  }
  Part& at(Index i0, Index i1, Index i2, Index i3 = 0) {
    const Index index[] = {i0, i1, i2, i3};
    Index flat = 0;
    for (std::size_t axis = 0; axis < 4; ++axis)
      flat = flat * extents_[axis] + (strides_[axis] == 0 ? 0 : std::min(index[axis], extents_[axis] - 1));
    return parts_[static_cast<std::size_t>(flat)];
  }
  void add(Part part, Index i0, Index i1, Index i2, Index i3 = 0) {
    Part& most = at(i0, i1, i2, i3);
    most = std::max(most, part);
  }

 private:
  std::span<const Index> strides_;
  std::array<Index, 4> extents_;
  std::vector<Part> parts_;
};

// The elements that are read, over all rows of the problem.
struct Reads {
  Use k, v, bias;

  Reads(const Inputs& inputs, const Contract& contract) : k(inputs.k, 3), v(inputs.v, 3), bias(inputs.bias, 4) {
    const Masks masks(inputs, contract);
    const auto q = inputs.q.shape();
    const Index keys = inputs.k.shape()[2], group = q[1] / inputs.k.shape()[1];
    for (Index b = 0; b < q[0]; ++b)
      for (Index h = 0; h < q[1]; ++h)
        for (Index i = 0; i < q[2]; ++i) {
          // Elsewhere keys are masked, or closed by a mask that is added.
          const Index first = contract.mask_added ? 0 : masks.begin(b, i);
          const Index last = contract.mask_added ? keys : std::min({keys, masks.end(b, i), masks.length(b)});
          for (Index j = first; j < last; ++j) {
            const Part part = masks.part(b, h, i, j);
            if (part == Part::masked) continue;
            k.add(part, b, h / group, j);
            v.add(part, b, h / group, j);
            if (inputs.bias.present()) bias.add(part, b, h, i, j);
          }
        }
  }
};

double largest(const Contract& contract) {
  return std::min(largest_finite(contract.policy[Stage::storage]), largest_finite(contract.policy[Stage::operand]));
}

// Tells whether a k of magnitude 1 gives a raw score that is finite in every format that may hold it, with room to
// spare.
bool unit_key_is_safe(const Inputs& inputs, const Contract& contract) {
  double most = 0;
  bool finite = true;
  for_each_stored(inputs.q, [&](Index b, Index h, Index i, Index c) {
    const double x = std::fabs(inputs.q.at(b, h, i, c));
    finite = finite && std::isfinite(x);
    most = std::max(most, x);
  });
  double room = std::numeric_limits<double>::max();
  for (const Stage stage : {Stage::operand, Stage::scale, Stage::qk, Stage::score, Stage::softmax})
    room = std::min(room, overflow_threshold(contract.policy[stage]));
  return finite && most * static_cast<double>(inputs.q.shape()[3]) * std::max(1.0, std::fabs(inputs.scale)) < room / 8;
}

enum class Content { other, largest, nan, infinity };
constexpr bool is_finite(Content content) { return content == Content::other || content == Content::largest; }

class Rewriter {
 public:
  Rewriter(Trial& trial, Reads& reads)
      : trial_(trial), reads_(reads), unit_key_is_safe_(unit_key_is_safe(trial.inputs(), trial.contract())) {}

  // The inputs with new contents at masked keys; `changes` counts the elements rewritten.
  Inputs rewrite(Content content, Index& changes) {
    Inputs inputs = trial_.inputs().clone();
    rewrite_rows(inputs.k, reads_.k, true, content, changes);
    rewrite_rows(inputs.v, reads_.v, false, content, changes);
    if (content == Content::other && inputs.bias.present())
      for_each_stored(inputs.bias, [&](Index b, Index h, Index i, Index j) {
        if (reads_.bias.at(b, h, i, j) != Part::masked) return;
        inputs.bias.set(b, h, i, j, inputs.bias.at(b, h, i, j) == 0 ? 1 : 0);
        ++changes;
      });
    return inputs;
  }

 private:
  void rewrite_rows(Tensor& tensor, Use& use, bool is_key, Content content, Index& changes) {
    const double most = largest(trial_.contract());
    std::uint64_t bits = draw(trial_.problem(), is_key ? 51 : 52);
    if (!tensor.present()) return;
    const std::array<Index, 4> n = stored_extents(tensor);
    for (Index b = 0; b < n[0]; ++b)
      for (Index h = 0; h < n[1]; ++h)
        for (Index j = 0; j < n[2]; ++j) {
          const Part part = use.at(b, h, j);
          if (part == Part::attended) continue;
          const bool kept = (part == Part::minus_inf && is_key && !(unit_key_is_safe_ && content == Content::other)) ||
                            (!is_finite(content) && (part != Part::masked || !unread(b, j)));
          for (Index c = 0; c < n[3]; ++c) {
            const double x = tensor.at(b, h, j, c);
            if (!(std::fabs(x) <= most)) continue;  // its presence may show already
            bits = mix(bits);
            if (kept) continue;
            tensor.set(b, h, j, c, new_value(content, x, bits & 1 ? 1 : -1, most));
            ++changes;
          }
        }
  }

  static double new_value(Content content, double x, double sign, double most) {
    switch (content) {
      case Content::other:
        return x == sign ? -sign : sign;
      case Content::largest:
        return sign * most;
      case Content::nan:
        return std::numeric_limits<double>::quiet_NaN();
      case Content::infinity:
        break;
    }
    return sign * std::numeric_limits<double>::infinity();
  }

  // Tells whether the contract promises that a masked key is never read. Memory shared by samples counts only under
  // `yes`.
  [[nodiscard]] bool unread(Index b, Index j) const {
    const Inputs& inputs = trial_.inputs();
    if (trial_.contract().masked_unread == MaskedUnread::yes) return true;
    return inputs.k.strides()[0] != 0 && inputs.v.strides()[0] != 0 && j >= Masks(inputs, trial_.contract()).length(b);
  }

  Trial& trial_;
  Reads& reads_;
  bool unit_key_is_safe_;
};

std::string_view note_of(Content content) {
  switch (content) {
    case Content::other:
      return "other values at masked keys";
    case Content::largest:
      return "the largest finite values at masked keys";
    case Content::nan:
      return "NaN at masked keys, which the contract says are never read";
    case Content::infinity:
      return "infinities at masked keys, which the contract says are never read";
  }
  return "";
}

Verdict check_masked_contents(Trial& trial, std::initializer_list<Content> contents) {
  const Problem& p = trial.problem();
  Reads reads(trial.inputs(), trial.contract());
  Rewriter rewriter(trial, reads);
  std::vector<Inputs> inputs;
  std::vector<Content> used;
  for (const Content content : contents) {
    Index changes = 0;
    Inputs rewritten = rewriter.rewrite(content, changes);
    if (changes == 0) continue;
    inputs.push_back(std::move(rewritten));
    used.push_back(content);
  }
  if (inputs.empty()) return Verdict::skip("no key is masked in every row that could read it");

  const Result& base = trial.base();
  std::vector<Request> calls;
  for (const Inputs& variant : inputs) calls.push_back({&variant, &p});
  const std::vector<Result> results = trial.run_many(calls);
  Counts counts;
  for (std::size_t n = 0; n < results.size(); ++n)
    if (auto evidence = difference_with_keys(trial, base, results[n], note_of(used[n]), counts))
      return Verdict::fail(std::move(*evidence), counts);
  return held(counts);
}

Verdict check_finite(Trial& trial) { return check_masked_contents(trial, {Content::other, Content::largest}); }
Verdict check_nonfinite(Trial& trial) { return check_masked_contents(trial, {Content::nan, Content::infinity}); }

}  // namespace

Property masked_contents() {
  return {"masked-contents",
          "f(x) = f(x') where x and x' differ only at keys that take part in no row",
          "finite contents of masked keys change nothing, if `deterministic` is claimed",
          Kind::exact,
          masked_contents_not_applicable,
          check_finite,
          Asks::base_plan};
}

Property nonfinite_masked() {
  return {"nonfinite-masked",
          "f(x) = f(x') where x' holds NaN or infinities at keys that take part in no row",
          "NaN and infinities at masked keys change nothing, if `deterministic` and `masked_unread` are claimed",
          Kind::exact,
          nonfinite_not_applicable,
          check_nonfinite,
          Asks::base_plan};
}

}  // namespace attest::properties
