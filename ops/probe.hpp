#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/format.hpp"
#include "core/forms.hpp"
#include "core/subject.hpp"
#include "ops/problem.hpp"
#include "ops/supports.hpp"

// Finds out from outside how a subject computes. In its calls a format narrower than another, or another meaning of an
// option, must show, whatever the order, the tiles and the placement of the rest.
namespace attest::ops {

enum class Standing : std::uint8_t {
  agrees,       // the observation is the promise
  unsaid,       // nothing was promised
  open,         // the calls cannot tell
  contradicts,  // no kernel that keeps the promise returns this
};
std::string_view name(Standing standing) noexcept;

// One row of the table.
struct ProbeRow {
  std::string stage;     // "qk", "softmax (sum)", "causal, bottom right"
  std::string promised;  // "f32", "zero"; "not said"
  std::string observed;  // a format, a value, "not narrower than f32", or "cannot tell (reason)"
  Standing standing = Standing::open;
  std::string note;                 // the question, or the answer, in one clause; may be empty
  std::optional<Problem> evidence;  // the call that shows it
  // The bounds of a stage's format: none narrower than `at_least` and none wider than `at_most` returns what was seen.
  std::optional<Format> at_least, at_most;
  int bits = 0;                           // significand bits that its sums were seen to keep; 0: not asked
  std::optional<std::size_t> of_stage{};  // the stage of the policy whose format it tells, in the policy's order
};

// Rows that are asked of every operation alike, and what they say where nothing differed.
inline constexpr std::string_view row_reruns = "reruns", row_instances = "fresh instances", row_threads = "threads",
                                  row_batch = "batch";
inline constexpr std::string_view equal_bits = "equal bits";

// "cannot tell (reason)".
std::string cannot_tell(std::string_view reason);
// Tells whether every number of `inner` is one of `outer`.
bool holds(Format outer, Format inner) noexcept;
// "f32", "not narrower than f16", "f16 or narrower", "cannot tell (reason)", by what is known of a stage's format.
std::string format_in_words(std::optional<Format> at_least, std::optional<Format> at_most, std::string_view reason);

// One instance under test, and what it is held to. All must outlive it.
struct ProbeTarget {
  Subject& subject;
  Format dtype;
  const Contract& contract;
  bool policy_declared;             // false: the contract's policy is the most generous reading of the dtype
  std::vector<FormChoice> forms{};  // the forms of every call
};

// Tells whether a stage of the policy, in the policy's order, is asked.
using AsksStage = std::function<bool(std::size_t stage)>;

// The answer of one call: every element of every output in logical order, the first sample's first.
struct Answered {
  CallResult call;
  std::vector<double> first_sample, others;
};

// Samples are what the first axis of `out` counts.
Answered ask(const Problem& problem, Subject& subject);
// Tells whether what one problem gave breaks the policy bound, in a clause; empty if not.
std::string breach(const Problem& problem, const Contract& contract, Subject& subject);

// The order in which the calls of a problem's sizes and options add the terms of a sum.
struct SumOrder {
  Problem call;        // without the elements that were set to see it
  std::string called;  // its sizes: "64 rows, 4 heads of 64"
  Index terms = 0;     // how many
  std::string words;   // the order, outermost first; empty where it was not seen
  std::string nested;  // the same as a tree of numbers of terms
  std::string reason;  // why it was not seen, as a clause
};

// The probes of an operation. There is one object of each, for ever.
class Probes {
 public:
  Probes() = default;
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;
  virtual ~Probes() = default;

  // Formats of stages, and the numbers of the contract that show; then the meaning of options. Subject calls that are
  // refused make a row say so. Throws what materialising throws.
  [[nodiscard]] virtual std::vector<ProbeRow> stages(const ProbeTarget& target) const = 0;
  [[nodiscard]] virtual std::vector<ProbeRow> semantics(const ProbeTarget& target) const = 0;

  // The rows that narrowed() reads, of the stages for which `asks` holds: what the calls of stages() exclude, without a
  // verdict of any.
  [[nodiscard]] virtual std::vector<ProbeRow> kept(const ProbeTarget& target, const AsksStage& asks) const = 0;

  // The order in which weighted values are added, of `call`; where there is none, of one row, of many and of one among
  // other samples, over `terms` keys or as many as the subject takes. Empty: this operation has no such probe.
  [[nodiscard]] virtual std::vector<SumOrder> sum_orders(const ProbeTarget& /*target*/, Index /*terms*/,
                                                         const std::optional<Problem>& /*call*/) const {
    return {};
  }

  // Plain problems of growing work that the subject takes, for questions of repetition and speed.
  [[nodiscard]] virtual std::vector<Problem> sizes(const Supports& supports, Format dtype) const = 0;
  // One of them with `samples` samples, whose first is that of the problem itself, or with as many threads; nullopt
  // where the subject does not take that.
  [[nodiscard]] virtual std::optional<Problem> with_samples(const Problem& problem, Index samples,
                                                            const Supports& supports) const = 0;
  [[nodiscard]] virtual std::optional<Problem> with_threads(const Problem& problem, Index threads) const = 0;
  // The numbers of samples that are tried, ascending.
  [[nodiscard]] virtual std::vector<Index> sample_counts() const { return {2, 3, 4, 8, 16, 32, 64}; }
  // The contract's promises about repetition.
  [[nodiscard]] virtual std::optional<Deterministic> deterministic(const Contract& contract) const = 0;
  [[nodiscard]] virtual std::optional<BatchInvariance> batch_invariant(const Contract& contract) const = 0;

  // The contract that the rows amount to: it has the observations in place of the promises. describe prints it.
  [[nodiscard]] virtual Contract seen(const Contract& contract, const std::vector<ProbeRow>& rows) const = 0;
  // The most generous reading without what the rows exclude, and with all that they do not: a kernel that computes
  // alike in every call keeps it wherever it keeps the contract.
  [[nodiscard]] virtual Contract narrowed(const Contract& generous, const std::vector<ProbeRow>& rows) const = 0;
  // A subject's info with these contracts, one for each of its dtypes in their order; its own where a problem chooses a
  // form of `apart`.
  [[nodiscard]] virtual SubjectInfo holding(SubjectInfo info, const std::vector<Contract>& contracts,
                                            const std::vector<FormChoice>& apart) const = 0;
};

}  // namespace attest::ops
