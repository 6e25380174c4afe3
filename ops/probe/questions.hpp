#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "ops/probe/shown.hpp"
#include "ops/problem.hpp"

// Calls that tell one format of a stage from another.
namespace attest::ops::probing {

// Reads one number off a result.
using Read = std::function<double(const Elements&)>;
Read element(const Place& place, std::string_view output = "out");

// One call, and where what is read off it lies if the stage loses nothing that the narrower formats would.
struct Shot {
  Problem problem;
  double lo, hi;
  Read read = element({});
  bool further = false;  // asked again at other sizes: whether the subject takes it says nothing
};
// Shots that exclude formats of a stage. If the result of every shot lies in its range, the stage has none of these
// formats: with each of them a kernel loses something in one shot at least, in whatever order it adds and whatever the
// other stages do.
struct Question {
  std::vector<Format> excludes;
  std::vector<Shot> shots;
  bool vetoes = false;  // lost, it takes back what questions before it exclude
  int bits = 0;         // significand bits that a sum has at least, if every shot lies there; 0: says nothing of that
};
// The questions about one stage, or about a part of it.
struct StageQuestions {
  std::size_t stage;  // in the policy's order
  std::string part;   // "softmax (sum)"; the stage's name where there is one
  std::string what;   // describes the calls, in one clause
  std::vector<Question> questions;
  std::string blind;    // why no question can be asked, one clause
  bool stored = false;  // it holds no more than the dtype does
};

// The formats to tell a stage from. A stage that has none of them keeps more than `bits` significand bits, or a range
// beyond that of f16.
struct Against {
  std::vector<Format> formats;
  int bits = 0;  // 0: by range
};
// The formats to exclude for a stage that is f32 at most (f64 under f64), and for one that stores in the dtype itself.
// `formats` are those that the stage may have.
std::vector<Against> narrower_than_f32(Format dtype, std::span<const Format> formats);
std::vector<Against> narrower_than_storage(Format dtype, std::span<const Format> formats);

template <class Make>
std::vector<Question> asked(const std::vector<Against>& list, Make&& make) {
  std::vector<Question> questions;
  for (const Against& against : list)
    if (std::vector<Shot> shots = make(against.bits); !shots.empty())
      questions.push_back({against.formats, std::move(shots)});
  return questions;
}

// Places of two numbers among n that cancel: whichever two terms an order adds first, these cannot all be such a two.
std::vector<std::pair<Index, Index>> pairs(Index n);

// Appends to the shots of each question those of the same one in `again`, asked at other sizes.
void ask_further(std::vector<StageQuestions>& all, std::vector<StageQuestions> again);

}  // namespace attest::ops::probing
