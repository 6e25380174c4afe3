// Probes the numbers of the contract: the algorithm of the variance, the error of the root, the rounding of the
// normalised value and of the output, and subnormal numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/layer_norm/probe/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::FlushToZero;
using attest::layer_norm::Variance;

// A row of offset + 1 and offset - 1, as far from 0 as the format has such numbers.
struct Offset {
  double offset;
  Index width;
};
Offset offset_of(Format dtype) {
  switch (dtype) {
    case Format::f16:
      return {2046, 64};
    case Format::bf16:
      return {254, 4096};  // sums of squares that f32 does not hold
    case Format::f64:
      return {two_to(27), 64};
    default:
      return {4096, 64};
  }
}

// Rows of a and -a, whose t is 1.
ProbeRow root_error(const Asking& asking) {
  const auto& how = asking.contract.arithmetic;
  const std::string stage = "root error", promised = how.rsqrt_rel ? fmt::format("{:.2g} relative", *how.rsqrt_rel)
                                                                   : fmt::format("{} ulp", how.rsqrt_ulp);
  const Maker& maker = asking.maker;
  if (precision(maker.dtype()) < 24) return untold(stage, promised, "out is rounded more coarsely");
  const Index n = maker.width(2);
  if (n % 2 != 0) return untold(stage, promised, "rows have an odd number of elements");
  double worst = 0;
  std::optional<Shown> example;
  for (int step = 0; step < 24; ++step) {
    Problem p = maker.blank(n);
    p.values = Values::alternating;
    p.amplitude = round_to(Format::f32, 1 + step * 0.1234);
    Shown shown = asking.asked.ask(p);
    if (!shown.done()) return refused_row(stage, promised, shown);
    const double error = std::fabs(shown.at({}) - 1);
    if (!example || !(error <= worst) || shown.outside()) example.emplace(std::move(shown));
    if (!(error <= worst)) worst = error;
    if (std::isnan(error) || example->outside()) break;
  }
  const double ulps = worst / (2 * unit_roundoff(maker.dtype()));
  const std::string observed = !(ulps < 1e6)   ? cannot_tell("values are far off")
                               : how.rsqrt_rel ? fmt::format("{:.2g} relative, squares and products included", worst)
                                               : fmt::format("{:.1f} ulp of {}, squares and products included", ulps,
                                                             attest::name(maker.dtype()));
  return row_of(stage, promised, observed, *example,
                ulps < 1e6 && asking.asked.kept_by(*example) ? Standing::agrees : Standing::open);
}

// Tells whether t is a number of the storage format before gamma meets it.
ProbeRow normalised_value(const Asking& asking) {
  const std::string stage = "normalised value";
  const std::string kept = "not rounded", rounded = "rounded to storage";
  const std::string promised = asking.contract.arithmetic.norm_rounded ? rounded : kept;
  const Format dtype = asking.maker.dtype();
  if (precision(dtype) >= 24) return untold(stage, promised, "it has as many bits as storage");
  if (!asking.maker.has_params()) return untold(stage, promised, "it takes no gamma and beta");
  const Index n = asking.maker.width(32);
  if (n < 4 || n % 2 != 0) return untold(stage, promised, "it takes rows of 4 or more");
  int zeros = 0, all = 0;
  std::optional<Shown> example;
  for (int size = 2; size <= 15; ++size) {
    Row x;
    for (Index i = 0; i < n; ++i) x.push_back((i < 2 ? size : 1) * (i % 2 == 0 ? 1 : -1));
    const double t = normalised(x, Norm::layer, 0)[0];
    if (off_grid(t, precision(dtype)) < 0.2) continue;
    const FineCall call = fine_call(asking.maker, x, 0);
    Shown shown = asking.asked.ask(call.problem);
    if (!shown.done()) return refused_row(stage, promised, shown);
    ++all;
    zeros += shown.at({}) == round_to(dtype, call.factor * round_to(dtype, call.t) + call.beta);
    if (!example || shown.outside()) example.emplace(std::move(shown));
    if (example->outside()) break;
  }
  if (!example) return untold(stage, promised, "no value lies between two numbers of storage");
  std::string observed = zeros == all ? rounded : zeros == 0 ? kept : cannot_tell("some values are, some are not");
  const Standing standing =
      observed == promised || (observed == kept && promised == rounded) ? Standing::agrees : Standing::open;
  return row_of(stage, promised, std::move(observed), *example, standing);
}

// A gamma of quarters of a unit, beside a beta of 1.
ProbeRow output_rounding(const Asking& asking) {
  const Maker& maker = asking.maker;
  const auto quarters = [&](int count) -> std::optional<std::pair<ops::Problem, probing::Read>> {
    const Index n = maker.width(2);
    if (!maker.has_params() || n % 2 != 0 || maker.gamma_offset() != 0) return std::nullopt;
    const double u = two_to(1 - precision(maker.dtype()));
    Problem p = maker.blank(n);
    p.values = Values::alternating;
    set_gamma(p, 0, u * count / 4);
    set_beta(p, 0, 1);
    return std::pair{ops::Problem(std::move(p)), out_at(0)};
  };
  return probing::output_rounding(asking.asked, quarters, "it takes no gamma and beta");
}

// A product with gamma that is subnormal, and a subnormal beta by itself.
ProbeRow flush(const Asking& asking) {
  const FlushToZero said = asking.contract.arithmetic.flush_to_zero;
  const std::string stage = "flush to zero", promised = said == FlushToZero::no        ? "no"
                                                        : said == FlushToZero::results ? "results"
                                                                                       : "inputs";
  const Maker& maker = asking.maker;
  const Index n = maker.width(2);
  if (!maker.has_params() || n % 2 != 0) return untold(stage, promised, "it takes no gamma and beta");
  if (maker.gamma_offset() != 0) return untold(stage, promised, "gamma is stored less 1");
  const double small = 16 * half_smallest_subnormal(maker.dtype());
  Problem product = maker.blank(n), alone = maker.blank(n);
  product.values = Values::alternating;
  set_gamma(product, 0, small);
  set_beta(alone, 0, small);
  const Shown made = asking.asked.ask(product), given = asking.asked.ask(alone);
  if (!made.done()) return refused_row(stage, promised, made);
  if (!given.done()) return refused_row(stage, promised, given);
  const double result = made.at({}), beta = given.at({});
  const std::string observed = result == 0 && beta == 0 ? "results and beta"
                               : result == 0            ? "results"
                               : beta == 0              ? "beta"
                               : beta == small          ? "no"
                                                        : cannot_tell("subnormal numbers are neither kept nor 0");
  const bool agrees = observed == "no" || (said != FlushToZero::no && result * beta == 0);
  return row_of(stage, promised, observed, given.outside() ? given : made, agrees ? Standing::agrees : Standing::open);
}

}  // namespace

// t of such a row is 1 and -1: the loss of squares about 0 shows in its variance.
ProbeRow variance_row(const Asking& asking) {
  const std::string stage = "variance", promised(name(asking.contract.arithmetic.variance));
  const Maker& maker = asking.maker;
  if (!maker.layer()) return untold(stage, "mean of squares", "RMSNorm has no mean");
  const auto [offset, least] = offset_of(maker.dtype());
  const Index n = maker.width(least);
  if (n < least || n % 2 != 0) return untold(stage, promised, fmt::format("it takes rows of {} or more", least));
  Problem p = maker.blank(n);
  p.values = Values::alternating;
  p.offset = offset;
  const bool fine = maker.has_params();
  constexpr double gain = 4096;
  const double factor = fine ? gain + maker.gamma_offset() : 1;
  for (const Index column : {0, 1}) {
    if (!fine) break;
    set_gamma(p, column, gain);
    set_beta(p, column, column == 0 ? -gain : gain);
  }
  const Shown shown = asking.asked.ask(p);
  if (!shown.done()) return refused_row(stage, promised, shown);
  double error = 0;
  for (const Index column : {0, 1}) {
    const double sign = column == 0 ? 1 : -1, expected = sign * (fine ? factor - gain : 1);
    const double off = std::fabs(shown.at({0, column, 0, 0}) - expected) / factor;
    error = std::isnan(off) ? off : std::max(error, off);
  }
  const bool one_pass = asking.contract.arithmetic.variance == Variance::one_pass;
  const double exact = std::max(two_to(-18), fine ? 0 : 2 * unit_roundoff(maker.dtype()));
  if (error <= exact) {
    if (!fine && precision(maker.dtype()) < 24)
      return row_of(stage, promised, cannot_tell("out is rounded more coarsely"), shown, Standing::open);
    return row_of(stage, promised, "exact at an offset: two passes, or shifted", shown, Standing::agrees);
  }
  return row_of(
      stage, promised,
      fmt::format("off by {:.2g} at an offset of {} deviations: in one pass, or by running means", error, offset),
      shown, one_pass ? Standing::agrees : Standing::open);
}

std::vector<ProbeRow> number_rows(const Asking& asking) {
  return {variance_row(asking), root_error(asking), normalised_value(asking), output_rounding(asking), flush(asking)};
}

}  // namespace attest::ops::of_layer_norm
