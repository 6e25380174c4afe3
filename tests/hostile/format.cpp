#include "format.hpp"

namespace hostile {

double at_edge(long double exact, double ulps, int side, const Format& format) {
  const auto near = static_cast<double>(exact);
  const double rounded = nearest(near, format);
  if (side == 0 || ulps < 0.5 || !std::isfinite(rounded) || exact == 0) return rounded;
  // A little less than permitted, so that the error of `exact` itself (a libm's, below an ulp) does not leave the
  // contract.
  const long double doubt = std::fabs(exact) * (is_f64(format) ? 0x1p-61L : 0x1p-50L);
  const long double limit = exact + static_cast<long double>(side) * (ulps * step(near, format) - doubt);
  double reached = nearest(static_cast<double>(limit), format);
  if (std::isinf(reached)) reached = std::copysign(format.largest, reached);
  const auto beyond = [&](double x) { return side > 0 ? x > limit : x < limit; };
  if (beyond(reached)) {
    const double inward = side > 0 ? -1 : 1;
    const double half = step(reached, format) / 2;
    // Below a power of two the steps are halved.
    const bool halved = reached * inward < 0 && std::fabs(reached) > format.normal &&
                        std::fabs(reached) == std::ldexp(1.0, std::ilogb(reached));
    reached += inward * (halved ? half : 2 * half);
  }
  // One that lies further in than the nearest number is no edge.
  return side > 0 ? std::fmax(reached, rounded) : std::fmin(reached, rounded);
}

}  // namespace hostile
