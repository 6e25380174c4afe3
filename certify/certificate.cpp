#include "certify/certificate.hpp"

#include <fmt/format.h>

#include <cmath>

#include "certify/rounding.hpp"
#include "core/error.hpp"
#include "core/inputs.hpp"

namespace attest::certify {
namespace {

// A log-sum-exp that the problem does not ask for but a law did has the type that the law asks for.
Format lse_format(const Problem& problem) {
  if (problem.lse == LseOutput::none) return at_least_f32(problem.dtype);
  return problem.lse == LseOutput::f64 ? Format::f64 : Format::f32;
}

void check_claim(const Problem& problem, const Claim& claim, Format tensor) {
  const bool out = claim.tensor == Claim::Tensor::out;
  if (!out && claim.hull)
    throw usage_error("the law hull speaks of out: a log-sum-exp is no weighted mean of values, and has none");
  const std::array<Index, 4> extent{problem.b, problem.hq, problem.lq, out ? problem.dv : 1};
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    if (claim.index[axis] < 0 || claim.index[axis] >= extent[axis])
      throw usage_error(
          fmt::format("the witness is at {}[{},{},{},{}], which the problem does not have: {} is {} x {} x {} x {}",
                      out ? "out" : "lse", claim.index[0], claim.index[1], claim.index[2], claim.index[3],
                      out ? "out" : "lse", extent[0], extent[1], extent[2], extent[3]));
  const Ball value = claim.value;
  if (std::isfinite(claim.value) && rounded(arb_midref(value.get()), tensor) != claim.value)
    throw usage_error(fmt::format("the witness's value {} is no number of {}, the type of {}", claim.value,
                                  name(tensor), out ? "out" : "lse"));
}

Enclosure enclosure_of(const Constants& c, const Contract& contract, const Inputs& inputs, const Row& row,
                       const Claim& claim) {
  if (claim.tensor == Claim::Tensor::lse) return lse_enclosure(c, row);
  return claim.hull ? hull_enclosure(c, contract, inputs, row, claim.index)
                    : out_enclosure(c, contract, inputs, row, claim.index);
}

// Tells whether scores are so large that these bits leave none for the terms added to them: then no end of an interval
// may be known.
bool crowded_out(const Row& row, std::int64_t bits) {
  return !row.d.empty() && may_reach(log(1 + row.z_all), Ball(bits - 128) * log(Ball(2)));
}

// Records the numbers that a third party needs to follow the proof.
void record(const Constants& c, const Row& row, const Enclosure& enclosure, const Rounding& round, Certificate& made) {
  made.constants = c.figures();
  const bool with_keys = !row.d.empty();
  if (with_keys)
    made.row = {{"n", std::to_string(row.n)},
                {"R", std::to_string(row.rescalings)},
                {"zmax", row.z_max.text()},
                {"G", row.g.text()},
                {"Zm", row.z_top.text()},
                {"sum e^(z - zmax)", row.mass.text()},
                {"rho", (row.score_lost ? row.rho_lost : row.rho).text()}};
  for (std::size_t t = 0; t < row.d.size(); ++t)
    made.keys.push_back({row.keys[t], row.scores[t].z.text(), row.scores[t].e.text(), row.d[t].text()});
  for (const Way& way : enclosure.ways)
    made.ways.push_back({way.name, way.t.text(), way.x.text(), way.g.text(), way.t_top.text(), way.top.text()});
  if (enclosure.expect != Expect::number || enclosure.undetermined) return;
  made.exact = enclosure.y.text();
  made.lo = enclosure.lo.text();
  made.hi = enclosure.hi.text();
  made.rounded_lo = round(enclosure.lo).least;
  made.rounded_hi = round(enclosure.hi).most;
}

}  // namespace

std::string_view name(Answer answer) noexcept {
  constexpr std::array<std::string_view, 3> names{"stands", "falls", "undecided"};
  return names[static_cast<std::size_t>(answer)];
}

Certificate certify(const Contract& contract, const Problem& problem, const Claim& claim) {
  const Inputs inputs = materialise(problem);
  const bool out = claim.tensor == Claim::Tensor::out;
  const Format tensor = out ? problem.dtype : lse_format(problem);
  const Rounding round{out ? contract.policy[Stage::output] : tensor, tensor, contract.arithmetic.flush_to_zero};
  check_claim(problem, claim, tensor);
  for (std::int64_t bits = first_bits;; bits *= 2) {
    const Precision precision(bits);
    const Constants constants(contract, inputs, 0);
    const Row row(constants, contract, inputs, {claim.index[0], claim.index[1], claim.index[2]});
    const Enclosure enclosure = enclosure_of(constants, contract, inputs, row, claim);
    const Judgement judgement = judge(enclosure, round, claim.value);
    if ((judgement.answer == Answer::undecided || crowded_out(row, bits)) && bits < most_bits) continue;
    Certificate made;
    made.answer = judgement.answer;
    made.why = judgement.why;
    made.bits = bits;
    made.stage = round.stage;
    made.tensor = tensor;
    made.arithmetic = library_version();
    record(constants, row, enclosure, round, made);
    return made;
  }
}

}  // namespace attest::certify
