#pragma once
#include <string>
#include <vector>

#include "engine/ops.hpp"

namespace attest::engine {

// The values that correct kernels may return for one element of out, in out's type: every one of [lo, hi].
struct OutputRange {
  double y = 0;  // the float64 reference
  double lo = 0, hi = 0;
  [[nodiscard]] double radius() const noexcept;  // largest distance from y
};

// The elements of the first output of a problem's judged rows.
struct Spread {
  std::vector<OutputRange> ranges;  // the elements below that are neither undetermined nor without a finite value
  std::int64_t elements = 0;
  std::int64_t undetermined = 0;  // the bound permits any finite value
  std::int64_t nonfinite = 0;     // NaN or infinities are permitted, or nothing else is
  std::int64_t unsafe = 0;        // either of the two: no tolerance holds all that is correct
  std::int64_t wide = 0;          // the range holds every mean of the values
  Format output = Format::f32;
  bool all = true;  // every row is judged
};

Spread spread_of(ops::Exchange& call, const Contract& contract);
// Throws what ops::Op::exchange() throws.
Spread spread_of(const Problem& problem, const Contract& contract);

// The same of each stage on the way that a kernel may give, whatever it gave of the others; empty where the operation
// has none.
struct StageSpread {
  std::string stage;
  Spread spread;
};
std::vector<StageSpread> stage_spreads_of(ops::Exchange& call, const Contract& contract);
std::vector<StageSpread> stage_spreads_of(const Problem& problem, const Contract& contract);

// The reference of a comparison: the exact result, or that of another kernel that rounds as well.
enum class Reference : std::uint8_t { exact, kernel };
// The way in which a tool joins its two tolerances, per element: |got - expected| <= atol + rtol |expected|
// (numpy.testing.assert_allclose, torch.testing.assert_close), or |got - expected| <= atol or <= rtol |expected|
// (Polygraphy's elemwise check, whose expected is the second runner's).
enum class Rule : std::uint8_t { sum, either };

// The least atol for `rtol` in [0, 1) with which no result in the ranges is rejected, whichever of two kernels is the
// reference, and whatever the tool rounds while it compares in out's type. With E the smallest |expected| of a range
// and D the largest |got - expected|, the pair that attains both decides: atol >= D - rtol E, or D unless D <= rtol E.
double least_atol(const Spread& spread, Reference reference, Rule rule, double rtol);

// The multiple of its radius by which an element may be off and still pass, against an exact reference; over elements
// with a radius.
struct Blindness {
  double median = 0, largest = 0;
};
Blindness blindness(const Spread& spread, Rule rule, double atol, double rtol);

// The smallest of `values` that at least the fraction q of them do not exceed; 0 of none. Reorders.
double quantile(std::vector<double>& values, double q);

// The next number with `digits` significant decimal digits that is not smaller.
double rounded_up(double value, int digits);

}  // namespace attest::engine
