#include "engine/tolerance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/inputs.hpp"
#include "oracle/oracle.hpp"
#include "oracle/outcome.hpp"

namespace attest::engine {
namespace {

void add(Spread& spread, const oracle::Enclosure& e, const oracle::Rounding& round) {
  ++spread.elements;
  const bool nonfinite = e.nonfinite_ok || e.expect != oracle::Expect::number;
  if (nonfinite) ++spread.nonfinite, ++spread.unsafe;
  if (e.expect != oracle::Expect::number) return;
  OutputRange range{e.y, round(e.lo), round(e.hi)};
  if (e.undetermined || !std::isfinite(range.y) || !std::isfinite(range.lo) || !std::isfinite(range.hi)) {
    ++spread.undetermined;
    if (!nonfinite) ++spread.unsafe;
    return;
  }
  if (oracle::is_wide(e)) ++spread.wide;
  if (e.zero_ok) range = {range.y, std::min(range.lo, 0.0), std::max(range.hi, 0.0)};
  const double tiny = round.flush_to_zero ? smallest_normal(round.stage) : 0;
  if (range.lo > 0 && range.lo <= tiny) range.lo = 0;
  if (range.hi < 0 && range.hi >= -tiny) range.hi = 0;
  spread.ranges.push_back(range);
}

// The pair of results of a range that strains a tolerance most.
struct Pair {
  double apart, expected;  // |got - expected|, |expected|
};
Pair worst_pair(const OutputRange& range, Reference reference) {
  if (reference == Reference::exact) return {range.radius(), std::fabs(range.y)};
  return {range.hi - range.lo, std::min(std::fabs(range.lo), std::fabs(range.hi))};
}

}  // namespace

double OutputRange::radius() const noexcept { return std::max(hi - y, y - lo); }

Spread spread_of(const attest::Problem& problem, const attest::Contract& contract) {
  const Inputs inputs = materialise(problem);
  const auto oracle = oracle::make_oracle(contract, problem, inputs);
  Spread spread;
  spread.output =
      narrower(contract.policy[Stage::output], problem.dtype) ? contract.policy[Stage::output] : problem.dtype;
  const oracle::Rounding round{contract.policy[Stage::output], problem.dtype, contract.arithmetic.flush_to_zero};
  for (const Index row : judged_rows(problem)) {
    const auto [b, h, i] = row_index(problem, row);
    for (Index c = 0; c < problem.dv; ++c) add(spread, oracle->out_enclosure(b, h, i, c), round);
  }
  return spread;
}

double least_atol(const Spread& spread, Reference reference, Rule rule, double rtol) {
  // A tool that compares in out's type rounds the difference, both tolerances, their product and their sum.
  const double u = unit_roundoff(spread.output), eta = half_smallest_subnormal(spread.output);
  double atol = 0;
  for (const OutputRange& range : spread.ranges) {
    const auto [apart, expected] = worst_pair(range, reference);
    if (apart == 0) continue;
    const double needed = (apart * (1 + u) + 2 * eta) / (1 - 4 * u);
    const bool kept = rule == Rule::either && needed <= rtol * expected;
    if (!kept) atol = std::max(atol, rule == Rule::sum ? needed - rtol * expected : needed);
  }
  return atol;
}

Blindness blindness(const Spread& spread, Rule rule, double atol, double rtol) {
  std::vector<double> times;
  for (const OutputRange& range : spread.ranges) {
    const double relative = rtol * std::fabs(range.y);
    if (range.radius() > 0)
      times.push_back((rule == Rule::sum ? atol + relative : std::max(atol, relative)) / range.radius());
  }
  return {quantile(times, 0.5), quantile(times, 1)};
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const double wanted = std::ceil(q * static_cast<double>(values.size()));
  const auto at = values.begin() + std::max<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(wanted) - 1, 0);
  std::ranges::nth_element(values, at);
  return *at;
}

double rounded_up(double value, int digits) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const auto nearest = [&](double x) { return *parse_double(fmt::format("{:.{}e}", x, digits - 1)); };
  const double rounded = nearest(value);
  if (rounded >= value) return rounded;
  return nearest(rounded + std::pow(10, std::floor(std::log10(rounded)) - digits + 1));
}

}  // namespace attest::engine
