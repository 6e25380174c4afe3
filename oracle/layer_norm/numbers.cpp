#include "oracle/layer_norm/numbers.hpp"

namespace attest::oracle::layer_norm {
namespace {

using attest::layer_norm::FlushToZero;
using attest::layer_norm::Merge;
using attest::layer_norm::SumOf;

// Of dividing a sum by n, or of multiplying it by a rounded 1/n, which may be subnormal in f16.
double count_error(const Unit& s, double n) {
  if (is_power_of_two(n)) return 0;
  const double each = std::max(s.u, s.eta * n);
  return compounded(n * s.u > 1 ? 3 : 2, each);
}

}  // namespace

Numbers::Numbers(const Contract& contract, Format param_format, Index count_of, double epsilon, bool is_rms,
                 bool has_residual)
    : variance(contract.arithmetic.variance),
      form(is_rms && contract.arithmetic.form == NormForm::scale_bias ? NormForm::centred : contract.arithmetic.form),
      rms(is_rms),
      flush(contract.arithmetic.flushes()),
      flush_inputs(contract.arithmetic.flush_to_zero == FlushToZero::inputs),
      clamp(contract.arithmetic.clamp && !is_rms),
      norm_rounded(contract.arithmetic.norm_rounded),
      one_pass_like(!is_rms && (variance == Variance::one_pass || variance == Variance::shifted)),
      merges(!is_rms && contract.arithmetic.merge != Merge::none),
      weighted_merges(!is_rms && contract.arithmetic.merge == Merge::weighted),
      source(has_residual && contract.arithmetic.sum_of == SumOf::unrounded ? contract.policy[Stage::sum]
                                                                            : contract.policy[Stage::storage]),
      storage(contract.policy[Stage::storage], flush),
      statistics(contract.policy[Stage::statistics], flush),
      normalise(contract.policy[Stage::normalise], flush),
      affine(contract.policy[Stage::affine], flush),
      params(param_format),
      output(contract.policy[Stage::output]),
      gamma_offset(contract.gamma_offset),
      statistics_lose(loses(statistics.format, source)),
      normalise_loses_source(loses(normalise.format, source)),
      normalise_loses_statistics(loses(normalise.format, statistics.format)),
      affine_loses_normalise(loses(affine.format, normalise.format)),
      affine_loses_params(loses(affine.format, param_format)),
      affine_loses_source(loses(affine.format, source)),
      affine_loses_statistics(loses(affine.format, statistics.format)),
      n(static_cast<double>(count_of)),
      u(contract.arithmetic.kappa * statistics.u),
      additions(contract.arithmetic.additions(count_of)),
      merge_depth(merges ? static_cast<double>(contract.arithmetic.merge_depth) : 0),
      count(count_error(statistics, n)),
      count_lost(n >= statistics.overflow || 1 / n < (flush ? 1 : 0.5) * statistics.eta ||
                 (flush && 1 / n < smallest_normal(statistics.format))) {
  const double us = statistics.u;
  const bool exact = round_to(statistics.format, epsilon) == epsilon &&
                     (!flush || epsilon == 0 || epsilon >= smallest_normal(statistics.format));
  // Outwards: where the variance is far less, an ulp of epsilon is half an ulp of the result.
  epsilon_lo = exact ? epsilon : std::max(0.0, std::nextafter(epsilon * (1 - us) - statistics.eta, 0.0));
  epsilon_hi = exact ? epsilon : std::nextafter(epsilon * (1 + us) + statistics.eta, infinity);
  if (epsilon >= statistics.overflow) epsilon_hi = infinity;
  const auto& how = contract.arithmetic;
  const double function = how.rsqrt_rel ? *how.rsqrt_rel + us * (1 + *how.rsqrt_rel) : 2 * how.rsqrt_ulp * us;
  const double itself = std::max(compounded(3, us), function), of_argument = compounded(1, u) / 2;
  root = both(itself, of_argument);
}

}  // namespace attest::oracle::layer_norm
