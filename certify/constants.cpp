#include "certify/constants.hpp"

#include <cmath>

#include "certify/exact.hpp"

namespace attest::certify {
namespace {

// log2 e rounded up: how much larger a number may be that the factor of 2^x has been folded into.
constexpr double folded_log2_e = 1.4427;

Ball underflow(Format format, bool flush) { return flush ? smallest_normal(format) : half_smallest_subnormal(format); }

// Returns how often a score may be rounded to the scale's format (step 3 of section 1). Inputs and log2 e may have to
// be brought to it.
int roundings_of_scale(bool takes_root, bool brings_inputs, bool brings_log2_e) {
  int count = takes_root ? 5 : 2;
  if (brings_inputs) count += takes_root ? 2 : 1;
  if (brings_log2_e) count += 2;
  return std::max(count, 4);
}

}  // namespace

Blocks::Blocks(const Mma& mma, Format accumulator, int bits, bool singly) : smallest(smallest_normal(accumulator)) {
  const auto power = [](int exponent) { return Ball(std::ldexp(1.0, exponent)); };
  const Format result = mma.out == MmaResult::f16 ? Format::f16 : Format::f32;
  const int of_sum = std::max(precision(result), precision(accumulator)) - 1;  // fraction bits of a running sum
  cut = power(-mma.frac);
  each = singly ? max(cut, unit_roundoff(accumulator)) : cut;
  top_is_cut = bits > mma.frac || of_sum > mma.frac;
  switch (mma.out) {
    case MmaResult::f32:
      first = max(cut, power(-23));
      break;
    case MmaResult::e8m13:
      first = max(cut, power(-13));
      break;
    case MmaResult::f16:
      first = cut + power(-11);
      break;
  }
  if (top_is_cut) first += cut;
  if (of_sum > mma.frac) first += cut;  // in a block of weights that are all 0
  if (precision(accumulator) < precision(result)) first += unit_roundoff(accumulator);
}

bool loses(Format to, Format from) { return precision(to) < precision(from) || min_exponent(to) > min_exponent(from); }

Unit::Unit(Format the_format, bool flush)
    : format(the_format),
      u(unit_roundoff(the_format)),
      eta(underflow(the_format, flush)),
      overflow(overflow_threshold(the_format)) {}

Constants::Constants(const Contract& contract, const Inputs& inputs, double own_errors)
    : how(contract.arithmetic),
      flush(how.flush_to_zero),
      exp2(how.exp2),
      merges(how.lse_merge != LseMerge::none),
      softcap_first(contract.softcap_before_bias),
      float64_errors(own_errors),
      sigma(inputs.scale),
      softcap(inputs.softcap),
      d(inputs.q.shape()[3]),
      operand(contract.policy[Stage::operand], flush),
      scale(contract.policy[Stage::scale], flush),
      acc(contract.policy[Stage::qk], flush),
      score(contract.policy[Stage::score], flush),
      cap(contract.policy[Stage::softcap], flush),
      softmax(contract.policy[Stage::softmax], flush),
      weights(contract.policy[Stage::weights], flush),
      pv(contract.policy[Stage::pv], flush),
      partial(contract.policy[Stage::partial], flush),
      storage(contract.policy[Stage::storage]),
      output(contract.policy[Stage::output]) {
  const Ball magnitude = std::fabs(sigma);
  operand_cut = how.mma && operand.format == Format::tf32;
  if (operand_cut) {
    operand.u = 2 * operand.u;
    if (!flush) operand.eta = 2 * operand.eta;
  }
  operand_rounds = loses(operand.format, storage);
  const bool operand_narrower = precision(operand.format) < precision(storage);
  u_operand = operand_narrower ? operand.u : Ball(0);
  eta_operand = flush ? max(operand.eta, smallest_normal(storage)) : operand.eta;
  // Truncation loses whole steps among subnormals.
  for (Unit* sum : {&acc, &pv}) sum->eta = max(sum->eta, how.kappa * half_smallest_subnormal(sum->format));
  mu = max(1, magnitude);
  const Ball u_acc = how.kappa * acc.u;
  e_acc = sums_linearly() ? d * u_acc * (1 + u_acc) : compounded(d, u_acc);
  eta_products = (flush ? 2 : 1) * Ball(d) * acc.eta;
  const bool roots = how.fold_sqrt && sigma > 0;
  const auto finer = [this](Format format) { return precision(format) > precision(scale.format); };
  const bool scale_has_log2_e = exp2 && finer(softmax.format);
  const Ball e_scale = compounded(roundings_of_scale(roots, finer(storage), scale_has_log2_e), scale.u);
  relative_scale = sigma == 0 ? Ball(0) : e_scale + max(scale.eta, exp2 ? softmax.eta : Ball(0)) / magnitude;
  scaled_queries = how.fold_q || roots;
  scaled_keys = how.fold_k || roots;
  folds = scaled_queries || scaled_keys;
  // A scale below zero has no root: a kernel that folds by roots alone multiplies the score by it, and by log2 e with
  // it; so does one that folds into the score.
  with_log2_e = exp2 && (how.fold_q || how.fold_k || how.fold_sqrt || how.fold_score);
  u_bias_unit = with_log2_e ? score.u + (scale_has_log2_e ? 1 : 3) * scale.u : Ball(0);
  const bool lost_before = loses(scale.format, storage);
  brought = lost_before || operand_narrower;
  folded_eta = folds ? scale.eta * (max(1, sqrt(magnitude)) + (lost_before ? mu : Ball(0))) : Ball(0);
  if (folds && !operand_narrower && loses(operand.format, scale.format)) {
    // A power of two, and a power of four where its root is taken, changes no significand.
    const auto is_power_of_two = [](double x) {
      int exponent = 0;
      return std::frexp(x, &exponent) == 0.5;
    };
    const bool exact = !exp2 && is_power_of_two(std::fabs(sigma)) && (!roots || is_power_of_two(std::sqrt(sigma)));
    const Ball u = precision(operand.format) < precision(scale.format) ? operand.u : Ball(0);
    e_entering = exact ? Ball(0) : compounded(roots ? 2 : 1, u);
    eta_entering = operand.eta * max(1, sqrt(magnitude)) * (1 + u);
  }
  if (how.mma) take_blocks(inputs.k.shape()[2]);
  eta_products *= 1 + e_acc;
  has_bias = inputs.bias.present();
  bias_rounds = has_bias && loses(score.format, format_of(inputs.bias.dtype()));
  smallest_bias = has_bias && flush ? smallest_normal(format_of(inputs.bias.dtype())) : 0;

  unit = with_log2_e ? folded_log2_e : 1;
  overflow_mu = max(1, magnitude * unit);
  e_acc_overflow = (1 + e_acc) * (1 + e_scale) * (1 + compounded(2, u_operand)) * (1 + e_entering) - 1;
  raw_overflow = min(score.overflow, scale.overflow);
  if (exp2) raw_overflow = min(raw_overflow, softmax.overflow);
  // The size from which a factor may be infinite that was rounded to the scale's format before: twice at most, with q
  // or k four times.
  largest_factor = (exp2 ? min(scale.overflow, softmax.overflow) : scale.overflow) / (1 + compounded(2, scale.u));
  largest_entering = min(scale.overflow, operand.overflow) / (1 + compounded(4, scale.u));
  // The scale itself may be: then any score may be NaN.
  if (may_reach(magnitude * (exp2 ? folded_log2_e : 1), largest_factor)) raw_overflow = 0;
  const Ball root = roots ? sqrt(magnitude * unit) : Ball(0);
  query_factor = how.fold_q ? max(magnitude * unit, root) : root;
  key_factor = how.fold_k ? max(magnitude * unit, root) : root;

  lazy = contract.lazy_nats();
  a1 = exp2 ? 2 : 0;
  a2 = (exp2 ? 2 : 0) + (how.lse_merge == LseMerge::flat ? 3 : 0);
  const Exact exact = what_is_exact(contract, inputs);
  exact_scores = exact.scores;
  a3 = exact.arguments ? 0 : exp2 ? 5 : 2;
  // A relative error is that of the function; its result is rounded once more.
  c_exp = how.exp_rel ? *how.exp_rel + softmax.u * (1 + Ball(*how.exp_rel)) : 2 * how.exp_ulp * softmax.u;
  ln_exp = -log1p(-c_exp);

  // Weights are rounded to their own format and then to the operand's, which may be one.
  const bool narrow_weights = loses(weights.format, softmax.format);
  const bool enter_rounded = loses(operand.format, weights.format) || operand_narrower;
  weights_round = narrow_weights || enter_rounded;
  per_unit_weight = narrow_weights && enter_rounded ? 3 : 1;  // the second starts twice as far off 1, at most
  u_weights = precision(weights.format) < precision(softmax.format) ? weights.u : Ball(0);
  if (operand_narrower || precision(operand.format) < precision(weights.format)) u_weights += operand.u;
  eta_weights = narrow_weights || flush ? weights.eta : Ball(0);
  if (enter_rounded) eta_weights += operand.eta;
  u_pv = how.kappa * pv.u;
  u_sum = how.kappa > 1 ? -log1p(-(how.kappa * softmax.u)) : softmax.u;
  pv_narrower = loses(pv.format, softmax.format);
  u_final = max(pv.u, softmax.u);
  c_div = 2 * Ball(how.div_ulp);
  u_partial = merges ? partial.u : Ball(0);
  // Error of a tiny exp: f16 keeps subnormals, where an ulp is twice eta and at least one and a half eta may be lost;
  // other formats may flush numbers below their smallest normal one, give or take the error of exp itself.
  const bool keeps_subnormals = has_short_range(softmax.format) && !flush;
  eps0 = Ball(1.01) *
         (keeps_subnormals ? max(2 * Ball(how.exp_ulp), 1.5) * softmax.eta : Ball(smallest_normal(softmax.format)));
  // The most that an underflowing factor of rescaling takes of weights of e^lazy.
  eps_lazy = eps0 * exp(lazy);
  lifted =
      Ball(1.01) * (how.exp_rel ? Ball(1) : max(2 * Ball(how.exp_ulp), 1.5)) * half_smallest_subnormal(softmax.format);
  eps1 = pv_narrower ? max(eps0, pv.eta) * exp(lazy) : eps_lazy;
  eta_final = pv_narrower ? pv.eta : softmax.eta;
  // out lies in memory in q's format: what the output stage rounds up may be infinite there.
  overflow_out = overflow_threshold(output);
  if (output != storage)
    overflow_out = min(overflow_out, overflow_threshold(storage) / (1 + Ball(unit_roundoff(output))));
}

// Section 4c, for the first product and the second and the sum of the weights.
void Constants::take_blocks(Index keys) {
  const int stored = std::min(precision(operand.format), precision(storage));
  const int scaled =
      precision(operand.format) < precision(storage) ? stored : std::max(stored, precision(scale.format));
  const int weight = std::min(precision(weights.format), precision(operand.format));
  const auto blocks_for = [this](Format accumulator, int bits, bool singly) -> std::optional<Blocks> {
    if (!adds_blocks_in(*how.mma, accumulator)) return std::nullopt;
    return Blocks(*how.mma, accumulator, bits, singly);
  };
  qk_blocks =
      blocks_for(acc.format, (scaled_queries ? scaled : stored) + (scaled_keys ? scaled : stored) - 2, !how.mma->only);
  pv_blocks = blocks_for(pv.format, weight + stored - 2, !how.mma->only);
  sum_blocks = blocks_for(softmax.format, weight - 1, true);
  least_factor = std::max(smallest_normal(operand.format), smallest_normal(storage));
  least_weight_factor = std::max(least_factor, smallest_normal(weights.format));
  if (folds) least_factor = std::max(least_factor, smallest_normal(scale.format));
  const Index block = how.mma->block, tiles = (keys + how.kv_tile_min - 1) / how.kv_tile_min;
  key_blocks = (keys + tiles * (block - 1)) / block;
  if (!qk_blocks) return;
  const Ball blocks = (d + block - 1) / block, loss = qk_blocks->loss(d, blocks);
  e_acc = expm1(loss * (1 + acc.u));
  eta_products = loss * qk_blocks->smallest + (flush ? eta_products : Ball(0));
  eta_aligned = qk_blocks->aligned(d, blocks, least_factor);
}

void Constants::forget_what_is_exact() {
  exact_scores = false;
  a3 = exp2 ? 5 : 2;
}

std::vector<Figure> Constants::figures() const {
  std::vector<Figure> list;
  const auto add = [&list](const char* name, const Ball& value) { list.push_back({name, value.text()}); };
  add("sigma", sigma);
  add("softcap", softcap);
  add("kappa", how.kappa);
  add("lazy", lazy);
  add("u_opd", u_operand);
  add("eta_opd", eta_operand);
  add("u_acc", acc.u);
  add("eta_acc", acc.eta);
  add(how.mma ? "E(D) in blocks" : "E(D, kappa u_acc)", e_acc);
  if (how.mma) {
    add("mma.block", how.mma->block);
    add("mma.frac", how.mma->frac);
  }
  add("E(u_opd) of a scaled q or k", e_entering);
  add("u_sct", scale.u);
  add("eta_sct", scale.eta);
  add("exact scores", exact_scores ? 1 : 0);
  add("u_score", score.u);
  add("eta_score", score.eta);
  add("u_cap", cap.u);
  add("eta_cap", cap.eta);
  add("u_sm", softmax.u);
  add("eta_sm", softmax.eta);
  add("a1", a1);
  add("a2", a2);
  add("a3", a3);
  add("c_e", c_exp);
  add("-ln(1 - c_e)", ln_exp);
  add("u_P", u_weights);
  add("eta_P", eta_weights);
  add("u_pv", u_pv);
  add("eta_pv", pv.eta);
  add("u_f", u_final);
  add("c_d", c_div);
  add("u_partial", u_partial);
  add("eta_partial", partial.eta);
  add("eps0", eps0);
  add("eps0 e^lazy", eps_lazy);
  add("eps_up", lifted);
  add("eps1", eps1);
  add("eta_fin", eta_final);
  return list;
}

}  // namespace attest::certify
