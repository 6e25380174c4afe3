// Sums of products in any order that a contract permits, each operation rounded to the accumulator's format.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "blocks.hpp"
#include "format.hpp"
#include "scheme.hpp"

namespace hostile {

/// Sums of coefficient times row, column by column.
class Summer {
 public:
  /// `wide`: factors have more than 26 bits, so that their product is not exact in double. `least_factor`: the exponent
  /// of their smallest normal number.
  Summer(const Summation& how, const Format& format, bool wide, bool flush, int least_factor)
      : how_(how), format_(format), wide_(wide), flush_(flush), least_factor_(least_factor) {
    if (wide && !is_f64(format)) how_.fma = false;
    // Sums that a result of the unit does not hold are made elsewhere.
    if (is_f64(format) || (how.blocks.fraction == 10 && format.name != "f16")) how_.blocks.size = 0;
  }

  /// out[c] = start[c] + sum over t of coefficients[t] rows[t][c]; start may be null. No terms and no start: 0.
  /// `directions`: the side to which each column shall err, 0 for none, of which greedy orders make use; empty: up.
  void operator()(std::span<const double> coefficients, std::span<const double* const> rows, std::size_t width,
                  const double* start, double* out, std::size_t column, std::span<const int> directions = {}) const {
    if (how_.order == Order::greedy && how_.blocks.size == 0)
      return run_greedy(coefficients, rows, width, start, out, directions);
    if (how_.blocks.size > 0) return run_blocks(coefficients, rows, width, start, out, column);
    const bool plain = !how_.truncate && !how_.fma && !wide_ && !flush_;
    if (plain && format_.precision == 24)
      run([](double a, double b) { return static_cast<double>(static_cast<float>(a + b)); },
          [](double a, double b) { return static_cast<double>(static_cast<float>(a * b)); }, coefficients, rows, width,
          start, out, column);
    else if (plain && is_f64(format_))
      run([](double a, double b) { return a + b; }, [](double a, double b) { return a * b; }, coefficients, rows, width,
          start, out, column);
    else if (plain)
      run([this](double a, double b) { return nearest(a + b, format_); },
          [this](double a, double b) { return nearest(a * b, format_); }, coefficients, rows, width, start, out,
          column);
    else
      run([this](double a, double b) { return sum(a, b); }, [this](double a, double b) { return times(a, b); },
          coefficients, rows, width, start, out, column);
  }

  /// One product rounded as the accumulator does: a running sum rescaled.
  double times(double a, double b) const {
    const double product = a * b;
    return rounded(product, std::fma(a, b, -product));
  }

  double sum(double a, double b) const {
    const double total = a + b;
    return rounded(total, rest_of_sum(a, b, total));
  }

 private:
  double fused_term(double a, double b, double c) const {
    if (!is_f64(format_)) return sum(a * b, c);
    const double total = std::fma(a, b, c);
    if (!how_.truncate) return flushed(total);
    const double product = a * b;
    const double low = std::fma(a, b, -product);
    return truncated(total, rest_of_sum(product, c, product + c) + (low + ((product + c) - total)));
  }

  double rounded(double value, double rest) const {
    if (is_f64(format_)) return how_.truncate ? truncated(value, rest) : flushed(value);
    const double odd = to_odd(value, rest);
    return flushed(how_.truncate ? toward_zero(odd, format_) : nearest(odd, format_));
  }

  double truncated(double value, double rest) const {
    // Near the end of the range the rest may be no number: then the value stays the nearest one, whatever its sign is.
    const bool away = value > 0 ? rest < 0 : rest > 0;
    if (away && std::isfinite(value) && std::isfinite(rest) && value != 0) value = std::nextafter(value, 0);
    return flushed(value);
  }

  double flushed(double value) const {
    return flush_ && std::fabs(value) < format_.normal ? std::copysign(0.0, value) : value;
  }

  void run_blocks(std::span<const double> coefficients, std::span<const double* const> rows, std::size_t width,
                  const double* start, double* out, std::size_t column) const {
    std::vector<std::size_t> terms(coefficients.size());
    std::iota(terms.begin(), terms.end(), std::size_t{0});
    sort(terms, coefficients, rows, column);
    std::vector<std::size_t> together, singly;
    for (std::size_t n = 0; n < terms.size(); ++n)
      (how_.blocks.joining == Joining::some && n % 3 == 2 ? singly : together).push_back(terms[n]);
    const auto size = static_cast<std::size_t>(how_.blocks.size);
    const std::vector<Factors> zeros(size, Factors{0, 0});
    std::vector<Factors> block;
    for (std::size_t c = 0; c < width; ++c) {
      double total = start != nullptr ? start[c] : 0;
      const auto unit = [&](double so_far) {
        return flushed(block_sum(how_.blocks, so_far, block, least_factor_, format_));
      };
      for (std::size_t at = 0, single = 0; at < together.size() || single < singly.size(); at += size) {
        block.clear();
        for (std::size_t n = at; n < std::min(at + size, together.size()); ++n)
          block.push_back({coefficients[together[n]], rows[together[n]][c]});
        if (how_.blocks.idle) total = flushed(block_sum(how_.blocks, total, zeros, least_factor_, format_));
        if (how_.blocks.joining == Joining::apart)
          total = sum(total, unit(0));
        else
          total = unit(total);
        for (std::size_t end = std::min(single + size / 2 + 1, singly.size()); single < end; ++single)
          total = how_.fma ? fused_term(coefficients[singly[single]], rows[singly[single]][c], total)
                           : sum(total, times(coefficients[singly[single]], rows[singly[single]][c]));
      }
      out[c] = total;
    }
  }

  /// Chains, one for each lane, in which the next term is the one whose rounding moves the sum farthest to the wanted
  /// side. Lanes are joined in pairs.
  void run_greedy(std::span<const double> coefficients, std::span<const double* const> rows, std::size_t width,
                  const double* start, double* out, std::span<const int> directions) const {
    const std::size_t n = coefficients.size(), lanes = std::min(n, static_cast<std::size_t>(how_.lanes));
    std::vector<double> partial(lanes);
    struct Term {
      double a, b, product, rounded;
    };
    std::vector<Term> left;
    for (std::size_t c = 0; c < width; ++c) {
      const double side = directions.empty() ? 1 : directions[c];
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        left.clear();
        for (std::size_t t = lane; t < n; t += lanes) {
          const double a = coefficients[t], b = rows[t][c];
          left.push_back({a, b, a * b, times(a, b)});
        }
        std::size_t first = 0;
        if (how_.lanes_in_pairs) {  // first all of one sign, so that what is rounded is large
          const auto rest =
              std::stable_partition(left.begin(), left.end(), [&](const Term& t) { return t.product * side > 0; });
          first = static_cast<std::size_t>(rest - left.begin());
        }
        bool begun = lanes == 1 && start != nullptr;
        double total = begun ? start[c] : 0;
        while (!left.empty()) {
          std::size_t best = 0;
          double farthest = 0, reached = 0;
          for (std::size_t at = 0; at < (first > 0 ? first : left.size()); ++at) {
            const auto& [a, b, product, rounded] = left[at];
            const double next = !begun ? rounded : how_.fma ? fused_term(a, b, total) : sum(total, rounded);
            const double exact = begun ? total + product : product;
            const double rest = begun ? rest_of_sum(total, product, exact) : 0;
            const double off = side * ((next - exact) - rest);
            if (at == 0 || off > farthest || (std::isnan(farthest) && !std::isnan(off))) {
              best = at;
              farthest = off;
              reached = next;
            }
          }
          total = reached;
          begun = true;
          first -= first > 0 ? 1 : 0;
          left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
        }
        partial[lane] = total;
      }
      for (std::size_t apart = 1; apart < lanes; apart *= 2)
        for (std::size_t lane = 0; lane + apart < lanes; lane += 2 * apart)
          partial[lane] = sum(partial[lane], partial[lane + apart]);
      if (lanes == 0)
        out[c] = start != nullptr ? start[c] : 0;
      else
        out[c] = lanes > 1 && start != nullptr ? sum(partial[0], start[c]) : partial[0];
    }
  }

  template <class Add, class Times>
  void run(const Add& add, const Times& times, std::span<const double> coefficients,
           std::span<const double* const> rows, std::size_t width, const double* start, double* out,
           std::size_t column) const {
    std::vector<std::size_t> terms(coefficients.size());
    std::iota(terms.begin(), terms.end(), std::size_t{0});
    sort(terms, coefficients, rows, column);
    const auto first = [&](std::size_t t, double* into) {
      for (std::size_t c = 0; c < width; ++c) into[c] = times(coefficients[t], rows[t][c]);
    };
    const auto next = [&](std::size_t t, double* into) {
      const double factor = coefficients[t];
      const double* row = rows[t];
      if (how_.fma)
        for (std::size_t c = 0; c < width; ++c) into[c] = fused_term(factor, row[c], into[c]);
      else
        for (std::size_t c = 0; c < width; ++c) into[c] = add(into[c], times(factor, row[c]));
    };
    const auto join = [&](double* into, const double* other) {
      for (std::size_t c = 0; c < width; ++c) into[c] = add(into[c], other[c]);
    };
    if (terms.empty()) {
      for (std::size_t c = 0; c < width; ++c) out[c] = start != nullptr ? start[c] : 0;
      return;
    }
    if (how_.order != Order::pairs && how_.order != Order::lanes) {
      std::size_t done = 0;
      if (start == nullptr)
        first(terms[done++], out);
      else
        std::copy(start, start + width, out);
      for (; done < terms.size(); ++done) next(terms[done], out);
      return;
    }
    const std::size_t lanes =
        how_.order == Order::pairs ? terms.size() : std::min(terms.size(), static_cast<std::size_t>(how_.lanes));
    std::vector<double> partial(lanes * width);
    for (std::size_t t = 0; t < terms.size(); ++t) {
      double* lane = partial.data() + (t % lanes) * width;
      t < lanes ? first(terms[t], lane) : next(terms[t], lane);
    }
    const std::size_t pairs = how_.order == Order::pairs || how_.lanes_in_pairs ? lanes : 0;
    for (std::size_t apart = 1; apart < pairs; apart *= 2)
      for (std::size_t lane = 0; lane + apart < lanes; lane += 2 * apart)
        join(partial.data() + lane * width, partial.data() + (lane + apart) * width);
    if (pairs == 0)
      for (std::size_t lane = 1; lane < lanes; ++lane) join(partial.data(), partial.data() + lane * width);
    std::copy(partial.begin(), partial.begin() + static_cast<std::ptrdiff_t>(width), out);
    if (start != nullptr) join(out, start);
  }

  void sort(std::vector<std::size_t>& terms, std::span<const double> coefficients, std::span<const double* const> rows,
            std::size_t column) const {
    const auto by = [&](auto key) {
      std::stable_sort(terms.begin(), terms.end(), [&](std::size_t a, std::size_t b) {
        const double x = key(a), y = key(b);
        return x < y;
      });
    };
    switch (how_.order) {
      case Order::backward:
        std::reverse(terms.begin(), terms.end());
        break;
      case Order::rising:
        by([&](std::size_t t) { return size_of(coefficients[t]); });
        break;
      case Order::falling:
        by([&](std::size_t t) { return -size_of(coefficients[t]); });
        break;
      case Order::by_value:
        by([&](std::size_t t) { return value_of(coefficients[t] * rows[t][column]); });
        break;
      default:
        break;
    }
  }

  // A NaN must not spoil the order that a sort needs.
  static double size_of(double x) { return std::isnan(x) ? INFINITY : std::fabs(x); }
  static double value_of(double x) { return std::isnan(x) ? INFINITY : x; }

  Summation how_;
  Format format_;
  bool wide_, flush_;
  int least_factor_;
};

}  // namespace hostile
