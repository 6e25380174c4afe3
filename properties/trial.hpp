#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "oracle/oracle.hpp"

namespace attest::properties {

// A call that was not done: unsupported, error, crash or timeout.
struct CallFailed : std::runtime_error {
  explicit CallFailed(CallResult call) : std::runtime_error(call.message), result(std::move(call)) {}
  CallResult result;
};

// The prefix of a message that names its subject, where two subjects are held against each other.
inline constexpr const char *subject_prefix = "A: ", *peer_prefix = "B: ";
// Returns the error of a call of the second subject that was not done.
CallFailed failed_peer(CallResult call);

// The result of one call.
struct Result {
  Tensor out, lse;  // lse absent unless the problem asks for it
  CallResult call;
  // The first broken guard, unwritten element or modified input; its `wrong` is Wrong::memory.
  std::optional<Evidence> violation;
  bool out_finite = false, lse_finite = false;  // set for a call that is done; an absent lse is finite
};

// One call to make: inputs, and the problem that gives the shape and layout of the outputs.
struct Request {
  const Inputs* inputs;
  const Problem* problem;
};

// A problem under test on one subject: its inputs, its outputs (run once, on first use), its oracle, and further calls
// that laws ask for. Not thread safe; refers to `subject` and `peer`, which must outlive it.
class Trial {
 public:
  // Materialises the inputs; throws what materialise() throws. `peer`: a second, independent subject that keeps the
  // same contract (the built-in explicit kernel), or nullptr.
  Trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer = nullptr);
  // The same of inputs that come from elsewhere: a call of the shape and options of `problem`.
  Trial(const Problem& problem, Inputs inputs, const Contract& contract, Subject& subject);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] const Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] const Contract& contract() const noexcept { return contract_; }
  [[nodiscard]] Subject& subject() const noexcept { return subject_; }
  [[nodiscard]] Subject* peer() const noexcept { return peer_; }
  [[nodiscard]] const Inputs& inputs() const noexcept { return inputs_; }

  // The subject on the problem itself. Runs once; throws CallFailed each time if that call was not done.
  const Result& base();
  // The peer on the problem itself, run once; nullptr without a peer or if the peer cannot do it.
  const Result* peer_base();

  // Returns the peer's result on the problem itself, run once, in a trial of two subjects where the peer is one under
  // test too. Throws CallFailed, with peer_prefix before the message, if that call was not done.
  const Result& peer_result();
  // Returns the peer's own promises for the problem.
  [[nodiscard]] Contract peer_contract() const { return peer_->info().contract(problem_.dtype, problem_.forms); }

  // One more call. Throws CallFailed.
  Result run(const Inputs& inputs, const Problem& problem);
  Result run(const Problem& problem);
  // Several calls in order, in one trip. Throws CallFailed for the first that is not done.
  std::vector<Result> run_many(std::span<const Request> calls);
  // The same, leaving `unsupported` to the caller: see Result::call. Throws CallFailed for error, crash and timeout.
  std::vector<Result> attempt_many(std::span<const Request> calls);

  // Made on first use.
  oracle::Oracle& oracle();
  // The oracle's verdict on base(), made once.
  const Verdict& judgement();
  // The oracle's verdict on other outputs of the very same mathematical problem.
  Verdict judge(const Tensor& out, const Tensor& lse);

  // The first violation of any call of the subject so far.
  [[nodiscard]] const std::optional<Evidence>& violation() const noexcept { return violation_; }
  [[nodiscard]] std::int64_t subject_calls() const noexcept { return subject_calls_; }
  struct Nanoseconds {
    std::int64_t values = 0, subject = 0, oracle = 0;
  };
  [[nodiscard]] const Nanoseconds& elapsed() const noexcept { return elapsed_; }

 private:
  std::vector<Result> call(Subject& subject, std::span<const Request> calls);
  void call_peer();

  const Problem problem_;
  const Contract contract_;
  Subject& subject_;
  Subject* peer_;
  Nanoseconds elapsed_;
  const bool drawn_;  // inputs_ is what materialise() makes of problem_
  Inputs inputs_;
  std::optional<Result> base_, peer_base_;
  std::unique_ptr<oracle::Oracle> oracle_;
  std::optional<Verdict> judgement_;
  std::optional<Evidence> violation_;
  std::int64_t calls_made_ = 0;  // calls of both subjects
  std::int64_t subject_calls_ = 0;
};

}  // namespace attest::properties
