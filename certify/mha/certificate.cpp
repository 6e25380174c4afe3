#include "certify/mha/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "certify/rounding.hpp"
#include "core/error.hpp"

namespace attest::certify::mha {
namespace {

void check_claim(const attest::mha::Problem& problem, const Claim& claim) {
  const std::array<Index, 3> extent{problem.b, problem.l, problem.e};
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    if (claim.index[axis] < 0 || claim.index[axis] >= extent[axis])
      throw usage_error(fmt::format("claim: element [{},{},{}] lies outside out [{},{},{}]", claim.index[0],
                                    claim.index[1], claim.index[2], extent[0], extent[1], extent[2]));
  if (std::isfinite(claim.value) && round_to(problem.dtype, claim.value) != claim.value)
    throw usage_error(fmt::format("claim: {} is no number of {}", claim.value, name(problem.dtype)));
}

}  // namespace

Certificate certify(const Contract& contract, const attest::mha::Problem& problem, const Claim& claim) {
  const attest::mha::Inputs inputs = materialise(problem);
  check_claim(problem, claim);
  const Rounding round{contract.attention.policy[Stage::output], problem.dtype,
                       contract.attention.arithmetic.flush_to_zero};
  Certificate certificate;
  certificate.arithmetic = library_version();
  for (std::int64_t bits = first_bits; bits <= most_bits; bits *= 2) {
    const Precision precision(bits);
    certificate.bits = bits;
    certificate.ways.clear();
    certificate.answer = Answer::stands;
    for (const Going going : goings_of(contract)) {
      Block block(contract, inputs, going, 0);
      const Enclosure enclosure = block.element(claim.index[0], claim.index[1], claim.index[2]);
      Judgement judgement = judge(enclosure, round, claim.value);
      // Ends that were rounded outwards prove that a claim stands, and not that it falls.
      if (judgement.answer == Answer::falls && block.uncertain() && bits < most_bits)
        judgement = {Answer::undecided, "an end of a stage is too near to where its rounding changes"};
      Certificate::Way way{going, judgement.answer, {}, {}, {}};
      if (enclosure.expect == Expect::number && !enclosure.undetermined) {
        way.exact = enclosure.y.text();
        way.lo = enclosure.lo.text();
        way.hi = enclosure.hi.text();
        way.rounded_lo = round(enclosure.lo).least;
        way.rounded_hi = round(enclosure.hi).most;
      }
      if (certificate.ways.empty() || (judgement.answer != Answer::stands && certificate.answer != Answer::falls))
        certificate.why = judgement.why;
      if (judgement.answer != Answer::stands && certificate.answer != Answer::falls)
        certificate.answer = judgement.answer;
      certificate.ways.push_back(std::move(way));
    }
    if (certificate.answer != Answer::undecided) break;
  }
  return certificate;
}

}  // namespace attest::certify::mha
