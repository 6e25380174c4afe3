// batch-values: f(x)[b] does not change when the values of other samples change, at equal shapes.
//
// Exact: half of the samples get other q, k and v, then the other half; the rest must come out as before. For subjects
// that claim `deterministic`: no tile, split or thread count may depend on values. Masks and key lengths stay, since a
// kernel may choose its splits by the longest sample. Catches reads of another sample's keys, values or queries.
#include <bit>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason batch_values_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.b < 2) return "one sample";
  if (p.q_layout == Layout::broadcast_batch && p.k_layout == Layout::broadcast_batch &&
      p.v_layout == Layout::broadcast_batch)
    return "the samples share all their values";
  return needs_deterministic(p, contract, info);
}

struct Halves {
  int bit;
  // Tells whether sample b is changed in run `parity`.
  [[nodiscard]] bool changes(Index b, int parity) const noexcept { return (b >> bit & 1) == parity; }
};

void change(Tensor& tensor, const Tensor& other, Halves halves, int parity) {
  if (tensor.strides()[0] == 0) return;
  for_each_stored(tensor, [&](Index b, Index h, Index i, Index c) {
    if (halves.changes(b, parity)) tensor.set(b, h, i, c, changed(tensor.at(b, h, i, c), other.at(b, h, i, c)));
  });
}

Verdict check_batch_values(Trial& trial) {
  const Problem& p = trial.problem();
  const auto bits = static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(p.b - 1)));
  const Halves halves{static_cast<int>(below(draw(p, 21), bits))};

  Problem donor = reseeded(p, 22);
  donor.keep = Keep::none;
  donor.bias = Bias::none;
  donor.lengths = Lengths::none;
  const Inputs other = materialise(donor);
  Inputs variants[] = {trial.inputs().clone(), trial.inputs().clone()};
  for (int parity = 0; parity < 2; ++parity) {
    change(variants[parity].q, other.q, halves, parity);
    change(variants[parity].k, other.k, halves, parity);
    change(variants[parity].v, other.v, halves, parity);
  }

  const Result& base = trial.base();
  const Request calls[] = {{&variants[0], &p}, {&variants[1], &p}};
  const std::vector<Result> results = trial.run_many(calls);
  Counts counts;
  for (int parity = 0; parity < 2; ++parity)
    for (Index b = 0; b < p.b; ++b) {
      if (halves.changes(b, parity)) continue;
      if (auto evidence = difference({base, b}, {results[static_cast<std::size_t>(parity)], b}, Equality::numbers,
                                     "only values of other samples changed", counts))
        return Verdict::fail(std::move(*evidence), counts);
    }
  return Verdict::pass(counts);
}

}  // namespace

Property batch_values() {
  return {"batch-values",
          "f(x)[b] = f(x')[b] where x and x' agree in sample b and in shape",
          "a sample's result does not depend on the values of other samples, if `deterministic` is claimed",
          Kind::exact,
          batch_values_not_applicable,
          check_batch_values,
          Asks::base_plan};
}

}  // namespace attest::properties
