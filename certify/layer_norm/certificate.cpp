#include "certify/layer_norm/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "certify/layer_norm/judge.hpp"
#include "core/error.hpp"

namespace attest::certify::layer_norm {
namespace {

using attest::layer_norm::Problem;

void check_claim(const Problem& problem, const Claim& claim, const Inputs& inputs) {
  if (claim.row < 0 || claim.row >= problem.rows || claim.column < 0 || claim.column >= problem.hidden)
    throw usage_error(fmt::format("claim: element [{},{}] lies outside out [{},{}]", claim.row, claim.column,
                                  problem.rows, problem.hidden));
  if (claim.tensor == Claim::Tensor::sum_out && !inputs.residual.present())
    throw usage_error("claim: the problem has no residual, and no sum_out");
  if (std::isfinite(claim.value) && round_to(problem.dtype, claim.value) != claim.value)
    throw usage_error(fmt::format("claim: {} is no number of {}", claim.value, attest::name(problem.dtype)));
}

Certificate of_sum(const Contract& contract, const Inputs& inputs, const Claim& claim) {
  Certificate certificate;
  const auto sums =
      permitted_sums(contract, inputs.x.at(claim.row, claim.column), inputs.residual.at(claim.row, claim.column));
  const bool right = std::ranges::any_of(
      sums, [&](double sum) { return sum == claim.value || (std::isnan(sum) && std::isnan(claim.value)); });
  certificate.answer = right ? Answer::falls : Answer::stands;
  certificate.why = right ? "it is x + residual, rounded" : "x + residual, rounded to storage, is exact";
  certificate.rounded_lo = certificate.rounded_hi = sums.front();
  return certificate;
}

}  // namespace

Certificate certify(const Contract& contract, const Problem& problem, const Claim& claim) {
  const Inputs inputs = materialise(problem);
  check_claim(problem, claim, inputs);
  Certificate certificate;
  if (claim.tensor == Claim::Tensor::sum_out) {
    certificate = of_sum(contract, inputs, claim);
    certificate.arithmetic = library_version();
    return certificate;
  }
  const Rounding round = rounding_of(contract, problem.dtype);
  for (std::int64_t bits = first_bits; bits <= most_bits; bits *= 2) {
    const Precision precision(bits);
    const Row row(contract, inputs, claim.row);
    const Interval interval = row.element(claim.column);
    const Judgement judgement = judge(interval, round, claim.value);
    certificate.answer = judgement.answer;
    certificate.why = judgement.why;
    certificate.bits = bits;
    if (!interval.undetermined) {
      certificate.exact = interval.exact.text();
      certificate.lo = interval.lo.text();
      certificate.hi = interval.hi.text();
      certificate.rounded_lo = round(interval.lo).least;
      certificate.rounded_hi = round(interval.hi).most;
    }
    certificate.figures = row.figures();
    if (judgement.answer != Answer::undecided) break;
  }
  certificate.arithmetic = library_version();
  return certificate;
}

}  // namespace attest::certify::layer_norm
