#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "ops/probe.hpp"
#include "properties/trial.hpp"

// What the probes of attention are made of: problems of a few literal elements, and what they give.
namespace attest::ops::of_attention {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline double two_to(int exponent) { return std::ldexp(1.0, exponent); }

using attest::Contract;
using attest::Policy;
using attest::Problem;
using attest::Supports;

// One call and its result.
class Shown {
 public:
  Shown(const Problem& problem, const Contract& contract, Subject& subject);

  [[nodiscard]] const Problem& problem() const noexcept { return trial_->problem(); }
  [[nodiscard]] bool done() const noexcept { return trial_ != nullptr && refusal_.empty(); }
  // Why there is no result: "refused: ...", "crash: ...".
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }
  // A call that failed otherwise than as unsupported, or one that wrote where it must not.
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }
  // Whether no kernel that keeps the contract returns this; the witness as a clause.
  [[nodiscard]] bool outside() const noexcept { return !witness_.empty(); }
  [[nodiscard]] const std::string& witness() const noexcept { return witness_; }
  void forgive() noexcept { witness_.clear(); }
  // Whether a kernel that keeps another contract could have returned it.
  [[nodiscard]] bool fits(const Contract& contract) const;
  // The same, if anything could be judged.
  [[nodiscard]] bool passes(const Contract& contract) const;

  [[nodiscard]] double out(Index column = 0, Index row = 0, Index head = 0, Index batch = 0) const;
  [[nodiscard]] double lse(Index row = 0) const;

 private:
  std::unique_ptr<properties::Trial> trial_;
  const properties::Result* result_ = nullptr;
  std::string refusal_, broken_, witness_;
};

// Problems that are 0 everywhere but for literal elements, in sizes that the subject takes.
class Maker {
 public:
  // Of at least so many rows, heads and samples, where the subject takes them: what is asked is asked of the first.
  struct Size {
    Index rows = 1, heads = 1, samples = 1;
    std::vector<FormChoice> forms{};
  };
  Maker(const Supports& supports, Format dtype, Size size)
      : supports_(supports), dtype_(dtype), size_(std::move(size)) {}
  Maker(const Supports& supports, Format dtype) : Maker(supports, dtype, Size()) {}

  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] Format dtype() const noexcept { return dtype_; }

  // Sizes at least these, or the nearest there are; q, k and v 0.
  [[nodiscard]] Problem blank(Index lq, Index lk, Index d, Index dv) const;
  // The same with an even number of keys and a scale that is a power of two: 1, or the default one where the subject takes no
  // other. nullopt where it takes neither.
  [[nodiscard]] std::optional<Problem> paired(Index lk, Index d) const;

 private:
  const Supports& supports_;
  Format dtype_;
  Size size_;
};

// ---- literal elements
void set_q(Problem& problem, Index row, Index column, double value);
// Of every key j of head 0 with j % 2 == parity: what two keys are, any even number of them is.
void set_keys(Problem& problem, Index parity, Index column, double value);
void set_values(Problem& problem, Index parity, double value);
void set(Problem& problem, Edit::Tensor tensor, std::array<Index, 4> index, double value);

double logistic(double x) noexcept;
// ln(p / (1 - p)).
double logit(double p) noexcept;

}  // namespace attest::ops::of_attention
