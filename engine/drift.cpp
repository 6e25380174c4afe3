#include "engine/drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace attest::engine {
namespace {

constexpr std::int64_t least_results = 100;
constexpr double expected_share = 0.01;

// A bound on the chance of `share` of n results or more where each has the chance p (Chernoff: exp(-n KL(share, p))), as
// the power of ten.
double log10_chance(double share, double p, double n) {
  const double other = 1 - share;
  const double divergence = share * std::log(share / p) + (other > 0 ? other * std::log(other / (1 - p)) : 0);
  return -n * divergence / std::numbers::ln10;
}

}  // namespace

void Drift::add(const Aggregate& aggregate, const Problem& of) {
  ++results;
  above += aggregate.t > aggregate.t99;
  permitted = aggregate.share;
  const double ratio = aggregate.t99 > 0 ? aggregate.t / aggregate.t99 : 0;
  if (problem.empty() || ratio > worst) {
    worst = ratio;
    problem = to_text(of);
  }
}

std::optional<Evidence> Drift::evidence() const {
  const double share = static_cast<double>(above) / static_cast<double>(std::max<std::int64_t>(results, 1));
  if (results < least_results || share <= permitted) return std::nullopt;
  Evidence evidence;
  evidence.tensor = "share of T";
  evidence.got = share;
  evidence.expected = expected_share;
  evidence.hi = permitted;
  evidence.ratio = share / permitted;
  evidence.wrong = Wrong::finite;
  evidence.note = fmt::format(
      "tier three, no proof: {} of {} results lie above the 99 % quantile of conforming kernels of their class; chance "
      "below 1e{:.0f} even if each did so with half the permitted share",
      above, results, std::ceil(log10_chance(share, permitted / 2, static_cast<double>(results))));
  return evidence;
}

nlohmann::ordered_json to_json(const DriftByPolicy& drift) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [policy, d] : drift)
    object[policy] = {{"results", d.results},
                      {"above", d.above},
                      {"permitted", d.permitted},
                      {"worst", d.worst},
                      {"problem", d.problem}};
  return object;
}

DriftByPolicy drift_from_json(const nlohmann::json& object) {
  DriftByPolicy drift;
  for (const auto& [policy, d] : object.items())
    drift[policy] = {d.at("results").get<std::int64_t>(), d.at("above").get<std::int64_t>(),
                     d.at("permitted").get<double>(), d.at("worst").get<double>(), d.at("problem").get<std::string>()};
  return drift;
}

}  // namespace attest::engine
