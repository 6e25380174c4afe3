#include "core/directed.hpp"

#include <algorithm>

namespace attest {

double round_toward(Format format, double x, bool up) noexcept {
  if (format == Format::f64 || !std::isfinite(x) || x == 0) return x;
  const double ulp = std::ldexp(1.0, std::max(std::ilogb(x), min_exponent(format)) - precision(format) + 1);
  const double rounded = (up ? std::ceil(x / ulp) : std::floor(x / ulp)) * ulp, most = largest_finite(format);
  if (std::fabs(rounded) <= most) return std::copysign(rounded, x);
  return std::copysign((x > 0) == up ? std::numeric_limits<double>::infinity() : most, x);
}

}  // namespace attest
