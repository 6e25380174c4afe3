#include "engine/grade/grade.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/check.hpp"
#include "engine/grade/parts.hpp"
#include "engine/threads.hpp"

namespace attest::engine {
namespace {

void require(const GradeOptions& options) {
  if (options.faults.empty()) throw usage_error("there is no fault to grade");
  if (options.seeds < 1 || options.cases < 1) throw usage_error("grade needs at least one seed and one problem");
  if (options.op == nullptr || options.op->grading() == nullptr)
    throw internal_error("grade: an operation without a Grading was asked for");
  if (options.jobs < 1) throw usage_error("--jobs must be at least 1");
  validate({.further = std::nullopt, .property_glob = options.property_glob});
}

std::vector<double> problems_of(const Grade& grade) {
  std::vector<double> problems;
  for (const FaultGrade& fault : grade.faults)
    for (const Hunt& hunt : fault.hunts)
      problems.push_back(hunt.found ? static_cast<double>(hunt.drawn) : std::numeric_limits<double>::infinity());
  return problems;
}

std::vector<std::optional<Policy>> clean_policies(const GradeOptions& options) {
  if (options.policy) return {options.policy};
  std::vector<std::optional<Policy>> policies;
  for (const ops::NamedPolicy& named : options.op->named_policies()) policies.emplace_back(named.policy);
  return policies;
}

// nullopt if it was interrupted before all of it was measured.
std::optional<FaultGrade> grade_fault(const GradedFault& fault, const SubjectFactory& peer,
                                      const GradeOptions& options) {
  const auto factory = options.open(fault.name, options.policy);
  FaultGrade graded{fault, {}, {}};
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    const std::optional<Hunt> one = hunt(*factory, peer, fault.name, options, seed);
    if (!one) return std::nullopt;
    graded.hunts.push_back(*one);
  }
  if (options.paired > 0) {
    graded.laws = law_powers(*factory, peer, options);
    if (is_set(options.interrupt)) return std::nullopt;
  }
  return graded;
}

// All parts in order. False if it was interrupted.
bool measure(const GradeOptions& options, Grade& grade) {
  const auto tell = [&](std::string_view what, std::size_t done, std::size_t of) {
    if (options.progress) options.progress(what, done, of);
  };
  const auto policies = clean_policies(options);
  if (options.clean > 0) grade.clean.asked = options.conforming.size() * policies.size();
  const auto peer = options.open(options.reference, std::nullopt);
  for (const GradedFault& fault : options.faults) {
    if (is_set(options.interrupt)) return false;
    tell(fault.name, grade.faults.size(), options.faults.size());
    std::optional<FaultGrade> graded = grade_fault(fault, *peer, options);
    if (!graded) return false;
    grade.faults.push_back(std::move(*graded));
  }
  if (options.paired > 0)
    for (const bool plain : {true, false}) {
      if (is_set(options.interrupt)) return false;
      tell("rules", plain ? 0 : 1, 2);
      RuleTable table = rule_table(options, plain);
      const bool whole = table.problems == options.paired;
      if (table.problems > 0) grade.rules.push_back(std::move(table));
      if (!whole) return false;
    }
  if (options.clean > 0)
    for (const std::string& name : options.conforming) {
      tell(name, grade.clean.campaigns, grade.clean.asked);
      for (const auto& policy : policies) {
        if (is_set(options.interrupt)) return false;
        run_clean(*options.open(name, policy), *peer, name, policy, options, grade.clean);
      }
    }
  return grade.clean.campaigns == grade.clean.asked;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

std::uint64_t FaultRules::most_beyond() const noexcept {
  std::uint64_t most = 0;
  for (const RulePower& power : columns) most = std::max(most, power.beyond);
  return most;
}

std::vector<std::string> Grade::missed() const {
  std::vector<std::string> names;
  for (const FaultGrade& fault : faults)
    if (!std::ranges::all_of(fault.hunts, &Hunt::found)) names.push_back(fault.fault.name);
  return names;
}

std::vector<std::string> Grade::not_proven() const {
  std::vector<std::string> names;
  for (const FaultGrade& fault : faults)
    if (std::ranges::any_of(fault.hunts, [](const Hunt& hunt) { return hunt.found && !hunt.proof; }))
      names.push_back(fault.fault.name);
  return names;
}

double Grade::median_problems() const { return median(problems_of(*this)); }

double Grade::worst_problems() const {
  const std::vector<double> problems = problems_of(*this);
  return problems.empty() ? std::numeric_limits<double>::quiet_NaN() : std::ranges::max(problems);
}

Exit Grade::exit() const noexcept {
  const bool blamed =
      !clean.alarms.empty() || std::ranges::any_of(rules, [](const RuleTable& table) { return !table.alarms.empty(); });
  const bool all_found = std::ranges::all_of(
      faults, [](const FaultGrade& fault) { return std::ranges::all_of(fault.hunts, &Hunt::found); });
  if (blamed || !all_found) return Exit::found;
  return interrupted ? Exit::interrupted : Exit::held;
}

Grade run_grade(const GradeOptions& options) {
  require(options);
  const auto start = std::chrono::steady_clock::now();
  Grade grade;
  grade.interrupted = !measure(options, grade);
  grade.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return grade;
}

}  // namespace attest::engine
