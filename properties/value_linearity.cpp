// value-linearity: f is linear in V.
//
// V is the sum of two tensors, exactly: each element goes to the first or to the second, or its upper half to the one
// and the rest to the other. Each part is held against an enclosure of its own; and the sum of both results against
// that of the problem, within all three radii. Catches kernels that take a value for a sign of something else: zeros
// for padding, small numbers for nothing.
#include <bit>
#include <cmath>

#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason value_linearity_not_applicable(const Problem& p, const Contract&, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.lk * p.dv == 0) return "no output elements";
  if (p.b * p.hkv * p.lk * (p.d + p.dv) > most_elements) return "too many elements to part";
  return std::nullopt;
}

// Returns the first part of x. x less that is a number of x's format too, since both lie on its grid. It is x where
// x is not finite.
double first_part(double x, std::uint64_t key) {
  if (!std::isfinite(x)) return x;
  switch (below(key, 3)) {
    case 0:
      return x;
    case 1:
      return 0;
    default:
      // Four bits are what every format has to spare.
      return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~((std::uint64_t{1} << 49) - 1));
  }
}

// The numbers that stand beside out[b,h,i,c]: the sum of both parts, each already rounded.
Sighting sum_of(const Contract& contract, const Result* results, oracle::Oracle* const* oracles, Index b, Index h,
                Index i, Index c) {
  Sighting sum{0, {}, {Format::f64, Format::f64, false}};
  for (int part = 0; part < 2; ++part) {
    const oracle::Enclosure one = oracles[part]->out_enclosure(b, h, i, c);
    const oracle::Rounding round = out_rounding(contract, results[part].out);
    sum.value += results[part].out.at(b, h, i, c);
    sum.enclosure.y += one.y;
    sum.enclosure.lo += round(one.lo);
    sum.enclosure.hi += round(one.hi);
    sum.enclosure.undetermined |= one.undetermined || one.zero_ok || one.expect != oracle::Expect::number;
    sum.enclosure.nonfinite_ok |= one.nonfinite_ok || one.expect != oracle::Expect::number;
  }
  sum.enclosure.undetermined |= !(sum.enclosure.lo <= sum.enclosure.hi);
  return sum;
}

Verdict check_value_linearity(Trial& trial) {
  const Problem& p = trial.problem();
  Derived parts[] = {copy_of(trial), copy_of(trial)};
  const std::uint64_t key = draw(p, 75);
  const Tensor& v = trial.inputs().v;
  const Index width = stored_extents(v)[3];
  for_each_row(v, [&](Index b, Index h, Index j) {
    std::uint64_t row = key;
    for (const Index coordinate : {b, h, j}) row = extend(row, static_cast<std::uint64_t>(coordinate));
    for (Index c = 0; c < width; ++c) {
      const double x = v.at(b, h, j, c), first = first_part(x, extend(row, static_cast<std::uint64_t>(c)));
      parts[0].inputs.v.set(b, h, j, c, first);
      parts[1].inputs.v.set(b, h, j, c, std::isfinite(x) ? x - first : 0);
    }
  });
  trial.base();
  const Request calls[] = {{&parts[0].inputs, &p}, {&parts[1].inputs, &p}};
  const std::vector<Result> results = trial.run_many(calls);
  for (const Result& result : results)
    if (result.violation) return Verdict::fail(*result.violation);

  const auto first = oracle::make_oracle(trial.contract(), p, parts[0].inputs),
             second = oracle::make_oracle(trial.contract(), p, parts[1].inputs);
  Verdict parted = joined(first->judge(results[0].out, results[0].lse), second->judge(results[1].out, results[1].lse));
  if (trial.judgement().kind != VerdictKind::fail) return noted(std::move(parted), "with a part of every value");

  oracle::Oracle* const oracles[] = {first.get(), second.get()};
  const oracle::Rounding round = out_rounding(trial.contract(), trial.base().out);
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    for (Index c = 0; c < p.dv; ++c)
      if (auto evidence = departure({trial.base().out.at(b, h, i, c), trial.oracle().out_enclosure(b, h, i, c), round},
                                    sum_of(trial.contract(), results.data(), oracles, b, h, i, c), "out", {b, h, i, c},
                                    "the sum over two parts of the values"))
        return Verdict::fail(std::move(*evidence), parted.counts);
  }
  return Verdict::pass(parted.counts);
}

}  // namespace

Property value_linearity() {
  return {"value-linearity",
          "f(q, k, v + w) = f(q, k, v) + f(q, k, w) within all radii, v + w exact",
          "the outputs of two parts of V add up to that of V",
          Kind::bound,
          value_linearity_not_applicable,
          check_value_linearity,
          Asks::base_plan};
}

}  // namespace attest::properties
