#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"

namespace attest::oracle {

// What a number must be, whatever its size.
enum class Expect : std::uint8_t { number, nan, nonfinite };

// What one element could be if the kernel keeps its contract, before it is rounded to the tensor's type.
struct Enclosure {
  double y = 0;                     // the float64 reference
  double lo = 0, hi = 0;            // a finite value lies in [lo, hi]; lo == hi where the rule is exact
  double hull_lo = 0, hull_hi = 0;  // of the attended values of its column; infinite for a log-sum-exp
  Expect expect = Expect::number;
  bool nonfinite_ok = false;  // NaN and infinities are permitted too
  bool undetermined = false;  // a finite value is not judged
  bool zero_ok = false;       // 0 is permitted too: the row may have lost every key
  bool empty_row = false;
};

// Where the elements of conforming kernels lie as a rule (docs/bounds.md, section 7): y +- (1.05 lambda s + bias), before
// rounding. A finding outside is improbable, not impossible.
struct StatisticalEnclosure {
  bool applies = false;  // false: nothing is said, and the rigorous enclosure alone decides
  bool by_box =
      false;  // errors of the weights are too large to act linearly: a box takes the place of part of lambda s
  double s = 0, bias = 0;
  double lo = 0, hi = 0;  // never wider than the rigorous enclosure
};

// What the elements of one result say to the statistical tiers.
struct Statistics {
  // At most near_lambda where every element is proven to need no more, and then an upper bound; else what `index` needs,
  // which is the largest, or the first above stop_lambda.
  double largest_lambda = 0;
  std::array<Index, 4> index{};
  // Tier three: T over the elements whose s has a cheap lower bound, in rows that a quick level judges. None of a result of
  // fewer than least_elements, or of fewer than least_weights.
  double squares = 0;
  Index elements = 0;
  double weights = 0;  // of each row (sum p)^2 / sum p^2
  // Errors of weights: so many less one, since what moves all weights of a row alike drops out, but 1 at least. Of all rows, and of those
  // whose weights are others than those of the row before, by more than a part of their rounding, with their elements.
  double row_errors = 0, own_row_errors = 0, own_elements = 0;
  double last_weights = 0;  // of the row before
  // How many independent errors make T, at least. Infinite where nobody counts them.
  double errors = std::numeric_limits<double>::infinity();
  double alike = 0;  // of the elements, those of rows whose weights are rounded and all alike
  [[nodiscard]] double t() const { return elements > 0 ? std::sqrt(squares / static_cast<double>(elements)) : 0; }

  static constexpr double near_lambda = 4, stop_lambda = 5;
};

// What the result of one problem must be, whatever the operation: the reference and the proven bounds of docs/bounds.md. Judges
// what a kernel returned. attention.hpp says what each means there.
class Oracle {
 public:
  Oracle() = default;
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  virtual ~Oracle() = default;

  // The first element of the judged rows that no conforming kernel could have returned fails; `statistics`, if given, is filled in.
  virtual Verdict judge(const Tensor& out, const Tensor& lse, Statistics* statistics = nullptr) = 0;

  // Of single elements.
  virtual Enclosure out_enclosure(Index b, Index h, Index i, Index column) = 0;
  virtual Enclosure lse_enclosure(Index b, Index h, Index i) = 0;
  virtual Enclosure hull_enclosure(Index b, Index h, Index i, Index column) = 0;

  // The statistical tiers.
  virtual StatisticalEnclosure statistical_enclosure(Index b, Index h, Index i, Index column, double lambda) = 0;
  virtual double slow_t(const Tensor& out, Index most = 4096) = 0;
  // That, or where it is at most `limit`, an upper bound that is so, too, and cheaper.
  virtual double second_look(const Tensor& out, double /*limit*/) { return slow_t(out); }
  virtual double lambda_needed(Index b, Index h, Index i, Index column, Format tensor, double got) = 0;
};

// That of the problem's operation. Keeps references to all three.
std::unique_ptr<Oracle> make_oracle(const Contract& contract, const Problem& problem, const Inputs& inputs);

// Why the statistical tiers do not speak of a contract, as one clause; empty if they do.
std::string_view statistical_refusal(const Contract& contract);

}  // namespace attest::oracle
