#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/subject.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// A subject that says no policy, held to what it was seen to compute in where that is narrower than the most generous
// reading of its dtypes. That rests on one assumption: it computes alike in every call.
struct ProbedFirst {
  std::unique_ptr<SubjectFactory> subject;
  std::vector<std::pair<Format, std::string>>
      assumed;  // policies, as text; empty: it declares its own, or there are no probes
};

// Probes the stages in every form, one at a time, and takes what all of them show. Throws Error(no_subject).
ProbedFirst probed_first(std::unique_ptr<SubjectFactory> subject, const Op& op);

}  // namespace attest::engine
