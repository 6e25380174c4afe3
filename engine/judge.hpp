#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/verdict.hpp"
#include "engine/corpus.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// Counts of the elements of a failed judgement, over `rows` rows of the outputs spread evenly over all.
struct Survey {
  Index rows = 0, all_rows = 0;
  std::int64_t inside = 0, outside = 0, undetermined = 0;
  Evidence worst;    // the element outside with the largest ratio, the first of the verdict among them
  double error = 0;  // the largest distance of an element outside from what was to be expected
};

// An option of a saved call that was forgotten or wrong, if the same numbers are right with `words`.
struct HeldIf {
  std::string words;    // "the call is causal"
  std::string options;  // "--causal", "without --scale"
};
struct OtherCalls {
  std::vector<HeldIf> held;
  bool complete = true;  // false: the time was over before all were asked
};

struct Judgement {
  Verdict verdict;               // from ops::Exchange::judge, which ends at the first element outside
  std::optional<Survey> survey;  // present for a failure
  OtherCalls others;             // present for a failure, where they were asked

  // 1 where it fails, 3 where the bound permits anything, else 0.
  [[nodiscard]] Exit exit() const noexcept;
};

// The work (Op::work) that the survey of a failure may cost, though 64 rows at least: some seconds.
inline constexpr Index most_survey_work = Index{1} << 29;

// Tells whether a kernel that keeps `contract` could have returned the outputs of `call`.
Judgement judge(ops::Exchange& call, const Contract& contract, Index survey_work = most_survey_work);

// The calls of ops::Op::other_calls() for which the arrays of a failed judgement hold: every element is judged, none is
// outside, and no interval is more than 8 times as long as the largest error that failed. None is begun after
// `seconds`.
OtherCalls judge_other_calls(const ops::Op& op, const std::vector<NamedArray>& inputs,
                             const std::vector<NamedArray>& outputs, const ops::SavedWords& words,
                             const Contract& contract, const Judgement& failed, double seconds);

// Stores the failure of a saved call in `corpus` and returns the file: the inputs as a problem, and the wrong element.
// `outputs`: the file that holds it. Throws Error(usage) if it cannot be written, or where the problem does not say all
// of the call; one sentence.
std::filesystem::path store_judged(const ops::SavedCall& call, const Contract& contract, const Judgement& failed,
                                   const std::filesystem::path& outputs, const std::filesystem::path& corpus);

// Judges the witness of such an entry: no subject is asked. Throws Error(usage) where a call of its problem has no such
// element.
Verdict judged_again(const Entry& entry);

}  // namespace attest::engine
