#include "oracle/layer_norm/drift.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/format.hpp"
#include "oracle/series.hpp"

namespace attest::oracle::layer_norm {
namespace {

constexpr double sum_room = 1.1;  // a sum may lie above what it should be, and past a power of two

// The lowest set bit of x, as a power of two; 0 of 0.
double lowest_bit(double x) { return x == 0 ? 0 : common_grid({&x, 1}); }

// How far the roundings of a sum of squares of short numbers lead it to one side, on average (docs/layer-norm.md, section 10).
class SquaresDrift {
 public:
  // `node`: what the sum comes to, or the longest chain of it.
  SquaresDrift(const Unit& s, double node) : s_(s), node_(node), top_(ulp_exponent(node)) {}

  // z^2, where z is x itself, or x less a number whose lowest bit may be lower than that of x.
  void add(double z, double x) {
    const double bit = lowest_bit(round_to(s_.format, z)), of_x = lowest_bit(x);
    const int least_ulp = bit > 0 ? 2 * std::ilogb(bit) + 1 : top_ + 1;
    if (least_ulp > top_) return;  // never rounded
    if (bit < of_x)
      either_ += std::min(2 * bit * of_x, std::ldexp(0.5, top_));
    else
      squares_[least_ulp] += bit * bit;
  }

  // Of the whole sum: the worst of all lengths of the chains that it may be made of.
  [[nodiscard]] double most() const {
    double worst = 0, path = 0;  // the integral of what is lost, over what the chain has come to
    for (int ulp = squares_.empty() ? top_ + 1 : squares_.begin()->first; ulp <= top_; ++ulp) {
      const double begin = std::ldexp(1.0, ulp - ulp_exponent(1)), end = std::min(2 * begin, node_);
      path += (end - begin) * at(ulp);
      worst = std::max(worst, std::fabs(path) / end);
    }
    return worst + either_;
  }

 private:
  [[nodiscard]] int ulp_exponent(double node) const { return std::ilogb(2 * s_.u) + std::ilogb(node); }
  // What all squares lose or gain where they are added to sums of this ulp.
  [[nodiscard]] double at(int ulp) const {
    double sum = 0;
    for (const auto& [least_ulp, squares] : squares_)
      if (least_ulp <= ulp) sum += least_ulp + 3 <= ulp ? 3 * squares : -squares;
    return sum;
  }

  const Unit& s_;
  double node_;
  int top_;                        // as an exponent of 2: the ulp of node
  std::map<int, double> squares_;  // lowest bits, squared and added up, by the least ulp that rounds them
  double either_ = 0;
};

// The same of a sum of numbers: those of one binade may be equal modulo a grid that the sum's ulp is finer than, or not much coarser,
// as multiples of 2^-10 that an offset has moved are, or short numbers less one of more places. Then their roundings are alike.
class SumDrift {
 public:
  explicit SumDrift(const Unit& s) : s_(s) {}

  // `z`, which is x or x less a number that all share.
  void add(double z, double x) {
    if (x == 0) return;
    Binade& binade = binades_[std::ilogb(x)];
    if (binade.count++ == 0)
      binade.first = x, binade.residue = z;
    else if (x != binade.first)
      binade.grid = std::min(binade.grid, lowest_bit(x - binade.first));
  }

  // Of the whole sum, at the worst ulp of those that a node of at most `node` has.
  [[nodiscard]] double most(double node) const {
    double worst = 0;
    const double top = 2 * s_.u * std::ldexp(1.0, std::ilogb(node));
    for (double ulp = top; ulp > 0 && ulp >= top * 0x1p-24; ulp *= 0.5) {
      double sum = 0;
      for (const auto& [exponent, binade] : binades_)
        if (std::isfinite(binade.grid)) sum += binade.count * binade.lost(ulp);
      worst = std::max(worst, std::fabs(sum));
    }
    return worst;
  }

 private:
  struct Binade {
    double count = 0, first = 0, residue = 0, grid = infinity;
    // What a number of it changes by on average, where it is rounded to multiples of ulp: all of them are residue + k grid.
    [[nodiscard]] double lost(double ulp) const {
      if (ulp > grid) {
        const double above = residue - std::floor(residue / grid) * grid;
        return above == 0 ? 0 : grid / 2 - above;  // ties go either way
      }
      const double steps = std::floor(residue / ulp), above = residue - steps * ulp;
      // A tie leaves the sum even, and what is added to that next goes the same way, unless it is odd by turns.
      if (2 * above == ulp) return ulp == grid ? 0 : std::fmod(steps, 2) == 0 ? -above : above;
      return 2 * above < ulp ? -above : ulp - above;
    }
  };
  const Unit& s_;
  std::map<int, Binade> binades_;  // of x, by exponent
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
  SumDrift drift(m.statistics);
  double largest = 0, whole = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(m.n); ++i) {
    const double x = round_to(format, source.x[i]), z = x - pivot;
    drift.add(z, x);
    largest = std::max(largest, std::fabs(z));
    whole += std::fabs(z);
  }
  const double node = largest_node(m, whole, largest);
  return node > 0 && std::isfinite(node) ? drift.most(node) / m.n : 0;
}

double drift_of_squares(const Numbers& m, const SourceRow& source, const Statistics& row, double squares) {
  if (!m.rms && m.variance == Variance::welford) return 0;
  const Format format = m.statistics.format;
  const bool about_mean = !m.rms && !m.one_pass_like;
  const double pivot = !m.rms && m.variance == Variance::shifted ? round_to(format, source.x[0]) : 0;
  const auto squared = [&](std::size_t i) {
    return about_mean ? static_cast<double>(row.d[i]) : round_to(format, source.x[i]) - pivot;
  };
  const auto n = static_cast<std::size_t>(m.n);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, square(squared(i)));
  const double node = largest_node(m, m.n * squares, largest);
  if (!(node > 0 && std::isfinite(node))) return 0;
  SquaresDrift drift(m.statistics, node);
  for (std::size_t i = 0; i < n; ++i) drift.add(squared(i), round_to(format, source.x[i]));
  return drift.most() / m.n;
}

}  // namespace attest::oracle::layer_norm
