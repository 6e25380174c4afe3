#pragma once
#include <string>
#include <vector>

#include "core/policy.hpp"
#include "ops/attention/probe/ask.hpp"

// Which calls tell one format of a stage from another.
namespace attest::ops::of_attention {

// out[0,0,0,0] of one call, and where it lies if the stage loses nothing that the narrower formats would.
struct Shot {
  Problem problem;
  double lo, hi;
  bool further = false;  // asked again at other sizes: whether the subject takes it says nothing
};
// If every shot lies there, the stage has none of these formats: with each of them a kernel loses something in one shot at least,
// in whatever order it adds, wherever it puts the scale and whatever the other stages do.
struct Question {
  std::vector<Format> excludes;
  std::vector<Shot> shots;
  bool vetoes = false;  // lost, it takes back what questions before it exclude
  int bits = 0;         // significand bits that a sum has at least, if every shot lies there; 0: says nothing of that
};
// What is asked of one stage, or of a part of it.
struct StageQuestions {
  Stage stage;
  std::string part;  // "softmax (sum)"; the stage's name where there is one
  std::string what;  // what the calls are, one clause
  std::vector<Question> questions;
  std::string blind;  // why no question can be asked, one clause
};

// Of every stage but storage, in their order: at the sizes of `maker`, and at those of `further` where it takes them.
std::vector<StageQuestions> stage_questions(const Maker& maker, const Maker& further);

}  // namespace attest::ops::of_attention
