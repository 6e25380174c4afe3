// A tensor core as docs/bounds.md, section 4c, has it: its result of a block of products, with all of the loss taken
// that a sentence grants.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "format.hpp"
#include "scheme.hpp"

namespace hostile {

struct Factors {
  double a, b;
};

/// The sum so far and the products of a block, in `format` or, where that is wider, in what the unit gives. Factors
/// have no more than 24 bits; their exponents are at least `least_factor`.
inline double block_sum(const Blocks& how, double so_far, std::span<const Factors> products, int least_factor,
                        const Format& format) {
  const Format& f32 = formats[3];
  const Format& result = how.fraction == 10 ? formats[0] : f32;
  const auto exponent = [](double x, int least) { return x == 0 ? least : std::max(std::ilogb(x), least); };
  double special = so_far;
  for (const Factors& p : products) special += p.a * p.b;
  if (!std::isfinite(special)) return special;
  // A zero counts as the smallest normal result, or as less.
  const int zero = result.least - how.below;
  int largest = so_far == 0 ? zero : exponent(so_far, result.least);
  for (const Factors& p : products)
    largest =
        std::max(largest, p.a == 0 || p.b == 0 ? zero : exponent(p.a, least_factor) + exponent(p.b, least_factor));
  const auto units = [&](double x) { return static_cast<std::int64_t>(std::ldexp(x, how.frac - largest)); };
  std::int64_t total = units(so_far);
  for (const Factors& p : products) total += units(p.a * p.b);
  const double exact = std::ldexp(static_cast<double>(total), largest - how.frac);
  if (exact == 0) return 0;
  if (how.fraction == 10) return nearest(nearest(exact, result), format);
  if (std::fabs(exact) >= 0x1p128) return std::copysign(INFINITY, exact);
  const int place = exponent(exact, f32.least) - how.fraction;
  return nearest(std::ldexp(std::trunc(std::ldexp(exact, -place)), place), format);
}

}  // namespace hostile
