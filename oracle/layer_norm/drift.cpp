#include "oracle/layer_norm/drift.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/format.hpp"
#include "oracle/last_bit.hpp"
#include "oracle/layer_norm/lent.hpp"
#include "oracle/series.hpp"
#include "oracle/sum_drift.hpp"

namespace attest::oracle::layer_norm {
namespace {

constexpr double sum_room = 1.1;  // a sum may lie above what it should be, and past a power of two

// floor(log2 |x|) of a finite x that is not 0.
int exponent_of(double x) {
  const int biased = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
  return biased > 0 ? biased - 1023 : std::ilogb(x);
}

double power_of_two(int exponent) {
  if (exponent < -1022 || exponent > 1023) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// How far the roundings of a sum of squares of short numbers lead it to one side, on average (docs/layer-norm.md, section 10).
class SquaresDrift {
 public:
  // `node`: what the sum comes to, or the longest chain of it.
  SquaresDrift(const Unit& s, double node)
      : s_(s), node_(node), top_(ulp_exponent(node)), lowest_(last_bit(2 * half_smallest_subnormal(s.format))) {
    // Of higher bits no square is rounded.
    const int highest = (top_ - 1) >> 1;
    if (highest >= lowest_) counts_.resize(static_cast<std::size_t>(highest - lowest_) + 1);
  }

  // z^2, where z is x itself, or x less a number whose lowest bit may be lower than that of x; z in the format of the sum.
  void add(double z, double x) {
    if (z == 0) return;
    const int bit = last_bit(z);
    const auto at = static_cast<std::size_t>(bit - lowest_);
    if (at >= counts_.size()) return;
    const int of_x = x == 0 ? bit : last_bit(x);
    const bool either = bit < of_x;
    either_ += power_of_two(std::min(bit + of_x + 1, top_ - 1)) * static_cast<double>(either);
    counts_[at] += !either;
  }

  // Of the whole sum: the worst of all lengths of the chains that it may be made of.
  [[nodiscard]] double most() const {
    const auto first = static_cast<std::size_t>(
        std::ranges::find_if(counts_, [](std::int64_t count) { return count > 0; }) - counts_.begin());
    double worst = 0, path = 0;  // the integral of what is lost, over what the chain has come to
    double gained = 0;           // by squares whose bits lie far below the ulp
    const int least = least_ulp(first);
    double begin = power_of_two(least - ulp_exponent(1));
    for (int ulp = least; ulp <= top_; ++ulp, begin *= 2) {
      // Three ulps on from the least one that rounds it, a square is led the other way. Least ones are odd.
      const std::size_t near = first + static_cast<std::size_t>(ulp - least) / 2;
      if ((ulp - least) % 2 != 0 && near > first) gained += 3 * squares(near - 1);
      double lost = gained;
      if ((ulp - least) % 2 == 0 && near > first) lost -= squares(near - 1);
      lost -= squares(near);
      const double end = std::min(2 * begin, node_);
      path += (end - begin) * lost;
      worst = std::max(worst, std::fabs(path) / end);
    }
    return worst + either_;
  }

 private:
  [[nodiscard]] int ulp_exponent(double node) const { return exponent_of(2 * s_.u) + exponent_of(node); }
  [[nodiscard]] int least_ulp(std::size_t at) const { return 2 * (lowest_ + static_cast<int>(at)) + 1; }
  // What those of one lowest bit come to without the rest of them.
  [[nodiscard]] double squares(std::size_t at) const {
    return static_cast<double>(counts_[at]) * square(power_of_two(lowest_ + static_cast<int>(at)));
  }

  const Unit& s_;
  double node_;
  int top_;                           // as an exponent of 2: the ulp of node
  int lowest_;                        // exponent of the lowest bit that there is
  std::vector<std::int64_t> counts_;  // of numbers, by their lowest bit from there on
  double either_ = 0;
};

// The same of a sum of numbers: those of one binade may be equal modulo a grid that the sum's ulp is finer than, or not much coarser,
// as multiples of 2^-10 that an offset has moved are, or short numbers less one of more places. Then their roundings are alike.
class SumDrift {
 public:
  // Of x that are 0, or from `least` to `largest` in magnitude.
  SumDrift(const Unit& s, double least, double largest)
      : s_(s), lowest_(exponent_of(least)), binades_(static_cast<std::size_t>(exponent_of(largest) - lowest_ + 1)) {}

  // `z`, which is x or x less a number that all share.
  void add(double z, double x) {
    if (x == 0) return;
    Binade& binade = binades_[static_cast<std::size_t>(exponent_of(x) - lowest_)];
    if (binade.count++ == 0)
      binade.first = x, binade.residue = z;
    else if (x != binade.first)
      binade.last_bit = std::min(binade.last_bit, last_bit(x - binade.first));
  }

  // Of the whole sum, at the worst ulp of those that a node of at most `node` has.
  double most(double node) {
    std::erase_if(binades_, [](const Binade& binade) { return binade.last_bit == Binade::none; });
    double finest = infinity;  // of it and below nothing is lost
    for (Binade& binade : binades_) {
      binade.grid = power_of_two(binade.last_bit);
      const double above = binade.residue - std::floor(binade.residue / binade.grid) * binade.grid;
      binade.lost_past_grid = binade.count * (above == 0 ? 0 : binade.grid / 2 - above);  // ties go either way
      finest = std::min({finest, binade.grid, binade.residue == 0 ? infinity : power_of_two(last_bit(binade.residue))});
    }
    double worst = 0;
    const double top = 2 * s_.u * power_of_two(exponent_of(node));
    for (double ulp = top; ulp > finest && ulp >= top * 0x1p-24; ulp *= 0.5) {
      double sum = 0;
      for (const Binade& binade : binades_)
        sum += ulp > binade.grid ? binade.lost_past_grid : binade.count * binade.lost(ulp);
      worst = std::max(worst, std::fabs(sum));
    }
    return worst;
  }

 private:
  struct Binade {
    static constexpr int none = 2000;
    double count = 0, first = 0, residue = 0;
    int last_bit = none;  // of all differences from the first
    double grid = 0;      // that, as a number
    // What its numbers change by, where they are rounded to multiples of an ulp above the grid: all of them are residue + k grid.
    double lost_past_grid = 0;
    // What one of them does at an ulp that is none.
    [[nodiscard]] double lost(double ulp) const {
      const double steps = std::floor(residue / ulp), above = residue - steps * ulp;
      // A tie leaves the sum even, and what is added to that next goes the same way, unless it is odd by turns.
      if (2 * above == ulp) return ulp == grid ? 0 : std::fmod(steps, 2) == 0 ? -above : above;
      return 2 * above < ulp ? -above : ulp - above;
    }
  };
  const Unit& s_;
  int lowest_;                   // exponent of the least x
  std::vector<Binade> binades_;  // of x, by exponent from there on
};

// The largest sum that a single number of at most `largest` is added to, of those that come to `whole`.
double largest_node(const Numbers& m, double whole, double largest) {
  return std::min(whole, (m.additions + 1) * largest) * sum_room;
}

}  // namespace

double drift_of_mean(const Numbers& m, const SourceRow& source) {
  if (m.rms || m.variance == Variance::welford) return 0;
  const Format format = m.statistics.format;
  const double pivot = m.variance == Variance::shifted ? round_to(format, source.x[0]) : 0;
  double largest = 0, whole = 0, least_x = infinity, largest_x = 0;
  const auto n = static_cast<std::size_t>(m.n);
  for (std::size_t i = 0; i < n; ++i) {
    const double x = round_to(format, source.x[i]), z = x - pivot, size = std::fabs(x);
    if (size > 0) least_x = std::min(least_x, size);
    largest_x = std::max(largest_x, size);
    largest = std::max(largest, std::fabs(z));
    whole += std::fabs(z);
  }
  const double node = largest_node(m, whole, largest);
  if (!(node > 0 && std::isfinite(node))) return 0;
  SumDrift drift(m.statistics, least_x, largest_x);
  for (std::size_t i = 0; i < n; ++i) {
    const double x = round_to(format, source.x[i]);
    drift.add(x - pivot, x);
  }
  return drift.most(node) / m.n;
}

double drift_of_squares(const Numbers& m, const SourceRow& source, const Statistics& row, double squares) {
  if (!m.rms && m.variance == Variance::welford) return 0;
  const Format format = m.statistics.format;
  const bool about_mean = !m.rms && !m.one_pass_like;
  const double pivot = !m.rms && m.variance == Variance::shifted ? round_to(format, source.x[0]) : 0;
  const auto n = static_cast<std::size_t>(m.n);
  std::vector<double> z = LentRows::take((n + lane_count - 1) / lane_count * lane_count);
  const Returned given_back(z);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    z[i] = about_mean ? static_cast<double>(row.d[i]) : round_to(format, source.x[i]) - pivot;
    largest = std::max(largest, std::fabs(z[i]));
  }
  const double node = largest_node(m, m.n * squares, square(largest));
  if (!(node > 0 && std::isfinite(node))) return 0;
  SquaresDrift drift(m.statistics, node);
  for (std::size_t i = 0; i < n; ++i) {
    z[i] = round_to(format, z[i]);
    drift.add(z[i], round_to(format, source.x[i]));
    z[i] *= z[i];
  }
  std::fill(z.begin() + static_cast<std::ptrdiff_t>(n), z.end(), 0.0);
  constexpr int levels = 4;  // of lanes
  return std::max(drift.most(), drift_of_sum(z, 1, square(largest), node, m.statistics.u, levels)) / m.n;
}

}  // namespace attest::oracle::layer_norm
