#include "engine/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace attest::engine {
namespace {

std::vector<Format> storage_formats(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy) {
  const std::vector<Format>& dtypes = op.dtypes(info);
  if (!policy) return dtypes;
  const Format storage = storage_of(*policy);
  if (std::ranges::find(dtypes, storage) == dtypes.end())
    throw usage_error("--policy stores " + std::string(name(storage)) + ", which " + info.name + " does not offer");
  (void)op.with_policy(op.contract(info, storage), *policy);  // may refuse it
  return {storage};
}

// The storage formats that the assumption leaves.
std::vector<Format> narrowed(std::vector<Format> dtypes, const SubjectInfo& info, const Assumption& assume) {
  const auto intervals = assume.intervals();
  const auto found = intervals.find("dtype");
  if (found == intervals.end()) return dtypes;
  std::erase_if(dtypes, [&](Format dtype) {
    const auto index = static_cast<Index>(dtype);
    return index < found->second.lo || index > found->second.hi;
  });
  if (dtypes.empty()) throw usage_error("--assume leaves no dtype that " + info.name + " offers");
  return dtypes;
}

void narrow(Domain& domain, const Assumption& assume) {
  for (const auto& [field, interval] : assume.intervals()) {
    if (!domain.narrows(field)) continue;
    if (interval.lo > interval.hi) throw usage_error("--assume leaves no value of " + field);
    domain.narrow(field, interval.lo, interval.hi);
  }
  for (const Assumption::FormBound& bound : assume.form_bounds())
    domain.narrow_form(bound.form, [&](std::string_view value) { return (value == bound.value) == bound.equal; });
}

// Tells the domain the subject's own conditions on the problems that are drawn.
void apply_drawn(Domain& domain, const Op& op, const Supports& supports) {
  if (!domain.has_forms()) return;
  const auto read = [&](const std::string& where, const std::string& text) {
    try {
      return Assumption(text, op).about(supports.forms());
    } catch (const Error& error) {
      throw usage_error(fmt::format("describe's supports.{}: {}", where, error.what()));
    }
  };
  for (const FormOffer& offer : supports.forms())
    for (const FormRule& rule : offer.rules)
      if (!rule.where.empty())
        domain.say_form_where(offer.name, rule.value,
                              [says = read(fmt::format("forms.{}, where of {}", offer.name, rule.value), rule.where)](
                                  const Problem& problem) { return says.holds(problem); });
  if (!supports.drawn().empty())
    domain.assume([drawn = read("drawn", supports.drawn())](const Problem& problem) { return drawn.holds(problem); });
}

}  // namespace

std::uint64_t Shard::next(std::uint64_t number, std::uint64_t repeat) const noexcept {
  const std::uint64_t shape = number / repeat;
  const std::uint64_t ahead = (index - 1 + count - shape % count) % count;
  return ahead == 0 ? number : (shape + ahead) * repeat;
}

std::uint64_t usual_repeat(const SubjectInfo& info, const SubjectInfo* peer) noexcept {
  // Problems of one plan are alike: a planted fault is found after 1 + 0.18 (r - 1) times as many of them (docs/cli.md,
  // "Plans"). At two plans for r problems, the call's own and that of a law, each of which takes 6 ms beside, time to
  // find is least at r^2 = (1 - 0.18) / 0.18 * 2 plan_ms / 6.
  constexpr double problems_by_plan_ms = 1.5;
  constexpr int most_octaves = 7;
  const double plan_ms = std::max(info.plan_ms, peer ? peer->plan_ms : 0);
  const double octaves = std::log2(std::max(1.0, problems_by_plan_ms * plan_ms)) / 2;
  return std::uint64_t{1} << std::clamp(static_cast<int>(std::lround(octaves)), 0, most_octaves);
}

int usual_jobs(const SubjectInfo& info, int cores) noexcept {
  // A device serves processes in turn, and each call waits for a turn: on an H200 six ask as much as it gives, sixteen get less done
  // (docs/cli.md, "Jobs on one device"). Plans are the processors' work.
  constexpr int turns = 6;
  return info.device.empty() || info.plan_ms > 0 ? cores : std::min(cores, turns);
}

Contract contract_for_problem(const SubjectInfo& info, const std::optional<Policy>& policy, const Problem& problem) {
  const Op& op = problem.op();
  Contract contract = op.contract(info, problem);
  return policy ? op.with_policy(std::move(contract), *policy) : contract;
}

std::unique_ptr<Domain> domain_for(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy,
                                   const std::optional<Assumption>& assume, SizeRegime sizes) {
  std::vector<Format> dtypes = storage_formats(info, op, policy);
  const Supports supports = info;
  if (!assume) {
    std::unique_ptr<Domain> domain = op.domain(supports, std::move(dtypes));
    domain->draw_sizes(sizes);
    apply_drawn(*domain, op, supports);
    return domain;
  }
  const Assumption about_subject = assume->about(supports.forms());
  // The whole domain comes first: an error of the subject is told before an error of the assumption.
  std::unique_ptr<Domain> domain = op.domain(supports, dtypes);
  domain = op.domain(supports, narrowed(std::move(dtypes), info, about_subject));
  domain->draw_sizes(sizes);
  apply_drawn(*domain, op, supports);
  narrow(*domain, about_subject);
  const auto [least, most] = about_subject.work();
  domain->assume_work(least, most);
  if (auto part = about_subject.of_shape())
    domain->assume_of_shape([part = std::move(*part)](const Problem& problem) { return part.holds(problem); });
  domain->assume([assumption = about_subject](const Problem& problem) { return assumption.holds(problem); });
  return domain;
}

std::uint64_t holding(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy,
                      const Assumption& assume, SizeRegime sizes, std::uint64_t seed, std::uint64_t draws) {
  const std::unique_ptr<Domain> whole = domain_for(info, op, policy, std::nullopt, sizes);
  const Assumption about_subject = assume.about(Supports(info).forms());
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < draws; ++i) count += about_subject.holds(whole->draw(seed, i, 1).problem);
  return count;
}

double given_up(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy, const Assumption& assume,
                SizeRegime sizes) {
  constexpr std::uint64_t draws = 1000;
  return static_cast<double>(draws - holding(info, op, policy, assume, sizes, 0, draws)) / static_cast<double>(draws);
}

}  // namespace attest::engine
