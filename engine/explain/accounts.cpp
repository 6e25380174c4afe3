#include "engine/explain/accounts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "engine/explain/parts.hpp"
#include "engine/sound.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using namespace explaining;
using ops::Departure;
using Answers = std::vector<CallCopy>;

constexpr std::size_t most_kernels = 3;  // kernels that are run in each departure

bool are_given(const Evidenced& asked, const Answers& answers) {
  if (answers.size() != asked.calls.size()) return false;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (!asked.calls[i].same(answers[i])) return false;
  return true;
}

// The kernels and departures that give the numbers of one problem.
std::set<std::string> accounts_on(const Evidenced& asked, const Op& op, const std::string& subject,
                                  const std::optional<std::set<std::string>>& among) {
  std::vector<const KeptCall*> calls;
  for (const KeptCall& call : asked.calls) calls.push_back(&call);
  const Understudy declared(op, asked.contract);
  std::map<std::string, bool> right;  // kernels, by whether they give the same without what is wrong
  const auto says_nothing = [&](const std::string& kernel) {
    const auto [known, first] = right.try_emplace(kernel, false);
    if (first) known->second = are_given(asked, declared.answers(kernel, calls));
    return known->second;
  };
  const auto open = [&](const std::string& account) { return !among || among->contains(account); };
  std::set<std::string> found;
  for (const ListedSubject& fault : fault_subjects(op.name()))
    if (fault.name != subject && open(fault.name) && are_given(asked, declared.answers(fault.name, calls)) &&
        !says_nothing(fault.parent))
      found.insert(fault.name);
  const auto read = std::ranges::find_if(asked.heard, [](const Heard& call) { return call.reading != nullptr; });
  if (read == asked.heard.end()) return found;
  const std::vector<ListedSubject> kernels = builtin_subjects(op.name());
  for (const Departure& departure : read->reading->departures(asked.contract)) {
    if (departure.kind != Departure::Kind::format) continue;
    const Understudy other(op, departure.contract);
    for (std::size_t k = 0; k < std::min(kernels.size(), most_kernels); ++k) {
      const std::string account = kernels[k].name + ", " + departure.words;
      if (open(account) && are_given(asked, other.answers(kernels[k].name, calls)) && !says_nothing(kernels[k].name))
        found.insert(account);
    }
  }
  return found;
}

}  // namespace

std::optional<Accounts> accounts_of(const Entry& entry, Bench bench, const ExplainLimits& limits) {
  const Op& op = entry.problem.op();
  const auto kernels = static_cast<Index>(fault_subjects(op.name()).size() + builtin_subjects(op.name()).size());
  std::optional<std::set<std::string>> found;
  Accounts accounts;
  const auto narrow = [&](const Problem& problem) {
    renew(bench);
    const Evidenced asked = ask(entry, problem, bench, limits);
    Index work = 0;
    for (const Heard& call : asked.heard) work += call.work();
    // A problem that was drawn may be too large, or not fail once more; the entry's own tells all or nothing.
    if (!is_finding(asked.verdict.kind) || !asked.complete() || asked.calls.empty() ||
        work > limits.hypothesis_work / kernels)
      return;
    found = accounts_on(asked, op, entry.subject, found);
    ++accounts.problems;
  };
  narrow(entry.problem);
  if (!found) return std::nullopt;
  const std::optional<Problem> original = before_shrinking(entry).problem;
  if (original && work_of(*original) <= limits.hypothesis_work / 256 && !found->empty()) narrow(*original);
  accounts.kernels = *std::move(found);
  return accounts;
}

}  // namespace attest::engine
