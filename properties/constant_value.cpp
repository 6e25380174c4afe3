// constant-value: a weighted mean of one number is that number.
//
// Each column of V becomes a constant along the keys, another for each sample and head. Whatever the weights, they sum
// to 1, so that the reference is exact and the enclosure holds nothing but section 4 of docs/bounds.md. Catches sums of
// weights that are not those of the numerator: padding that takes part, tiles that are dropped or not rescaled, and
// heads or samples that are mixed up.
#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason constant_value_not_applicable(const Problem& p, const Contract&, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.lk * p.dv == 0) return "no output elements";
  return std::nullopt;
}

// A multiple of 1/4 in +-[1/4, 4]: exact in every format.
double constant_of(std::uint64_t key, Index b, Index h, Index c) {
  for (const Index coordinate : {b, h, c}) key = extend(key, static_cast<std::uint64_t>(coordinate));
  const double magnitude = static_cast<double>(1 + below(key, 16)) / 4;
  return key & 1 ? -magnitude : magnitude;
}

Verdict check_constant_value(Trial& trial) {
  Derived derived = copy_of(trial);
  Tensor& v = derived.inputs.v;
  const std::uint64_t key = draw(trial.problem(), 72);
  const std::array<Index, 4> n = stored_extents(v);
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index c = 0; c < n[3]; ++c) {
        const double constant = constant_of(key, b, h, c);
        for (Index j = 0; j < n[2]; ++j) v.set(b, h, j, c, constant);
      }
  return own_judgement(trial, derived, "every key has the same value");
}

}  // namespace

Property constant_value() {
  return {"constant-value",
          "RN(lo) <= f(q, k, v) <= RN(hi) where every key has the same v",
          "equal values of all keys come out as they are, within rounding",
          Kind::bound,
          constant_value_not_applicable,
          check_constant_value,
          Asks::base_plan};
}

}  // namespace attest::properties
