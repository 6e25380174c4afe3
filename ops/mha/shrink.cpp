#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/mha/inputs.hpp"
#include "core/supports.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Biases;
using attest::mha::Edit;
using attest::mha::Layout;
using attest::mha::Weights;
using enum attest::mha::Edit::Tensor;

constexpr Index most_elements = 64;  // the elements of all tensors together, which are zeroed

// ---- cuts -----------------------------------------------------------------------------------------------------------

// Moves edits by what is cut off the front of an axis.
void move_edits(Problem& p, Index by, std::initializer_list<Edit::Tensor> tensors, std::size_t axis) {
  std::erase_if(p.edits, [&](Edit& edit) {
    return std::ranges::find(tensors, edit.tensor) != tensors.end() && (edit.index[axis] -= by) < 0;
  });
}

// Keeps `count` samples, up to and including sample `at`.
void cut_batch(Problem& p, Index count, Index at) {
  count = std::min(count, p.b);
  const Index by = window_start(std::min(at, p.b - 1), count, p.b);
  p.b0 += by;
  move_edits(p, by, {x, memory, bias, keep, kv_lengths}, 0);
  p.b = count;
}

// The same of tokens of x; those of self-attention are cut at their end, since what lies before the witness is
// attended.
void cut_tokens(Problem& p, Index count, Index at) {
  count = std::min(count, p.l);
  const Index by = window_start(std::min(at, p.l - 1), count, p.l);
  p.l0 += by;
  move_edits(p, by, {x}, 1);
  move_edits(p, by, {bias, keep}, 2);
  p.l = count;
  if (!p.self) return;
  move_edits(p, by, {bias, keep}, 3);
  p.m = count;
}

void cut_front_of_memory(Problem& p, Index count) {
  const Index by = p.m - std::min(count, p.m);
  p.m0 += by;
  move_edits(p, by, {memory}, 1);
  move_edits(p, by, {bias, keep}, 3);
  p.m -= by;
}

// ---- what a dimension may be on its way down ------------------------------------------------------------------------

Rungs rungs_of_b(const Problem& p, const Supports& s) { return down_to(p.b, s.b.min, s.b.step()); }
Rungs rungs_of_l(const Problem& p, const Supports& s) {
  if (!p.self) return down_to(p.l, s.l.min, s.l.step());
  return down_to(p.l, std::max(s.l.min, s.m.min), std::lcm(s.l.step(), s.m.step()));
}
Rungs rungs_of_m(const Problem& p, const Supports& s) {
  return p.self ? Rungs{p.m, 1} : down_to(p.m, s.m.min, s.m.step());
}
// The rungs for the tokens of x alone, or of memory alone, where both are one. They part, which takes more than one
// field.
Rungs rungs_of_x_apart(const Problem& p, const Supports& s) {
  return p.self && s.cross ? down_to(p.l, s.l.min, s.l.step()) : Rungs{p.l, 1};
}
Rungs rungs_of_memory_apart(const Problem& p, const Supports& s) {
  return p.self && s.cross ? down_to(p.m, s.m.min, s.m.step()) : Rungs{p.m, 1};
}
Rungs rungs_of_e(const Problem& p, const Supports& s) {
  if (s.heads_fill_e) return {p.e, 1};
  return down_to(p.e, s.e.min, std::lcm(s.e.step(), row_step(s.alignment, p.dtype)));
}
Rungs rungs_of_head_dim(const Problem& p, const Supports& s) {
  return down_to(p.head_dim, s.head_dim.min, std::lcm(s.head_dim.step(), row_step(s.alignment, p.dtype)));
}
// The rungs of key/value heads, each of which takes its group of query heads along; and of the members of a group.
Rungs rungs_of_groups(const Problem& p, const Supports& s) {
  const Index of_queries = s.heads.step() / std::gcd(s.heads.step(), p.group());
  return down_to(p.kv_heads, std::max(s.kv_heads.min, (s.heads.min + p.group() - 1) / p.group()),
                 std::lcm(s.kv_heads.step(), of_queries));
}
Rungs rungs_of_members(const Problem& p, const Supports& s) {
  const Index of_queries = s.heads.step() / std::gcd(s.heads.step(), p.kv_heads);
  return down_to(p.group(), (s.heads.min + p.kv_heads - 1) / p.kv_heads, of_queries);
}

// Memory becomes a tensor of its own, of as many tokens as x had, that lies as x does.
void part(Problem& p) {
  p.self = false;
  p.memory_layout = p.x_layout;
  p.m0 = p.l0;
}
void set_x_apart(Problem& p, Index n) {
  if (p.self && n < p.l) part(p);
  if (!p.self) p.l = n;
}
void set_memory_apart(Problem& p, Index n) {
  if (p.self && n < p.m) part(p);
  if (!p.self) p.m = n;
}

void set_groups(Problem& p, Index n) {
  const Index group = p.group();
  p.kv_heads = n;
  p.heads = n * group;
}

template <auto Cut>
Problem cut_at(Problem p, Index n, Index at) {
  Cut(p, n, at);
  return p;
}

// ---- edits ----------------------------------------------------------------------------------------------------------

bool is_lost(const Problem& p, const Edit& edit) {
  const std::vector<Index> shape = attest::mha::extents(p, edit.tensor);
  if (shape.empty() || (edit.tensor == kv_lengths && edit.value > static_cast<double>(p.m))) return true;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (edit.index[axis] < 0 || edit.index[axis] >= shape[axis]) return true;
  return false;
}

void zero(Problem& p, Edit::Tensor tensor, const std::array<Index, 4>& index) {
  std::erase_if(p.edits, [&](const Edit& edit) { return edit.tensor == tensor && edit.index == index; });
  p.edits.push_back({tensor, index, 0});
}

// The parts that may be set to zero next: each tensor in turn, and after it each of its rows, whole and by element.
class Zeroing {
 public:
  explicit Zeroing(const Problem& p) : p_(p) {}

  void add(Edit::Tensor which, const attest_tensor& tensor) {
    std::array<Index, 4> n{1, 1, 1, 1};
    std::copy_n(tensor.shape, tensor.ndim, n.begin());
    const std::size_t last = static_cast<std::size_t>(tensor.ndim) - 1;
    Index count = 1;
    for (std::size_t axis = 0; axis < last; ++axis) count *= n[axis];
    const std::size_t place = found_.size();
    Problem all = p_;
    int rows = 0;
    for (Index row = 0; row < count; ++row) {
      std::array<Index, 4> index{};
      Index rest = row;
      for (std::size_t axis = last; axis-- > 0; rest /= n[axis]) index[axis] = rest % n[axis];
      rows += add_row(which, tensor, index, last, n[last], all);
    }
    if (rows < 2) return;
    found_.insert(found_.begin() + static_cast<std::ptrdiff_t>(place),
                  {std::move(all), fmt::format("{} -> 0", name(which))});
    if (behind_latest_ > place) ++behind_latest_;
  }
  // The candidates from the latest zero on, and then those before it: a refused one is asked again once nothing else is
  // left, not after every zero.
  std::vector<Candidate> candidates() && {
    std::rotate(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(behind_latest_), found_.end());
    return std::move(found_);
  }

 private:
  // Tells whether there is anything in it to be zeroed, which is so in `all`.
  bool add_row(Edit::Tensor which, const attest_tensor& tensor, std::array<Index, 4> index, std::size_t last,
               Index columns, Problem& all) {
    Problem whole = p_;
    std::vector<Candidate> elements;
    std::optional<std::size_t> before_latest;
    for (Index column = 0; column < columns; ++column) {
      index[last] = column;
      if (!p_.edits.empty() && p_.edits.back().tensor == which && p_.edits.back().index == index)
        before_latest = elements.size();
      const double value = load(tensor, index[0], index[1], index[2], index[3]);
      if (value == 0 || value == 1) continue;
      zero(whole, which, index);
      zero(all, which, index);
      Problem one = p_;
      zero(one, which, index);
      elements.push_back({std::move(one), fmt::format("an element of {} -> 0", name(which))});
    }
    if (elements.size() > 1) found_.push_back({std::move(whole), fmt::format("a row of {} -> 0", name(which))});
    if (before_latest) behind_latest_ = found_.size() + *before_latest;
    const bool any = !elements.empty();
    std::ranges::move(elements, std::back_inserter(found_));
    return any;
  }

  const Problem& p_;
  std::vector<Candidate> found_;
  std::size_t behind_latest_ = 0;
};

}  // namespace

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> list{
      {"b", 1, [](const Problem& p) { return p.b; }, [](Problem& p, Index n) { p.b = n; }, rungs_of_b,
       [](Problem p, Index n, const Witness& at) { return cut_at<cut_batch>(std::move(p), n, at[0]); }},
      {"l", 1, [](const Problem& p) { return p.l; },
       [](Problem& p, Index n) {
         p.l = n;
         if (p.self) p.m = n;
       },
       rungs_of_l, [](Problem p, Index n, const Witness& at) { return cut_at<cut_tokens>(std::move(p), n, at[1]); }},
      {"m", 1, [](const Problem& p) { return p.m; }, [](Problem& p, Index n) { p.m = n; }, rungs_of_m},
      {"last of m", 1, [](const Problem& p) { return p.m; }, [](Problem& p, Index n) { cut_front_of_memory(p, n); },
       rungs_of_m, nullptr, true},
      {"l apart from m", 1, [](const Problem& p) { return p.l; }, set_x_apart, rungs_of_x_apart},
      {"m apart from l", 1, [](const Problem& p) { return p.m; }, set_memory_apart, rungs_of_memory_apart},
      {"kv_heads", 1, [](const Problem& p) { return p.kv_heads; }, set_groups, rungs_of_groups},
      {"group", 1, [](const Problem& p) { return p.group(); }, [](Problem& p, Index n) { p.heads = p.kv_heads * n; },
       rungs_of_members},
      {"head_dim", 1, [](const Problem& p) { return p.head_dim; }, [](Problem& p, Index n) { p.head_dim = n; },
       rungs_of_head_dim},
      {"e", 1, [](const Problem& p) { return p.e; }, [](Problem& p, Index n) { p.e = n; }, rungs_of_e},
      {"threads", 0, [](const Problem& p) { return p.threads; }, [](Problem& p, Index n) { p.threads = n; }},
  };
  return list;
}

Problem capped(Problem p, Index most, const std::optional<Witness>& witness, const Supports& s) {
  const Witness at = witness.value_or(Witness{});
  cut_batch(p, rungs_of_b(p, s).up(most), at[0]);
  cut_tokens(p, rungs_of_l(p, s).up(most), at[1]);
  if (!p.self) p.m = std::min(p.m, rungs_of_m(p, s).up(most));
  if (const Rungs by = rungs_of_groups(p, s); p.kv_heads > by.up(most)) set_groups(p, by.up(most));
  if (const Rungs by = rungs_of_members(p, s); p.group() > by.up(most)) p.heads = p.kv_heads * by.up(most);
  p.head_dim = std::min(p.head_dim, rungs_of_head_dim(p, s).up(most));
  p.e = std::min(p.e, rungs_of_e(p, s).up(most));
  fit(p, p, s);
  return p;
}

// A token that attends to others keeps those before it.
Problem sliced(Problem p, Index samples, const Witness& witness, const Supports& s) {
  cut_batch(p, rungs_of_b(p, s).up(samples), witness[0]);
  const Rungs by = rungs_of_l(p, s);
  if (p.self)
    cut_tokens(p, by.up(std::min(witness[1] + 1, p.l)), 0);
  else
    cut_tokens(p, by.up(1), witness[1]);
  return p;
}

void fit(const Problem& from, Problem& to, const Supports& s) {
  for (const Field& field : attest::mha::fields())
    if (field.extent) field.set(to, (s.*field.extent).nearest(field.get(to)));
  if (!s.self) to.self = false;
  if (!s.cross) to.self = true;
  if (to.self) to.l != from.l ? to.m = to.l : to.l = to.m;
  if (to.heads % to.kv_heads != 0) {
    if (to.heads != from.heads)
      to.kv_heads = std::gcd(to.heads, to.kv_heads);
    else
      to.heads = to.kv_heads * from.group();
  }
  if (!s.gqa) to.kv_heads = to.heads;
  if (s.heads_fill_e) to.e = to.q_width();
  const bool in = s.in_biases && (to.has_in_biases() || !s.no_in_biases),
             out = s.out_bias && (to.has_out_bias() || !s.no_out_bias);
  to.biases = in ? out ? Biases::all : Biases::in : out ? Biases::out : Biases::none;
  if (s.scale == Supports::Scale::only_default) to.scale.reset();
  if (!to.causal) to.align = Align::top_left;
  if (to.causal && !s.top_left) to.align = Align::bottom_right;
  if (to.self) to.memory_layout = Layout::contiguous, to.m0 = 0;
  std::erase_if(to.edits, [&](const Edit& edit) { return is_lost(to, edit); });
}

std::vector<ops::Escape> escapes(const Problem& shape, const Problem& original) {
  std::vector<ops::Escape> found;
  const auto add = [&](Problem p, const char* change, bool drawn, bool likely = false) {
    found.push_back({{std::move(p), change}, drawn, likely});
  };
  add(shape, "as it is", false, true);
  Problem plain = reset(shape, FieldGroup::values).as<Problem>();
  for (const auto& [weights, change] : {std::pair{Weights::dense, "dense weights"},
                                        {Weights::power_of_two, "powers of two as weights"},
                                        {Weights::cancelling, "weights that cancel"}}) {
    plain.weights = weights;
    add(plain, change, true, weights == original.weights);
  }
  Problem kept = shape;
  kept.weights = original.weights;
  kept.amplitude = original.amplitude;
  kept.seed = original.seed;
  kept.scale = original.scale;
  kept.edits = original.edits;
  add(kept, "the values it began with", true);
  Problem reseeded = shape;
  ++reseeded.seed;
  add(reseeded, "another seed", true);
  return found;
}

Problem sampled(Problem p) {
  constexpr Index most_samples = 16, most_work = Index{1} << 14;
  p.b *= std::clamp<Index>(most_work / std::max<Index>(p.multiply_adds(), 1), 1, most_samples);
  return p;
}

std::vector<Candidate> with_zeroed_elements(const ops::Problem& problem) {
  const Problem& p = problem.as<Problem>();
  Index count = 0;
  for (const Edit::Tensor which : {x, memory, w_q, w_k, w_v, w_out}) {
    const std::vector<Index> shape = attest::mha::extents(p, which);
    if (!shape.empty()) count += std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
  }
  if (count > most_elements || p.x_layout == Layout::broadcast || p.memory_layout == Layout::broadcast) return {};
  const attest::mha::Inputs inputs = materialise(p);
  const Tensor none;
  const attest::mha::Call call = inputs.call(none);
  const std::pair<Edit::Tensor, const attest_tensor*> tensors[] = {
      {b_q, &call.b_q}, {b_k, &call.b_k}, {b_v, &call.b_v}, {b_out, &call.b_out}, {x, &call.x},
      {w_q, &call.w_q}, {w_k, &call.w_k}, {w_v, &call.w_v}, {w_out, &call.w_out}};
  Zeroing zeroing(p);
  if (!p.self) zeroing.add(memory, call.memory);
  for (const auto& [which, tensor] : tensors)
    if (attest_present(tensor)) zeroing.add(which, *tensor);
  return std::move(zeroing).candidates();
}

}  // namespace attest::ops::of_mha
