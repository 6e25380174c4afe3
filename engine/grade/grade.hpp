#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/subject.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/ops.hpp"
#include "engine/shrink/shrink.hpp"

// Measures how much attest detects, on planted faults of one operation: by the campaign that users run, by each law
// alone, and beside the tolerance rules that others use.
namespace attest::engine {

struct GradedFault {
  std::string name;    // as on the command line
  std::string parent;  // the conforming kernel it departs from, likewise
  std::string report;  // the public report behind it
};

struct GradeOptions {
  // A kernel by its name on the command line, computing in the given policy if there is one.
  std::function<std::unique_ptr<SubjectFactory>(const std::string&, const std::optional<Policy>&)> open;
  const Op* op = nullptr;  // the operation of these faults and kernels
  std::vector<GradedFault> faults;
  std::vector<std::string> conforming;  // the parents of all faults among them; all take the same problems
  std::string reference;                // the plainest kernel: the peer of laws, and the reference of others' rules
  std::optional<Policy> policy;         // absent: drawn per problem, and all named policies for the conforming kernels
  std::string policy_text;              // as given
  std::string property_glob;            // the laws of the matrix; empty: all
  std::uint64_t seeds = 5;              // a default campaign per fault from each of the seeds 1..seeds
  std::uint64_t cases = 20'000;         // problems that such a campaign may draw
  std::uint64_t paired = 1000;          // problems that every law and every rule is tried on; 0: no matrix, no rules
  DrawEmulated draw_emulated;           // emulated_kernel(); empty: none
  // The number of them that conform beside the kernels above on every paired problem that is small enough, others on
  // each.
  std::uint64_t emulated = 16;
  // The same with rare sums, for faults whose parent promises them: emulated_kernel_for(); empty: none.
  std::function<EmulatedKernel(const Contract& promise, const Policy&, std::uint64_t number)> draw_emulated_for;
  // Tells whether a kernel that keeps the contract could have returned a single element, to the bit:
  // emulated_kernel_returns(); empty: no.
  std::function<bool(const Contract&, const Problem&, double out)> conforming_returns;
  std::uint64_t clean = 100;  // problems of the campaign of each conforming kernel and policy; 0: none
  int jobs = 1;
  ShrinkBudget shrink;
  std::function<void(std::string_view what, std::size_t done, std::size_t of)> progress;  // may be empty
  const std::atomic<bool>* interrupt = nullptr;  // set by a signal handler: ends after the problems in flight
};

// One default campaign against a fault, which ends at the first failing case.
struct Hunt {
  std::uint64_t seed = 0;
  std::uint64_t drawn = 0;  // problems, the failing one included
  bool found = false;
  double seconds = 0;              // to the failure
  std::string law;                 // under which it is reported
  std::string credited;            // the policy bound if it failed on the same problem, else `law`
  bool proof = false;              // the law is no statistical one, and so proves what it found
  std::int64_t work = 0;           // the reproducer's, in the operation's unit
  std::int64_t subject_calls = 0;  // calls of shrinking
  bool minimal = false;            // no neighbour of the reproducer fails
  std::string problem;             // the reproducer
};

// One law on every paired problem. Counts are of problems; a first is a problem's place in their order, from 1.
struct LawPower {
  std::size_t law = 0;  // position in all_laws()
  std::uint64_t judged = 0, failed = 0;
  std::uint64_t beyond_bound = 0;  // failed where the policy bound did not: the law's own contribution
  std::optional<std::uint64_t> first{}, first_beyond_bound{};
};

struct FaultGrade {
  GradedFault fault;
  std::vector<Hunt> hunts;
  std::vector<LawPower> laws;
};

// A way to judge one call by its output: attest's own, or a rule of others (engine/grade/rules.hpp).
struct RuleColumn {
  std::string name, doc;
  bool own = false;
  std::uint64_t false_alarms = 0;  // conforming cases it objects to, as published
  // The least multiple of the tolerance of a rule of others, by format of out, at which it objects to none of the
  // conforming cases; infinite where no multiple is enough.
  std::map<Format, double> multiple{};
};

// The result of one column on one fault. Counts are of cases in which the fault acts.
struct RulePower {
  std::uint64_t detected = 0, detected_at_zero = 0;  // as published; at the multiple without a false alarm
  std::uint64_t beyond = 0;  // detected at zero false alarms where no own column objects, cases that are owed aside
  std::optional<std::uint64_t> first, first_at_zero;
};

// A case in which a fault acts and only rules of others, set so that no conforming case is objected to, detect it.
struct BeyondCase {
  std::uint64_t number = 0;  // the problem's, from 1
  std::string problem;
  struct Rule {
    std::string name;
    double multiple = 0;  // times the published tolerance: the rule would accept the result
  };
  std::vector<Rule> rules;
};

// The setting of the rules of others for the faults of a kernel that promises more than they are told. It comes from
// the cases that set them elsewhere, and from those of kernels that promise no more than this one.
struct WiderSetting {
  std::string parent;
  std::uint64_t cases = 0;                            // besides the others
  std::vector<std::map<Format, double>> multiples{};  // by column
};

struct FaultRules {
  std::string fault;
  std::uint64_t acts = 0;  // problems on which its result differs from its parent's in any bit
  std::vector<RulePower> columns;
  std::vector<BeyondCase> beyond{};
  // Cases that would be among these, but a kernel that keeps the parent's promise was found to return the very bits:
  // there is nothing to detect.
  std::vector<BeyondCase> owed{};
  // The most such cases that one rule has.
  [[nodiscard]] std::uint64_t most_beyond() const noexcept;
};

// The rules over one set of paired cases: the same problems on every fault and on the conforming kernels.
struct RuleTable {
  std::string set, doc;
  std::string emulated_on;     // on which problems emulated kernels ran: "up to 2^16 multiply-adds"
  std::uint64_t problems = 0;  // fewer than were asked for if interrupted: the first of them
  std::uint64_t conforming_cases = 0;
  std::uint64_t emulated_cases = 0;  // those of emulated kernels among them
  std::uint64_t widening_cases = 0;  // those that the rules of others are set by
  std::vector<RuleColumn> columns;   // own ones first
  std::vector<WiderSetting> wider{};
  std::vector<FaultRules> faults;
  std::vector<std::string> alarms;  // objections of own columns to conforming kernels: "SUBJECT: PROBLEM"
};

// Default campaigns of conforming kernels.
struct CleanRecord {
  std::uint64_t campaigns = 0, asked = 0;  // whole ones, and how many the options ask for
  std::uint64_t problems = 0;              // those of a campaign that was cut off, too
  std::int64_t elements = 0, undetermined = 0;
  struct Alarm {
    std::string subject, policy, law, problem;
  };
  std::vector<Alarm> alarms;
};

struct Grade {
  std::vector<FaultGrade> faults;  // whole ones
  std::vector<RuleTable> rules;
  CleanRecord clean;
  double seconds = 0;
  bool interrupted = false;  // and so something that the options ask for is missing

  // Faults that some seed did not find, by name.
  [[nodiscard]] std::vector<std::string> missed() const;
  // Faults that some seed found by a statistical law alone, by name.
  [[nodiscard]] std::vector<std::string> not_proven() const;
  // Problems to the first detection, of all hunts; a hunt that found nothing counts as infinite. NaN of none.
  [[nodiscard]] double median_problems() const;
  [[nodiscard]] double worst_problems() const;
  // 1 if some fault was not found from every seed or a conforming kernel was blamed; else 130 if a signal
  // ended it.
  [[nodiscard]] Exit exit() const noexcept;
};

// Grades all faults. Apart from times, the result depends on the options alone, for kernels that keep no state from
// call to call; for the others, on `jobs` too. Throws Error(usage) for options that leave nothing to grade.
Grade run_grade(const GradeOptions& options);

// Smaller of the two middle values of an even number; NaN of none. Infinities are the largest.
double median(std::vector<double> values);

}  // namespace attest::engine
