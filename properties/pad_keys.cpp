// pad-keys: keys appended and closed change nothing.
//
// They are closed by a key length, by the keep mask or by a bias of -inf, as far as the subject takes one; masks cannot
// close them where a diagonal of bottom_right would move with the number of keys. Their k are those of other keys and
// their v those with the other sign, so that every number of them is an ordinary one. Catches masks that are ignored or
// read as something else, padding that takes part, and lengths that are taken from the shape.
#include <limits>
#include <vector>

#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

constexpr Index longest = Index{1} << 20;

enum class Closed { by_length, by_keep, by_bias };

// The diagonal is measured from the last key.
bool falls_with_keys(const Problem& p) {
  return has_diagonal(p) && p.align == Align::bottom_right && p.lengths == Lengths::none;
}

std::vector<Closed> ways(const Problem& p, const Contract& contract, const Supports& supports) {
  std::vector<Closed> ways;
  if (supports.kv_lengths) ways.push_back(Closed::by_length);
  if (falls_with_keys(p)) return ways;
  if (supports.keep) ways.push_back(Closed::by_keep);
  const bool softcap_last = p.softcap > 0 && !contract.softcap_before_bias;  // makes -softcap of -inf
  if (bias_type(supports) && !softcap_last) ways.push_back(Closed::by_bias);
  return ways;
}

std::vector<Index> longer(const Problem& p, const Supports& supports) {
  std::vector<Index> lengths;
  for (const Index lk : {p.lk + 1, p.lk + 5, p.lk / 64 * 64 + 64, p.lk / 64 * 64 + 65, 2 * p.lk}) {
    const bool fits = p.b * p.hkv * lk * (p.d + p.dv) <= most_elements && p.b * p.hq * p.lq * lk <= most_elements;
    if (lk > p.lk && lk <= longest && supports.lk.offers(lk) && fits) lengths.push_back(lk);
  }
  return lengths;
}

Reason pad_keys_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.lk * p.dv == 0) return "no output elements";
  if (ways(p, contract, info.supports).empty()) return "no mask that the subject takes closes more keys";
  if (longer(p, info.supports).empty()) return "no more keys that the subject takes";
  return std::nullopt;
}

// A mask of lk columns: the given one, or `open` without one, and `closed` behind it.
Tensor lengthened(const Tensor& mask, DType type, const Problem& p, Index lk, double open, double closed,
                  const Supports& supports) {
  unsigned shared = mask.present() ? shared_axes(mask) & ~8u : 7u;
  if (supports.strides != Supports::Strides::any) shared = 0;
  Tensor made = laid_out(type, p.mask_layout, {p.b, p.hq, p.lq, lk}, shared);
  made.fill(closed);
  const attest_tensor from = mask.view(), to = made.view();
  for_each_row(made, [&](Index b, Index h, Index i) {
    if (mask.present()) return copy_row(from, {b, h, i, 0}, to, {b, h, i, 0}, p.lk);
    for (Index j = 0; j < p.lk; ++j) made.set(b, h, i, j, open);
  });
  return made;
}

Verdict check_pad_keys(Trial& trial) {
  Derived derived = copy_of(trial);
  Problem& p = derived.problem;
  const Supports& supports = trial.subject().info().supports;
  const Inputs& from = trial.inputs();
  Inputs& to = derived.inputs;
  const std::vector<Closed> all = ways(p, trial.contract(), supports);
  const std::vector<Index> lengths = longer(p, supports);
  const Closed way = all[below(draw(p, 77), all.size())];
  const Index lk = lengths[below(draw(p, 78), lengths.size())], before = p.lk;

  const auto other_key = [=](std::array<Index, 4> at) {
    at[2] %= before;
    return at;
  };
  to.k = picked_rows(from.k, p.k_layout, {p.b, p.hkv, lk, p.d}, other_key);
  to.v = picked_rows(from.v, p.v_layout, {p.b, p.hkv, lk, p.dv}, other_key);
  const Index width = stored_extents(to.v)[3];
  for_each_row(to.v, [&](Index b, Index h, Index j) {
    if (j < before) return;
    for (Index c = 0; c < width; ++c) {
      const double x = to.v.at(b, h, j, c);
      to.v.set(b, h, j, c, changed(x, -x));
    }
  });
  if (way == Closed::by_keep || from.keep.present())
    to.keep = lengthened(from.keep, DType::boolean, p, lk, 1, way == Closed::by_keep ? 0 : 1, supports);
  if (way == Closed::by_bias || from.bias.present()) {
    if (!from.bias.present()) p.bias_type = *bias_type(supports);
    const double closed = way == Closed::by_bias ? -std::numeric_limits<double>::infinity() : 0;
    to.bias = lengthened(from.bias, dtype_of(p.bias_format()), p, lk, 0, closed, supports);
    if (p.bias == Bias::none) p.bias = Bias::minus_inf;
  }
  if (way == Closed::by_length && !from.kv_lengths.present()) {
    const Index samples[] = {p.b};
    to.kv_lengths = Tensor(DType::i32, samples);
    for (Index b = 0; b < p.b; ++b) to.kv_lengths.set(b, 0, 0, 0, static_cast<double>(before));
    p.lengths = Lengths::full;
  }
  p.lk = lk;
  constexpr std::string_view notes[] = {"more keys, beyond the key lengths", "more keys, closed by the keep mask",
                                        "more keys, closed by a bias of -inf"};
  return agreement(trial, derived, notes[static_cast<int>(way)]);
}

}  // namespace

Property pad_keys() {
  return {"pad-keys",
          "f(q, k, v) = f(q, [k k'], [v v']) within both radii, the keys k' closed",
          "keys appended and closed by a length, a mask or a bias of -inf change nothing",
          Kind::bound,
          pad_keys_not_applicable,
          check_pad_keys};
}

}  // namespace attest::properties
