// Probes the numbers of the contract: the rounding of output and sums, blocks of tensor cores, exp, the place of the
// scale, and subnormal numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/mma.hpp"
#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// ---- the output -----------------------------------------------------------------------------------------------------

// Means a quarter, a half and three quarters of a unit above 1.
ProbeRow output_rounding(const Asking& asking) {
  const double u = two_to(1 - precision(asking.maker.dtype()));
  const auto mean = [&](int quarters) -> std::optional<std::pair<ops::Problem, probing::Read>> {
    Problem p = asking.maker.blank(1, 4, 1, 1);
    if (p.lk % 4 != 0) return std::nullopt;
    for (Index j = 0; j < p.lk; ++j)
      set(p, Edit::Tensor::v, {0, 0, j, 0}, 1 + u * (quarters / 4 + (j % 4 < quarters % 4 ? 1 : 0)));
    auto said = asking.way.said(p);
    if (!said) return std::nullopt;
    return std::pair{std::move(*said), probing::element(asking.way.place(p, {}))};
  };
  return probing::output_rounding(asking.asked, mean, "the number of keys is no multiple of 4");
}

// ---- sums -----------------------------------------------------------------------------------------------------------

constexpr double small_term = 0.75;  // in units in the last place of 2^23 in f32

// Scores of M, t and -M at three columns, M = 2^23, as a logit against 0 in units of the score.
std::optional<Shown> cancelled(const Asking& asking, Index width, Index plus, Index small, Index minus) {
  auto p = asking.maker.paired(2, width);
  if (!p || std::max({plus, small, minus}) >= p->d) return std::nullopt;
  const double root = two_to(12), rest = two_to(11) / p->effective_scale();
  set_q(*p, 0, plus, root);
  set_q(*p, 0, minus, root);
  set_q(*p, 0, small, 1);
  set_keys(*p, 0, plus, rest);
  set_keys(*p, 0, minus, -rest);
  set_keys(*p, 0, small, small_term / p->effective_scale());
  set_values(*p, 0, 1);
  return asking.ask(*p);
}

std::string sums_promised(const Arithmetic& how) {
  if (how.mma) return fmt::format("mma {}", to_text(*how.mma));
  return how.kappa == 1 ? "to nearest" : fmt::format("kappa {}", how.kappa);
}

std::vector<ProbeRow> sums(const Asking& asking, bool in_f32) {
  const std::string stage = "sums", promised = sums_promised(asking.contract.arithmetic);
  if (!in_f32) return {untold(stage, promised, "qk is not shown to be f32")};
  constexpr std::array<std::array<Index, 3>, 6> orders{
      {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 2, 0}, {1, 0, 2}, {2, 0, 1}}};
  bool cut = false, rounded = false, kept = true;
  std::optional<Shown> example;
  for (const auto& [plus, small, minus] : orders) {
    auto shown = cancelled(asking, 4, plus, small, minus);
    if (!shown) return {untold(stage, promised, "it takes a width of 4 or more")};
    if (!shown->done()) return {refused_row(stage, promised, *shown)};
    const double score = logit(shown->out());
    const bool to_zero = std::fabs(score) < 0.1, to_one = std::fabs(score - 1) < 0.05;
    const bool whole = std::fabs(score - small_term) < 0.05;
    if (!to_zero && !to_one && !whole) kept = false;
    if (!example || (to_zero && !cut) || (to_one && !cut && !rounded)) example.emplace(std::move(*shown));
    cut = cut || to_zero;
    rounded = rounded || to_one;
  }
  if (!kept) return {untold(stage, promised, "the scale or log2 e is folded into a factor")};
  const bool to_nearest = asking.asked.policy_declared && asking.contract.arithmetic.sums_to_nearest();
  std::vector<ProbeRow> rows;
  if (cut) {
    // No order of additions rounded to nearest gives 0.
    rows.push_back(
        row_of(stage, promised, "cut toward zero", *example, to_nearest ? Standing::contradicts : Standing::agrees));
    rows.back().note = "2^23 + 0.75 - 2^23 is 0, which no order of sums rounded to nearest in f32 gives";
  } else if (rounded) {
    rows.push_back(row_of(stage, promised, "to nearest", *example, Standing::agrees));
  } else {
    rows.push_back(
        row_of(stage, promised, cannot_tell("the three terms meet in no f32 sum"), *example, Standing::open));
  }
  if (!cut) return rows;
  // A block aligns its terms to the largest; added one by one, M and -M would be gone before t comes.
  Index block = 0;
  for (const Index other : {2, 3, 4, 7, 8, 15, 16, 31, 32, 63}) {
    auto shown = cancelled(asking, 64, 0, other, 1);
    if (!shown || !shown->done()) break;
    if (std::fabs(logit(shown->out())) > 0.1) break;
    block = other + 1;
    example.emplace(std::move(*shown));
  }
  const std::string promised_block =
      asking.contract.arithmetic.mma ? fmt::format("{} or more", asking.contract.arithmetic.mma->block) : "not said";
  rows.push_back(row_of(
      "blocks of sums", promised_block,
      block == 0 ? cannot_tell("terms side by side cancel first") : fmt::format("{} products at once or more", block),
      *example, Standing::unsaid));
  return rows;
}

// ---- exp ------------------------------------------------------------------------------------------------------------

ProbeRow exp_error(const Asking& asking) {
  const Arithmetic& how = asking.contract.arithmetic;
  const std::string stage = "exp error";
  const std::string promised =
      how.exp_rel ? fmt::format("{:.2g} relative", *how.exp_rel) : fmt::format("{} ulp", how.exp_ulp);
  const Format dtype = asking.maker.dtype();
  if (is_short(dtype)) return untold(stage, promised, "the output is rounded more coarsely");
  constexpr Index keys = 32;
  Problem p = asking.maker.blank(1, keys, 1, keys);
  if (p.dv < p.lk) return untold(stage, promised, "it takes as many columns of v as keys");
  set_q(p, 0, 0, 1);
  std::vector<double> gaps;
  for (Index j = 0; j < p.lk; ++j) {
    const double k = -round_to(dtype, static_cast<double>(j) * 0.33);
    gaps.push_back(k * p.effective_scale());
    set(p, Edit::Tensor::k, {0, 0, j, 0}, k);
    set(p, Edit::Tensor::v, {0, 0, j, j}, 1);
  }
  const Shown shown = asking.ask(p);
  if (!shown.done()) return refused_row(stage, promised, shown);
  double worst = 0;
  for (Index j = 1; j < p.lk; ++j) {
    const double error = std::fabs(shown.out(j) / shown.out(0) / std::exp(gaps[static_cast<std::size_t>(j)]) - 1);
    if (!(error <= worst)) worst = error;
    if (std::isnan(error)) break;
  }
  const double ulps = worst / (2 * unit_roundoff(dtype));
  if (!(ulps < 1e6)) return row_of(stage, promised, cannot_tell("weights are far off"), shown, Standing::open);
  const std::string measured =
      how.exp_rel ? fmt::format("{:.2g} relative", worst) : fmt::format("{:.1f} ulp of {}", ulps, attest::name(dtype));
  // A stage that its row contradicts already may make the weights inexact: exp is then neither right nor to blame.
  if (!asking.asked.kept_by(shown))
    return row_of(stage, promised, measured + ", more than exp and division may have", shown, Standing::open);
  return row_of(stage, promised, measured + ", division included", shown, Standing::agrees);
}

// Large scores one apart: a kernel that multiplies them by log2 e before it subtracts rounds their difference.
ProbeRow exp2(const Asking& asking) {
  const std::string stage = "exp2", promised = asking.contract.arithmetic.exp2 ? "permitted" : "no";
  std::optional<Shown> example;
  bool off = false;
  for (const double large : {1048576.0, 1441792.0, 1736704.0}) {  // two with few bits, and one with 21
    auto p = asking.maker.paired(2, 2);
    if (!p) return untold(stage, promised, "it takes a width of 2 or more");
    const double per = 1 / p->effective_scale();
    set_q(*p, 0, 0, 1024);
    set_q(*p, 0, 1, 1);
    for (const Index parity : {0, 1}) set_keys(*p, parity, 0, large / 1024 * per);
    set_keys(*p, 0, 1, per);
    set_values(*p, 0, 1);
    Shown shown = asking.ask(*p);
    if (!shown.done()) return refused_row(stage, promised, shown);
    const double difference = std::fabs(logit(shown.out()) - 1);
    const bool here = difference > 0.02;
    if (here && !(difference < 0.3))
      return row_of(stage, promised, cannot_tell("large scores are rounded"), shown, Standing::open);
    if (!example || (here && !off)) example.emplace(std::move(shown));
    off = off || here;
  }
  if (off)
    return row_of(stage, promised, "scores are multiplied by log2 e before the maximum is subtracted", *example,
                  asking.contract.arithmetic.exp2 ? Standing::agrees : Standing::open);
  return row_of(stage, promised, cannot_tell("scores are subtracted first"), *example, Standing::open);
}

// ---- the scale ------------------------------------------------------------------------------------------------------

std::string fold_promised(const Arithmetic& how) {
  std::string all;
  for (const auto& [may, word] : {std::pair{how.fold_q, "q"}, {how.fold_k, "k"}, {how.fold_sqrt, "both"}})
    if (may) all += fmt::format("{}, ", word);
  return all + "scores";
}

// Products of q, k and the scale of which one overflows by itself.
ProbeRow scale_placement(const Asking& asking) {
  const std::string stage = "scale placement", promised = fold_promised(asking.contract.arithmetic);
  if (asking.maker.dtype() == Format::f16 || asking.maker.dtype() == Format::f64)
    return untold(stage, promised, "no product of q, k and a scale overflows where sums are kept");
  if (asking.maker.supports().scale == Supports::Scale::only_default)
    return untold(stage, promised, "the scale is the default one");
  std::optional<Shown> example;
  const auto is_finite = [&](int q, int k, int scale) {
    auto p = asking.maker.paired(2, 1);
    if (!p) return false;
    p->scale = two_to(scale);
    set_q(*p, 0, 0, two_to(q));
    set_keys(*p, 0, 0, two_to(k));
    set_values(*p, 0, 1);
    example.emplace(asking.ask(*p));
    return example->done() && std::fabs(logit(example->out()) - 4) < 0.2;
  };
  const bool raw = is_finite(70, 70, -138);
  if (!example->done()) return refused_row(stage, promised, *example);
  std::string observed;
  if (!raw) {
    observed = "scores, after the product";
  } else {
    const bool q = is_finite(64, -126, 64), k = q && is_finite(-126, 64, 64);
    observed = !q ? "q, before the product" : !k ? "k, before the product" : "both, or sums of a wider range";
  }
  return row_of(stage, promised, observed, *example, Standing::open);
}

// ---- subnormal numbers ----------------------------------------------------------------------------------------------

ProbeRow flush(const Asking& asking) {
  const std::string stage = "flush to zero", promised = asking.contract.arithmetic.flush_to_zero ? "yes" : "no";
  const Format dtype = asking.maker.dtype();
  const double smallest = 2 * half_smallest_subnormal(dtype),
               value = 8 * (dtype == Format::f64 ? smallest / 2 : smallest);
  Problem p = asking.maker.blank(1, 2, 1, 1);
  for (const Index parity : {0, 1}) set_values(p, parity, value);
  Shown values = asking.ask(p);
  if (!values.done()) return refused_row(stage, promised, values);
  std::optional<Shown> scores;
  if (auto q = asking.maker.paired(2, 1)) {
    const int root = max_exponent(dtype);
    set_q(*q, 0, 0,
          two_to(root) / q->effective_scale() > largest_finite(dtype) ? two_to(root)
                                                                      : two_to(root) / q->effective_scale());
    set_keys(*q, 0, 0, two_to(-root));
    set_values(*q, 0, 1);
    scores.emplace(asking.ask(*q));
  }
  const bool of_values = values.out() == 0, kept = values.out() == value;
  const bool of_scores = scores && scores->done() && scores->out() == 0.5;
  std::string observed = of_values && of_scores ? "yes"
                         : of_values            ? "of values and results"
                         : of_scores            ? "of q and k"
                         : kept                 ? "no"
                                                : cannot_tell("subnormal values are neither kept nor 0");
  const Standing standing =
      (observed == "no") == !asking.contract.arithmetic.flush_to_zero ? Standing::agrees : Standing::open;
  const Shown& example = of_scores && !of_values ? *scores : values;
  return row_of(stage, promised, std::move(observed), example, standing);
}

}  // namespace

std::vector<ProbeRow> number_rows(const Asking& asking, const std::vector<ProbeRow>& stages) {
  const auto qk = std::ranges::find(stages, "qk", &ProbeRow::stage);
  const auto softmax = std::ranges::find(stages, "softmax (exp)", &ProbeRow::stage);
  const auto in_f32 = [&](auto row) {
    return row != stages.end() && row->at_least && holds(*row->at_least, Format::f32);
  };
  std::vector<ProbeRow> rows{output_rounding(asking)};
  for (ProbeRow& row : sums(asking, in_f32(qk) && in_f32(softmax))) rows.push_back(std::move(row));
  rows.push_back(exp_error(asking));
  rows.push_back(exp2(asking));
  rows.push_back(scale_placement(asking));
  rows.push_back(flush(asking));
  return rows;
}

}  // namespace attest::ops::of_attention
