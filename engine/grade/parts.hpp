#pragma once
#include <span>

#include "engine/grade/grade.hpp"

// The parts of run_grade().
namespace attest::engine {

// nullopt if it was interrupted before it found something or its problems were spent.
std::optional<Hunt> hunt(const SubjectFactory& fault, const SubjectFactory& peer, const std::string& name,
                         const GradeOptions& options, std::uint64_t seed);

// Adds a default campaign of a conforming kernel to `record`.
void run_clean(const SubjectFactory& kernel, const SubjectFactory& peer, const std::string& name,
               const std::optional<Policy>& policy, const GradeOptions& options, CleanRecord& record);

// Judges every paired problem of a fault by every law. The result is of no use if it was interrupted.
std::vector<LawPower> law_powers(const SubjectFactory& fault, const SubjectFactory& peer, const GradeOptions& options);

// Adds what the verdicts of one problem say, in the order of the problems. `number` counts from 1.
struct LawVerdict;
void add_verdicts(std::uint64_t number, std::span<const LawVerdict> verdicts, std::vector<LawPower>& powers);

// The table over the problems before the first that an interrupt left out.
RuleTable rule_table(const GradeOptions& options, bool plain);

// The domain of a kernel, without problems that would take most of the time (Grading::is_paired()).
std::unique_ptr<Domain> paired_domain(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy);

// Problem `number` of the paired ones; `plain` as tests of kernels draw it (Grading::plain()).
Problem paired_problem(const Domain& domain, std::uint64_t number, bool plain);

}  // namespace attest::engine
