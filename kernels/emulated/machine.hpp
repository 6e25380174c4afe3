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
#include "kernels/mma.hpp"
#include "kernels/truncating.hpp"

namespace attest::emulator {

using Row = std::vector<double>;

// Arithmetic in a format. Doubles hold sums, products and quotients of the narrow formats well enough for one rounding.
class Machine {
 public:
  Machine(const Contract& contract, const Variant& variant, bool truncates = false, Blocks blocks = Blocks::none)
      : contract_(contract), variant_(variant), truncates_(truncates), blocks_(blocks) {}

  [[nodiscard]] double round(Format f, double x) const { return flushed(f, directed(f, x)); }
  [[nodiscard]] double round(Stage stage, double x) const { return round(contract_.policy[stage], x); }
  // Returns a number as it enters a product.
  [[nodiscard]] double operand(double x) const {
    const Format f = contract_.policy[Stage::operand];
    return variant_.cut_operands ? flushed(f, kernels::truncated(f, x)) : round(f, x);
  }
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

  // Tells whether sums in this format are made of blocks.
  [[nodiscard]] bool in_blocks(Format f) const {
    return blocks_ != Blocks::none && adds_blocks_in(*contract_.arithmetic.mma, f);
  }

  // Adds rounded terms in some order.
  [[nodiscard]] double sum(Format f, Row terms, Order order) const {
    if (in_blocks(f)) return dot(f, terms, Row(terms.size(), 1), order);
    return sum_singly(f, std::move(terms), order);
  }

  [[nodiscard]] double dot(Format f, const Row& a, const Row& b, Order order) const {
    return in_blocks(f) ? blocks_onto(0, f, a, b, order) : dot_singly(f, a, b, order);
  }

  // start + a.b, `start` being where blocks begin.
  [[nodiscard]] double blocks_onto(double start, Format f, Row a, Row b, Order order) const {
    permute(a, order);
    permute(b, order);
    const Index block = static_cast<Index>(contract_.arithmetic.mma->block) * variant_.blocks_at_once;
    Mma mma = *contract_.arithmetic.mma;
    if (variant_.defect == Defect::bits_lost) mma.frac = std::max(1, mma.frac - 3);
    const kernels::MmaUnit unit(mma, f, contract_.policy[Stage::operand]);
    const auto n = static_cast<Index>(a.size());
    const auto flushing = [&](double c, Index at, Index count) {
      return flushed(f, unit.block(c, a.data() + at, 1, b.data() + at, 1, count));
    };
    if (blocks_ == Blocks::apart) {
      Row sums{start};
      for (Index at = 0; at < n; at += block) sums.push_back(flushing(0, at, std::min(block, n - at)));
      return sum_singly(f, sums, order);
    }
    const Index together = blocks_ == Blocks::half ? (n / 2 + block - 1) / block * block : n;
    double total = start;
    for (Index at = 0; at < std::min(n, together); at += block) total = flushing(total, at, std::min(block, n - at));
    for (Index at = together; at < n; ++at)
      total = multiply_add(f, a[static_cast<std::size_t>(at)], b[static_cast<std::size_t>(at)], total);
    return total;
  }
  // exp(x), or 2^x, in the softmax format with the error that the contract allows: all of it.
  [[nodiscard]] double exp(double x, bool base_two, Error error) const {
    if (x == -std::numeric_limits<double>::infinity()) return 0;
    if (x == 0) return 1;
    const Format f = contract_.policy[Stage::softmax];
    long double value = f == Format::f64 ? (base_two ? exp2l(x) : expl(x)) : base_two ? std::exp2(x) : std::exp(x);
    if (variant_.defect == Defect::exp_off) {
      const double octaves = base_two ? x : x * std::numbers::log2e;
      value *= 1 + 1e-3 * std::sin(2 * std::numbers::pi * (octaves - std::floor(octaves)));
    }
    if (!std::isfinite(value)) return round(f, static_cast<double>(value));
    value = std::max(value, std::numeric_limits<long double>::denorm_min());  // exp is never 0
    const Arithmetic& a = contract_.arithmetic;
    const double share = off(error, x, value);
    if (a.exp_rel) return round(f, static_cast<double>(value + value * share * (*a.exp_rel * (1 - 0x1p-24))));
    return std::max(0.0, in_ulps(f, value, share, a.exp_ulp, ulp(f, static_cast<double>(value))));
  }

  [[nodiscard]] double tanh(Format f, double x) const {
    const long double value = f == Format::f64 ? tanhl(x) : std::tanh(x);
    const Arithmetic& a = contract_.arithmetic;
    const double unit = a.tanh == TanhError::absolute ? 2 * unit_roundoff(f) : ulp(f, static_cast<double>(value));
    return in_ulps(f, value, off(variant_.tanh_error, x, value), a.tanh_ulp, unit);
  }

  [[nodiscard]] double divide(Format f, double x, double y) const {
    const long double value = f == Format::f64 ? static_cast<long double>(x) / y : x / y;
    const double quotient = static_cast<double>(value);
    const bool exact = std::fma(quotient, y, -x) == 0;
    return in_ulps(f, value, off(variant_.div_error, quotient, value), contract_.arithmetic.div_ulp, ulp(f, quotient),
                   exact);
  }

 private:
  [[nodiscard]] double sum_singly(Format f, Row terms, Order order) const {
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
        return sum_singly(f, lanes, Order::pairwise);
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

  [[nodiscard]] double dot_singly(Format f, const Row& a, const Row& b, Order order) const {
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
    return sum_singly(f, products, order);
  }

  // The order in which terms enter blocks.
  void permute(Row& terms, Order order) const {
    std::uint64_t key = variant_.seed;
    if (order == Order::backward) std::reverse(terms.begin(), terms.end());
    if (order == Order::lanes) {  // the first of each eight, then the second
      Row apart;
      for (std::size_t lane = 0; lane < 8; ++lane)
        for (std::size_t at = lane; at < terms.size(); at += 8) apart.push_back(terms[at]);
      terms = apart;
    }
    if (order == Order::random)
      for (std::size_t n = terms.size(); n > 1; --n) std::swap(terms[n - 1], terms[below(key = mix(key), n)]);
  }
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
  // Returns a share of the permitted error, -1 .. 1, for a result of `value` at the argument x; 0 where either is no
  // number, or 0, which every format holds.
  [[nodiscard]] double off(Error error, double x, long double value) const {
    constexpr double all = 1;
    if (!std::isfinite(x) || x == 0 || value == 0) return 0;
    const double hashed = symmetric_uniform(mix(variant_.seed ^ std::bit_cast<std::uint64_t>(x)));
    switch (error) {
      case Error::none:
        return 0;
      case Error::random:
        return all * hashed;
      case Error::scattered:
        return std::copysign(all, hashed);
      case Error::up:
        return all;
      case Error::down:
        return -all;
      case Error::outwards:
        return value < 0 ? -all : all;
      case Error::inwards:
        return value < 0 ? all : -all;
      case Error::stepped:
        return x > -0.7 ? all : -all;
      case Error::in_turn:
        return calls_++ % 2 == 0 ? all : -all;
      case Error::by_call:
        return std::copysign(all, symmetric_uniform(mix(variant_.seed ^ calls_++)));
    }
    return 0;
  }
  // Returns the last number of `f` at most |share| ulps of `unit` from the exact `value`, to the side of `share`. It is
  // the number next to the value where `ulps` are those of rounding to nearest.
  [[nodiscard]] double in_ulps(Format f, long double value, double share, double ulps, double unit,
                               bool exact = false) const {
    const double nearest = round(f, static_cast<double>(value));
    if (share == 0 || ulps <= 0.5 || !std::isfinite(value)) return nearest;
    if (std::fabs(share) < 0.99) return round(f, static_cast<double>(value + share * std::max(0.0, ulps - 0.5) * unit));
    // The error that the processor's functions leave in a `value` that is not exact: they are in double, in long double
    // for f64.
    const long double open = exact ? 0 : std::fabs(value) * (f == Format::f64 ? 0x1p-62L : 0x1p-51L);
    const long double reach = static_cast<long double>(ulps) * unit - open;
    const long double end = value + std::copysign(reach, static_cast<long double>(share));
    const long double grid = ulp(f, static_cast<double>(end));
    const auto last = static_cast<double>((share > 0 ? std::floor(end / grid) : std::ceil(end / grid)) * grid);
    // Less than half an ulp reaches the nearest number, if that.
    return std::fabs(last - value) > reach ? nearest : round(f, last);
  }
  const Contract& contract_;
  const Variant& variant_;
  bool truncates_;
  Blocks blocks_;
  mutable std::uint64_t calls_ = 0;  // calls of functions that err by the call
};

}  // namespace attest::emulator
