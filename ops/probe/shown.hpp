#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/subject.hpp"
#include "ops/exchange.hpp"
#include "ops/probe.hpp"
#include "ops/problem.hpp"

// One call to a subject under probe, and the row that it becomes.
namespace attest::ops::probing {

// An element of an output, by its index.
using Place = std::array<Index, 4>;
using Elements = std::function<double(std::string_view output, const Place&)>;

// An element of an output that the call asked for. Throws Error(internal) for one that is not there.
double element_of(const Exchange& exchange, const Place& index, std::string_view output);

// One call and its result, held to the policy bound of its operation.
class Shown {
 public:
  // Throws what materialising throws.
  Shown(const Problem& problem, const Contract& contract, Subject& subject);
  // The result for a call that has no problem.
  static Shown refused(std::string_view reason);

  // nullopt where there was none.
  [[nodiscard]] std::optional<Problem> problem() const {
    return exchange_ ? std::optional(exchange_->problem()) : std::nullopt;
  }
  [[nodiscard]] bool done() const noexcept { return exchange_ != nullptr && refusal_.empty(); }
  // Why there is no result: "refused: ...", "crash: ...".
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }
  // A call that failed otherwise than as unsupported, or one that wrote where it must not.
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }
  // Tells whether no kernel that keeps the contract returns this; the witness as a clause.
  [[nodiscard]] bool outside() const noexcept { return !witness_.empty(); }
  [[nodiscard]] const std::string& witness() const noexcept { return witness_; }
  void forgive() noexcept { witness_.clear(); }
  // Tells whether a kernel that keeps another contract could have returned it; the latter, if anything could be judged.
  [[nodiscard]] bool fits(const Contract& contract) const;
  [[nodiscard]] bool passes(const Contract& contract) const;

  // The end of the call; the damage to memory that is not its own; and, of a call that is done, the policy bound's
  // verdict.
  [[nodiscard]] const CallResult& call() const noexcept { return call_; }
  [[nodiscard]] const std::optional<Evidence>& violation() const noexcept { return violation_; }
  [[nodiscard]] const Verdict& verdict() const noexcept { return verdict_; }

  // The same as element_of().
  [[nodiscard]] double at(const Place& index, std::string_view output = "out") const {
    return element_of(*exchange_, index, output);
  }
  [[nodiscard]] Elements elements() const {
    return [this](std::string_view output, const Place& index) { return at(index, output); };
  }

 private:
  Shown() = default;
  std::unique_ptr<Exchange> exchange_;
  std::string refusal_, broken_, witness_;
  CallResult call_;
  std::optional<Evidence> violation_;
  Verdict verdict_;
};

// A question's subject, and the contract that its answers are held to. All must outlive it.
struct Asked {
  Subject& subject;
  Format dtype;
  const Contract& contract;
  bool policy_declared;
  bool meaning = false;  // the call asks for a meaning: a result that a narrower format permits shows no other one
  bool guilty = false;   // results outside the bound have been told already
  const Contract* promised =
      nullptr;  // where `contract` permits what rows have told already: the one that was promised

  [[nodiscard]] Shown ask(const Problem& problem) const;
  // True if a kernel that keeps its promise could have returned it, whatever is told already.
  [[nodiscard]] bool kept_by(const Shown& shown) const {
    return shown.fits(promised != nullptr ? *promised : contract);
  }
};

// The contract with a stage of its policy in another format; nullopt where its numbers contradict that.
std::optional<Contract> with_stage(const Contract& contract, std::size_t stage, Format format);

// ---- rows -----------------------------------------------------------------------------------------------------------

ProbeRow untold(std::string stage, std::string promised, std::string_view reason);
// A row of a call that was not done, or none of whose answers helps.
ProbeRow refused_row(std::string stage, std::string promised, const Shown& shown);
// A row of what one call shows: contradicting if no kernel of the contract returns it.
ProbeRow row_of(std::string stage, std::string promised, std::string observed, const Shown& shown, Standing standing);
// The same of an observation that is what was promised, or not.
ProbeRow held_row(std::string stage, std::string promised, std::string observed, const Shown& shown);
// Says in the row that the call contradicts the promise.
void contradict(ProbeRow& row, const Shown& shown);

// ---- what rows say of a policy --------------------------------------------------------------------------------------

const ProbeRow* find(const std::vector<ProbeRow>& rows, std::string_view stage);
// The observation of every row whose name begins so; empty if they differ or there is none.
std::string all_observed(const std::vector<ProbeRow>& rows, std::string_view prefix);
// The widest format that all rows of a stage are at least; nullopt if one of them says nothing, or there is none.
std::optional<Format> least_of(const std::vector<ProbeRow>& rows, std::size_t stage);
// The contract's policy with what was seen in place of what was promised, where something speaks against that.
Policy policy_seen(const Contract& contract, const std::vector<ProbeRow>& rows);
// The repetition that was seen.
std::optional<Deterministic> deterministic_seen(const std::vector<ProbeRow>& rows);
std::optional<BatchInvariance> batch_seen(const std::vector<ProbeRow>& rows);

}  // namespace attest::ops::probing
