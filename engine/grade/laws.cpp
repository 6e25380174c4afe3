// Every law on every paired problem of a fault: which detects it, how soon, and whether the policy bound does so too.
#include <algorithm>

#include "engine/check.hpp"
#include "engine/grade/parts.hpp"
#include "engine/stream.hpp"
#include "engine/threads.hpp"

#include <omp.h>

namespace attest::engine {

void add_verdicts(std::uint64_t number, std::span<const LawVerdict> verdicts, std::vector<LawPower>& powers) {
  const auto is_bound = [](std::size_t law) { return all_laws()[law].name == policy_bound_name; };
  const bool bound_fails =
      std::ranges::any_of(verdicts, [&](const LawVerdict& v) { return is_bound(v.law) && is_finding(v.verdict.kind); });
  for (const auto& [law, verdict, call, lost] : verdicts) {
    const auto power = std::ranges::find(powers, law, &LawPower::law);
    if (power == powers.end() || verdict.kind == VerdictKind::skip || verdict.kind == VerdictKind::vacuous) continue;
    ++power->judged;
    if (!is_finding(verdict.kind)) continue;
    ++power->failed;
    if (!power->first) power->first = number;
    if (bound_fails && !is_bound(law)) continue;
    ++power->beyond_bound;
    if (!power->first_beyond_bound) power->first_beyond_bound = number;
  }
}

std::vector<LawPower> law_powers(const SubjectFactory& fault, const SubjectFactory& peer, const GradeOptions& options) {
  const SubjectInfo& info = fault.info();
  const Op& op = *options.op;
  const std::unique_ptr<Domain> domain = paired_domain(info, op, options.policy);
  struct Station {
    std::unique_ptr<Subject> subject, peer;
  };
  std::vector<Station> stations(static_cast<std::size_t>(options.jobs));
  std::vector<std::vector<LawVerdict>> verdicts(options.paired);
  const auto ask_all = [&](std::uint64_t i) {
    Station& station = stations[static_cast<std::size_t>(omp_get_thread_num())];
    if (!station.subject) station = {fault.open(), peer.open()};
    const Problem problem = paired_problem(*domain, i, false);
    const Contract contract = contract_for_problem(info, options.policy, problem);
    const auto laws = choose_laws({.further = std::nullopt, .property_glob = {}}, problem, contract, info, 0, i);
    verdicts[i] = check(problem, contract, {*station.subject, station.peer.get()}, laws).laws;
    for (LawVerdict& law : verdicts[i]) law.verdict = {law.verdict.kind, {}, {}, {}};  // reasons would fill the memory
  };
  on_all_threads(options.paired, options.jobs, ask_all, options.interrupt);
  std::vector<LawPower> powers;
  const LawChoice chosen{.further = std::nullopt, .property_glob = options.property_glob};
  for (const std::size_t law :
       choose_laws(chosen, op.defaults(), op.contract(info, op.dtypes(info).front()), info, 0, 0))
    powers.push_back({.law = law});
  for (std::uint64_t i = 0; i < options.paired; ++i) add_verdicts(i + 1, verdicts[i], powers);
  return powers;
}

}  // namespace attest::engine
