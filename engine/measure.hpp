#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/subject.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// The cost of one problem on one subject, in seconds: of a call, and of drawing its values, that call and the verdict
// together. Each is the median of all repeats; a call has the 90th and the 99th percentile (nearest rank), too.
struct Cost {
  double call = 0, problem = 0;
  double call_p90 = 0, call_p99 = 0;
  int repeats = 0;
};

// One size: how fast a subject answers, beside another.
struct Measured {
  Problem problem;
  Index work = 0;            // multiply-adds, or the operation's unit, in one call
  std::string skipped;       // why the subject was not, or could not be, asked; then nothing else is said
  std::optional<bool> held;  // the policy bound of its call; nothing where no element could be judged
  Cost subject;
  std::optional<Cost> beside;  // nothing where the other was not, or could not be, asked
};

struct MeasureOptions {
  const Op* op = nullptr;             // never null
  std::optional<Policy> policy;       // in place of what each promises
  std::vector<std::string> problems;  // as --problem takes them
  int rounds = 3;                     // in which both are asked in turn
  double seconds = 0.1;               // for each subject, size and round, at least
};

// Asks both for every size, in turn. Throws Error(usage) for a problem that is none or of another operation,
// Error(no_subject) if one cannot be started.
std::vector<Measured> measure(const SubjectFactory& subject, const SubjectFactory& beside,
                              const MeasureOptions& options);

}  // namespace attest::engine
