#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/explain/kept_call.hpp"
#include "engine/ops.hpp"
#include "engine/shrink/candidates.hpp"

namespace attest::engine {

// The cost that an explanation may have. Work is in multiply-adds, or the operation's own unit: where no seconds are
// given, the result does not depend on the machine.
struct ExplainLimits {
  Index oracle_work = Index{1} << 22;       // for one look at all elements of one call
  Index hypothesis_work = Index{1} << 26;   // for all kernels together that run in the subject's place
  Index fit_work = Index{1} << 30;          // for all looks at whole calls that promises are held against
  int changes = 48;                         // problems besides this one that the subject is asked
  std::optional<double> seconds;            // nothing further is begun after them
  std::set<std::string> families_left_out;  // hypotheses that are not run
};

// The wrong elements of one tensor of one call.
struct WrongPlace {
  std::string tensor;
  Index wrong = 0, judged = 0;
  std::string words;  // "all 12 elements where batch >= 1 and column = 8, the last; no other"
  std::string
      relation;  // the rule of their numbers, if any: "NaN", "each is what was to be expected of row - 1"; or empty
  // A picture's data: the extents over which elements were looked at, a wrong one of each cell of the picture that has
  // any (core/picture.hpp), and the number of elements with an error of at least 2^b, less than 2^(b+1), of the
  // permitted distance (b within `least_error` .. `most_error`; these two count the larger and smaller ones).
  int axes = 4;  // the tensor's number of axes: the first of these extents
  std::array<Index, 4> extents{};
  std::vector<std::array<Index, 4>> wrong_at{};
  std::map<int, Index> errors{};
  Index exact = 0, no_number = 0;  // without an error; where either is no finite number, or nothing is permitted
  static constexpr int least_error = -20, most_error = 60;
};

// A promise, or a reading of the call, under which every number of every call that was kept is permitted.
struct Fit {
  std::string words, stage;
  ops::Departure::Kind kind = ops::Departure::Kind::format;
  // The part of the permitted interval that the error of a wrong element fills: its distance from the right value under
  // the declared contract, over the length of the interval under this one; of the element that fills most. Less than
  // `least_fill` says nothing.
  double fill = 0;
  static constexpr double least_fill = 1. / 8;
  int also = 0, asked = 0;  // further problems: those on which it permits every number, and all
  int exact = 0;  // on how many problems, this one first, a right kernel that computes so gives these very numbers
  [[nodiscard]] bool everywhere() const noexcept { return also == asked; }
};

// A planted fault that was run in the subject's place, on this problem and, where that was shrunk, on the problem
// before: it matches on both.
struct Hypothesis {
  enum class Match : std::uint8_t {
    same,   // it gives the same numbers, bit for bit
    near,   // within the rounding that the contract leaves open
    partly  // its numbers lie nearer to the subject's than those of a right kernel
  };
  std::string name, doc, family, stage, report;
  Match match = Match::same;
  double share = 1;         // part that it explains of the wrong elements' distance from the right values: 0 to 1
  int also = 0, asked = 0;  // further problems: those on which it gives the subject's numbers, and all
  [[nodiscard]] bool everywhere() const noexcept { return also == asked; }
};

// The verdict on a stage on the way, which the subject gave beside its result.
struct StageSeen {
  std::string name;  // "scores"
  Index wrong = 0, judged = 0;
  std::optional<Evidence> first;  // the first element that is none that the contract permits
};

// The place and the reason of a problem's failure.
struct Explanation {
  bool fails = false;  // false: nothing to explain
  Verdict verdict;     // on the entry's law
  std::size_t calls = 0, calls_kept = 0;
  bool own_call = true;  // whether the wrong elements are of the problem's own call, not of one that the law made of it
  std::size_t wrong_call = 0;  // its number among the calls, from 1
  bool outside = false;        // whether some element of some call is none that the contract permits
  bool in_part = false;        // some call is large, so that only a part of its rows was looked at
  bool was_shrunk = false;     // the problem is what is left of a larger one
  std::vector<WrongPlace> where;
  std::vector<std::string> lies;                 // inputs and outputs that are not contiguous, in words
  std::vector<std::string> passes_at, fails_at;  // changes
  bool changes_complete = true;
  bool answers_differ =
      false;  // two calls that are the same in every byte were answered otherwise, and something is outside
  bool reads_beyond = false;  // the answer depends on what lies around the tensors
  std::vector<Fit> fits;      // nearest first
  std::vector<std::string> policies_that_fit, policies_excluded;
  std::vector<Hypothesis> hypotheses;  // best first
  std::size_t hypotheses_run = 0;
  std::vector<StageSeen> stages;   // in the order in which they are computed; where they are given
  std::vector<Fit> fits_of_stage;  // for the first stage out of its bound; for saved numbers
  std::string stage;               // where it goes wrong, as far as that can be told; or empty
  std::string stage_by;            // by what
  std::vector<std::string> notes;  // say what was left out, a clause each
  double seconds = 0;

  // The number of hypotheses, from the first, that give the same numbers: here, and on all further problems that they
  // were asked.
  [[nodiscard]] std::size_t alike() const;
};

// Asks the entry's problem once more, keeps each call, and finds out. `bench` may be at any point of its life: a fresh
// instance is started first where that can be done. Throws Error(usage) if the entry's laws do not know the problem,
// Error(internal) if attest fails.
Explanation explain(const Entry& entry, Bench bench, const ShrinkLimits& shrinking, const ExplainLimits& limits);

// The limits for an explanation in a campaign's report, where it has no say in how long that takes.
ExplainLimits limits_in_a_report(std::optional<double> seconds);

// The object that --json writes of it; `seconds` is left out, which differ from run to run.
nlohmann::ordered_json to_json(const Explanation& explanation);

// The same but for (b), for one call and its answer, which were saved, stages included. `forms` and state play no part.
Explanation explain_call(const KeptCall& call, const Op& op, const Contract& contract, const ExplainLimits& limits);

}  // namespace attest::engine
