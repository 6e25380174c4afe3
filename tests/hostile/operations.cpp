// Single operations of a row: they round, and are as far off as the contract permits.
#include "row.hpp"

namespace hostile {

double Attention::operand(double stored) const {
  if (s_.flush & flush_inputs) stored = flushed(stored, s_.storage);
  double x = nearest(stored, s_.operand);
  if (s_.flush & flush_inputs) x = flushed(x, s_.operand);
  return x;
}

double Attention::folded(double stored, bool here) const {
  if (!here) return operand(stored);
  double x = s_.round_operand_first ? operand(stored) : stored;
  if (s_.flush & flush_inputs) x = flushed(x, s_.storage);
  x = multiply(nearest(x, s_.scale), scale_, s_.scale);
  if (s_.flush & flush_score) x = flushed(x, s_.scale);
  return s_.fold_enters_operand ? nearest(x, s_.operand) : x;
}

double Attention::query(double stored) const { return folded(stored, fold_ == Fold::q || fold_ == Fold::sqrt); }
double Attention::key(double stored) const { return folded(stored, fold_ == Fold::k || fold_ == Fold::sqrt); }
double Attention::value(double stored) const { return operand(stored); }

/// A weight as it enters the second product.
double Attention::entering(double w) const {
  double p = nearest(w, s_.weights);
  if (s_.flush & flush_softmax) p = flushed(p, s_.weights);
  p = nearest(p, s_.operand);
  if (s_.flush & flush_inputs) p = flushed(p, s_.operand);
  return p;
}

double Attention::divide(double a, double b, int side, const Format& format) const {
  if (side == 0 || s_.div_ulp <= 0.5) return exact_quotient(a, b, format);
  return at_edge(static_cast<long double>(a) / static_cast<long double>(b), s_.div_ulp, side, format);
}

/// The final division: in the format of the sum of values, or in that of the sum of weights where it holds all of
/// those.
double Attention::quotient(double values, double sum, int side) const {
  const bool holds = s_.softmax.precision >= s_.pv.precision && s_.softmax.least <= s_.pv.least;
  Format format = s_.narrow_division || !holds ? s_.pv : s_.softmax;
  if (std::isinf(nearest(sum, format)) && std::isfinite(sum)) format = formats[4];
  const double reciprocal = s_.reciprocal_sum ? exact_quotient(1, sum, s_.softmax) : 0;
  double result = reciprocal >= s_.softmax.normal ? multiply(values, reciprocal, format)
                                                  : divide(values, nearest(sum, format), side, format);
  if (s_.flush & flush_sums) result = flushed(result, format);
  return nearest(result, is_f64(format) ? s_.pv : format);
}

double Attention::cap(double s, int side) const {
  const double c = nearest(options_.softcap, s_.softcap);
  const double x = nearest(s, s_.softcap);
  double ratio =
      s_.reciprocal_cap ? multiply(x, exact_quotient(1, c, s_.softcap), s_.softcap) : exact_quotient(x, c, s_.softcap);
  if (s_.flush & flush_score) ratio = flushed(ratio, s_.softcap);
  const long double exact =
      is_f64(s_.softcap) ? std::tanh(static_cast<long double>(ratio)) : static_cast<long double>(std::tanh(ratio));
  if (!s_.off_subnormals && std::fabs(exact) < s_.softcap.normal) side = 0;
  double t = static_cast<double>(exact);
  if (ratio != 0 && !std::isnan(ratio)) {
    if (s_.tanh_absolute) {
      // The error is in ulps of 1.
      const double off = s_.tanh_ulp * std::ldexp(1.0, 1 - s_.softcap.precision) * (1 - 0x1p-10);
      const double limit = static_cast<double>(exact) + side * off;
      t = side == 0 ? nearest(limit, s_.softcap) : toward_zero(limit, s_.softcap);
      if (std::fabs(t - static_cast<double>(exact)) > off) t = nearest(static_cast<double>(exact), s_.softcap);
    } else {
      t = at_edge(exact, s_.tanh_ulp, side, s_.softcap);
    }
  }
  if (s_.flush & flush_score) t = flushed(t, s_.softcap);
  return nearest(multiply(c, t, s_.softcap), s_.score);
}

/// The stored score, from the sum of products; with power folded, times log2 e.
double Attention::score(double dot, double bias, std::size_t key) const {
  double s = dot;
  if (power_ == Power::unscaled || fold_ != Fold::score) {
    s = nearest(s, s_.score);
  } else {
    if (s_.store_unscaled) s = nearest(s, s_.score);
    if (s_.flush & flush_score) s = flushed(s, s_.score);
    s = multiply(nearest(s, s_.scale), scale_, s_.scale);
    if (!s_.store_unscaled || options_.softcap > 0) s = nearest(s, s_.score);
  }
  if (s_.flush & flush_score) s = flushed(s, s_.score);
  const auto plus_bias = [&](double x) {
    if (!options_.has_bias) return x;
    double m = nearest(bias, s_.score);
    if (s_.flush & flush_bias) m = flushed(m, s_.score);
    if (power_ == Power::folded) m = multiply(m, nearest(log2_e, s_.scale), s_.score);
    double sum = add(x, m, s_.score);
    if (s_.flush & flush_score) sum = flushed(sum, s_.score);
    return sum;
  };
  const auto capped = [&](double x) { return options_.softcap > 0 ? cap(x, side_of_value(s_.tanh_side, x, key)) : x; };
  return s_.softcap_before_bias ? plus_bias(capped(s)) : capped(plus_bias(s));
}

double Attention::to_softmax(double x) const {
  double z = nearest(x, s_.softmax);
  if (power_ == Power::both) z = multiply(z, log2e_, s_.softmax);
  if (s_.flush & flush_softmax) z = flushed(z, s_.softmax);
  return z;
}

/// A score in the units that the shift has where weights are computed.
double Attention::multiplied_shift(double z) const {
  return power_ == Power::fused || power_ == Power::unscaled ? multiply(z, unit_, s_.softmax) : z;
}

bool Attention::before(double a, double b) const { return power_ == Power::unscaled && scale_ < 0 ? a > b : a < b; }

/// Nats by which a shift lags, a little too many rather than too few.
double Attention::lag(double now, double shift) const {
  double nats = std::fabs(now - shift);
  if (power_ == Power::unscaled) nats *= std::fabs(options_.scale);
  if (power_ == Power::both || power_ == Power::folded) nats *= std::numbers::ln2;
  return nats * (1 + std::ldexp(8.0, -s_.softmax.precision) + std::ldexp(8.0, -s_.scale.precision));
}

double Attention::difference(double z, double shift) const {
  double x = power_ == Power::fused || power_ == Power::unscaled ? fused(z, unit_, -shift, s_.softmax)
                                                                 : add(z, -shift, s_.softmax);
  if (power_ == Power::argument) x = multiply(x, log2e_, s_.softmax);
  if (s_.flush & flush_softmax) x = flushed(x, s_.softmax);
  return x;
}

/// e^x, or 2^x where the contract's trick is used, as far off as its numbers permit. It is 1 at 0, and 0 at -infinity.
double Attention::power_of(double x, int side, const Format& format) const {
  if (x == 0) return 1;
  if (x == -infinity) return 0;
  if (std::isnan(x)) return x;
  long double exact = 0;
  if (is_f64(format))
    exact = power_ == Power::none ? std::exp(static_cast<long double>(x)) : std::exp2(static_cast<long double>(x));
  else
    exact = power_ == Power::none ? std::exp(x) : std::exp2(x);
  if (!s_.off_subnormals && exact < format.normal) side = 0;
  if (exact == 0) exact = 0x1p-1074L;  // at_edge takes its ulp
  double w =
      s_.exp_rel > 0 ? off_before_rounding(exact, s_.exp_rel, side, format) : at_edge(exact, s_.exp_ulp, side, format);
  if (w < 0) w = 0;
  if (s_.flush & flush_softmax) w = flushed(w, format);
  return w;
}

double Attention::weight(double z, double shift, int side) const {
  if (z == -infinity && power_ != Power::unscaled) return 0;
  return power_of(difference(z, shift), side, s_.softmax);
}

/// e^(lse - shift) of log-sum-exps, whose unit is that of multiplied shifts.
double Attention::merged_weight(double lse, double shift, int side) const {
  if (lse == -infinity) return 0;
  double x = add(lse, -shift, s_.softmax);
  if (power_ == Power::argument) x = multiply(x, log2e_, s_.softmax);
  return power_of(x, side, s_.softmax);
}

double Attention::logarithm(double sum) const {
  const auto l = static_cast<long double>(sum);
  const bool natural = power_ == Power::none || power_ == Power::argument;
  return nearest(static_cast<double>(natural ? std::log(l) : std::log2(l)), s_.softmax);
}

}  // namespace hostile
