// QuickRow's part of sections 1 to 3 of docs/layer-norm.md: a reference in double, and lower and upper bounds.
#include <algorithm>
#include <bit>
#include <cmath>

#include "oracle/last_bit.hpp"
#include "oracle/layer_norm/lent.hpp"
#include "oracle/layer_norm/quick.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {
namespace {

double square(double x) { return x * x; }

// Returns at most sum_error() of section 2, for numbers whose magnitudes add up to `total`: the k largest of them come
// to no less than the largest and k - 1 equal ones.
double least_sum_error(double total, double largest, double n, double additions, double u, double exact_below,
                       double overflow) {
  const double most_node = std::min(total * slack, overflow);
  if (!(most_node > exact_below) || n < 2) return 0;
  const double each = (total - largest) / (n - 1) * slack, first = largest * slack - each;
  double comb = 0, above = n;  // nodes k past those of the octaves counted
  double power = power_of_normal(most_node);
  for (int octave = 0; octave < 4 && above >= 2; ++octave, power /= 2) {
    const double reached = std::max(power, exact_below) - first;
    const double from = std::max(2.0, reached <= 0 ? 2 : each > 0 ? std::floor(reached / each) + 1 : above + 1);
    if (from > above) break;
    comb += (above - from + 1) * u * power;
    above = from - 1;
  }
  return std::min(comb, additions * u * total) * slack;
}

}  // namespace

// Computes the mean in two doubles.
void QuickRow::refer_mean(const PreciseSums& sums) {
  if (m_.rms) return;
  const double n = m_.n, one_nth = 1 / n;
  r_.mean = sums.sum / n;
  // The remainder of the quotient: products of its halves with n, and the sum less these, are exact.
  const double high = std::bit_cast<double>(std::bit_cast<std::uint64_t>(r_.mean) >> 27 << 27), low = r_.mean - high;
  r_.mean_rest = (((sums.sum - high * n) - low * n) + sums.sum_rest) * one_nth;
  r_.mean_error = 0x1p-50 * std::fabs(r_.mean_rest) + square(std::max(n, 4.0) * bit) * r_.magnitudes / n;
}

// Likewise, of what is left of x without the mean.
void QuickRow::refer_variance(const double* x) {
  const double n = m_.n;
  const PreciseSquares squares = precise_squares(x, static_cast<Index>(n), r_.mean, r_.mean_rest);
  const Wide variance = (static_cast<Wide>(squares.sum) + squares.rest) / n;
  r_.variance = static_cast<double>(variance);
  r_.variance_rest = static_cast<double>(variance - r_.variance);
  // The loop computes everything but the squares of rounded differences in double.
  const double rest = std::fabs(r_.mean_rest);
  r_.variance_error = (square(16 * n * bit) + 0x1p-62) * r_.variance + 0x1p-1000 +
                      4 * bit * (rest > 0 ? rest * (2 * std::sqrt(r_.variance) + rest) : 0);
}

// Takes the variance about the mean's first double alone, and in double: squares about another mean exceed those about
// the mean by the square of its distance.
void QuickRow::refer_nearly(const double* x) {
  r_.variance = near_squares(x, static_cast<Index>(m_.n), r_.mean) / m_.n;
  r_.variance_error = (8 * bit + square(16 * m_.n * bit)) * r_.variance + 0x1p-1000 +
                      2 * square(std::fabs(r_.mean_rest) + r_.mean_error);
}

// Multiplies a row of numbers so small that their variance is nothing beside epsilon by AcceptRowRule::raise.
void QuickRow::raise(const SourceRow& row) {
  is_raised_ = true;
  if (raised_.empty()) raised_ = LentRows::take(static_cast<std::size_t>(padded(static_cast<Index>(m_.n))));
  std::ranges::transform(row.x, raised_.begin(), [](double x) { return x * AcceptRowRule::raise; });
  r_.x0 *= AcceptRowRule::raise;
  r_.magnitudes *= AcceptRowRule::raise;
  r_.largest *= AcceptRowRule::raise;
  refer_mean(m_.rms ? PreciseSums{} : precise_sums(raised_.data(), static_cast<Index>(m_.n)));
  r_.variance = r_.variance_rest = 0;
  r_.variance_error = 0x1p-1000;
}

// Section 1, in double: false if that does not hold the row.
bool QuickRow::refer(const SourceRow& row) {
  const double n = m_.n;
  r_ = {};
  r_.x0 = row.x[0];
  r_.magnitudes = row.sums.magnitudes;
  r_.largest = row.sums.largest;
  is_raised_ = is_near_ = false;
  if (precise_) {
    if (!(r_.largest < 0x1p400)) return false;
    // Zeros lose nothing.
    if (!(r_.largest > 0x1p-900 || r_.largest == 0)) {
      if (!(epsilon_ > 0x1p-100) || (m_.n == 1 && !m_.rms)) return false;
      raise(row);
    } else {
      refer_mean(row.precise);
      is_near_ = near_suffices_ && narrow_ && !(largest_gamma_ > 0x1p900);
      is_near_ ? refer_nearly(row.x.data()) : refer_variance(row.x.data());
    }
  } else {
    const double whole = row.sums.squares / n, offset = m_.rms ? 0 : row.sums.sum / n;
    r_.mean = m_.rms ? 0 : r_.x0 + offset;
    r_.variance = std::max(0.0, whole - offset * offset);
    const double reference = (n + 32) * 0x1p-52;
    r_.mean_error = m_.rms ? 0 : 0x1p-51 * std::fabs(r_.mean) + reference * std::sqrt(whole);
    r_.variance_error = 4 * reference * whole;
  }
  if (m_.variance == Variance::shifted && !m_.rms) {
    r_.z_mean = std::fabs(r_.mean - r_.x0);
    r_.z_mean_error = r_.mean_error + 2 * bit * std::fabs(r_.x0);
  }
  row_ = &row;
  return r_.variance < infinity && std::isfinite(r_.mean);
}

double QuickRow::sum_off(double total, double largest, double grid, bool most) const {
  if (m_.n < 2) return 0;
  if (most) return m_.all_additions * total * up;
  return least_sum_error(total, largest, m_.n, m_.additions, m_.u, grid / m_.statistics.u, m_.statistics.overflow);
}

// Computes section 3 term by term, as statistics.cpp does. No term falls where another grows, so that lower bounds give
// no more than the exact terms, and upper bounds no less. The rounding errors of these lines are far less than `up` and
// `slack` add and take.
QuickRow::Bounds QuickRow::bounds(bool most) const {
  const double n = m_.n, es = m_.statistics.eta, us = m_.u, to = (most ? up : slack);
  const double es_of_mean = is_raised_ ? es * AcceptRowRule::raise : es;
  const double error = most ? r_.variance_error : -r_.variance_error;
  const double v = std::max(0.0, r_.variance + error) * to;
  const double mean = std::max(0.0, std::fabs(r_.mean) + (most ? r_.mean_error : -r_.mean_error));
  const double mean_abs = r_.magnitudes / n;
  const double read = m_.statistics_lose ? m_.statistics.u * r_.largest + es : 0;
  const double mean_read = m_.statistics_lose ? m_.statistics.u * mean_abs + es : 0;
  Bounds b;
  b.ed = (read + (m_.flush ? 2 * es : 0)) * to;
  b.cv = m_.cv * to;
  const double deviation = b.ed > 0 || m_.variance == Variance::two_pass_corrected ? std::sqrt(v) : 0;
  if (m_.rms) {
    b.av = m_.squares_underflow[most];
    if (b.ed > 0) b.av += (1 + b.cv) * (2 * deviation * b.ed + square(b.ed)) * to;
    b.below = b.above = (b.cv * v + b.av) * to;
    b.lost = n * (v + b.above);
    return b;
  }
  if (m_.variance == Variance::welford) return welford(b, most, v);
  const bool on_grid = !m_.flush && !m_.statistics_lose;
  const double grid = on_grid ? common_grid(std::span(entered()).first(std::min<std::size_t>(8, entered().size()))) : 0;
  const auto of_mean = [&](double total, double largest, double mean_of, double of_grid) {
    return sum_off(total, largest, of_grid, most) / n * (1 + m_.three) * (1 + m_.count) + m_.count * mean_of +
           (n > 1 ? es_of_mean : 0) + (m_.flush ? 3 * es : 0);
  };
  double dm = of_mean(r_.magnitudes, r_.largest, mean, grid);
  if (m_.statistics_lose) dm *= 1 + m_.statistics.u;
  dm = (dm + mean_read) * to;
  b.lost_mean = (r_.magnitudes + n * mean) / 2 * (1 + m_.all_additions) * slack;
  if (m_.one_pass_like) {
    if (m_.variance == Variance::one_pass) return b.dm = dm, one_pass(b, most, v, dm);
    // Magnitudes of x less the first: no less than what they add up to, or than a sum whose squares are theirs.
    const double z_mean = std::max(0.0, r_.z_mean + (most ? r_.z_mean_error : -r_.z_mean_error));
    const double z_root = std::sqrt(v + square(z_mean)) * to, most_z = std::fabs(r_.x0) + r_.largest;
    const double z_abs = most ? (z_root * (1 + 2 * us) + 2 * read) * up
                              : std::max(z_mean, most_z > 0 ? square(z_root) / most_z : 0) * slack;
    double dz = of_mean(n * z_abs, most ? most_z : z_abs, z_mean, 0);
    dz = (dz + us * z_abs * (1 + m_.all_additions) + 2 * b.ed) * to;
    b.dm = (dz + read + compounded(1, us) * (mean + dz + read) + (m_.flush ? es : 0)) * to;
    return one_pass(b, most, v, dz);
  }
  b.dm = dm;
  const double cv = b.cv;
  b.av = m_.squares_underflow[most];
  if (b.ed > 0) b.av += (1 + cv) * (2 * (deviation + dm) * b.ed + square(b.ed)) * to;
  b.below = (cv * v + b.av) * to;
  b.above = (cv * v + square(dm) * (1 + cv) + b.av) * to;
  b.joint = m_.variance == Variance::two_pass;
  b.lost = n * (v + b.above);
  if (m_.variance == Variance::two_pass_corrected) {
    const double around = deviation + dm;
    const double of_left = compounded(m_.additions + 2, us) + m_.count;
    const double left =
        ((most ? of_left : bounded(of_left)) * (1 + cv) * (around + b.ed) + b.ed + (m_.flush ? 6 : 3) * es) * to;
    const double rounding = 2 * us * square(dm + left) + es * (m_.flush ? 2 : 1);
    const double off = cv * (v + square(dm)) + 2 * dm * left + square(left) + rounding + b.av;
    b.below = b.above = (off + us * (v + off)) * to;
  }
  if (most) {
    const double largest = std::min(r_.largest + mean, std::sqrt(n * v) * up);  // largest |x - mean|
    b.lost = std::max(b.lost, (largest + dm + b.ed) * (1 + 2 * m_.statistics.u) * up);
  }
  return b;
}

// C_k is at least what the k largest of equal numbers give, and at most k - 1 times the sum of all.
QuickRow::Bounds QuickRow::welford(Bounds b, bool most, double v) const {
  const double n = m_.n, es = m_.statistics.eta, merges = m_.merge_depth, to = (most ? up : slack);
  const double total = r_.magnitudes, depth = m_.additions, weighted = m_.weighted_merges ? 5 : 1;
  const double deviation = std::sqrt(v), read = m_.statistics_lose ? m_.statistics.u * r_.largest + es : 0;
  const double range = most ? 2 * r_.largest : deviation, spread = range + 2 * read;
  const double hull = (spread * m_.hull_growing + (m_.flush ? es * (1 + merges) : 0)) * to;
  const double lose = m_.statistics_lose ? 1 + m_.statistics.u : 1;
  const double each_eta = es * (m_.flush ? 5 : 1);
  double last = 0, worst = 0, typical = 0;  // D_n, D, Dr
  if (n > 1 && most) {
    const double added = std::min(total, depth * r_.largest) + (weighted - 1) * merges * r_.largest;
    worst = (m_.u * added * m_.most_growing + m_.four * (1 + merges) * spread + each_eta * ((n + 1) / 2 + merges)) *
            lose * up;
    if (!m_.weighted_merges) worst = std::min(worst, hull);
    last = typical = worst;
  } else if (n > 1) {
    const double unit = m_.u * m_.growing * (total / n) * lose;
    const double constant =
        (unit * (weighted - 1) * merges + (m_.four * (1 + merges) * spread + each_eta * (1 + merges)) * lose);
    double steps = depth;
    if (!m_.weighted_merges && unit > 0) steps = std::min(steps, std::max(0.0, (hull - constant) / unit));
    // D_k is at least unit min((k - 1)/2, steps) + constant.
    const double part = std::min(n, std::floor(2 * steps + 1));
    const double sum = (part - 1) * part * (2 * part - 1) / 24 + (n - part) * square(std::min(steps, (n - 1) / 2));
    last = worst = (unit * std::min((n - 1) / 2, steps) + constant) * slack;
    if (!m_.weighted_merges) last = worst = std::min(worst, hull * slack);
    typical = unit * std::sqrt(sum / n) * slack;
  }
  const double mean_read = m_.statistics_lose ? m_.statistics.u * (total / n) + es : 0;
  b.dm = (last + mean_read) * to;
  const double input = m_.flush || read > 0 ? 2 * b.ed : 0;
  const double off = (2 * deviation * std::sqrt(2 * square(typical) + merges * square(worst)) +
                      (1 + merges) * square(worst) + 2 * (deviation + worst) * input + square(input)) *
                     to;
  b.av = n > 1 ? es * (m_.flush ? 6 : 3) * (1 + b.cv) * to : 0;
  b.above = (off + (v + off) * b.cv + b.av) * to;
  b.below = std::min(b.above, v);
  b.lost = n * (v + b.above);
  if (most) b.lost = std::max(b.lost, hull * (1 + m_.four) * up);
  if (most && m_.merges) {
    const double four = 1 + compounded(4, m_.statistics.u), pairs = square(n) / 4 * four;
    b.lost = std::max({b.lost, pairs * up, pairs * square(hull) * up, n * square(hull) * four * up});
    if (m_.weighted_merges) b.lost = std::max(b.lost, (n * r_.largest + hull) * four * up);
  }
  return b;
}

QuickRow::Bounds QuickRow::one_pass(Bounds b, bool most, double v, double dz) const {
  const double us = m_.u, es = m_.statistics.eta, to = (most ? up : slack);
  const bool shifted = m_.variance == Variance::shifted;
  const double of_mean = most ? r_.mean_error : -r_.mean_error;
  const double z_mean =
      std::max(0.0, shifted ? r_.z_mean + (most ? r_.z_mean_error : -r_.z_mean_error) : std::fabs(r_.mean) + of_mean);
  const double read = m_.statistics_lose ? m_.statistics.u * r_.largest + es : 0;
  double z_squares = v + square(z_mean);
  if (shifted && most) z_squares = square(std::sqrt(z_squares) * (1 + 2 * us) + 2 * read) * up;
  double off = b.cv * z_squares + (2 * z_mean + dz) * dz + 3 * us * square(z_mean + dz) + 6 * es * (1 + b.cv);
  if (b.ed > 0) off += (1 + b.cv) * (4 * std::sqrt(z_squares) * b.ed + 4 * square(b.ed));
  off = (off + us * (v + off)) * to;
  b.above = off;
  b.below = m_.clamp ? std::min(off, v) : off;
  b.lost = (m_.n * z_squares * (1 + b.cv) + m_.n * off) * to;
  if (most)
    b.lost = std::max({b.lost, square(z_mean + dz) * (1 + compounded(2, us)) * up,
                       shifted ? ((std::fabs(r_.x0) + r_.largest) * (1 + 2 * us) + 2 * read) * up : 0});
  return b;
}

}  // namespace attest::oracle::layer_norm
