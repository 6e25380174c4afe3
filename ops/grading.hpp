#pragma once
#include <string_view>

#include "ops/problem.hpp"

// The questions that `attest grade` asks of an operation beside its laws: the problems that many kernels can run, and
// the demands that other testers' rules may make of a kernel.
namespace attest::ops {

class Grading {
 public:
  Grading() = default;
  Grading(const Grading&) = delete;
  Grading& operator=(const Grading&) = delete;
  virtual ~Grading() = default;

  struct Words {
    std::string_view plain;      // the problems that plain() makes: "values from N(0,1), the default scale"
    std::string_view paired;     // the largest paired problems: "up to 2^20 multiply-adds"
    std::string_view emulated;   // those that emulated kernels run on: "up to 2^16 multiply-adds"
    std::string_view reference;  // the reference of other testers' rules: "explicit attention"
    std::string_view own;        // the laws that look at a call alone, in words
  };
  [[nodiscard]] virtual const Words& words() const noexcept = 0;

  // Tells whether a problem is small enough for every kernel and every law; and for kernels that compute an operation
  // at a time.
  [[nodiscard]] virtual bool is_paired(const Problem& problem) const = 0;
  [[nodiscard]] virtual bool is_emulated(const Problem& problem) const = 0;
  // The problem as tests of kernels draw it: values from N(0,1), options at their defaults.
  [[nodiscard]] virtual Problem plain(Problem problem) const = 0;
  // The policy of the plain kernel as a framework runs it on tensors of `type`.
  [[nodiscard]] virtual Policy framework_policy(Format type) const = 0;

  // The contract that states nothing beside its policy.
  [[nodiscard]] virtual Contract silent(const Policy& policy) const = 0;
  // Tells whether the errors of `contract` are none but such as one of the other two permits.
  [[nodiscard]] virtual bool no_wider(const Contract& contract, const Contract& least, const Contract& other) const = 0;
  // Tells whether kernels that keep either compute the same function of their inputs.
  [[nodiscard]] virtual bool same_function(const Contract& a, const Contract& b) const = 0;
  // Tells whether a promise is of sums that few kernels have, so that more are to be emulated that have them.
  [[nodiscard]] virtual bool has_rare_sums(const Contract&) const { return false; }
};

// Rounding to nearest, no flush to zero, functions as exact as in a contract that does not say: a rule must accept that
// though it is told nothing.
bool is_ordinary(const Grading& grading, const Contract& contract);

}  // namespace attest::ops
