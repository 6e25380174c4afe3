#include "engine/tolerance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/number_text.hpp"

namespace attest::engine {
namespace {

void add(Spread& spread, const ops::Permitted& e) {
  ++spread.elements;
  if (e.nonfinite) ++spread.nonfinite, ++spread.unsafe;
  if (!e.number) return;
  const OutputRange range{e.y, e.lo, e.hi};
  if (e.undetermined || !std::isfinite(range.y) || !std::isfinite(range.lo) || !std::isfinite(range.hi)) {
    ++spread.undetermined;
    if (!e.nonfinite) ++spread.unsafe;
    return;
  }
  if (e.wide) ++spread.wide;
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

Spread spread_of(ops::Exchange& call, const Contract& contract) {
  const ops::NamedTensor out = call.outputs().front();
  const Format stage = output_of(policy_of(contract)), tensor = format_of(out.tensor->dtype());
  Spread spread;
  spread.output = narrower(stage, tensor) ? stage : tensor;
  const auto walked = call.walk(contract, std::numeric_limits<Index>::max(), [&](const ops::Permitted& element) {
    if (element.tensor == out.name) add(spread, element);
  });
  spread.all = walked.rows == walked.all_rows;
  return spread;
}

std::vector<StageSpread> stage_spreads_of(ops::Exchange& call, const Contract& contract) {
  std::vector<StageSpread> all;
  call.walk_stages(contract, std::numeric_limits<Index>::max(), [&](const ops::Permitted& element) {
    if (all.empty() || all.back().stage != element.tensor) {
      all.push_back({std::string(element.tensor), {}});
      all.back().spread.output = storage_of(call.problem());
    }
    add(all.back().spread, element);
  });
  return all;
}

Spread spread_of(const Problem& problem, const Contract& contract) {
  return spread_of(*problem.op().exchange(problem), contract);
}
std::vector<StageSpread> stage_spreads_of(const Problem& problem, const Contract& contract) {
  return stage_spreads_of(*problem.op().exchange(problem), contract);
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
