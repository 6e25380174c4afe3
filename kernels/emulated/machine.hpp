#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "core/contract.hpp"
#include "core/directed.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest::emulator {

using Row = std::vector<double>;

// Arithmetic in a format. Doubles hold sums, products and quotients of the narrow formats well enough for one rounding.
class Machine {
 public:
  Machine(const Contract& contract, const Variant& variant, bool truncates = false)
      : contract_(contract), variant_(variant), truncates_(truncates) {}

  [[nodiscard]] double round(Format f, double x) const { return flushed(f, directed(f, x)); }
  [[nodiscard]] double round(Stage stage, double x) const { return round(contract_.policy[stage], x); }
  // Results inside an accumulator, which may truncate.
  [[nodiscard]] double accumulate(Format f, double x) const {
    if (!truncates_ || f == Format::f64 || !std::isfinite(x)) return round(f, x);
    const double nearest = round_to(f, x);
    if (!(std::fabs(nearest) > std::fabs(x)) || std::isinf(nearest)) return flushed(f, nearest);
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(x), min_exponent(f)) - precision(f) + 1);
    return flushed(f, std::trunc(x / ulp) * ulp);
  }
  [[nodiscard]] double multiply_add(Format f, double a, double b, double c) const {
    if (f == Format::f64) return std::fma(a, b, c);
    const bool floats = a == round_to(f, a) && b == round_to(f, b) && c == round_to(f, c);
    if (f == Format::f32 && !truncates_ && floats && variant_.rounding == Direction::nearest)
      return round(f, std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
    return accumulate(f, std::fma(a, b, c));
  }

  // Adds rounded terms in some order.
  [[nodiscard]] double sum(Format f, Row terms, Order order) const {
    if (terms.empty()) return 0;
    const auto add = [&](double a, double b) { return accumulate(f, a + b); };
    switch (order) {
      case Order::backward:
        std::reverse(terms.begin(), terms.end());
        [[fallthrough]];
      case Order::forward:
        return std::accumulate(terms.begin() + 1, terms.end(), terms.front(), add);
      case Order::lanes: {
        Row lanes(8, 0);
        for (std::size_t n = 0; n < terms.size(); ++n) lanes[n % 8] = add(lanes[n % 8], terms[n]);
        return sum(f, lanes, Order::pairwise);
      }
      case Order::pairwise:
      case Order::random:
        break;
    }
    std::uint64_t key = variant_.seed;
    while (terms.size() > 1) {
      if (order == Order::random) {
        std::swap(terms.back(), terms[below(key = mix(key), terms.size())]);
        const double last = terms.back();
        terms.pop_back();
        double& other = terms[below(key = mix(key), terms.size())];
        other = add(other, last);
      } else {
        Row half;
        for (std::size_t n = 0; n < terms.size(); n += 2)
          half.push_back(n + 1 < terms.size() ? add(terms[n], terms[n + 1]) : terms[n]);
        terms = half;
      }
    }
    return terms.front();
  }

  [[nodiscard]] double dot(Format f, const Row& a, const Row& b, Order order) const {
    if (variant_.fma && (order == Order::forward || order == Order::backward)) {
      double total = 0;
      for (std::size_t n = 0; n < a.size(); ++n) {
        const std::size_t at = order == Order::forward ? n : a.size() - 1 - n;
        total = multiply_add(f, a[at], b[at], total);
      }
      return total;
    }
    Row products(a.size());
    for (std::size_t n = 0; n < a.size(); ++n) products[n] = accumulate(f, a[n] * b[n]);
    return sum(f, products, order);
  }

  // exp(x), or 2^x, in the softmax format with the error that the contract allows.
  [[nodiscard]] double exp(double x, bool base_two) const {
    if (x == -std::numeric_limits<double>::infinity()) return 0;
    if (x == 0) return 1;
    const Format f = contract_.policy[Stage::softmax];
    double value = f == Format::f64 ? static_cast<double>(base_two ? exp2l(x) : expl(x))
                   : base_two       ? std::exp2(x)
                                    : std::exp(x);
    if (variant_.defect == Defect::exp_off) {
      const double octaves = base_two ? x : x * std::numbers::log2e;
      value *= 1 + 1e-3 * std::sin(2 * std::numbers::pi * (octaves - std::floor(octaves)));
    }
    if (!std::isfinite(value)) return round(f, value);
    const Arithmetic& a = contract_.arithmetic;
    const double room = a.exp_rel ? *a.exp_rel * value : (a.exp_ulp - 0.5) * ulp(f, value);
    return round(f, std::max(0.0, value + off(variant_.exp_error, x) * room));
  }

  [[nodiscard]] double tanh(Format f, double x) const {
    const double value = f == Format::f64 ? static_cast<double>(tanhl(x)) : std::tanh(x);
    const Arithmetic& a = contract_.arithmetic;
    const double unit = a.tanh == TanhError::absolute ? 2 * unit_roundoff(f) : ulp(f, value);
    return round(f, value + off(variant_.tanh_error, x) * (a.tanh_ulp - 0.5) * unit);
  }

  [[nodiscard]] double divide(Format f, double x, double y) const {
    const double value = x / y;
    return round(f, value + off(variant_.div_error, value) * (contract_.arithmetic.div_ulp - 0.5) * ulp(f, value));
  }

 private:
  // In f64 the processor's own operations round so, as long as run() says.
  [[nodiscard]] double directed(Format f, double x) const {
    if (variant_.rounding == Direction::nearest || f == Format::f64) return round_to(f, x);
    return round_toward(f, x,
                        variant_.rounding == Direction::up || (variant_.rounding == Direction::toward_zero && x < 0));
  }
  [[nodiscard]] double flushed(Format f, double x) const {
    return contract_.arithmetic.flush_to_zero && std::fabs(x) < smallest_normal(f) ? std::copysign(0.0, x) : x;
  }
  [[nodiscard]] static double ulp(Format f, double x) {
    if (!std::isfinite(x)) return std::fabs(x);
    return std::ldexp(1.0, std::ilogb(std::max(std::fabs(x), smallest_normal(f))) - precision(f) + 1);
  }
  // -0.98 .. 0.98 of what is allowed; never where the value is no number or exactly representable at 0.
  [[nodiscard]] double off(Error error, double x) const {
    if (!std::isfinite(x) || x == 0) return 0;
    switch (error) {
      case Error::none:
        return 0;
      case Error::random:
        return 0.98 * symmetric_uniform(mix(variant_.seed ^ std::bit_cast<std::uint64_t>(x)));
      case Error::up:
        return 0.98;
      case Error::down:
        return -0.98;
    }
    return 0;
  }
  const Contract& contract_;
  const Variant& variant_;
  bool truncates_;
};

}  // namespace attest::emulator
