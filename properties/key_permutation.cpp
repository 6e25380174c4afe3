// key-permutation: the order of the keys does not matter.
//
// Keys, values and the columns of the masks are permuted together; causality, windows and key lengths, which speak of
// positions, are written out as a keep mask first. Catches what depends on where a key comes: the last tile, a maximum
// that is not updated, a mask read as a length.
#include <numeric>
#include <utility>
#include <vector>

#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason key_permutation_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (p.lk < 2) return "a single key";
  if (p.b * p.hkv * p.lk * (p.d + p.dv) > most_elements || p.b * p.hq * p.lq * p.lk > most_elements)
    return "too many elements to permute";
  return positional(p) ? no_explicit_mask(p, info) : std::nullopt;
}

// Any order, or the reverse in a quarter of the problems.
std::vector<Index> drawn_order(const Problem& p) {
  std::vector<Index> order(static_cast<std::size_t>(p.lk));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t key = draw(p, 73);
  if (key % 4 == 0) return {order.rbegin(), order.rend()};
  for (std::size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[below(extend(key, n), n)]);
  return order;
}

Verdict check_key_permutation(Trial& trial) {
  Derived derived =
      positional(trial.problem()) ? with_explicit_mask(trial, Said::diagonal_and_lengths) : copy_of(trial);
  const Problem& p = derived.problem;
  Inputs& inputs = derived.inputs;
  const std::vector<Index> order = drawn_order(trial.problem());
  const auto place_of = [&](Index j) { return order[static_cast<std::size_t>(j)]; };
  const auto row = [&](std::array<Index, 4> at) { return std::array{at[0], at[1], place_of(at[2]), at[3]}; };
  const auto column = [&](std::array<Index, 4> at) { return std::array{at[0], at[1], at[2], place_of(at[3])}; };
  inputs.k = picked_rows(inputs.k, p.k_layout, {p.b, p.hkv, p.lk, p.d}, row);
  inputs.v = picked_rows(inputs.v, p.v_layout, {p.b, p.hkv, p.lk, p.dv}, row);
  inputs.keep = picked(inputs.keep, p.mask_layout, {p.b, p.hq, p.lq, p.lk}, column);
  inputs.bias = picked(inputs.bias, p.mask_layout, {p.b, p.hq, p.lq, p.lk}, column);
  return agreement(trial, derived, "the keys in another order");
}

}  // namespace

Property key_permutation() {
  return {"key-permutation",
          "f(q, k, v, m) = f(q, k[s], v[s], m[.., s]) within both radii, s a permutation of the keys",
          "the order of the keys, taken together with their values and masks, does not matter",
          Kind::bound,
          key_permutation_not_applicable,
          check_key_permutation};
}

}  // namespace attest::properties
