#include "kernels/mha/sums.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/directed.hpp"
#include "core/rng.hpp"
#include "kernels/mma.hpp"

namespace attest::emulator {
namespace {

class Adder {
 public:
  Adder(const Sums& how, Format format) : how_(how), format_(format) {}

  [[nodiscard]] double round(double x) const {
    if (!how_.truncate || format_ == Format::f64 || !std::isfinite(x)) return flushed(round_to(format_, x));
    if (std::fabs(x) >= overflow_threshold(format_)) return round_to(format_, x);
    return flushed(round_toward(format_, x, x < 0));
  }
  [[nodiscard]] double flushed(double x) const { return how_.flush && std::fabs(x) < smallest_normal(format_) ? 0 : x; }
  [[nodiscard]] double add(double a, double b) const { return round(a + b); }
  [[nodiscard]] double multiply_add(double x, double w, double sum) const {
    // One rounding: f32 needs the operation, what is narrower fits into double but for terms far apart.
    if (format_ == Format::f64) return std::fma(x, w, sum);
    if (format_ == Format::f32 && !how_.truncate)
      return flushed(
          static_cast<double>(std::fma(static_cast<float>(x), static_cast<float>(w), static_cast<float>(sum))));
    return round(std::fma(x, w, sum));
  }
  [[nodiscard]] double tree(std::span<const double> terms) const {
    if (terms.empty()) return 0;
    if (terms.size() == 1) return terms[0];
    const std::size_t half = (terms.size() + 1) / 2;
    return add(tree(terms.first(half)), tree(terms.subspan(half)));
  }

 protected:
  const Sums& how_;
  Format format_;
};

class Sum : Adder {
 public:
  using Adder::Adder;

  double operator()(std::span<const double> x, std::span<const double> w, double bias) const {
    const std::size_t n = x.size();
    const auto splits =
        static_cast<std::size_t>(std::clamp<Index>(how_.splits, 1, std::max<Index>(1, static_cast<Index>(n))));
    double sum = how_.bias_first ? bias : 0;
    if (splits == 1 && how_.bias_first && in_sequence()) return sequence(x, w, sum);
    double total = 0;
    for (std::size_t s = 0; s < splits; ++s) {
      const std::size_t first = n * s / splits, count = n * (s + 1) / splits - first;
      const double part = one(x.subspan(first, count), w.subspan(first, count));
      total = s == 0 ? part : add(total, part);
    }
    return bias != 0 ? add(total, bias) : total;
  }

 private:
  [[nodiscard]] bool in_sequence() const { return how_.order == SumOrder::forward || how_.order == SumOrder::backward; }
  [[nodiscard]] double sequence(std::span<const double> x, std::span<const double> w, double sum) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      const std::size_t c = how_.order == SumOrder::backward ? x.size() - 1 - t : t;
      sum = how_.fma ? multiply_add(x[c], w[c], sum) : add(sum, round(x[c] * w[c]));
    }
    return sum;
  }
  [[nodiscard]] double one(std::span<const double> x, std::span<const double> w) const {
    if (in_sequence()) return sequence(x, w, 0);
    std::vector<double> terms;
    for (std::size_t c = 0; c < x.size(); ++c) terms.push_back(round(x[c] * w[c]));
    switch (how_.order) {
      case SumOrder::pairwise:
        return tree(terms);
      case SumOrder::lanes:
        return lanes(terms);
      case SumOrder::random:
        return random(terms);
      default:
        return greedy(terms);
    }
  }
  [[nodiscard]] double lanes(const std::vector<double>& terms) const {
    const auto count = static_cast<std::size_t>(how_.lanes), block = static_cast<std::size_t>(how_.block);
    std::vector<double> sums(count, 0), part;
    for (std::size_t lane = 0; lane < count; ++lane) {
      part.clear();
      for (std::size_t t = lane; t < terms.size(); t += count) {
        part.push_back(terms[t]);
        if (part.size() < block && t + count < terms.size()) continue;
        sums[lane] = add(sums[lane], tree(part));
        part.clear();
      }
    }
    return tree(sums);
  }
  [[nodiscard]] double random(std::vector<double> terms) const {
    std::uint64_t key = how_.seed;
    while (terms.size() > 1) {
      const std::size_t i = below(key = mix(key), terms.size());
      const double taken = terms[i];
      terms[i] = terms.back();
      terms.pop_back();
      double& other = terms[below(key = mix(key), terms.size())];
      other = add(other, taken);
    }
    return terms.empty() ? 0 : terms[0];
  }
  [[nodiscard]] double greedy(std::vector<double> terms) const {
    double sum = 0;
    while (!terms.empty()) {
      std::size_t best = 0;
      double most = -1e308;
      for (std::size_t t = 0; t < terms.size(); ++t) {
        const double off = how_.side * (add(sum, terms[t]) - (sum + terms[t]));
        if (off > most) {
          most = off;
          best = t;
        }
      }
      sum = add(sum, terms[best]);
      terms[best] = terms.back();
      terms.pop_back();
    }
    return sum;
  }
};

// A sum of blocks of tensor cores, of parts that are added up, some products by themselves where the contract says so.
class BlockSum : Adder {
 public:
  BlockSum(const Sums& how, Format format)
      : Adder(how, format), unit_(*how.mma, format, how.operand.value_or(how.storage)) {}

  double operator()(std::vector<double> x, std::vector<double> w, double bias) const {
    arrange(x, w);
    const auto n = static_cast<Index>(x.size());
    const Index splits = std::clamp<Index>(how_.splits, 1, std::max<Index>(1, n));
    double total = how_.bias_first ? bias : 0;
    for (Index s = 0; s < splits; ++s) {
      const Index first = n * s / splits, last = n * (s + 1) / splits;
      const Index alone = how_.mma->only || how_.fma ? last : first + (last - first) / 2;
      double part = s == 0 ? total : 0;
      const Index size = static_cast<Index>(how_.mma->block) * how_.block;
      for (Index at = first; at < alone; at += size)
        part = flushed(unit_.block(part, x.data() + at, 1, w.data() + at, 1, std::min(size, alone - at)));
      for (Index at = alone; at < last; ++at)
        part = multiply_add(x[static_cast<std::size_t>(at)], w[static_cast<std::size_t>(at)], part);
      total = s == 0 ? part : add(total, part);
    }
    return how_.bias_first || bias == 0 ? total : add(total, bias);
  }

 private:
  void arrange(std::vector<double>& x, std::vector<double>& w) const {
    std::vector<std::size_t> order(x.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (how_.order == SumOrder::backward) std::ranges::reverse(order);
    if (how_.order == SumOrder::random) {
      std::uint64_t key = how_.seed;
      for (std::size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[below(key = mix(key), n)]);
    }
    // The largest term comes first: all later ones are cut to its exponent.
    if (how_.order == SumOrder::greedy)
      std::ranges::stable_sort(
          order, [&](std::size_t a, std::size_t b) { return std::fabs(x[a] * w[a]) > std::fabs(x[b] * w[b]); });
    const std::vector<double> old_x = x, old_w = w;
    for (std::size_t n = 0; n < order.size(); ++n) {
      x[n] = old_x[order[n]];
      w[n] = old_w[order[n]];
    }
  }

  kernels::MmaUnit unit_;
};

// Numbers as they enter.
std::vector<double> entering(const Sums& how, std::span<const double> numbers) {
  std::vector<double> result(numbers.begin(), numbers.end());
  for (double& x : result) {
    if (how.flush && std::fabs(x) < smallest_normal(how.storage)) x = 0;
    if (!how.operand || !std::isfinite(x)) continue;
    x = how.cut_operand ? round_toward(*how.operand, x, x < 0) : round_to(*how.operand, x);
    if (how.flush && std::fabs(x) < smallest_normal(*how.operand)) x = 0;
  }
  return result;
}

}  // namespace

double sum_of_products(const Sums& how, Format format, std::span<const double> x, std::span<const double> w,
                       double bias) {
  if (!how.operand && !how.flush && !how.mma) return Sum(how, format)(x, w, bias);
  const std::vector<double> left = entering(how, x), right = entering(how, w);
  if (how.flush && std::fabs(bias) < smallest_normal(how.storage)) bias = 0;
  if (how.mma && adds_blocks_in(*how.mma, format)) return BlockSum(how, format)(left, right, bias);
  return Sum(how, format)(left, right, bias);
}

}  // namespace attest::emulator
