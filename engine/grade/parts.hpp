#pragma once
#include <span>

#include "engine/grade/grade.hpp"
#include "generators/domain.hpp"

// The parts of run_grade().
namespace attest::engine {

// nullopt if it was interrupted before it found something or its problems were spent.
std::optional<Hunt> hunt(const SubjectFactory& fault, const SubjectFactory& peer, const std::string& name,
                         const GradeOptions& options, std::uint64_t seed);

// Adds a default campaign of a conforming kernel to `record`.
void run_clean(const SubjectFactory& kernel, const SubjectFactory& peer, const std::string& name,
               const std::optional<attest::Policy>& policy, const GradeOptions& options, CleanRecord& record);

// Of no use if it was interrupted.
std::vector<LawPower> law_powers(const SubjectFactory& fault, const SubjectFactory& peer, const GradeOptions& options);

// Adds what the verdicts of one problem say, in the order of the problems. `number` counts from 1.
struct LawVerdict;
void add_verdicts(std::uint64_t number, std::span<const LawVerdict> verdicts, std::vector<LawPower>& powers);

// Over the problems before the first that an interrupt left out.
RuleTable rule_table(const GradeOptions& options, bool plain);

// The domain of a kernel, without problems of more than 2^20 multiply-adds, which would take most of the time.
attest::Domain paired_domain(const SubjectInfo& info, const std::optional<attest::Policy>& policy);

// Problem `number` of the paired ones; `plain` draws its values from N(0,1), at the default scale and without softcap.
attest::Problem paired_problem(const attest::Domain& domain, std::uint64_t number, bool plain);

}  // namespace attest::engine
