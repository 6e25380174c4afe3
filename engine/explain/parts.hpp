#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/explain/explain.hpp"

// The parts of explain(), each in the file of its name.
namespace attest::engine::explaining {

using ops::Element;
using ops::Reading;

// The work and time that may still be spent.
class Budget {
 public:
  explicit Budget(const ExplainLimits& limits) : limits(limits), start_(std::chrono::steady_clock::now()) {}
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  [[nodiscard]] bool over() const { return limits.seconds && elapsed() >= *limits.seconds; }
  const ExplainLimits& limits;

 private:
  std::chrono::steady_clock::time_point start_;
};

// A call that was kept, and how its elements came out.
struct Heard {
  const KeptCall* call;
  std::unique_ptr<Reading> reading;  // null where nothing can be told
  std::vector<Element> elements;     // all, or a sample of rows; empty without a reading
  bool outside = false;              // some of them
  bool in_part = false;              // elements are a sample
  [[nodiscard]] Index work() const;
};
// `first_outside`: the position of the first call with an element outside; calls.size() if there is none.
std::vector<Heard> heard(const std::vector<KeptCall>& calls, const Op& op, const Contract& contract,
                         const ExplainLimits& limits);
std::size_t first_outside(std::span<const Heard> calls);

// A problem that the subject was asked, and what came of it.
struct Evidenced {
  Contract contract;
  Verdict verdict;
  std::vector<KeptCall> calls;
  std::size_t left_out = 0;             // the number of calls that were not kept
  std::size_t first_own = 0;            // the first that is not one that had to come before
  std::vector<Heard> heard;             // `calls`, read
  bool original = false;                // the problem is that of the entry before it was shrunk
  [[nodiscard]] bool complete() const;  // every call was answered and kept
};

// ---- explain.cpp
// Asks an entry's laws of a problem, after the calls that must come before.
Evidenced ask(const Entry& entry, const Problem& problem, Bench bench, const ExplainLimits& limits);
// The problem of which an entry's is what is left, if it was shrunk; nullopt if that is not here: captured values, or a
// problem that this version does not draw.
struct Before {
  bool shrunk = false;
  std::optional<Problem> problem{};
};
Before before_shrinking(const Entry& entry);

// A kernel in the place of the subject, in the policy of a contract and with its meanings: its answers to the same
// calls, in order. Empty where it gives none, or there is none of that name.
class Understudy {
 public:
  Understudy(const Op& op, const Contract& contract);
  [[nodiscard]] std::vector<CallCopy> answers(const std::string& name, std::span<const KeptCall* const> calls) const;

 private:
  std::string policy_, semantics_;
};

// ---- geometry.cpp
std::vector<WrongPlace> wrong_places(const Heard& call);
std::vector<std::string> lies(const Call& call);

// Fit::fill of the same elements under the declared contract and under another; 0 where that says nothing of them.
double filled(std::span<const Element> declared, std::span<const Element> other);

// ---- fits.cpp: fits, policies_that_fit, policies_excluded. `all` begins with the problem that is explained; where
// nothing is outside in it, the first of the others with something outside takes its place.
void find_fits(std::span<const Evidenced> all, const Op& op, const Budget& budget, Explanation& into);

// ---- hypotheses.cpp: hypotheses and hypotheses_run
void find_hypotheses(std::span<const Evidenced> all, const Op& op, const Budget& budget, Explanation& into);

// ---- stages.cpp: asks the call once more, with the subject's stages; and reads the stages that a call has given
// already
std::vector<StageSeen> stages_of(const Heard& call, const Contract& contract, Subject& subject);
std::vector<StageSeen> stages_given(const Heard& call, const Contract& contract);
// The departures that permit every number of the first stage that is outside, and of those before it. The call has
// given its stages.
std::vector<Fit> fits_of_stage(const Heard& call, const Contract& contract, const Budget& budget);

// ---- changes.cpp: problems that differ from one in one respect, those that tell most first
std::vector<Candidate> changes(const Problem& problem, const ShrinkLimits& limits);

}  // namespace attest::engine::explaining
