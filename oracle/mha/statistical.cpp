// What a whole out says to the statistical tier: docs/mha.md, section 12.
#include <algorithm>
#include <cmath>

#include "oracle/least.hpp"
#include "oracle/mha/calibration.hpp"
#include "oracle/mha/mha.hpp"
#include "oracle/outcome.hpp"
#include "oracle/series.hpp"

namespace attest::oracle {
namespace {

constexpr double not_said = std::numeric_limits<double>::quiet_NaN();

Rounding rounding_of(const mha::Contract& contract, const Tensor& out) {
  return {contract.attention.policy[Stage::output], format_of(out.dtype()),
          contract.attention.arithmetic.flush_to_zero};
}

}  // namespace

std::string_view statistical_refusal(const mha::Contract& contract) {
  if (const std::string_view why = statistical_refusal(contract.attention); !why.empty()) return why;
  const attest::Policy& policy = contract.attention.policy;
  if (policy[Stage::storage] == Format::f64 || contract.gemm == Format::f64)
    return "the reference of projections is of float64 itself";
  if (loses(policy[Stage::operand], policy[Stage::storage]))
    return "operands narrower than storage err alike in every kernel";
  return {};
}

BlockSpread& MhaOracle::spread(std::size_t n) {
  if (!spreads_[n]) spreads_[n] = std::make_unique<BlockSpread>(block_, names_[n]);
  return *spreads_[n];
}

StatisticalEnclosure MhaOracle::statistical_enclosure(std::size_t n, Index b, Index i, Index e, double lambda) {
  StatisticalEnclosure at;
  const std::optional<BlockSpread::Element> element = spread(n).of(b, i, e);
  if (!element) return at;
  const Enclosure rigorous = enclosure(n, b, i, e);
  if (rigorous.undetermined || rigorous.nonfinite_ok || rigorous.expect != Expect::number) return at;
  const double radius = spread_margin * lambda * element->s + element->bias;
  at.applies = true;
  at.s = element->s;
  at.bias = element->bias;
  at.lo = std::max(rigorous.lo, element->y - radius);
  at.hi = std::min(rigorous.hi, element->y + radius);
  return at;
}

StatisticalEnclosure MhaOracle::statistical_enclosure(Index b, Index i, Index e, double lambda) {
  return statistical_enclosure(lambda_way_, b, i, e, lambda);
}

double MhaOracle::lambda_needed(std::size_t n, Index b, Index i, Index e, const Tensor& out) {
  const Rounding round = rounding_of(block_.contract, out);
  const double got = out.at(b, i, e);
  if (!std::isfinite(got)) return not_said;
  const std::optional<BlockSpread::Element> element = spread(n).of(b, i, e);
  const Enclosure rigorous = enclosure(n, b, i, e);
  if (!element || rigorous.undetermined || rigorous.nonfinite_ok || rigorous.expect != Expect::number) return not_said;
  return least_lambda([&](double lambda) {
    const double radius = spread_margin * lambda * element->s + element->bias;
    return round(std::max(rigorous.lo, element->y - radius)) <= got &&
           got <= round(std::min(rigorous.hi, element->y + radius));
  });
}

Statistics MhaOracle::statistics_of_way(std::size_t n, const Tensor& out) {
  Statistics statistics;
  const Rounding round = rounding_of(block_.contract, out);
  const Format type = narrower(round.stage, round.tensor) ? round.stage : round.tensor;
  const double u = unit_roundoff(type), eta = half_smallest_subnormal(type);
  const StatisticalSample sample = statistical_sample(block_.call);
  Index count = 0;
  for (const Index row : sample.rows) {
    const Index b = row / block_.call.l(), i = row % block_.call.l();
    for (Index e = 0; e < block_.call.e(); ++e) {
      const bool counts = count++ % sample.step == 0;
      const double got = out.at(b, i, e);
      if (!std::isfinite(got)) continue;
      const bool settled = statistics.largest_lambda > Statistics::stop_lambda;
      if (!counts) {
        if (settled) continue;
        // Most of those that are no further off than others need no look.
        const std::optional<BlockSpread::Least> least = spread(n).least_of(b, i, e);
        if (!least) continue;
        const double half_ulp = std::max(u * (std::fabs(least->y) - least->slack), eta) * (1 - 1e-9);
        if (std::fabs(got - least->y) + least->slack <= Statistics::near_lambda * least->s + 0.5 * half_ulp) continue;
      }
      const std::optional<BlockSpread::Element> element = spread(n).of(b, i, e);
      if (!element) continue;
      const double off = std::max(0.0, std::fabs(got - element->y) - element->bias);
      const double half_ulp = std::max(u * std::fabs(element->y), eta);
      if (counts) {
        statistics.squares += off * off / (square(element->s) + square(half_ulp) / 3);
        ++statistics.elements;
      }
      if (settled || !(off > Statistics::near_lambda * element->s + 0.5 * half_ulp)) continue;
      const double lambda = lambda_needed(n, b, i, e, out);
      if (!(lambda > std::max(statistics.largest_lambda, Statistics::near_lambda))) continue;
      statistics.largest_lambda = lambda;
      statistics.index = {b, i, e, 0};
    }
  }
  return statistics;
}

Statistics MhaOracle::statistics_of(const Tensor& out) {
  std::optional<Statistics> least;
  for (std::size_t n = 0; n < names_.size(); ++n) {
    if (names_.size() > 1 && judge_way_quickly(n, out).kind == VerdictKind::fail) continue;
    const Statistics of_way = statistics_of_way(n, out);
    if (!least) lambda_way_ = n;
    if (!least) least = of_way;
    // A way that nothing is said of permits what it likes.
    if (of_way.largest_lambda < least->largest_lambda) {
      least->largest_lambda = of_way.largest_lambda;
      least->index = of_way.index;
      lambda_way_ = n;
    }
    if (of_way.elements < least_elements || (least->elements >= least_elements && of_way.t() < least->t())) {
      least->squares = of_way.squares;
      least->elements = of_way.elements;
    }
  }
  return least.value_or(Statistics{});
}

}  // namespace attest::oracle
