#include "oracle/layer_norm/statistics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "oracle/last_bit.hpp"

namespace attest::oracle::layer_norm {
namespace {

// The error of refer(), at most: relative to the row's range for the mean, unless it is exact, and to itself for the
// variance.
constexpr double reference = 0x1p-60;
// The rounding error of double on a bound of the variance, which may be next to nothing: relative.
constexpr Wide up = 1 + 0x1p-50L;

// A sum that keeps what its additions round off.
class Sum {
 public:
  void operator+=(Wide x) {
    const Wide sum = sum_ + x, part = sum - sum_;
    rest_ += (sum_ - (sum - part)) + (x - part);
    sum_ = sum;
  }
  [[nodiscard]] Wide value() const { return sum_ + rest_; }

 private:
  Wide sum_ = 0, rest_ = 0;
};

Wide square(Wide x) { return x * x; }

// 2^floor(log2 x), of subnormal numbers, too, whose exponent is not in their bits.
double power_below(double x) {
  if (x < smallest_normal(Format::f64)) return x > 0 ? std::ldexp(1.0, std::ilogb(x)) : 0;
  return power_of_normal(x);
}

// Returns the largest error of a sum over any tree of at most `additions` levels, where the sum is a number: section 2.
// `w` descending.
Wide sum_error(const std::vector<double>& w, double additions, double u, const Unit& s, double grid) {
  const double growing = 1 + compounded(additions, u);
  const double rounded = 1 + (static_cast<double>(w.size()) + 2) * 0x1p-52;  // prefixes are, themselves
  const double exact_below = std::ldexp(grid, precision(s.format));
  double prefix = w.empty() ? 0 : w[0];
  Wide comb = 0;
  for (std::size_t k = 1; k < w.size(); ++k) {
    prefix += w[k];
    const double node = std::min(prefix * growing * rounded, s.overflow);
    if (node > exact_below) comb += static_cast<Wide>(u) * power_below(node);
  }
  if (!(std::min(prefix * growing * rounded, s.overflow) > exact_below)) return 0;
  Wide total = prefix;
  if (prefix == infinity) total = std::accumulate(w.begin(), w.end(), Wide{0});  // float64 alone reaches it
  return std::min(comb, static_cast<Wide>(compounded(additions, u)) * total) * (1 + 0x1p-44L);
}

// Numbers of at least 0, descending: by eleven bits at a time, of which those that all numbers share take no time.
void sort_down(std::vector<double>& w) {
  constexpr std::size_t long_row = 256;
  if (w.size() < long_row) {
    std::ranges::sort(w, std::greater<>());
    return;
  }
  constexpr int digit_bits = 11, digits = 6;
  constexpr std::size_t values = std::size_t{1} << digit_bits;
  const auto digit_of = [](double x, int digit) {
    return std::bit_cast<std::uint64_t>(x) >> digit * digit_bits & (values - 1);
  };
  std::vector<std::array<std::uint32_t, values>> counts(digits);
  for (const double x : w)
    for (int digit = 0; digit < digits; ++digit) ++counts[static_cast<std::size_t>(digit)][digit_of(x, digit)];
  std::vector<double> sorted(w.size());
  for (int digit = 0; digit < digits; ++digit) {
    auto& places = counts[static_cast<std::size_t>(digit)];
    if (places[digit_of(w[0], digit)] == w.size()) continue;
    std::uint32_t before = 0;
    for (std::size_t value = values; value-- > 0;) before += std::exchange(places[value], before);
    for (const double x : w) sorted[places[digit_of(x, digit)]++] = x;
    w.swap(sorted);
  }
}

}  // namespace

double common_grid(std::span<const double> x) {
  double grid = infinity;
  for (const double value : x) {
    const auto bits = std::bit_cast<std::uint64_t>(std::fabs(value));
    constexpr std::uint64_t fraction = 0xfffffffffffff;
    if (bits == 0 || !std::isfinite(value)) continue;
    // The number without the lowest bit of its fraction; a power of two has none.
    const double rest = bits & fraction ? std::bit_cast<double>(bits & (bits - 1)) : 0;
    grid = std::min(grid, std::fabs(value) - rest);
  }
  return grid;
}

Statistics::Statistics(const Numbers& m, const SourceRow& source)
    : x_(std::span(source.x).first(static_cast<std::size_t>(m.n))) {
  if (!source.finite || m.count_lost) {
    undetermined = true;
    return;
  }
  refer(m);
  if (m.statistics_lose) {
    input_error_ = m.statistics.u * largest + m.statistics.eta;
    mean_input_error_ = m.statistics.u * mean_abs + m.statistics.eta;
    if (largest >= m.statistics.overflow) lost_mean = lost_variance = true;
  }
  if (!source.error.empty()) {
    Sum errors;
    for (const double error : source.error) {
      errors += error;
      input_error_ =
          std::max<Wide>(input_error_, error + (m.statistics_lose ? m.statistics.u * largest + m.statistics.eta : 0));
    }
    mean_input_error_ += errors.value() / static_cast<Wide>(m.n);
  }
  ed = input_error_ + (m.flush ? 2 * m.statistics.eta : 0);
  if (m.rms)
    bound_rms(m);
  else if (m.variance == Variance::welford)
    bound_welford(m);
  else {
    bound_mean(m);
    if (m.variance == Variance::two_pass)
      bound_two_pass(m);
    else if (m.variance == Variance::two_pass_corrected)
      bound_corrected(m);
    else
      bound_one_pass(m);
  }
  if (!(hi + m.epsilon_hi < m.statistics.overflow)) lost_variance = true;
  bound_root(m);
}

// Section 1: about the element nearest to the mean, so that a row close to a constant loses nothing.
void Statistics::refer(const Numbers& m) {
  const auto n = static_cast<Wide>(m.n);
  Sum all, abs_sum;
  double least_x = infinity, most_x = -infinity;
  magnitudes_.reserve(x_.size());
  for (const double x : x_) {
    all += x;
    abs_sum += std::fabs(x);
    least_x = std::min(least_x, x);
    most_x = std::max(most_x, x);
    (x > 0 ? positive_ : negative_) += std::fabs(x);
    magnitudes_.push_back(std::fabs(x));
  }
  largest = std::max(std::fabs(least_x), std::fabs(most_x));
  range = static_cast<Wide>(most_x) - least_x;  // in float64 it may be past the range of double
  mean_abs = static_cast<double>(abs_sum.value() / n);
  d.resize(x_.size());
  Wide pivot = 0, offset = 0;
  if (!m.rms) {
    const Wide first = all.value() / n;
    Wide nearest = std::numeric_limits<Wide>::infinity();
    for (const double x : x_)
      if (const Wide distance = std::fabs(static_cast<Wide>(x) - first); distance < nearest)
        nearest = distance, pivot = x;
    Sum about;
    for (const double x : x_) about += static_cast<Wide>(x) - pivot;
    offset = about.value() / n;
    if (!is_exact_mean(about.value())) {
      Sum left;
      for (const double x : x_) left += (static_cast<Wide>(x) - pivot) - offset;
      offset += left.value() / n;
      mean_error_ = reference * range;
    }
  }
  mean = pivot + offset;
  Sum squares;
  for (std::size_t i = 0; i < d.size(); ++i) {
    d[i] = (static_cast<Wide>(x_[i]) - pivot) - offset;
    squares += d[i] * d[i];
  }
  variance = squares.value() / n;
}

// Tells whether the addition of x less the pivot up to `about`, and its division by n, round nothing. Beside a gamma
// near the end of the range an error of 2^-60 is large.
bool Statistics::is_exact_mean(Wide about) const {
  const auto n = static_cast<std::uint64_t>(x_.size());
  const double grid = common_grid(x_);
  if (!(grid < infinity)) return true;  // zeros
  // Differences and their sums are multiples of the grid, and of fewer bits than Wide has.
  if (!(range * static_cast<Wide>(n) < static_cast<Wide>(grid) * 0x1p62L)) return false;
  const auto steps = static_cast<std::uint64_t>(std::fabs(about / grid));
  return steps % (n >> std::countr_zero(n)) == 0;
}

Wide Statistics::mean_error(const Numbers& m, const std::vector<double>& w, Wide mean_of_w, double grid) const {
  const Wide es = m.statistics.eta;
  const Wide sum = sum_error(w, m.additions, m.u, m.statistics, grid) / m.n;
  return sum * (1 + compounded(3, m.u)) * (1 + m.count) + m.count * mean_of_w + (m.n > 1 ? es : 0) +
         (m.flush ? 3 * es : 0);
}

void Statistics::bound_mean(const Numbers& m) {
  sort_down(magnitudes_);
  const bool on_grid = !m.flush && !m.statistics_lose;
  dm = mean_error(m, magnitudes_, std::fabs(mean), on_grid ? common_grid(x_) : 0);
  if (m.statistics_lose) dm *= 1 + m.statistics.u;  // the magnitudes are those of rounded numbers
  dm += mean_input_error_ + mean_error_;
  if (std::max<Wide>(positive_, negative_) * (1 + compounded(m.additions + 2, m.u)) >= m.statistics.overflow)
    lost_mean = true;
}

void Statistics::bound_rms(const Numbers& m) {
  const Wide v = variance, es = m.statistics.eta;
  cv = both(compounded(m.additions + 3, m.u), m.count) + reference;
  av = (2 + 2 * cv) * es * (m.flush ? 2 : 1);
  if (ed > 0) av += (1 + cv) * (2 * std::sqrt(v) * ed + square(ed));
  lo = variance * (1 - cv) - av;
  hi = variance * (1 + cv) + av;
  if (m.n * hi >= m.statistics.overflow) lost_variance = true;
}

void Statistics::bound_two_pass(const Numbers& m) {
  const Wide v = variance, deviation = std::sqrt(v), es = m.statistics.eta;
  joint = true;
  cv = both(compounded(m.additions + 3, m.u), m.count) + reference;
  av = (2 + 2 * cv) * es * (m.flush ? 2 : 1) + (1 + cv) * (2 * (deviation + dm) * ed + square(ed));
  lo = variance * (1 - cv) - av;
  hi = (variance + square(dm)) * (1 + cv) + av;
  const Wide largest_d = std::min<Wide>(range, largest + std::fabs(mean)) + dm + ed;
  if (largest_d * (1 + 2 * m.statistics.u) >= m.statistics.overflow) lost_mean = lost_variance = true;
  if (m.n * hi >= m.statistics.overflow) lost_variance = true;
}

// The mean of x - m is taken off again, squared: what is left of the mean's error is what rounding makes of that mean.
void Statistics::bound_corrected(const Numbers& m) {
  const double us = m.u;  // additions, too
  bound_two_pass(m);
  joint = false;
  const Wide v = variance, es = m.statistics.eta;
  const Wide around = std::sqrt(v) + dm;  // at least the mean of |x - m|
  const Wide left = (compounded(m.additions + 2, m.u) + m.count) * (1 + cv) * (around + ed) + ed + 3 * es +
                    (m.flush ? 3 * es : 0);  // error of that mean
  const Wide squares = 2 * dm * left + square(left), rounding = 2 * us * square(dm + left) + es * (m.flush ? 2 : 1);
  const Wide off =
      (both(compounded(m.additions + 3, m.u), m.count) * (v + square(dm)) + reference * v + squares + rounding + av) *
      up;
  lo = (variance - off) - us * (v + off);
  hi = (variance + off) + us * (v + off);
}

void Statistics::bound_welford(const Numbers& m) {
  sort_down(magnitudes_);
  const Wide v = variance, es = m.statistics.eta;
  const double us = m.statistics.u, merges = m.merge_depth;
  const Wide growing = 1 + compounded(m.additions + 5 * merges, m.u), weighted = m.weighted_merges ? 5 : 1;
  const Wide spread = range + 2 * input_error_;
  const Wide hull = spread * (1 + compounded(4 * (merges + 1), m.u)) + (m.flush ? es * (1 + merges) : 0);
  const Wide steps = compounded(4, m.u) * (1 + merges) * spread;
  Wide prefix = magnitudes_[0], combs = 0, worst = 0, squares = 0, last = 0;
  for (std::size_t i = 1; i < magnitudes_.size(); ++i) {
    prefix += magnitudes_[i];
    combs += prefix;
    const Wide k = static_cast<double>(i) + 1;
    const Wide added = std::min<Wide>(combs, m.additions * prefix) + (weighted - 1) * merges * prefix;
    last = m.u * added * growing / k + steps + es * (m.flush ? 5 : 1) * ((k + 1) / 2 + merges);
    if (m.statistics_lose) last *= 1 + us;
    if (!m.weighted_merges) last = std::min<Wide>(last, hull);
    worst = std::max<Wide>(worst, last);  // squares of nodes are summed by the comb, for which they must not fall
    squares += square(worst);
  }
  const Wide typical = std::sqrt(squares / m.n);
  dm = last + mean_input_error_ + mean_error_;
  const Wide deviation = std::sqrt(v);
  const Wide input = m.flush || input_error_ > 0 ? 2 * ed : 0;
  const Wide off = (2 * deviation * std::sqrt(2 * square(typical) + merges * square(worst)) +
                    (1 + merges) * square(worst) + 2 * (deviation + worst) * input + square(input)) *
                   up;
  cv = both(compounded(m.additions + 2 * merges + 10, m.u), m.count) + reference;
  av = m.n > 1 ? es * (m.flush ? 6 : 3) * (1 + cv) : 0;
  lo = std::max<Wide>(0, variance - off - (v + off) * cv - av);
  hi = variance + off + (v + off) * cv + av;
  const Wide overflow = m.statistics.overflow;
  if (hull * (1 + compounded(4, m.u)) >= overflow) lost_mean = lost_variance = true;
  if (m.n * hi >= overflow) lost_variance = true;
  if (m.merges) {
    const Wide pairs = square(m.n) / 4 * (1 + compounded(4, us));
    if (pairs >= overflow || pairs * square(hull) >= overflow ||
        m.n * square(hull) * (1 + compounded(4, us)) >= overflow)
      lost_variance = true;
    if (m.weighted_merges && (m.n * largest + hull) * (1 + compounded(4, us)) >= overflow)
      lost_mean = lost_variance = true;
  }
}

void Statistics::bound_one_pass(const Numbers& m) {
  const double us = m.u;  // additions, too
  const bool shifted = m.variance == Variance::shifted;
  const Wide v = variance, es = m.statistics.eta;
  std::vector<double> z = magnitudes_;
  Wide z_mean = std::fabs(mean), dz = dm;
  if (shifted) {
    // A difference past the range of S is an infinity, and no number that errs.
    for (std::size_t i = 0; i < z.size(); ++i)
      z[i] = static_cast<double>(std::min<Wide>(
          std::fabs(static_cast<Wide>(x_[i]) - x_[0]) * (1 + 2 * us) + 2 * input_error_, m.statistics.overflow));
    sort_down(z);
    z_mean = std::fabs(d[0]);
    if (z[0] >= m.statistics.overflow) lost_mean = lost_variance = true;
  }
  Wide z_sum = 0;
  Sum squares;
  for (const Wide value : z) z_sum += value, squares += square(value);
  const Wide z_squares = squares.value() / m.n;
  if (shifted) {
    dz = mean_error(m, z, z_mean, 0) + us * z_sum / m.n * (1 + compounded(m.additions, m.u)) + 2 * ed +
         static_cast<Wide>(reference) * (z_sum / m.n) + mean_error_;
    dm = dz + input_error_ + compounded(1, us) * (std::fabs(mean) + dz + input_error_) + (m.flush ? es : 0);
    lost_mean = lost_mean || z_sum * (1 + compounded(m.additions + 2, m.u)) >= m.statistics.overflow;
  }
  cv = both(compounded(m.additions + 5, m.u), m.count);
  Wide off = cv * z_squares + (2 * z_mean + dz) * dz + 3 * m.u * square(z_mean + dz) + 6 * es * (1 + cv);
  if (ed > 0) off += (1 + cv) * (4 * std::sqrt(z_squares) * ed + 4 * square(ed));
  off = (off + us * (v + off) + reference * v) * up;
  lo = variance - off;
  hi = variance + off;
  if (m.clamp) lo = std::max<Wide>(0, lo);
  if (m.n * z_squares * (1 + cv) + m.n * off >= m.statistics.overflow) lost_variance = true;
  if (square(z_mean + dz) * (1 + compounded(2, us)) >= m.statistics.overflow) lost_variance = true;
}

}  // namespace attest::oracle::layer_norm
