#include "certify/layer_norm/interval.hpp"

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

Ball squared(const Ball& x) { return x * x; }
Ball larger_of(const Ball& a, const Ball& b) { return max(a, b); }
bool not_below(const Ball& a, const Ball& b) { return !certainly_less(a, b); }

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

struct Row::Facts {
  Facts(const Contract& c, const Inputs& in, Index r);

  // ---- the contract
  Contract contract;
  Arithmetic how;
  Index n;
  bool rms, flush, flush_inputs;
  Unit storage, s, a_norm, a_affine;  // of storage, statistics, normalise, affine
  Format source, params, output, tensor;
  double epsilon;
  Ball size, u, additions, merges, count_error, eps_lo, eps_hi, root;
  bool s_loses, norm_loses_source, norm_loses_s, affine_loses_norm, affine_loses_params, affine_loses_any;

  // ---- the row
  std::vector<double> x, error, gamma, beta;
  bool has_gamma, has_beta, finite = true, has_nan = false;
  Ball mean, variance, mean_abs, largest, range;
  std::vector<Ball> d, falling;  // x - mean; |x| descending
  Ball input_error, mean_input_error, dm, ed, cv, av, v_lo, v_hi, least;
  bool joint = false;
  std::optional<std::string> lost_mean, lost_variance, unknown;
  bool may_be_zero = false;

  void read(const Inputs& in, Index row);
  void numbers();
  void refer();
  Ball error_of_sum(const std::vector<Ball>& w, const Ball& grid) const;
  Ball error_of_mean(const std::vector<Ball>& w, const Ball& mean_of_w, const Ball& grid) const;
  void bound_mean();
  void bound_squares();
  void bound_corrected();
  void bound_welford();
  void bound_one_pass();
  void finish();
  [[nodiscard]] Interval element(std::size_t i) const;
  [[nodiscard]] bool in_range(const Ball& value, const Unit& unit) const {
    return certainly_less(value, unit.overflow);
  }
};

Row::Facts::Facts(const Contract& c, const Inputs& in, Index r)
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

void Row::Facts::read(const Inputs& in, Index row) {
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
void Row::Facts::numbers() {
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
  root = (1 + larger_of(compounded(3, s.u), itself)) * (1 + compounded(1, s.u) / 2) - 1;
}

// Section 1, but exactly: no pivot is needed.
void Row::Facts::refer() {
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

// Section 2.
Ball Row::Facts::error_of_sum(const std::vector<Ball>& w, const Ball& grid) const {
  const Ball growing = 1 + compounded(additions, u);
  const Ball exact_below = grid * Ball(std::ldexp(1.0, precision(s.format)));
  Ball prefix = w[0], comb;
  for (std::size_t k = 1; k < w.size(); ++k) {
    prefix += w[k];
    const Ball node = prefix * growing;
    if (certainly_less(exact_below, node)) comb += u * power_below(node);
  }
  const Ball any = certainly_less(exact_below, prefix * growing) ? compounded(additions, u) * prefix : Ball(0);
  return tighter(comb, any);
}

Ball Row::Facts::error_of_mean(const std::vector<Ball>& w, const Ball& mean_of_w, const Ball& grid) const {
  Ball off = error_of_sum(w, grid) / size * (1 + compounded(3, u)) * (1 + count_error) + count_error * mean_of_w;
  if (n > 1) off += s.eta;
  if (flush) off += 3 * s.eta;
  return off;
}

void Row::Facts::bound_mean() {
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
void Row::Facts::bound_squares() {
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

void Row::Facts::bound_corrected() {
  joint = false;
  const Ball around = sqrt(variance) + dm;
  const Ball left =
      (compounded(additions + 2, u) + count_error) * (1 + cv) * (around + ed) + ed + (flush ? 6 : 3) * s.eta;
  const Ball off = cv * (variance + squared(dm)) + 2 * dm * left + squared(left) + 2 * s.u * squared(dm + left) +
                   s.eta * (flush ? 2 : 1) + av;
  v_lo = variance - off - s.u * (variance + off);
  v_hi = variance + off + s.u * (variance + off);
}

void Row::Facts::bound_welford() {
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

void Row::Facts::bound_one_pass() {
  const bool shifted = how.variance == Variance::shifted;
  std::vector<Ball> z = falling;
  Ball z_mean = abs(mean), dz = dm;
  if (shifted) {
    // |x - x_0| of doubles, which may round: the order alone depends on it.
    std::vector<std::size_t> order(x.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<Ball> by_place;
    for (const double v : x) by_place.push_back(abs(Ball(v) - Ball(x[0])) * (1 + 2 * s.u) + 2 * input_error);
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
    dz = error_of_mean(z, z_mean, 0) + s.u * z_sum / size * (1 + compounded(additions, u)) + 2 * ed;
    dm = dz + input_error + compounded(1, s.u) * (abs(mean) + dz + input_error) + (flush ? s.eta : Ball(0));
    if (not_below(z_sum * (1 + compounded(additions + 2, u)), s.overflow)) lost_mean = "a sum of the row may overflow";
  }
  cv = (1 + compounded(additions + 5, u)) * (1 + count_error) - 1;
  Ball off = cv * z_squares + (2 * z_mean + dz) * dz + 3 * u * squared(z_mean + dz) + 6 * s.eta * (1 + cv);
  if (certainly_less(0, ed)) off += (1 + cv) * (4 * sqrt(z_squares) * ed + 4 * squared(ed));
  off += s.u * (variance + off);
  v_lo = variance - off;
  v_hi = variance + off;
  if (how.clamp) v_lo = larger_of(0, v_lo);
  if (not_below(size * z_squares * (1 + cv) + size * off, s.overflow) ||
      not_below(squared(z_mean + dz) * (1 + compounded(2, s.u)), s.overflow))
    lost_variance = "a sum of squares may overflow";
}

void Row::Facts::finish() {
  if (not_below(v_hi + eps_hi, s.overflow)) lost_variance = "the variance may overflow";
  least = (joint ? (1 - cv) * variance - av : v_lo) + eps_lo - (flush ? s.eta : Ball(0));
  may_be_zero = !certainly_less(0, least);
}

namespace {

// An interval that grows. Infinite ends are not finite balls.
struct Span {
  Ball lo, hi;
  bool open = false;  // nothing bounds it
  bool empty = true;
  void hold(const Ball& value) {
    if (!value.is_finite()) open = true;
    lo = empty ? value : min(lo, value);
    hi = empty ? value : max(hi, value);
    empty = false;
  }
  void widen(const Ball& relative, const Ball& absolute) {
    lo = lo - (relative * abs(lo) + absolute);
    hi = hi + (relative * abs(hi) + absolute);
  }
  [[nodiscard]] Ball magnitude() const { return max(abs(lo), abs(hi)); }
};

}  // namespace

Interval Row::Facts::element(std::size_t i) const {
  Interval result;
  const auto leave_open = [&](const std::string& why) {
    if (!result.nonfinite) result.nonfinite = why;
    result.undetermined = why;
  };
  if (!finite || !std::isfinite(gamma[i]) || !std::isfinite(beta[i])) {
    result.nan = contract.nan == NanRule::propagates && (has_nan || std::isnan(gamma[i]) || std::isnan(beta[i]));
    leave_open("an input is not finite");
    return result;
  }
  if (unknown) {
    leave_open(*unknown);
    return result;
  }
  const auto permit = [&](const std::string& why) {
    if (!result.nonfinite) result.nonfinite = why;
  };
  const Unit &N = a_norm, &A = a_affine;
  if (lost_mean) permit(*lost_mean);
  if (lost_variance) permit(*lost_variance);
  if (may_be_zero) permit("the variance and epsilon may add up to 0");

  // Section 4: the difference.
  Ball off = ed + Ball(error[i]) + (flush ? 3 * N.eta : Ball(0));
  if (norm_loses_s) off += N.u * (abs(mean) + dm) + N.eta;
  if (norm_loses_source) off += N.u * Ball(std::fabs(x[i])) + N.eta;
  const Ball reach = abs(d[i]) + dm + off, magnitude = Ball(std::fabs(x[i])) + abs(mean) + dm;
  if (not_below(reach, N.overflow) || (norm_loses_s && not_below(abs(mean) + dm, N.overflow)) ||
      (norm_loses_source && not_below(Ball(std::fabs(x[i])), N.overflow)))
    permit("a difference from the mean may overflow");

  // The reciprocal root.
  Ball rel = root, top = may_be_zero ? Ball(0) : 1 / sqrt(least);
  bool root_may_be_infinite = false;
  if (norm_loses_s) {
    rel = (1 + root) * (1 + N.u) - 1;
    if (may_be_zero || not_below(top * (1 + rel), N.overflow)) permit("the reciprocal root may overflow");
    root_may_be_infinite = not_below(sqrt(v_hi + eps_hi) * (1 + 2 * s.u), N.overflow);
  }
  const Ball r = top * (1 + rel);

  // The normalised value.
  Span t;
  const Ball flushed = flush ? s.eta : Ball(0);
  const bool single = n == 1 && !rms, nothing = single && !certainly_less(0, reach);
  if (nothing) {
    t.hold(0);
  } else if (joint && certainly_less(cv, 1)) {
    const Ball gain = eps_lo - flushed - av;
    const Ball low = certainly_less(gain, 0) ? larger_of(0, variance + gain / (1 - cv)) : variance + gain;
    const Ball high = variance + eps_hi + av + flushed;
    for (const auto& [V, share] : {std::pair{low, 1 - cv}, std::pair{high, 1 + cv}})
      for (const Ball& from : {d[i] - off, d[i] + off}) {
        for (const Ball& delta : {-dm, dm}) {
          const Ball numerator = from - delta, square = share * (V + squared(delta));
          if (!certainly_less(0, abs(numerator)))
            t.hold(0);
          else if (certainly_less(0, square))
            t.hold(numerator / sqrt(square));
          else
            t.open = true;
        }
        if (certainly_less(dm * abs(from), V) || !certainly_less(0, abs(from))) continue;
        if (certainly_less(0, V)) {
          const Ball turning = sqrt((1 + squared(from) / V) / share);
          t.hold(certainly_less(from, 0) ? -turning : turning);
        } else {
          t.open = true;
        }
      }
    if (may_be_zero && certainly_less(0, av) && certainly_less(0, reach)) t.open = true;
  } else {
    const Ball bottom = 1 / sqrt(v_hi + eps_hi + flushed);
    for (const Ball& from : {d[i] - dm - off, d[i] + dm + off}) {
      t.hold(from * bottom);
      if (!may_be_zero)
        t.hold(from * top);
      else if (certainly_less(0, abs(from)))
        t.open = true;
      else
        t.hold(0);
    }
  }
  if (!nothing && !t.open) {
    Ball relative = (1 + rel) * (1 + compounded(2, N.u)) - 1, absolute = (flush ? 2 : 1) * N.eta;
    if (norm_loses_s) {
      const Ball q = N.eta * r;
      if (may_be_zero || !certainly_less(q, 0.5)) {
        t.open = true;
        permit("the root may vanish in the normalise format");
      } else {
        relative = (1 + relative) / (1 - q) - 1;
      }
      absolute += N.eta * reach;
    }
    t.widen(relative, absolute);
  }
  const bool scale_bias = how.form == NormForm::scale_bias && !rms;
  if (scale_bias) {
    if (may_be_zero) t.open = true;
    if (!t.open) t.widen(0, magnitude * r * compounded(4, N.u) + (flush ? 4 : 2) * N.eta);
    if (may_be_zero || not_below(magnitude * r, N.overflow)) permit("x times the reciprocal root may overflow");
  }
  const bool folded = how.form == NormForm::folded, early = folded || how.form == NormForm::weighted_scale;
  if (how.norm_rounded && !t.open) {
    if (not_below(t.magnitude(), storage.overflow)) permit("the normalised value may overflow");
    t.widen(storage.u, storage.eta);
  }
  if (affine_loses_norm && !early && !t.open) {
    if (not_below(t.magnitude(), A.overflow)) permit("the normalised value may overflow");
    t.widen(A.u, A.eta);
  }

  // gamma and beta.
  const double offset = contract.gamma_offset;
  const Ball g = has_gamma ? Ball(offset) + Ball(gamma[i]) : Ball(1), g_size = abs(Ball(gamma[i]));
  Ball g_rel, g_abs, g_lost;
  if (has_gamma && offset != 0) {
    g_rel += A.u * larger_of(abs(g), g_size);
    g_abs += (flush ? 3 : 1) * A.eta;
  }
  if (has_gamma && affine_loses_params) {
    g_rel += A.u * g_size * (1 + A.u);
    g_abs += A.eta;
    if (not_below(g_size, A.overflow)) permit("gamma does not fit the affine format");
  }
  if (has_gamma && flush && gamma[i] != 0 &&
      std::fabs(gamma[i]) < std::max(smallest_normal(A.format), smallest_normal(params)))
    g_lost = g_size;
  const Ball g_most = abs(g) + g_rel + g_abs + g_lost;
  const bool vanishes = !certainly_less(0, g_most);
  const Ball b = beta[i], rg = r * g_most;
  Ball folded_size;
  if (early) {
    if (may_be_zero || not_below(rg, A.overflow)) permit("r gamma may overflow");
    const Ball meets = folded ? larger_of(abs(mean) + dm, Ball(std::fabs(x[i]))) : reach;
    if (affine_loses_any && (may_be_zero || not_below(larger_of(r, meets), A.overflow)))
      permit("x, the mean or the reciprocal root may not fit the affine format");
    if (!vanishes) folded_size = magnitude * rg;
  }

  // The affine part.
  Span y;
  bool open = t.open && !vanishes;
  if (early && may_be_zero && !vanishes && (affine_loses_any || certainly_less(0, folded ? magnitude : reach)))
    open = true;
  if (!open) {
    Span p;
    if (t.open) {
      p.hold(0);
    } else {
      p.hold(t.lo * g);
      p.hold(t.hi * g);
      if (certainly_less(0, g_lost)) {
        p.hold(t.lo * Ball(offset));
        p.hold(t.hi * Ball(offset));
      }
    }
    if (!vanishes) {
      p.widen(0, t.magnitude() * (g_rel * (1 + A.u) + g_abs));
      const Ball eta = (flush ? 2 : 1) * A.eta;
      if (how.form == NormForm::weighted_scale) {
        p.widen(0, reach * rg * compounded(affine_loses_any ? 4 : 1, A.u) + eta * reach);
        if (affine_loses_any) p.widen(0, eta * (rg + reach * g_most));
      }
      if (folded) {
        p.widen(0, folded_size * compounded(affine_loses_any ? 8 : 5, A.u) + eta * (2 + magnitude));
        if (affine_loses_any) p.widen(0, eta * (2 * rg + magnitude * g_most));
      }
      int unused = 0;
      const bool keeps = !early && (!has_gamma || (offset == 0 && std::fabs(std::frexp(gamma[i], &unused)) == 0.5));
      p.widen(keeps ? Ball(0) : A.u * (1 + A.u), (flush ? 3 : 1) * A.eta);
    }
    if (not_below(p.magnitude(), A.overflow)) permit("the product with gamma may overflow");
    y.hold(p.lo + b);
    y.hold(p.hi + b);
    Ball more = flush ? 2 * A.eta : Ball(0);
    if (has_beta && affine_loses_params) {
      more += A.u * abs(b) + A.eta;
      if (not_below(abs(b), A.overflow)) permit("beta does not fit the affine format");
    }
    if (flush_inputs && std::fabs(beta[i]) < smallest_normal(params)) more += abs(b);
    if (folded && !vanishes) {
      more += A.u * (folded_size + abs(b)) * (1 + A.u);
      if (not_below(folded_size + abs(b), A.overflow)) permit("beta less m r gamma may overflow");
    }
    if (!(vanishes && beta[i] == 0)) y.widen(beta[i] != 0 || folded ? A.u : Ball(0), more);
    const Ball out_overflow = std::min(overflow_threshold(output), overflow_threshold(tensor));
    if (not_below(y.magnitude(), A.overflow) || not_below(y.magnitude(), out_overflow))
      permit("the result may overflow");
  } else {
    permit("nothing bounds the result");
    result.undetermined = "nothing bounds the normalised value";
  }
  if (lost_variance && how.clamp && !rms) result.undetermined = "a variance that overflowed may be clamped to 0";
  if (certainly_less(0, variance + Ball(epsilon))) result.exact = d[i] / sqrt(variance + Ball(epsilon)) * g + b;
  result.lo = y.lo;
  result.hi = y.hi;
  if (lost_variance || root_may_be_infinite) {
    result.others.push_back(round_to(A.format, beta[i]));
    if (flush && std::fabs(beta[i]) < std::max(smallest_normal(A.format), smallest_normal(params)))
      result.others.push_back(0);
  }
  return result;
}

Row::Row(const Contract& contract, const Inputs& inputs, Index row)
    : facts_(std::make_unique<Facts>(contract, inputs, row)) {}
Row::~Row() = default;

Interval Row::element(Index column) const { return facts_->element(static_cast<std::size_t>(column)); }

std::vector<Figure> Row::figures() const {
  const Facts& f = *facts_;
  return {{"n", std::to_string(f.n)},  {"H", f.additions.text()}, {"u", f.u.text()},       {"mean", f.mean.text()},
          {"v", f.variance.text()},    {"dm", f.dm.text()},       {"ed", f.ed.text()},     {"cv", f.cv.text()},
          {"av", f.av.text()},         {"v_lo", f.v_lo.text()},   {"v_hi", f.v_hi.text()}, {"eps_lo", f.eps_lo.text()},
          {"eps_hi", f.eps_hi.text()}, {"cr", f.root.text()}};
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
