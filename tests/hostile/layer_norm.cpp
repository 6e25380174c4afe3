#include "tests/hostile/layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hostile {

std::uint64_t Dice::operator()(std::uint64_t sides) {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return (state_ * 0x2545f4914f6cdd1d >> 33) % sides;
}

namespace {

using Numbers = std::vector<double>;

class Row {
 public:
  Row(const NormPromise& promise, const NormLiberties& how, Dice dice) : p_(promise), how_(how), dice_(dice) {}

  NormRow operator()(std::span<const double> x, std::span<const double> residual, std::span<const double> gamma,
                     std::span<const double> beta) {
    NormRow row;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double v = input(x[i], p_.storage);
      if (!residual.empty()) {
        v = maybe_flushed(add(v, input(residual[i], p_.storage), p_.sum), p_.sum);
        const double stored = maybe_flushed(nearest(v, p_.storage), p_.storage);
        row.sum_out.push_back(stored);
        if (!p_.unrounded_sum) v = stored;
      }
      x_.push_back(v);
    }
    for (const double v : x_) seen_.push_back(nearest(v, p_.statistics));
    arrange();
    statistics();
    root();
    for (std::size_t i = 0; i < x_.size(); ++i)
      row.out.push_back(maybe_flushed(nearest(element(i, gamma, beta), p_.output), p_.output));
    return row;
  }

 private:
  // ---- what may become zero
  double maybe_flushed(double v, const Format& format) {
    if (p_.flush == "no" || how_.flushes == 0 || (how_.flushes == 2 && dice_.one_in(2))) return v;
    return flushed(v, format);
  }
  double input(double v, const Format& format) { return p_.flush == "inputs" ? maybe_flushed(v, format) : v; }

  // ---- operations of the statistics
  double directed(double a, double b) {
    const Format& s = p_.statistics;
    if (how_.direction == 0 || is_f64(s)) return maybe_flushed(add(a, b, s), s);
    const double total = a + b, odd = to_odd(total, rest_of_sum(a, b, total));
    const double near = nearest(odd, s);
    if (!std::isfinite(near) || near == odd) return maybe_flushed(near, s);
    const bool up = how_.direction == 2 || (how_.direction == 4 && dice_.one_in(2)) || (how_.direction == 1 && odd < 0);
    double cut = toward_zero(odd, s);  // the neighbour on the side of 0, or the other
    if (up != (odd < 0)) cut = nearest(cut + std::copysign(step(cut, s), odd), s);
    return maybe_flushed(std::isfinite(cut) ? cut : near, s);
  }
  double times(double a, double b) { return maybe_flushed(multiply(a, b, p_.statistics), p_.statistics); }
  double over(double a, double b) { return maybe_flushed(exact_quotient(a, b, p_.statistics), p_.statistics); }
  // sum + a b, with one rounding where that is exact to do.
  double plus_product(double sum, double a, double b) {
    if (!how_.fused || how_.direction != 0) return directed(sum, times(a, b));
    return maybe_flushed(fused(a, b, sum, p_.statistics), p_.statistics);
  }
  double mean_of(double sum) {
    const double n = nearest(static_cast<double>(x_.size()), p_.statistics);
    return how_.reciprocal ? times(sum, over(1, n)) : over(sum, n);
  }

  // ---- trees
  void arrange() {
    std::vector<std::size_t> order(seen_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto by = [&](auto key) {
      std::stable_sort(order.begin(), order.end(), [&](auto i, auto j) { return key(seen_[i]) < key(seen_[j]); });
    };
    if (how_.order == 1) std::reverse(order.begin(), order.end());
    if (how_.order == 2) by([](double v) { return std::fabs(v); });
    if (how_.order == 3) by([](double v) { return -std::fabs(v); });
    if (how_.order == 4) by([](double v) { return v; });
    if (how_.order == 6) by([](double v) { return v < 0 ? 0.0 : 1.0; });
    if (how_.order == 5)
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice_(i)]);
    Numbers arranged;
    for (const std::size_t i : order) arranged.push_back(seen_[i]);
    first_ = seen_.empty() ? 0 : seen_[0];
    seen_ = arranged;
  }

  // term(sum, i) adds term i to a sum.
  template <class Term>
  double tree(std::size_t begin, std::size_t end, double levels, const Term& term) {
    const std::size_t count = end - begin;
    // One by one, where depth is left for it: the first addition, to 0, loses nothing.
    if (count < 2 || (static_cast<double>(count - 1) <= levels && dice_.one_in(2))) {
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum = term(sum, i);
      return sum;
    }
    // Splits the sum as unevenly as both halves may be.
    const double room = std::exp2(std::min(levels - 1, 60.0));
    const auto most = static_cast<std::size_t>(std::min(room, static_cast<double>(count - 1)));
    const std::size_t least = count > most ? count - most : 1;
    const std::size_t left = std::min(count - 1, dice_.one_in(2) ? most : least + dice_(most - least + 1));
    return directed(tree(begin, begin + left, levels - 1, term), tree(begin + left, end, levels - 1, term));
  }

  template <class Term>
  double total(const Term& term) {
    const std::size_t n = seen_.size();
    if (how_.tree == 3) return tree(0, n, p_.depth, term);
    if (how_.tree == 2) return tree_of_halves(0, n, term);
    const auto lanes = static_cast<std::size_t>(how_.tree == 1 ? how_.lanes : 1);
    Numbers parts(std::min(lanes, n), 0.0);
    for (std::size_t i = 0; i < n; ++i) parts[i % parts.size()] = term(parts[i % parts.size()], i);
    while (parts.size() > 1) {
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i + half < parts.size(); ++i) parts[i] = directed(parts[i], parts[i + half]);
      parts.resize(half);
    }
    return parts[0];
  }
  template <class Term>
  double tree_of_halves(std::size_t begin, std::size_t end, const Term& term) {
    if (end - begin == 1) return term(0.0, begin);
    const std::size_t middle = begin + (end - begin + 1) / 2;
    return directed(tree_of_halves(begin, middle, term), tree_of_halves(middle, end, term));
  }
  double sum_of(const Numbers& w) {
    return total([&](double sum, std::size_t i) { return directed(sum, w[i]); });
  }
  double squares_of(const Numbers& w) {
    return total([&](double sum, std::size_t i) { return plus_product(sum, w[i], w[i]); });
  }
  Numbers less(double from) {
    Numbers d;
    for (const double v : seen_) d.push_back(directed(v, -from));
    return d;
  }

  void statistics() {
    if (p_.rms) {
      variance_ = mean_of(squares_of(seen_));
    } else if (p_.variance == "two_pass" || p_.variance == "two_pass_corrected") {
      mean_ = mean_of(sum_of(seen_));
      const Numbers d = less(mean_);
      variance_ = mean_of(squares_of(d));
      if (p_.variance == "two_pass") return;
      const double left = mean_of(sum_of(d));
      variance_ = plus_product(variance_, -left, left);
    } else if (p_.variance == "welford") {
      welford();
    } else {
      const bool shifted = p_.variance == "shifted";
      const Numbers z = shifted ? less(first_) : seen_;
      const double mean = mean_of(sum_of(z)), square = mean_of(squares_of(z));
      variance_ = plus_product(square, -mean, mean);
      if (p_.clamp && !(variance_ > 0)) variance_ = 0;
      mean_ = shifted ? directed(first_, mean) : mean;
    }
  }

  struct Part {
    double n = 0, mean = 0, squares = 0;
  };
  void welford() {
    const auto lanes = std::size_t{1} << p_.merge_depth;
    std::vector<Part> parts(p_.merge == "none" ? 1 : std::min(lanes, seen_.size()));
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      Part& part = parts[i % parts.size()];
      part.n += 1;
      if (part.n == 1) {
        part.mean = seen_[i];
        continue;
      }
      const double k = nearest(part.n, p_.statistics), before = directed(seen_[i], -part.mean);
      const double mean =
          how_.reciprocal ? plus_product(part.mean, before, over(1, k)) : directed(part.mean, over(before, k));
      part.squares = plus_product(part.squares, before, directed(seen_[i], -mean));
      part.mean = mean;
    }
    while (parts.size() > 1) {
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i + half < parts.size(); ++i) parts[i] = merged(parts[i], parts[i + half]);
      parts.resize(half);
    }
    mean_ = parts[0].mean;
    variance_ = mean_of(parts[0].squares);
  }
  Part merged(const Part& a, const Part& b) {
    const double n = a.n + b.n, share = over(b.n, n), apart = directed(b.mean, -a.mean);
    double mean = 0;
    if (p_.merge == "delta")
      mean = plus_product(a.mean, apart, share);
    else if (how_.merge_form % 2)
      mean = over(directed(times(a.n, a.mean), times(b.n, b.mean)), n);
    else
      mean = directed(times(over(a.n, n), a.mean), times(share, b.mean));
    const double between = how_.merge_form % 3 == 0   ? times(times(apart, apart), times(a.n, share))
                           : how_.merge_form % 3 == 1 ? over(times(times(times(apart, apart), a.n), b.n), n)
                                                      : times(times(times(apart, apart), a.n), share);
    return {n, mean, directed(directed(a.squares, b.squares), between)};
  }

  void root() {
    const Format& s = p_.statistics;
    const double a = directed(variance_, maybe_flushed(nearest(p_.epsilon, s), s));
    square_root_ = maybe_flushed(nearest(std::sqrt(a), s), s);
    scale_ = over(1, square_root_);
    if (how_.side == 0 || !std::isfinite(scale_) || scale_ == 0) return;
    const long double exact = 1 / std::sqrt(static_cast<long double>(a));
    scale_ = p_.rsqrt_rel > 0 ? off_before_rounding(exact, p_.rsqrt_rel, how_.side, s)
                              : at_edge(exact, p_.rsqrt_ulp, how_.side, s);
  }

  // ---- an element
  double n_times(double a, double b) { return maybe_flushed(multiply(a, b, p_.normalise), p_.normalise); }
  double n_plus(double a, double b) { return maybe_flushed(add(a, b, p_.normalise), p_.normalise); }
  double a_times(double a, double b) { return maybe_flushed(multiply(a, b, p_.affine), p_.affine); }
  double a_plus(double a, double b) { return maybe_flushed(add(a, b, p_.affine), p_.affine); }
  double in_n(double v) { return maybe_flushed(nearest(v, p_.normalise), p_.normalise); }
  double in_a(double v) { return maybe_flushed(nearest(v, p_.affine), p_.affine); }
  double a_fused(double a, double b, double c) {
    return how_.fused ? maybe_flushed(fused(a, b, c, p_.affine), p_.affine) : a_plus(a_times(a, b), c);
  }

  double element(std::size_t i, std::span<const double> gamma, std::span<const double> beta) {
    double g = gamma.empty() ? 1 : in_a(maybe_flushed(gamma[i], p_.params));
    const double b = beta.empty() ? 0 : in_a(input(beta[i], p_.params));
    const bool late =
        how_.late_gamma && p_.gamma_offset == 1 && !gamma.empty() && (p_.form == "centred" || p_.form == "scale_bias");
    if (p_.gamma_offset == 1 && !gamma.empty() && !late) g = a_plus(1, g);
    const double x = in_n(x_[i]);
    if (p_.form == "folded") {
      const double rg = a_times(in_a(scale_), g), m = in_a(mean_);
      const double shift =
          how_.fused ? maybe_flushed(fused(-m, rg, b, p_.affine), p_.affine) : a_plus(b, -a_times(m, rg));
      return a_fused(in_a(x_[i]), rg, shift);
    }
    const double d = p_.rms ? x : n_plus(x, -in_n(mean_));
    if (p_.form == "weighted_scale") return a_fused(in_a(d), a_times(in_a(scale_), g), b);
    double t = 0;
    if (p_.form == "scale_bias" && !p_.rms) {
      const double r = in_n(scale_);
      t = n_plus(n_times(x, r), n_times(-in_n(mean_), r));
    } else if (how_.divide && how_.side == 0) {
      t = maybe_flushed(exact_quotient(d, in_n(square_root_), p_.normalise), p_.normalise);
    } else {
      t = n_times(d, in_n(scale_));
    }
    if (p_.norm_rounded) t = maybe_flushed(nearest(t, p_.storage), p_.storage);
    t = in_a(t);
    return late ? a_plus(a_fused(t, g, t), b) : a_fused(t, g, b);
  }

  const NormPromise& p_;
  const NormLiberties& how_;
  Dice dice_;
  Numbers x_, seen_;
  double first_ = 0, mean_ = 0, variance_ = 0, square_root_ = 0, scale_ = 0;
};

}  // namespace

NormRow norm_row(const NormPromise& promise, const NormLiberties& liberties, std::span<const double> x,
                 std::span<const double> residual, std::span<const double> gamma, std::span<const double> beta) {
  return Row(promise, liberties, Dice(liberties.seed))(x, residual, gamma, beta);
}

}  // namespace hostile
