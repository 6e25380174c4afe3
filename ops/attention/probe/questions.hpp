#pragma once
#include <string>
#include <vector>

#include "core/policy.hpp"
#include "ops/attention/probe/ask.hpp"
#include "ops/probe/narrow.hpp"

// Calls that tell one format of a stage from another.
namespace attest::ops::of_attention {

// out[0,0,0,0] of one call, and where it lies if the stage loses nothing that the narrower formats would.
struct Shot {
  Problem problem;
  double lo, hi;
};
// The same as probing::Question.
struct Question {
  std::vector<Format> excludes;
  std::vector<Shot> shots;
  bool vetoes = false;
  int bits = 0;
};
struct StageQuestions {
  Stage stage;
  std::string part;  // "softmax (sum)"; the stage's name where there is one
  std::string what;  // describes the calls, in one clause
  std::vector<Question> questions;
  std::string blind;  // why no question can be asked, one clause
};

// The questions that the law narrow-stage may ask of a problem like the drawn one, by what the contract promises. All
// three must outlive it.
std::vector<probing::NarrowQuestion> narrow_questions(const Maker& maker, const Contract& contract, std::uint64_t key);
// A drawn problem in sizes that are people's: heads of 64 to 256, and thousands of keys.
Problem at_usual_sizes(Problem problem, const Supports& supports, std::uint64_t key);

// Returns the questions about every stage but storage, in the stages' order, at the sizes of `maker`.
std::vector<StageQuestions> stage_questions(const Maker& maker);

}  // namespace attest::ops::of_attention
