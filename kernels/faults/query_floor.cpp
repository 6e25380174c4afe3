#include <cmath>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

// The largest number of the format that is not above x.
double rounded_down(Format format, double x) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int last_bit = std::max(exponent, min_exponent(format) + 1) - precision(format);
  return std::ldexp(std::floor(std::ldexp(x, -last_bit)), last_bit);
}

struct QueryFloor : ScaledQuerySteps {
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    kernels::load_queries(call, b, h, i0, rows, queries);
    for (Index n = 0; n < rows * padded(call.d); ++n)
      queries[n] = static_cast<Real>(rounded_down(call[Stage::scale], static_cast<double>(queries[n]) * call.scale));
  }
};

}  // namespace

extern constexpr KernelEntry query_floor =
    fault<ScaledQuerySteps, QueryFloor>("query-floor", "scaled queries are rounded down, not to nearest", "common slip",
                                        "fused-scale-q", "operand", "operand");

}  // namespace attest::kernels::faults
