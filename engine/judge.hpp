#pragma once
#include <optional>

#include "core/contract.hpp"
#include "core/verdict.hpp"
#include "engine/saved_call.hpp"

namespace attest::engine {

// How the elements of a failed judgement came out, over `rows` rows of out and lse spread evenly over all.
struct Survey {
  Index rows = 0, all_rows = 0;
  std::int64_t inside = 0, outside = 0, undetermined = 0;
  Evidence worst;  // the element outside with the largest ratio, the first of the verdict among them
};

struct Judgement {
  Verdict verdict;               // of oracle::AttentionOracle::judge, which ends at the first element outside
  std::optional<Survey> survey;  // of a failure
};

// Elements times keys that the survey of a failure may cost, though 64 rows at least: some seconds.
inline constexpr Index most_survey_work = Index{1} << 29;

// Whether a kernel that keeps `contract` could have returned the outputs of `call`.
Judgement judge(const SavedCall& call, const Contract& contract, Index survey_work = most_survey_work);

}  // namespace attest::engine
