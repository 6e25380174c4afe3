#include "engine/stream.hpp"

#include <algorithm>
#include <cmath>

#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "generators/draw.hpp"

namespace attest::engine {
namespace {

std::vector<Format> storage_formats(const SubjectInfo& info, const std::optional<Policy>& policy) {
  if (!policy) return info.dtypes;
  const Format storage = (*policy)[Stage::storage];
  if (std::ranges::find(info.dtypes, storage) == info.dtypes.end())
    throw usage_error("--policy stores " + std::string(name(storage)) + ", which " + info.name + " does not offer");
  Contract contract = info.contract(storage);
  contract.policy = *policy;
  check_numbers(contract);
  return {storage};
}

void narrow(Domain& domain, std::vector<Format>& dtypes, const SubjectInfo& info, const Assumption& assume) {
  const auto intervals = assume.intervals();
  if (const auto found = intervals.find("dtype"); found != intervals.end()) {
    std::erase_if(dtypes, [&](Format dtype) {
      const auto index = static_cast<Index>(dtype);
      return index < found->second.lo || index > found->second.hi;
    });
    if (dtypes.empty()) throw usage_error("--assume leaves no dtype that " + info.name + " offers");
    domain = Domain(info.supports, dtypes);
  }
  for (const auto& [field, interval] : intervals) {
    if (!Domain::narrows(field)) continue;
    if (interval.lo > interval.hi) throw usage_error("--assume leaves no value of " + field);
    domain.narrow(field, interval.lo, interval.hi);
  }
  for (const Assumption::FormBound& bound : assume.form_bounds())
    domain.narrow_form(bound.form, [&](std::string_view value) { return (value == bound.value) == bound.equal; });
}

}  // namespace

std::uint64_t Shard::next(std::uint64_t number, std::uint64_t repeat) const noexcept {
  const std::uint64_t shape = number / repeat;
  const std::uint64_t ahead = (index - 1 + count - shape % count) % count;
  return ahead == 0 ? number : (shape + ahead) * repeat;
}

std::uint64_t usual_repeat(const SubjectInfo& info, const SubjectInfo* peer) noexcept {
  // Problems of one plan are alike: a planted fault is found after 1 + 0.18 (r - 1) times as many of them (docs/cli.md, "Plans").
  // At two plans for r problems, the call's own and that of a law, each of which takes 30 ms beside, time to find is least at
  // r^2 = (1 - 0.18) / 0.18 * 2 plan_ms / 30.
  constexpr double problems_by_plan_ms = 0.3;
  constexpr int most_octaves = 5;
  const double plan_ms = std::max(info.plan_ms, peer ? peer->plan_ms : 0);
  const double octaves = std::log2(std::max(1.0, problems_by_plan_ms * plan_ms)) / 2;
  return std::uint64_t{1} << std::clamp(static_cast<int>(std::lround(octaves)), 0, most_octaves);
}

Contract contract_for_problem(const SubjectInfo& info, const std::optional<Policy>& policy, const Problem& problem) {
  Contract contract = info.contract(problem.dtype, problem.forms);
  if (policy) {
    contract.policy = *policy;
    check_numbers(contract);
  }
  return contract;
}

Domain domain_for(const SubjectInfo& info, const std::optional<Policy>& policy,
                  const std::optional<Assumption>& assume) {
  std::vector<Format> dtypes = storage_formats(info, policy);
  Domain domain(info.supports, dtypes);
  if (!assume) return domain;
  const Assumption about_subject = assume->about(info.supports.forms);
  narrow(domain, dtypes, info, about_subject);
  domain.assume([assumption = about_subject](const Problem& problem) { return assumption.holds(problem); });
  return domain;
}

double given_up(const SubjectInfo& info, const std::optional<Policy>& policy, const Assumption& assume) {
  constexpr std::uint64_t draws = 1000;
  const Domain whole = domain_for(info, policy, std::nullopt);
  const Assumption about_subject = assume.about(info.supports.forms);
  std::uint64_t outside = 0;
  for (std::uint64_t i = 0; i < draws; ++i) outside += !about_subject.holds(draw_problem(whole, 0, i, 1));
  return static_cast<double>(outside) / draws;
}

}  // namespace attest::engine
