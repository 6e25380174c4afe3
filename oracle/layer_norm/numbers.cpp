#include "oracle/layer_norm/numbers.hpp"

#include <utility>

namespace attest::oracle::layer_norm {
namespace {

using attest::layer_norm::FlushToZero;
using attest::layer_norm::Merge;
using attest::layer_norm::SumOf;

// Returns the relative error of dividing a sum by n, or of multiplying it by a rounded 1/n, which may be subnormal in
// f16.
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

QuickNumbers::QuickNumbers(const Numbers& numbers) : Numbers(numbers) {
  const bool coarse = statistics.u > unit_roundoff(Format::f32) || normalise.u > unit_roundoff(Format::f32) ||
                      affine.u > unit_roundoff(Format::f32);
  can_be_narrow = !flush && !clamp && !statistics_lose && !normalise_loses_statistics && !coarse && root < little;
  const bool welford = variance == Variance::welford && !rms;
  root_of_overflow = std::sqrt(statistics.overflow);
  all_additions = compounded(additions, u);
  three = rms ? 0 : compounded(3, u);
  four = welford ? compounded(4, u) : 0;
  const double roundings = welford ? additions + 2 * merge_depth + 10 : additions + (one_pass_like ? 5 : 3);
  cv = both(compounded(roundings, u), count);
  most_growing = welford ? 1 + compounded(additions + 5 * merge_depth, u) : 1;
  growing = std::min(most_growing, 600.0);  // lower bounds stay far from infinity
  hull_growing = welford ? 1 + compounded(4 * (merge_depth + 1), u) : 1;
  const bool loses = affine_loses_source || affine_loses_statistics || affine_loses_normalise;
  brought_root = normalise_loses_statistics ? both(root, normalise.u) : root;
  relative = both(brought_root, compounded(2, normalise.u));
  of_magnitude = of_reach = 0;
  if (form == NormForm::scale_bias) of_magnitude = compounded(4, normalise.u);
  if (form == NormForm::folded) of_magnitude = compounded(loses ? 8 : 5, affine.u) + affine.u;
  if (form == NormForm::weighted_scale) of_reach = compounded(loses ? 4 : 1, affine.u);
  columns = {16 * affine.u, 16 * affine.eta, std::sqrt(n) * slack};
  for (const bool most : {false, true}) {
    const double to = most ? 1 + 1e-6 : slack;  // as QuickRow::bounds() has it
    squares_underflow[most] = (2 + 2 * (cv * to)) * statistics.eta * (flush ? 2 : 1) * to;
  }
}

// The arguments that the numbers depend on, with the parts of the contract that matter, and the numbers.
struct LentNumbers::Made {
  attest::layer_norm::Policy policy;
  attest::layer_norm::Arithmetic arithmetic;
  int gamma_offset;
  Format param_format;
  Index n;
  double epsilon;
  bool rms, has_residual;
  QuickNumbers numbers;
};

std::unique_ptr<LentNumbers::Made>& LentNumbers::of_thread() {
  static thread_local std::unique_ptr<Made> last;
  return last;
}

LentNumbers::LentNumbers(const Contract& contract, Format param_format, Index n, double epsilon, bool rms,
                         bool has_residual)
    : made_(std::move(of_thread())) {
  if (!made_ || made_->n != n || made_->epsilon != epsilon || made_->rms != rms ||
      made_->has_residual != has_residual || made_->param_format != param_format ||
      made_->gamma_offset != contract.gamma_offset || !(made_->policy == contract.policy) ||
      !(made_->arithmetic == contract.arithmetic))
    made_ = std::make_unique<Made>(Made{contract.policy, contract.arithmetic, contract.gamma_offset, param_format, n,
                                        epsilon, rms, has_residual,
                                        QuickNumbers(Numbers(contract, param_format, n, epsilon, rms, has_residual))});
}

LentNumbers::~LentNumbers() { of_thread() = std::move(made_); }

const QuickNumbers& LentNumbers::operator*() const noexcept { return made_->numbers; }

}  // namespace attest::oracle::layer_norm
