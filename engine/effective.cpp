#include "engine/effective.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/policy_stages.hpp"
#include "engine/check.hpp"

namespace attest::engine {
namespace {

constexpr std::size_t most_told = 4;

// An element that the policy asked for excludes.
struct Excluded {
  ops::Exchange& answer;
  Evidence evidence;
};

bool permits(const Contract& contract, std::span<const std::unique_ptr<ops::Exchange>> answers) {
  return std::ranges::none_of(answers,
                              [&](const auto& answer) { return answer->judge(contract).kind == VerdictKind::fail; });
}

// Tells whether every answer may come of the contract, and an element of `excluded` lies inside what it permits there.
bool fits(const Contract& contract, std::span<const std::unique_ptr<ops::Exchange>> answers,
          std::span<const Excluded> excluded) {
  return permits(contract, answers) && std::ranges::any_of(excluded, [&](const Excluded& each) {
           const ops::Permitted at = each.answer.element(contract, each.evidence.tensor, each.evidence.index);
           return at.outcome == oracle::Outcome::inside && at.number && !at.wide;
         });
}

// The policy with those of `stages` whose bit is set in `format`; nullopt if one of them is no wider.
std::optional<Policy> narrowed(const Op& op, Policy policy, std::span<const std::size_t> stages, unsigned chosen,
                               Format format) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (!(chosen >> i & 1)) continue;
    if (!narrower(format, op.stage(policy, stages[i]))) return std::nullopt;
    op.set_stage(policy, stages[i], format);
  }
  return policy;
}

std::optional<Contract> with_policy(const Op& op, const Contract& contract, const Policy& policy) {
  try {
    return op.with_policy(contract, policy);
  } catch (const Error&) {  // it contradicts the contract's numbers
    return std::nullopt;
  }
}

// "statistics=f16,affine=f16": where `narrow` differs.
std::string difference(const Policy& policy, const Policy& narrow) {
  const Op& op = policy.op();
  std::string text;
  for (std::size_t i = 0; i < stages_of(op.name()).size(); ++i)
    if (op.stage(policy, i) != op.stage(narrow, i))
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", stages_of(op.name())[i], name(op.stage(narrow, i)));
  return text;
}

// The formats of the stages in which some of `others` differ.
std::string requested_there(const Policy& policy, std::span<const Policy> others) {
  const Op& op = policy.op();
  std::string text;
  for (std::size_t i = 0; i < stages_of(op.name()).size(); ++i)
    if (std::ranges::any_of(others, [&](const Policy& other) { return op.stage(policy, i) != op.stage(other, i); }))
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", stages_of(op.name())[i], name(op.stage(policy, i)));
  return text;
}

bool is_of_wrong_numbers(const Entry& entry) {
  if (entry.seen != VerdictKind::fail || !entry.evidence || entry.evidence->wrong == Wrong::memory) return false;
  return !entry.subject_b && entry.after.empty() && entry.property == policy_bound_name;
}

}  // namespace

std::optional<Effective> effective_precision(const Contract& requested,
                                             std::span<const std::unique_ptr<ops::Exchange>> answers) {
  const Op& op = requested.op();
  const std::vector<std::size_t> stages = op.narrowable();
  std::vector<Excluded> excluded;
  for (const auto& answer : answers)
    if (Verdict verdict = answer->judge(requested);
        verdict.kind == VerdictKind::fail && std::isfinite(verdict.evidence->got))
      excluded.push_back({*answer, std::move(*verdict.evidence)});
  if (stages.empty() || excluded.empty()) return std::nullopt;
  Effective effective{op.policy(requested), {}, {}};
  for (const auto& [words, contract] : op.relaxed(requested))
    if (permits(contract, answers)) effective.otherwise.push_back(words);
  for (int size = 1; size <= static_cast<int>(stages.size()) && effective.fits.empty(); ++size)
    for (unsigned chosen = 1; chosen < 1u << stages.size(); ++chosen) {
      if (std::popcount(chosen) != size) continue;
      for (const Format format : below_f64) {
        const auto policy = narrowed(op, effective.requested, stages, chosen, format);
        const auto contract = policy ? with_policy(op, requested, *policy) : std::nullopt;
        if (!contract || !fits(*contract, answers, excluded)) continue;
        effective.fits.push_back(*policy);
        break;  // the most precise of them says it
      }
    }
  return effective;
}

std::optional<Effective> effective_precision(const SubjectFactory& subject, const Summary& summary,
                                             const Defect& defect) {
  const Entry& first = summary.findings[defect.findings.front()].entry;
  const Op& op = first.problem.op();
  if (op.narrowable().empty() || !is_of_wrong_numbers(first)) return std::nullopt;
  std::vector<Problem> problems;
  const auto add = [&](const Problem& problem) {
    if (problems.size() < most_effective_calls && storage_of(problem) == storage_of(first.problem) &&
        std::ranges::find(problems, problem) == problems.end())
      problems.push_back(problem);
  };
  // Plain problems tell stages apart that an extreme one does not.
  for (const Problem& canary : op.canaries(subject.info(), storage_of(first.problem))) add(canary);
  for (const std::size_t i : defect.findings) {
    const Entry& entry = summary.findings[i].entry;
    if (!is_of_wrong_numbers(entry) || !(entry.contract == first.contract)) continue;
    add(entry.problem);
    if (!entry.original.empty()) add(problem_from_text(entry.original));
  }
  try {
    const std::unique_ptr<Subject> instance = subject.open();
    std::vector<std::unique_ptr<ops::Exchange>> answers;
    for (const Problem& problem : problems) {
      auto answer = op.exchange(problem);
      const CallStatus status = instance->run_one(answer->call()).status;
      if (status == CallStatus::done)
        answers.push_back(std::move(answer));
      else if (status != CallStatus::unsupported)
        return std::nullopt;
    }
    return effective_precision(first.contract, answers);
  } catch (
      const Error&) {  // an instance that does not start, a problem that cannot be asked: the finding stands without it
    return std::nullopt;
  }
}

std::string to_text(const Effective& effective) {
  const std::string asked = to_text(effective.requested);
  const std::string otherwise =
      effective.otherwise.empty()
          ? ""
          : fmt::format("; {} under {} permits them, too", fmt::join(effective.otherwise, " or "), asked);
  if (effective.fits.empty())
    return fmt::format("requested {}, effective unknown: no policy that is narrower in some stages fits either{}",
                       asked, otherwise);
  std::vector<std::string> differences;
  for (const Policy& policy : effective.fits) differences.push_back(difference(effective.requested, policy));
  const std::size_t more = differences.size() > most_told ? differences.size() - most_told : 0;
  differences.resize(differences.size() - more);
  return fmt::format("requested {} ({}), effective {}{} (fits {}; excludes {}{})", asked,
                     requested_there(effective.requested, effective.fits), fmt::join(differences, " or "),
                     more > 0 ? fmt::format(" or {} others", more) : "",
                     effective.fits.size() == 1 ? "it" : "each of these", asked, otherwise);
}

}  // namespace attest::engine
