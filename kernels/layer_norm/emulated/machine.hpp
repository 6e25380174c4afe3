#pragma once
#include <cmath>

#include "core/directed.hpp"
#include "core/format.hpp"

// One rounded operation at a time, for the emulator of layer_norm: slow and plain.
namespace attest::emulator::layer_norm {

// Where additions of the statistics go that their format does not hold; all but nearest need a kappa of 3.
enum class Direction : std::uint8_t { nearest, toward_zero, up, down };

// A double that rounds to every format of at most 51 bits as value + rest does: rounding to odd.
inline double sticky(double value, double rest) noexcept {
  if (rest == 0 || !std::isfinite(value) || !std::isfinite(rest)) return value;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  if (bits & 1) return value;
  return std::bit_cast<double>((rest > 0) == (value > 0) ? bits + 1 : bits - 1);
}

// Returns the error of the rounded sum a + b (Knuth's TwoSum).
inline double rest_of(double a, double b, double sum) noexcept {
  const double part = sum - a;
  return (a - (sum - part)) + (b - part);
}

struct Machine {
  Format format = Format::f32;
  bool flush = false;
  Direction direction = Direction::nearest;  // rounding of sums

  [[nodiscard]] double flushed(double x) const noexcept {
    return flush && std::fabs(x) < smallest_normal(format) ? std::copysign(0.0, x) : x;
  }
  // Rounds to nearest, whatever sums do.
  [[nodiscard]] double nearest(double x) const noexcept { return flushed(round_to(format, x)); }
  [[nodiscard]] double plus(double a, double b) const noexcept {
    const double sum = a + b;
    return nearest(format == Format::f64 ? sum : sticky(sum, rest_of(a, b, sum)));
  }
  [[nodiscard]] double times(double a, double b) const noexcept {
    const double product = a * b;
    return nearest(format == Format::f64 ? product : sticky(product, std::fma(a, b, -product)));
  }
  [[nodiscard]] double over(double a, double b) const noexcept {
    const double quotient = a / b;
    if (format == Format::f64 || !std::isfinite(quotient)) return nearest(quotient);
    const double rest = std::fma(-quotient, b, a);
    return nearest(sticky(quotient, b > 0 ? rest : -rest));
  }
  // sqrt of a number of the format: a double root rounds as the exact one does.
  [[nodiscard]] double root(double a) const noexcept { return nearest(std::sqrt(a)); }
  // a b + c, rounded once.
  [[nodiscard]] double fused(double a, double b, double c) const noexcept {
    if (format == Format::f64) return nearest(std::fma(a, b, c));
    const double product = a * b, sum = product + c;  // the product is exact
    return nearest(sticky(sum, rest_of(product, c, sum)));
  }

  // The same in the direction of sums. An f64 sum has nothing wider to be cut from and rounds to nearest.
  [[nodiscard]] double add(double a, double b) const noexcept {
    const double sum = a + b;
    return directed(sum, rest_of(a, b, sum));
  }
  [[nodiscard]] double add_product(double a, double b, double c) const noexcept {
    if (format == Format::f64) return nearest(std::fma(a, b, c));
    const double product = a * b, sum = product + c;
    return directed(sum, rest_of(product, c, sum));
  }

 private:
  [[nodiscard]] double directed(double value, double rest) const noexcept {
    if (format == Format::f64) return nearest(value);
    const double odd = sticky(value, rest);
    if (direction == Direction::nearest || !std::isfinite(odd)) return nearest(odd);
    const bool up = direction == Direction::up || (direction == Direction::toward_zero && odd < 0);
    const double near = round_to(format, odd), rounded = round_toward(format, odd, up);
    return flushed(std::isinf(near) != std::isinf(rounded) ? near : rounded);  // infinite where the nearest number is
  }
};

}  // namespace attest::emulator::layer_norm
