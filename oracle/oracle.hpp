#pragma once
#include <cstdint>
#include <memory>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"

namespace attest::oracle {

// The kind of number that is required, whatever its size.
enum class Expect : std::uint8_t { number, nan, nonfinite };

// The values that one element may have if the kernel keeps its contract, before it is rounded to the tensor's type.
struct Enclosure {
  double y = 0;                     // the float64 reference
  double lo = 0, hi = 0;            // a finite value lies in [lo, hi]; lo == hi where the rule is exact
  double hull_lo = 0, hull_hi = 0;  // hull of the attended values of its column; infinite for a log-sum-exp
  Expect expect = Expect::number;
  bool nonfinite_ok = false;  // NaN and infinities are permitted too
  bool undetermined = false;  // a finite value is not judged
  bool zero_ok = false;       // 0 is permitted too: the row may have lost every key
  bool empty_row = false;
};

// The judge of one problem's result, whatever the operation: the reference and the proven bounds of docs/bounds.md.
// attention.hpp documents each function for attention.
class Oracle {
 public:
  Oracle() = default;
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  virtual ~Oracle() = default;

  // The first element of the judged rows that no conforming kernel could have returned fails.
  virtual Verdict judge(const Tensor& out, const Tensor& lse) = 0;

  // Return the enclosures of single elements.
  virtual Enclosure out_enclosure(Index b, Index h, Index i, Index column) = 0;
  virtual Enclosure lse_enclosure(Index b, Index h, Index i) = 0;
  virtual Enclosure hull_enclosure(Index b, Index h, Index i, Index column) = 0;
};

// Returns the oracle of the problem's operation. Keeps references to all three.
std::unique_ptr<Oracle> make_oracle(const Contract& contract, const Problem& problem, const Inputs& inputs);

}  // namespace attest::oracle
