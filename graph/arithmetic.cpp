#include "graph/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/rng.hpp"
#include "graph/loops.hpp"

namespace attest::graph {
namespace {

constexpr double root_third = 0.57735026918962576;  // 1/sqrt 3: a uniform error of at most u has this deviation in u

void saturate(std::span<double> x, Format format) {
  const double most = largest_finite(format);
  for (double& v : x) v = std::clamp(v, -most, most);  // NaN stays
}

class Exact final : public Arithmetic {
 public:
  void round(std::span<double> /*x*/, Format /*format*/, Place /*place*/) const override {}
  void function(std::span<double> /*x*/, Format /*format*/, double /*relative*/, double /*absolute*/,
                Place /*place*/) const override {}
  void sum(std::span<double> /*sums*/, const Sums& /*how*/, Place /*place*/) const override {}
  void convert(std::span<double> /*x*/, Format /*format*/, Place /*place*/) const override {}
};

class Nearest final : public Arithmetic {
 public:
  void round(std::span<double> x, Format format, Place /*place*/) const override {
    for (double& v : x) v = round_to(format, v);
  }
  void function(std::span<double> /*x*/, Format /*format*/, double /*relative*/, double /*absolute*/,
                Place /*place*/) const override {}
  void sum(std::span<double> /*sums*/, const Sums& /*how*/, Place /*place*/) const override {}
  void convert(std::span<double> x, Format format, Place place) const override {
    round(x, format, place);
    saturate(x, format);
  }
};

// A number in [0, 1), a multiple of 2^-53.
double fraction_of(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-53; }

// Numbers of a format's normal range as Member::rounded() rounds them: a lane of the processor's vectors each, the same
// bits on all of them. Others stay as they are.
struct NormalRange {
  std::uint64_t least, most;  // magnitudes, as bits of a double
  [[nodiscard]] bool holds(std::uint64_t magnitude) const noexcept { return magnitude >= least && magnitude <= most; }
};
constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

// Tells if there are others.
ATTEST_GRAPH_CLONES bool round_normal(double* x, std::size_t count, int drop, NormalRange range,
                                      std::uint64_t key) noexcept {
  const std::uint64_t step = std::uint64_t{1} << drop;
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint64_t>(x[i]);
    const std::uint64_t magnitude = bits & ~sign_bit, rest = bits & (step - 1), lower = bits - rest;
    const bool up = rest << (53 - drop) > extend(key, lower) >> 11;
    const std::uint64_t rounded = lower + (up ? step : 0);
    const bool holds = magnitude >= range.least && magnitude <= range.most;
    others |= holds ? 0 : 1;
    x[i] = std::bit_cast<double>(holds ? rounded : bits);
  }
  return others != 0;
}

// x (1 + size n) and x + size n with normal n of the elements' numbers; 0 stays.
ATTEST_GRAPH_CLONES void add_relative_noise(double* x, std::size_t count, double size, std::uint64_t key) noexcept {
  for (std::size_t i = 0; i < count; ++i) x[i] *= 1 + size * normal(extend(key, i));
}
ATTEST_GRAPH_CLONES void add_absolute_noise(double* x, std::size_t count, double size, std::uint64_t key) noexcept {
  for (std::size_t i = 0; i < count; ++i) x[i] = x[i] == 0 ? x[i] : x[i] + size * normal(extend(key, i));
}
ATTEST_GRAPH_CLONES void add_noise(double* x, std::size_t count, const double* sizes, std::uint64_t key) noexcept {
  for (std::size_t i = 0; i < count; ++i) x[i] += sizes[i] * normal(extend(key, i));
}

// Rounds magnitudes away from zero with the probability that keeps the mean.
class Member final : public Arithmetic {
 public:
  Member(std::uint64_t seed, Conversion conversion) : seed_(seed), conversion_(conversion) {}

  void round(std::span<double> x, Format format, Place place) const override {
    const std::uint64_t key = extend(seed_, place);
    if (format == Format::f64) {
      for (double& v : x) v = neighbour(v, key);
      return;
    }
    const bool flushes = !has_short_range(format) && (extend(key, flush_draw) & 1) != 0;
    const NormalRange range{std::bit_cast<std::uint64_t>(smallest_normal(format)),
                            std::bit_cast<std::uint64_t>(largest_finite(format))};
    if (!round_normal(x.data(), x.size(), 53 - precision(format), range, key)) return;
    for (double& v : x) {
      if (!range.holds(std::bit_cast<std::uint64_t>(v) & ~sign_bit)) v = rounded(v, format, key);
      if (flushes && std::fabs(v) < smallest_normal(format)) v = std::copysign(0.0, v);
    }
  }

  void function(std::span<double> x, Format format, double relative, double absolute, Place place) const override {
    const double unit = unit_roundoff(format) * root_third;
    const std::uint64_t key = extend(seed_, place), other = extend(key, absolute_draw);
    add_relative_noise(x.data(), x.size(), relative * unit, key);
    if (absolute > 0) add_absolute_noise(x.data(), x.size(), absolute * unit, other);
  }

  void sum(std::span<double> sums, const Sums& how, Place place) const override {
    add_noise(sums.data(), sums.size(), how.deviation.data(), extend(seed_, place));
  }

  void convert(std::span<double> x, Format format, Place place) const override {
    if (conversion_ == Conversion::to_nearest)
      Nearest().round(x, format, place);
    else
      round(x, format, place);
    saturate(x, format);
  }

  [[nodiscard]] std::uint64_t undefined(std::uint64_t /*usual*/, Place place, std::uint64_t element) const override {
    return extend(extend(seed_, place), element);
  }

 private:
  static constexpr std::uint64_t flush_draw = 0x666c757368, absolute_draw = 0x6162736f6c757465;

  // A result that float64 has rounded already, as another order or a fused product may give it: itself in half of the
  // cases, else the next number on either side. Equal numbers go alike; 0 and numbers that are not finite stay.
  static double neighbour(double x, std::uint64_t key) noexcept {
    const double magnitude = std::fabs(x);
    if (!(magnitude < std::numeric_limits<double>::max()) || magnitude == 0) return x;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    constexpr std::uint64_t steps[] = {0, 0, 1, ~std::uint64_t{0}};
    return std::bit_cast<double>(bits + steps[extend(key, bits) >> 62]);
  }

  static double rounded(double x, Format format, std::uint64_t key) noexcept {
    const double magnitude = std::fabs(x);
    if (!(magnitude < std::numeric_limits<double>::infinity()) || magnitude == 0) return x;
    double lower = 0, upper = 0, share = 0;  // neighbours of the magnitude, and how far towards `upper` it lies
    if (magnitude < smallest_normal(format)) {
      const double step = 2 * half_smallest_subnormal(format);
      const double steps = magnitude / step;  // exact, unless it underflows to a share of nothing
      const double whole = std::floor(steps);
      lower = whole * step;
      upper = lower + step;
      share = steps - whole;
    } else {
      const int drop = 53 - precision(format);
      const auto bits = std::bit_cast<std::uint64_t>(magnitude);
      const std::uint64_t rest = bits & ((std::uint64_t{1} << drop) - 1);
      lower = std::bit_cast<double>(bits - rest);
      upper = std::bit_cast<double>(bits - rest + (std::uint64_t{1} << drop));
      share = static_cast<double>(rest) / static_cast<double>(std::uint64_t{1} << drop);
    }
    if (share == 0) return x;
    const double draw = fraction_of(extend(key, std::bit_cast<std::uint64_t>(std::copysign(lower, x))));
    double result = share > draw ? upper : lower;
    if (result > largest_finite(format))
      result =
          magnitude < overflow_threshold(format) ? largest_finite(format) : std::numeric_limits<double>::infinity();
    return std::copysign(result, x);
  }

  std::uint64_t seed_;
  Conversion conversion_;
};

}  // namespace

std::unique_ptr<Arithmetic> exact() { return std::make_unique<Exact>(); }
std::unique_ptr<Arithmetic> nearest() { return std::make_unique<Nearest>(); }
std::unique_ptr<Arithmetic> member(std::uint64_t seed, Conversion conversion) {
  return std::make_unique<Member>(seed, conversion);
}

}  // namespace attest::graph
