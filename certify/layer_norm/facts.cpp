#include "certify/layer_norm/facts.hpp"

#include <algorithm>
#include <cmath>

#include "certify/rounding.hpp"

namespace attest::certify::layer_norm {
namespace {

using attest::layer_norm::Arithmetic;
using attest::layer_norm::FlushToZero;
using attest::layer_norm::Merge;
using attest::layer_norm::Norm;
using attest::layer_norm::NormForm;
using attest::layer_norm::Stage;
using attest::layer_norm::SumOf;
using attest::layer_norm::Variance;

// a + b rounded to one format, and then to another.
double rounded_sum(double a, double b, Format first, Format second) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a + b;
  const Precision exact(2200);  // enough for the sum of any two doubles
  const Ball sum = Ball(a) + Ball(b);
  const Ball once = rounded(arb_midref(sum.get()), first);
  return rounded(arb_midref(once.get()), second);
}

// The largest power of two that divides x.
double lowest_bit(double x) {
  int exponent = 0;
  double fraction = std::frexp(std::fabs(x), &exponent);
  int place = exponent;
  while (fraction != 0) {
    fraction *= 2;
    --place;
    if (fraction >= 1) fraction -= 1;
  }
  return std::ldexp(1.0, place);
}

// 2^floor(log2 x) for the largest number of the ball.
Ball power_below(const Ball& x) {
  arf_t top;
  arf_init(top);
  arb_get_ubound_arf(top, x.get(), working_bits());
  Ball result;
  if (arf_sgn(top) > 0) {
    const slong exponent = fmpz_get_si(ARF_EXPREF(top));
    arf_set_si_2exp_si(arb_midref(result.get()), 1, exponent - 1);
  }
  arf_clear(top);
  return result;
}

}  // namespace

Facts::Facts(const Contract& c, const Inputs& in, Index r)
    : contract(c),
      how(c.arithmetic),
      n(in.x.shape()[1]),
      rms(in.norm == Norm::rms),
      flush(how.flushes()),
      flush_inputs(how.flush_to_zero == FlushToZero::inputs),
      storage(c.policy[Stage::storage], flush),
      s(c.policy[Stage::statistics], flush),
      a_norm(c.policy[Stage::normalise], flush),
      a_affine(c.policy[Stage::affine], flush),
      source(in.residual.present() && how.sum_of == SumOf::unrounded ? c.policy[Stage::sum] : c.policy[Stage::storage]),
      params(format_of(in.gamma.present()  ? in.gamma.dtype()
                       : in.beta.present() ? in.beta.dtype()
                                           : in.x.dtype())),
      output(c.policy[Stage::output]),
      tensor(format_of(in.x.dtype())),
      epsilon(in.epsilon),
      has_gamma(in.gamma.present()),
      has_beta(in.beta.present()) {
  read(in, r);
  numbers();
  if (!finite || unknown) return;
  refer();
  if (rms || how.variance == Variance::two_pass || how.variance == Variance::two_pass_corrected) {
    if (!rms) bound_mean();
    bound_squares();
    if (!rms && how.variance == Variance::two_pass_corrected) bound_corrected();
  } else if (how.variance == Variance::welford) {
    bound_welford();
  } else {
    bound_mean();
    bound_one_pass();
  }
  finish();
}

void Facts::read(const Inputs& in, Index row) {
  const Format sum = contract.policy[Stage::sum];
  const double tiny_source = smallest_normal(storage.format), tiny_sum = std::max(smallest_normal(sum), tiny_source);
  const auto below_normal = [](double v, double least) { return std::fabs(v) < least ? std::fabs(v) : 0; };
  for (Index i = 0; i < n; ++i) {
    double value = in.x.at(row, i), off = 0;
    if (in.residual.present()) {
      const double added = in.residual.at(row, i), whole = rounded_sum(value, added, sum, sum);
      if (flush) off += below_normal(whole, tiny_sum);
      if (flush_inputs) {
        const double lost = below_normal(value, tiny_source) + below_normal(added, tiny_source);
        if (lost > 0)
          off += lost + 2.1 * (unit_roundoff(sum) + unit_roundoff(storage.format)) * std::fabs(whole) +
                 2 * (half_smallest_subnormal(sum) + half_smallest_subnormal(storage.format));
      }
      value = how.sum_of == SumOf::rounded ? rounded_sum(value, added, sum, storage.format) : whole;
    } else if (flush_inputs) {
      off = below_normal(value, tiny_source);
    }
    finite = finite && std::isfinite(value);
    has_nan = has_nan || std::isnan(value);
    x.push_back(value);
    error.push_back(off);
    gamma.push_back(has_gamma ? in.gamma.at(i) : 1);
    beta.push_back(has_beta ? in.beta.at(i) : 0);
  }
}

// Section 0 and the constants of sections 3 and 4.
void Facts::numbers() {
  size = Ball(n);
  u = Ball(how.kappa) * s.u;
  additions = how.additions(n);
  merges = how.merge == Merge::none || rms ? 0.0 : static_cast<double>(how.merge_depth);
  s_loses = loses(s.format, source);
  norm_loses_source = loses(a_norm.format, source);
  norm_loses_s = loses(a_norm.format, s.format);
  affine_loses_norm = loses(a_affine.format, a_norm.format);
  affine_loses_params = loses(a_affine.format, params);
  affine_loses_any = affine_loses_norm || loses(a_affine.format, source) || loses(a_affine.format, s.format);
  const bool power = (n & (n - 1)) == 0;
  if (!power) {
    const bool rounds_n = static_cast<double>(n) > std::ldexp(1.0, precision(s.format));
    count_error = compounded(rounds_n ? 3 : 2, larger_of(s.u, s.eta * size));
  }
  const double least_n = flush ? smallest_normal(s.format) : half_smallest_subnormal(s.format) / 2;
  if (static_cast<double>(n) >= overflow_threshold(s.format) || 1 / static_cast<double>(n) < least_n)
    unknown = "the row's length, or its reciprocal, is no number of the statistics format";
  const double kept = round_to(s.format, epsilon);
  const bool exact = kept == epsilon && (!flush || epsilon == 0 || epsilon >= smallest_normal(s.format));
  eps_lo = exact ? Ball(epsilon) : larger_of(0, Ball(epsilon) * (1 - s.u) - s.eta);
  eps_hi = exact ? Ball(epsilon) : Ball(epsilon) * (1 + s.u) + s.eta;
  const Ball itself =
      how.rsqrt_rel ? Ball(*how.rsqrt_rel) + s.u * (1 + Ball(*how.rsqrt_rel)) : 2 * Ball(how.rsqrt_ulp) * s.u;
  root = (1 + larger_of(compounded(3, s.u), itself)) * (1 + compounded(1, u) / 2) - 1;
}

// Section 1, but exactly: no pivot is needed.
void Facts::refer() {
  Ball total, sizes;
  double top = -infinity, bottom = infinity, most = 0;
  for (const double v : x) {
    total += Ball(v);
    sizes += Ball(std::fabs(v));
    top = std::max(top, v);
    bottom = std::min(bottom, v);
    most = std::max(most, std::fabs(v));
  }
  largest = most;
  range = Ball(top) - Ball(bottom);
  mean_abs = sizes / size;
  mean = rms ? Ball(0) : total / size;
  Ball squares;
  for (const double v : x) {
    d.push_back(Ball(v) - mean);
    squares += squared(d.back());
  }
  variance = squares / size;
  std::vector<double> order(x.size());
  std::ranges::transform(x, order.begin(), [](double v) { return std::fabs(v); });
  std::ranges::sort(order, std::greater<>());
  falling.assign(order.begin(), order.end());

  if (s_loses) {
    input_error = s.u * largest + s.eta;
    mean_input_error = s.u * mean_abs + s.eta;
    if (not_below(largest, s.overflow)) lost_mean = lost_variance = "an element does not fit the statistics format";
  }
  Ball flushed, worst;
  for (const double off : error) {
    flushed += Ball(off);
    worst = larger_of(worst, Ball(off) + (off > 0 && s_loses ? s.u * largest + s.eta : Ball(0)));
  }
  input_error = larger_of(input_error, worst);
  mean_input_error += flushed / size;
  ed = input_error + (flush ? 2 * s.eta : Ball(0));
}

// Section 2. A node that reaches the threshold of overflow is an infinity, and no error of a number.
Ball Facts::error_of_sum(const std::vector<Ball>& w, const Ball& grid) const {
  const Ball growing = 1 + compounded(additions, u);
  const Ball exact_below = grid * Ball(std::ldexp(1.0, precision(s.format)));
  Ball prefix = w[0], comb;
  for (std::size_t k = 1; k < w.size(); ++k) {
    prefix += w[k];
    const Ball node = min(prefix * growing, s.overflow);
    if (certainly_less(exact_below, node)) comb += u * power_below(node);
  }
  const Ball any =
      certainly_less(exact_below, min(prefix * growing, s.overflow)) ? compounded(additions, u) * prefix : Ball(0);
  return tighter(comb, any);
}

Ball Facts::error_of_mean(const std::vector<Ball>& w, const Ball& mean_of_w, const Ball& grid) const {
  Ball off = error_of_sum(w, grid) / size * (1 + compounded(3, u)) * (1 + count_error) + count_error * mean_of_w;
  if (n > 1) off += s.eta;
  if (flush) off += 3 * s.eta;
  return off;
}

void Facts::bound_mean() {
  Ball grid;
  if (!flush && !s_loses) {
    double least = infinity;
    for (const double v : x)
      if (v != 0) least = std::min(least, lowest_bit(v));
    if (least < infinity) grid = least;
  }
  dm = error_of_mean(falling, abs(mean), grid);
  if (s_loses) dm *= 1 + s.u;
  dm += mean_input_error;
  Ball up, down;
  for (const double v : x) (v > 0 ? up : down) += Ball(std::fabs(v));
  if (not_below(larger_of(up, down) * (1 + compounded(additions + 2, u)), s.overflow))
    lost_mean = "a sum of the row may overflow";
}

// RMSNorm, and two passes.
void Facts::bound_squares() {
  cv = (1 + compounded(additions + 3, u)) * (1 + count_error) - 1;
  const Ball around = sqrt(variance) + (rms ? Ball(0) : dm);
  av = (2 + 2 * cv) * s.eta * (flush ? 2 : 1) + (1 + cv) * (2 * around * ed + squared(ed));
  v_lo = variance * (1 - cv) - av;
  v_hi = (variance + (rms ? Ball(0) : squared(dm))) * (1 + cv) + av;
  joint = !rms;
  if (not_below(size * v_hi, s.overflow)) lost_variance = "a sum of squares may overflow";
  if (rms) return;
  const Ball reach = min(range, largest + abs(mean)) + dm + ed;
  if (not_below(reach * (1 + 2 * s.u), s.overflow))
    lost_mean = lost_variance = "a difference from the mean may overflow";
}

void Facts::bound_corrected() {
  joint = false;
  const Ball around = sqrt(variance) + dm;
  const Ball left =
      (compounded(additions + 2, u) + count_error) * (1 + cv) * (around + ed) + ed + (flush ? 6 : 3) * s.eta;
  const Ball off = cv * (variance + squared(dm)) + 2 * dm * left + squared(left) + 2 * u * squared(dm + left) +
                   s.eta * (flush ? 2 : 1) + av;
  v_lo = variance - off - u * (variance + off);
  v_hi = variance + off + u * (variance + off);
}

void Facts::bound_welford() {
  const bool weighted = how.merge == Merge::weighted;
  const Ball growing = 1 + compounded(additions + 5 * merges, u), spread = range + 2 * input_error;
  const Ball hull = spread * (1 + compounded(4 * (merges + 1), u)) + (flush ? s.eta * (1 + merges) : Ball(0));
  const Ball steps = compounded(4, u) * (1 + merges) * spread;
  Ball prefix = falling[0], combs, worst, squares, last;
  for (std::size_t i = 1; i < falling.size(); ++i) {
    prefix += falling[i];
    combs += prefix;
    const Ball k = static_cast<double>(i + 1);
    last = u * (min(combs, additions * prefix) + (weighted ? 4 * merges * prefix : Ball(0))) * growing / k + steps +
           s.eta * (flush ? 5 : 1) * ((k + 1) / 2 + merges);
    if (s_loses) last *= 1 + s.u;
    if (!weighted) last = min(last, hull);
    worst = larger_of(worst, last);
    squares += squared(worst);
  }
  dm = last + mean_input_error;
  const Ball deviation = sqrt(variance), inputs = 2 * ed;
  const Ball off = 2 * deviation * sqrt(2 * squares / size + merges * squared(worst)) + (1 + merges) * squared(worst) +
                   2 * (deviation + worst) * inputs + squared(inputs);
  cv = (1 + compounded(additions + 2 * merges + 10, u)) * (1 + count_error) - 1;
  if (n > 1) av = s.eta * (flush ? 6 : 3) * (1 + cv);
  v_lo = larger_of(0, variance - off - (variance + off) * cv - av);
  v_hi = variance + off + (variance + off) * cv + av;
  const Ball four = 1 + compounded(4, s.u);
  if (not_below(hull * (1 + compounded(4, u)), s.overflow)) lost_mean = lost_variance = "a difference may overflow";
  if (not_below(size * v_hi, s.overflow)) lost_variance = "the sum of squares may overflow";
  if (how.merge == Merge::none) return;
  const Ball pairs = squared(size) / 4;
  if (not_below(larger_of(pairs * four, larger_of(pairs * four * squared(hull), size * squared(hull) * four)),
                s.overflow))
    lost_variance = "a merge may overflow";
  if (weighted && not_below((size * largest + hull) * four, s.overflow))
    lost_mean = lost_variance = "a merge may overflow";
}

void Facts::bound_one_pass() {
  const bool shifted = how.variance == Variance::shifted;
  std::vector<Ball> z = falling;
  Ball z_mean = abs(mean), dz = dm;
  if (shifted) {
    // |x - x_0| in double, which may round: the order alone depends on it. One past the range of S is an infinity, and
    // has no error.
    std::vector<std::size_t> order(x.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<Ball> by_place;
    for (const double v : x)
      by_place.push_back(min(abs(Ball(v) - Ball(x[0])) * (1 + 2 * u) + 2 * input_error, s.overflow));
    std::ranges::sort(order,
                      [&](std::size_t a, std::size_t b) { return std::fabs(x[a] - x[0]) > std::fabs(x[b] - x[0]); });
    for (std::size_t i = 0; i < order.size(); ++i) z[i] = by_place[order[i]];
    z_mean = abs(mean - Ball(x[0]));
    if (not_below(z[0], s.overflow)) lost_mean = lost_variance = "a difference from the first element may overflow";
  }
  Ball z_sum, z_squares;
  for (const Ball& value : z) {
    z_sum += value;
    z_squares += squared(value);
  }
  z_squares = z_squares / size;
  if (shifted) {
    dz = error_of_mean(z, z_mean, 0) + u * z_sum / size * (1 + compounded(additions, u)) + 2 * ed;
    dm = dz + input_error + compounded(1, u) * (abs(mean) + dz + input_error) + (flush ? s.eta : Ball(0));
    if (not_below(z_sum * (1 + compounded(additions + 2, u)), s.overflow)) lost_mean = "a sum of the row may overflow";
  }
  cv = (1 + compounded(additions + 5, u)) * (1 + count_error) - 1;
  Ball off = cv * z_squares + (2 * z_mean + dz) * dz + 3 * u * squared(z_mean + dz) + 6 * s.eta * (1 + cv);
  if (certainly_less(0, ed)) off += (1 + cv) * (4 * sqrt(z_squares) * ed + 4 * squared(ed));
  off += u * (variance + off);
  v_lo = variance - off;
  v_hi = variance + off;
  if (how.clamp) v_lo = larger_of(0, v_lo);
  if (not_below(size * z_squares * (1 + cv) + size * off, s.overflow) ||
      not_below(squared(z_mean + dz) * (1 + compounded(2, u)), s.overflow))
    lost_variance = "a sum of squares may overflow";
}

void Facts::finish() {
  if (not_below(v_hi + eps_hi, s.overflow)) lost_variance = "the variance may overflow";
  least = (joint ? (1 - cv) * variance - av : v_lo) + eps_lo - (flush ? s.eta : Ball(0));
  may_be_zero = !certainly_less(0, least);
}

std::vector<double> permitted_sums(const Contract& contract, double x, double residual) {
  const Format sum = contract.policy[Stage::sum], storage = contract.policy[Stage::storage];
  std::vector<double> permitted{rounded_sum(x, residual, sum, storage)};
  if (!contract.arithmetic.flushes()) return permitted;
  const double least = smallest_normal(storage);
  if (contract.arithmetic.flush_to_zero == FlushToZero::inputs)
    for (const double first : {x, std::fabs(x) < least ? 0.0 : x})
      for (const double second : {residual, std::fabs(residual) < least ? 0.0 : residual})
        permitted.push_back(rounded_sum(first, second, sum, storage));
  const double tiny = std::max(least, smallest_normal(sum));
  if (std::ranges::any_of(permitted, [&](double value) { return std::fabs(value) < tiny; })) permitted.push_back(0);
  return permitted;
}

}  // namespace attest::certify::layer_norm
