#include "certify/row.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest::certify {
namespace {

Vector read(const Tensor& tensor, const Intervals* intervals, Index b, Index h, Index i) {
  if (intervals != nullptr) return {*intervals, b, h, i};
  std::vector<double> row(static_cast<std::size_t>(tensor.shape()[3]));
  for (std::size_t c = 0; c < row.size(); ++c) row[c] = tensor.at(b, h, i, static_cast<Index>(c));
  return Vector(row);
}

Index length_of(const Inputs& inputs, Index b) {
  return inputs.kv_lengths.present() ? static_cast<Index>(inputs.kv_lengths.at(b)) : inputs.k.shape()[2];
}

// Tells whether length, mask, diagonal and window let row i see key j (attest/plugin.h); a bias of -inf is another
// matter.
bool is_open(const Inputs& inputs, Index b, Index h, Index i, Index j) {
  const Index length = length_of(inputs, b);
  const Index diagonal = inputs.align == Align::bottom_right ? i + length - inputs.q.shape()[2] : i;
  return j < length && (!inputs.keep.present() || inputs.keep.at(b, h, i, j) != 0) &&
         (!inputs.causal || j <= diagonal) && (inputs.window_left < 0 || diagonal - j <= inputs.window_left) &&
         (inputs.window_right < 0 || j - diagonal <= inputs.window_right);
}

bool never_read_if_masked(const Contract& contract, const Inputs& inputs, Index b, Index j) {
  return contract.masked_unread == MaskedUnread::yes ||
         (contract.masked_unread == MaskedUnread::beyond_length && j >= length_of(inputs, b));
}

}  // namespace

Row::Row(const Constants& c, const Contract& contract, const Inputs& inputs, std::array<Index, 3> place,
         const Operands* operands) {
  collect(c, contract, inputs, place, operands);
  if (kind == RowKind::ordinary && keys.empty()) {
    kind = RowKind::empty;
    if (contract.empty_row == EmptyRow::mean_v) take_mean(length_of(inputs, place[0]));
    if (contract.empty_row == EmptyRow::mean_all) take_mean(inputs.k.shape()[2]);
  }
  if (keys.empty() || kind == RowKind::must_be_nan || kind == RowKind::undetermined) return;
  weigh(c, inputs.k.shape()[2]);
  mass_most = operands != nullptr && !operands->exact ? max(mass, hi_sum) : mass;
  if (kind == RowKind::ordinary && contract.lazy_nats() == 0 && !c.operand_cut) find_tops(c);
  const Ball infinite = Ball(std::numeric_limits<double>::max()) + 0x1p970;  // once it is rounded
  if (may_reach(abs(z_max), infinite))
    leave_undetermined("the largest score is past the range of double");
  else
    check_overflow(c, contract.empty_row);
}

void Row::leave_undetermined(const char* reason) {
  kind = RowKind::undetermined;
  nonfinite.give(reason);
  undetermined.give(reason);
}

// The keys that take part, their scores, and what inputs that are not finite do.
void Row::collect(const Constants& c, const Contract& contract, const Inputs& inputs, std::array<Index, 3> place,
                  const Operands* operands) {
  const auto [b, h, i] = place;
  const Index kv = h / (inputs.q.shape()[1] / inputs.k.shape()[1]), all = inputs.k.shape()[2];
  const Intervals* const keys_known = operands != nullptr ? &operands->k : nullptr;
  const Vector query = read(inputs.q, operands != nullptr ? &operands->q : nullptr, b, h, i);
  const bool cap_last = inputs.softcap > 0 && !contract.softcap_before_bias;
  bool nan = false, all_finite = query.finite, masked_finite = true;
  if (!query.finite) nonfinite.give("q is not finite");
  for (Index j = 0; j < all; ++j) {
    const bool unread = never_read_if_masked(contract, inputs, b, j), open = is_open(inputs, b, h, i, j);
    const double bias = inputs.bias.present() ? inputs.bias.at(b, h, i, j) : 0;
    const bool by_bias = open && bias == -infinity && !cap_last, takes_part = open && !by_bias;
    const bool excluded = by_bias || (!open && contract.mask_added);  // by an addition to its score
    const bool read_anyway = !unread || excluded;
    masked_but_read.push_back(!takes_part && read_anyway);
    if (!takes_part && !read_anyway) continue;
    const Vector key = read(inputs.k, keys_known, b, kv, j);
    if (!takes_part) {
      if (!key.finite) masked_finite = false;
      // inf + -inf
      const double added = bias == -infinity ? 0 : bias;
      if (excluded &&
          (!key.finite || !query.finite || !(added < infinity) || score_of(c, query, key, added).overflows()))
        nonfinite.give("a score to which -inf is added may overflow");
      continue;
    }
    keys.push_back(j);
    // A bias that rounds to -inf may exclude the key and its NaN.
    if ((query.has_nan || key.has_nan) && certainly_less(-c.score.overflow, bias * c.unit)) nan = true;
    if (!key.finite || !(bias < infinity)) all_finite = false;
    if (!all_finite) continue;
    scores.push_back(score_of(c, query, key, bias));
    if (scores.back().overflows()) nonfinite.give("a score of this row may overflow");
  }
  if (!keys.empty() && !all_finite) {
    if (nan && contract.nan == NanRule::propagates)
      kind = RowKind::must_be_nan;
    else
      leave_undetermined("q, an attended k or its bias is not finite");
  } else if (!masked_finite) {
    leave_undetermined("a masked k is not finite, and may be read");
  }
}

// An empty row that returns the mean of v: equal scores over every key of the sample.
void Row::take_mean(Index values) {
  for (Index j = 0; j < values; ++j) {
    keys.push_back(j);
    masked_but_read[static_cast<std::size_t>(j)] = false;
  }
  scores.assign(keys.size(), Score{});
}

// The number of keys that may each set a running maximum: in the declared order, if keys are not split; in any other
// order, all of them. Keys with equal exact scores count once.
Index Row::count_records(const Constants& c) const {
  const KeyOrder order = c.how.key_order;
  if (order == KeyOrder::any || c.merges) {
    if (!c.exact_scores) return n;
    std::vector<Ball> different;
    for (const Score& score : scores)
      if (std::ranges::none_of(
              different, [&](const Ball& z) { return arb_is_exact(z.get()) && arb_equal(z.get(), score.z.get()); }))
        different.push_back(score.z);
    return std::ssize(different);
  }
  Index records = 0;
  Ball top;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const Score& score = scores[order == KeyOrder::ascending ? t : scores.size() - 1 - t];
    if (t == 0 || may_reach(score.z + score.e, top)) ++records;
    top = t == 0 ? score.z - score.e : max(top, score.z - score.e);
  }
  return records;
}

// Section 2.
void Row::weigh(const Constants& c, Index all_keys) {
  n = static_cast<Index>(keys.size());
  z_max = scores[0].z;
  for (const Score& score : scores) z_max = max(z_max, score.z);
  for (const Score& score : scores) {
    g = max(g, score.z + score.e - z_max);
    z_all = max(z_all, abs(score.z) + score.e);
  }
  z_top = abs(z_max) + g;
  ln_n = log(n);
  splits = c.how.splits_max.value_or(n);
  const bool counts_splits = c.how.mma && c.how.mma->only && c.merges;
  blocks = std::min(n, c.key_blocks + (counts_splits ? splits - 1 : 0));
  const Index tiles = (all_keys + c.how.kv_tile_min - 1) / c.how.kv_tile_min;
  rescalings = std::min(n, tiles) - 1;
  rescalings = std::min(rescalings, count_records(c) - 1);
  a2 = c.a2;
  if (c.how.lse_merge == LseMerge::chain) {
    rescalings = std::min(rescalings + splits - 1, n);
    a2 += 3 * (Ball(splits) - 1);
  }
  every_exp = (2 + Ball(rescalings)) * c.ln_exp;
  // The larger of two splits that are merged without exp(lse_i - lse) keeps a factor of 1.
  const bool by_lse = c.merges && c.how.merge_weights == MergeWeights::lse;
  wrong_argument = c.softmax.u * (c.a1 + (by_lse ? a2 : Ball(c.exp2 ? 2 : 0)));
  // A weight that a wrong shift of its own block makes too large is not infinite.
  const Ball nats = c.lazy + wrong_argument * z_all + (1 + Ball(rescalings)) * c.c_exp;
  const Ball most = certainly_less(nats, 709) ? min(exp(nats), c.softmax.overflow) : Ball(c.softmax.overflow);
  rescaled = max(c.eps_lazy, most * c.lifted);
  for (const Score& score : scores) {
    const Ball magnitude = abs(score.z) + score.e;
    d.push_back(score.e + every_exp +
                c.softmax.u * (c.a1 * magnitude + a2 * (max(magnitude, z_top) + c.lazy + ln_n + 1) +
                               c.a3 * (z_max - score.z + score.e + g + c.lazy)));
    mass += exp(score.z - z_max);
    lo_sum += exp(score.z - z_max - d.back());
    hi_sum += exp(score.z - z_max + d.back());
  }
  // The computed maximum need not be the exact one.
  const auto wrong_maximum = [&](const Ball& z) { return exp(wrong_argument * (z + c.lazy + ln_n + 1) + c.ln_exp); };
  rho_lost = wrong_maximum(z_all);
  rho = tighter(wrong_maximum(z_top), exp(g) / lo_sum);
  if (n < 32 || c.how.kappa > 1) return;
  if (!c.pv_blocks) of_values = additions(c, c.u_pv);
  if (!c.sum_blocks) of_weights = additions(c, c.softmax.u);
}

// Finds the additions by the largest share that a key may have, whether weights are rounded or not.
Additions Row::additions(const Constants& c, const Ball& u) const {
  Additions found;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const Ball share = exp(scores[t].z - z_max + d[t] + 2 * c.u_weights) / lo_sum;
    if (certainly_less(share, u))
      found.rest += share;
    else
      ++found.keys;
  }
  found.keys = std::max<Index>(found.keys, 1);
  return found;
}

// Section 4. The shift may have been computed apart from the score that it comes from.
void Row::find_tops(const Constants& c) {
  Ball least_top = scores[0].z - scores[0].e;
  for (const Score& score : scores) least_top = max(least_top, score.z - score.e);
  for (std::size_t t = 0; t < scores.size(); ++t) {
    if (certainly_less(scores[t].z + scores[t].e, least_top)) continue;
    tops.push_back(t);
    top_off = max(top_off, d[t] - scores[t].e - every_exp);
  }
  const Ball exps = 2 * c.ln_exp + c.softmax.u;
  top_off += z_max + g - least_top + exps + c.float64_errors * 0x1p-50 * z_top;
}

// Tells whether exp2((s_j - max s) sigma log2 e) may overflow: it subtracts unscaled scores, whose difference may be
// infinite where neither of them is. The maximum may be any key that is not certainly below it.
bool Row::gap_overflows(const Constants& c, std::size_t t) const {
  if (!c.exp2) return false;
  const Ball other_maximum = c.sigma == 0 ? Ball(0) : g / std::fabs(c.sigma);
  return std::ranges::any_of(scores, [&](const Score& top) {
    return may_reach(top.z, z_max) &&
           may_reach(abs(scores[t].raw - top.raw) + scores[t].raw_error + top.raw_error + other_maximum,
                     c.softmax.overflow);
  });
}

// Section 5, as far as it concerns the row.
void Row::check_overflow(const Constants& c, EmptyRow empty_row) {
  const Ball log2_e = 1 / log(2);
  if (may_reach(z_top * (c.exp2 ? log2_e : 1), c.softmax.overflow))
    nonfinite.give("the largest score may overflow in the softmax format");
  const Ball largest_weight = log(min(c.weights.overflow, c.operand.overflow));
  const Ball near = c.softmax.format == Format::f64 ? 760 : 120;  // below that, -inf changes nothing
  bool all_lost = true;
  Ball z_near;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const Score& score = scores[t];
    const bool matters = may_reach(score.z + score.e, z_max - g - near);
    if (matters) z_near = max(z_near, abs(score.z) + score.e);
    // A softcap makes a number that may matter of an infinity.
    if (score.overflows() && (matters || (c.softcap > 0 && score.early))) score_lost = true;
    if (!score.overflows()) all_lost = false;
    if (matters && gap_overflows(c, t)) {
      score_lost = true;
      if (c.sigma == 0) nonfinite.give("the difference of two scores may overflow");  // times 0
    }
    const Ball wrong = c.exp2 ? wrong_argument * (abs(score.z) + score.e) : Ball(0);
    if (may_reach(c.lazy + wrong + every_exp, largest_weight)) nonfinite.give("a single weight may overflow");
  }
  if (may_reach(wrong_argument * z_top, 80)) undetermined.give("the row's own maximum may under- or overflow in 2^x");

  const Ball sum_growth =
      c.sum_blocks ? exp((c.sum_blocks->loss(n, blocks) + rescalings * c.softmax.u) * (1 + c.softmax.u))
                   : exp((c.ln_of_sum(n, c.how.kappa * c.softmax.u) + Ball(rescalings) * c.how.kappa * c.softmax.u) *
                         (1 + c.how.kappa * c.softmax.u));
  const auto row_sum = [&](const Ball& z) { return n * exp(c.lazy + wrong_argument * z + every_exp) * sum_growth; };
  if (may_reach(row_sum(z_all), c.softmax.overflow)) {
    nonfinite.give("the sum of the weights may overflow");
    // An exp that is off by an ulp may be a number where it should be 0: brought down by it, that sum stays infinite.
    if (!c.how.exp_rel && c.how.exp_ulp >= 1) zero_ok = true;
  }
  if (may_reach(row_sum(z_near), c.softmax.overflow))
    undetermined.give("the sum of the weights may be infinite, and the quotient 0");

  if (!all_lost || kind != RowKind::ordinary) return;
  if (empty_row == EmptyRow::zero) zero_ok = true;
  if (is_mean(empty_row) || empty_row == EmptyRow::unspecified)
    undetermined.give("every score may overflow, and the row be as good as empty");
}

}  // namespace attest::certify
