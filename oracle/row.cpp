#include "oracle/row.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/exp.hpp"
#include "oracle/products.hpp"

namespace attest::oracle {
namespace {

// A score next to the largest double stays one.
double finite(double x) { return std::min(x, std::numeric_limits<double>::max()); }

Dot dot(const std::vector<double>& q, const std::vector<double>& k) {
  Lanes product = fill(0), absolute = product, k_sum = product, k_max = product;
  for (std::size_t c = 0; c < q.size(); c += lane_count) {
    const Lanes kc = load(&k[c]), qk = load(&q[c]) * kc;
    product += qk;
    absolute += abs(qk);
    k_sum += abs(kc);
    k_max = max(k_max, abs(kc));
  }
  return {sum(product), sum(absolute), sum(k_sum), largest(k_max)};
}

// The same where each element lies in [x - radius, x + radius].
Dot dot(const std::vector<double>& q, const std::vector<double>& dq, const std::vector<double>& k,
        const std::vector<double>& dk) {
  Lanes product = fill(0), absolute = product, off = product, k_sum = product, k_max = product;
  for (std::size_t c = 0; c < q.size(); c += lane_count) {
    const Lanes qc = load(&q[c]), kc = load(&k[c]), q_most = abs(qc) + load(&dq[c]), k_most = abs(kc) + load(&dk[c]);
    product += qc * kc;
    absolute += q_most * k_most;
    off += load(&dq[c]) * abs(kc) + q_most * load(&dk[c]);
    k_sum += k_most;
    k_max = max(k_max, k_most);
  }
  const double own = 1 + static_cast<double>(q.size() + 8) * 0x1p-52;  // error of this sum itself, which is a bound
  return {sum(product), sum(absolute), sum(k_sum), largest(k_max), sum(off) * own};
}

bool has_nan(const std::vector<double>& x) {
  return std::any_of(x.begin(), x.end(), [](double value) { return std::isnan(value); });
}
bool all_finite(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return std::isfinite(value); });
}

}  // namespace

HeadFacts head_facts(const Call& call, Index b, Index kv_head) {
  HeadFacts facts;
  std::vector<double> row(static_cast<std::size_t>(std::max(call.d, call.dv)));
  const auto finite = [&](const attest_tensor& t, Index j, Index count) {
    read_row(t, b, kv_head, j, count, row.data());
    return std::all_of(row.begin(), row.begin() + count, [](double x) { return std::isfinite(x); });
  };
  for (Index j = 0; j < call.keys; ++j) {
    facts.k_finite = facts.k_finite && finite(call.k, j, call.d);
    facts.v_finite = facts.v_finite && finite(call.v, j, call.dv);
    if (attest_present(&call.k_radius)) facts.k_finite = facts.k_finite && finite(call.k_radius, j, call.d);
    if (attest_present(&call.v_radius)) facts.v_finite = facts.v_finite && finite(call.v_radius, j, call.dv);
  }
  return facts;
}

void Row::evaluate(const Call& call, const HeadFacts& head, Index b, Index h, Index i) {
  kind = RowKind::ordinary;
  facts = head;
  nonfinite_ok = score_lost = finite_undetermined = zero_ok = false;
  boxes_[0].made = boxes_[1].made = false;
  of_columns.reset();
  keys.clear();
  closed_by_bias.clear();
  z.clear();
  e.clear();
  lost_.clear();
  raw_.clear();
  raw_error_.clear();
  collect(call, b, h, i);
  if (kind == RowKind::ordinary && !facts.k_finite && masked_nonfinite(call, b, h)) {
    kind = RowKind::undetermined;
    nonfinite_ok = true;
  }
  if (kind != RowKind::ordinary) return;
  if (keys.empty()) {
    kind = RowKind::empty;
    if (is_mean(call.contract->empty_row)) collect_mean(call, b);
    if (keys.empty()) return;
  }
  n = static_cast<Index>(keys.size());
  n_padded = padded(n);
  z_max = *std::max_element(z.begin(), z.end());
  if (!(std::fabs(z_max) < infinity)) {
    kind = RowKind::undetermined;
    nonfinite_ok = true;
    return;
  }
  weigh(call, count_records(call));
  find_tops(call.numbers);
  check_overflow(call);
}

void Row::read_query(const Call& call, Index b, Index h, Index i) {
  query_.assign(static_cast<std::size_t>(padded(call.d)), 0);
  key_.assign(query_.size(), 0);
  query_radius_.assign(query_.size(), 0);
  key_radius_.assign(query_.size(), 0);
  read_row(call.q, b, h, i, call.d, query_.data());
  if (attest_present(&call.q_radius)) read_row(call.q_radius, b, h, i, call.d, query_radius_.data());
}

void Row::read_key(const Call& call, Index b, Index kv_head, Index j) {
  read_row(call.k, b, kv_head, j, call.d, key_.data());
  if (attest_present(&call.k_radius)) read_row(call.k_radius, b, kv_head, j, call.d, key_radius_.data());
}

// Section 1 for every key of the row, with the flags that need a single key.
void Row::collect(const Call& call, Index b, Index h, Index i) {
  const Numbers& numbers = call.numbers;
  const Index kv = call.kv_head(h);
  read_query(call, b, h, i);
  const bool query_finite = all_finite(query_) && all_finite(query_radius_);
  const bool query_nan = has_nan(query_);
  bool nan = false, keys_finite = true;
  QueryNorms norms{0, 0};
  {
    Lanes total = fill(0), top = total;
    for (std::size_t c = 0; c < query_.size(); c += lane_count) {
      const Lanes most = abs(load(&query_[c])) + load(&query_radius_[c]);
      total += most;
      top = max(top, most);
    }
    norms = {sum(total), largest(top)};
  }
  const KeyRange range = call.range(b, i);
  const bool cap_last = numbers.softcap > 0 && !numbers.softcap_before_bias;
  bool excluded_overflow = false;
  // Where masks are added, masked keys have a score as well.
  const KeyRange read = call.contract->mask_added ? KeyRange{0, call.keys} : range;
  for (Index j = read.first; j < read.last; ++j) {
    const bool open = j >= range.first && j < range.last && call.kept(b, h, i, j);
    if (!open && !call.contract->mask_added) continue;
    const double bias = call.has_bias ? attest_load(&call.bias, b, h, i, j) : 0;
    const bool by_bias = open && bias == -infinity && !cap_last;
    if (by_bias) closed_by_bias.push_back(j);
    read_key(call, b, kv, j);
    const Dot qk = call.has_radii ? dot(query_, query_radius_, key_, key_radius_) : dot(query_, key_);
    const bool finite = qk.k_sum < infinity || (all_finite(key_) && all_finite(key_radius_));
    if (!open || by_bias) {
      const Score score = score_of(numbers, norms, qk, bias == -infinity ? 0 : bias);
      if (!finite || !query_finite || std::isnan(bias) || score.overflow()) excluded_overflow = true;
      continue;
    }
    if (!finite || !(bias < infinity)) keys_finite = false;
    // A bias that rounds to -inf may exclude the key and its NaN.
    if (bias * numbers.unit > -numbers.overflow_score) nan = nan || query_nan || (!finite && has_nan(key_));
    const Score score = score_of(numbers, norms, qk, bias);
    keys.push_back(j);
    z.push_back(score.z);
    e.push_back(score.e);
    lost_.push_back(score.early_overflow ? Lost::early : score.late_overflow ? Lost::late : Lost::no);
    raw_.push_back(score.raw);
    raw_error_.push_back(score.raw_error);
    nonfinite_ok = nonfinite_ok || score.overflow();
  }
  nonfinite_ok = nonfinite_ok || excluded_overflow || !query_finite;
  if (!keys.empty() && (!query_finite || !keys_finite)) {
    kind = nan && call.contract->nan == NanRule::propagates ? RowKind::must_be_nan : RowKind::undetermined;
    nonfinite_ok = true;
  }
}

bool Row::may_read(const Call& call, Index b, Index j) const {
  return !call.unread(b, j) || std::ranges::binary_search(closed_by_bias, j);
}

// NaN or infinity in a key that takes no part, but that the kernel may read.
bool Row::masked_nonfinite(const Call& call, Index b, Index h) {
  auto attended = keys.begin();
  for (Index j = 0; j < call.keys; ++j) {
    if (attended != keys.end() && *attended == j) {
      ++attended;
    } else if (may_read(call, b, j)) {
      read_key(call, b, call.kv_head(h), j);
      if (!all_finite(key_) || !all_finite(key_radius_)) return true;
    }
  }
  return false;
}

// An empty row that returns the mean of v: equal scores over every key of the sample.
void Row::collect_mean(const Call& call, Index b) {
  const Index values = call.contract->empty_row == EmptyRow::mean_all ? call.keys : call.length(b);
  for (Index j = 0; j < values; ++j) keys.push_back(j);
  z.assign(keys.size(), 0);
  e.assign(keys.size(), 0);
  lost_.assign(keys.size(), Lost::no);
  raw_.assign(keys.size(), 0);
  raw_error_.assign(keys.size(), 0);
}

// The number of keys that may each set a running maximum: in the declared order, if keys are not split; in any other
// order, all of them. Keys with equal exact scores count once.
double Row::count_records(const Call& call) const {
  const KeyOrder order = call.numbers.arithmetic.key_order;
  if (order == KeyOrder::any || call.numbers.merges) {
    if (!call.numbers.exact_scores) return static_cast<double>(n);
    std::vector<double> scores = z;
    std::ranges::sort(scores);
    return static_cast<double>(std::unique(scores.begin(), scores.end()) - scores.begin());
  }
  double top = -infinity, records = 0;
  for (Index t = 0; t < n; ++t) {
    const auto at = static_cast<std::size_t>(order == KeyOrder::ascending ? t : n - 1 - t);
    if (z[at] + e[at] >= top) ++records;
    top = std::max(top, z[at] - e[at]);
  }
  return records;
}

// Section 2.
void Row::weigh(const Call& call, double records) {
  const Numbers& m = call.numbers;
  const auto count = static_cast<std::size_t>(n);
  g = z_all = 0;
  for (std::size_t t = 0; t < count; ++t) {
    g = std::max(g, z[t] + e[t] - z_max);
    z_all = std::max(z_all, finite(std::fabs(z[t]) + e[t]));
  }
  z_top = std::fabs(z_max) + g;
  const double keys_counted = static_cast<double>(n);
  ln_n = std::log(keys_counted);
  r = m.rescalings(keys_counted, static_cast<double>(call.keys), records);
  a2 = m.merged_a2(keys_counted);
  blocks = m.blocks(keys_counted);
  wrong_shift = m.wrong_shift(keys_counted);
  rescaled = m.wrongly_rescaled(wrong_shift * z_all + (1 + r) * m.c_exp);

  d.assign(static_cast<std::size_t>(n_padded), 0);
  p.assign(static_cast<std::size_t>(n_padded), 0);
  z.resize(static_cast<std::size_t>(n_padded), -infinity);
  every_exp = (2 + r) * m.ln_exp;
  for (std::size_t t = 0; t < count; ++t) {
    const double magnitude = finite(std::fabs(z[t]) + e[t]);
    d[t] = e[t] + m.u_softmax * m.a1 * magnitude +
           m.u_softmax * a2 * finite(std::max(magnitude, z_top) + m.lazy + ln_n + 1) +
           m.u_softmax * m.a3 * finite(z_max - z[t] + e[t] + g + m.lazy) + every_exp;
  }
  mass = products::weights(z.data(), z_max, p.data(), n_padded);
  for (double& weight : p) weight /= mass;

  const Box& weights = box(call, 0);
  of_values = m.values_lose_least(keys_counted) ? additions(m, weights, m.u_pv) : Additions{};
  of_weights = m.weights_lose_least(keys_counted) ? additions(m, weights, m.u_softmax) : Additions{};
  mass_most = call.has_radii ? std::max(mass, weights.hi_sum * std::exp(weights.log_unit)) : mass;
  rho = std::min(std::exp(bounded(g - weights.log_unit)) / weights.lo_sum,
                 std::exp(bounded(wrong_shift * (z_top + m.lazy + ln_n + 1) + m.ln_exp)));
  // Weights that small keep no bits, even in f64.
  const double lost_exponent = wrong_shift * (z_all + m.lazy + ln_n + 1) + m.ln_exp;
  rho_lost = lost_exponent < 600 ? std::exp(lost_exponent) : infinity;
}

// Returns which keys may cost less than a rounding, by their largest shares, rounded or not.
Additions Row::additions(const Numbers& m, const Box& weights, double u) const {
  const double share = std::exp(2 * m.u_weights) / weights.lo_sum;
  Additions found{0, 0};
  for (std::size_t t = 0; t < keys.size(); ++t) {
    if (const double most = weights.hi[t] * share; most < u)
      found.rest += most;
    else
      ++found.keys;
  }
  found.keys = std::max(found.keys, 1.0);
  return found;
}

// Finds the keys that may have the largest weight (section 4): with no lazy shift it is e^0 before it is rounded, but
// for a shift that was computed apart from the scores, and for its own errors. The errors of the scores may hide which
// key has it.
void Row::find_tops(const Numbers& m) {
  tops.clear();
  top_off = infinity;
  if (kind != RowKind::ordinary || m.lazy > 0 || m.u_weights == 0 || m.operand_cut ||
      m.rounding != RoundingMode::nearest)
    return;
  double least_top = -infinity;
  for (std::size_t t = 0; t < keys.size(); ++t) least_top = std::max(least_top, z[t] - e[t]);
  const double apart = z_max + g - least_top + 0x1p-50 * z_top;  // the last, for this program's own rounding
  const double exps = 2 * m.ln_exp + m.u_softmax;
  top_off = 0;
  for (std::size_t t = 0; t < keys.size(); ++t) {
    if (z[t] + e[t] < least_top) continue;
    tops.push_back(t);
    top_off = std::max(top_off, apart + (d[t] - e[t] - every_exp) + exps);
  }
}

// Tells whether exp2((s_j - max s) sigma log2 e) may overflow: it subtracts unscaled scores, whose difference may be
// infinite where neither of them is.
bool Row::gap_overflows(const Numbers& m, std::size_t t, std::size_t top) const {
  const double other_top = m.scale != 0 ? g / m.scale_magnitude : 0;  // error of the computed maximum, at most
  return m.exp2 && std::fabs(raw_[t] - raw_[top]) + raw_error_[t] + raw_error_[top] + other_top >= m.overflow_softmax;
}

// Section 5, as far as it concerns the row.
void Row::check_overflow(const Call& call) {
  const Numbers& m = call.numbers;
  const auto count = static_cast<std::size_t>(n);
  if (z_top * (m.exp2 ? 1.4426950408889634 : 1) >= m.overflow_softmax) nonfinite_ok = true;

  const auto top = static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin());
  double z_near = 0;
  all_lost_ = true;
  for (std::size_t t = 0; t < count; ++t) {
    const bool near = z[t] + e[t] >= z_max - g - m.near;
    if (near) z_near = std::max(z_near, std::fabs(z[t]) + e[t]);
    // A softcap turns an infinity into +-softcap, so that the key may count after all.
    if (lost_[t] != Lost::no && (near || (m.softcap > 0 && lost_[t] == Lost::early))) score_lost = true;
    if (lost_[t] == Lost::no) all_lost_ = false;
    if (near && gap_overflows(m, t, top)) {
      score_lost = true;
      if (m.scale == 0) nonfinite_ok = true;  // an infinite difference times 0
    }
    // A weight of e^lazy, and what a rounded argument of exp2 adds to it, may be infinite once it is rounded.
    if (m.lazy + (m.exp2 ? wrong_shift * (std::fabs(z[t]) + e[t]) : 0) + every_exp >= m.log_overflow_weights)
      nonfinite_ok = true;
  }
  if (wrong_shift * z_top > 80) finite_undetermined = true;

  const double keys_counted = static_cast<double>(n);
  const double sum_growth = 1 + growth(m.loss_of_weights(keys_counted, blocks, r) * (1 + m.kappa * m.u_softmax));
  const auto row_sum = [&](double z_used) {
    return keys_counted * std::exp(m.lazy + wrong_shift * z_used + every_exp) * sum_growth;
  };
  if (row_sum(z_all) >= m.overflow_softmax) {
    nonfinite_ok = true;
    // Brought down by a factor that should be 0 and is not, that sum stays infinite, and the quotient is 0.
    if (m.exp_of_nothing) zero_ok = true;
  }
  if (row_sum(z_near) >= m.overflow_softmax) finite_undetermined = true;

  if (all_lost_ && kind == RowKind::ordinary) {
    switch (call.contract->empty_row) {
      case EmptyRow::zero:
        zero_ok = true;
        break;
      case EmptyRow::nan:
        break;  // nonfinite_ok says so already
      case EmptyRow::mean_v:
      case EmptyRow::mean_all:
      case EmptyRow::unspecified:
        finite_undetermined = true;
        break;
    }
  }
}

const Row::Box& Row::box(const Call& call, int index) {
  Box& box = boxes_[index];
  if (!box.made) fill_box(box, d, index == 1 ? call.numbers.u_weights : 0);
  return box;
}

void Row::fill_box(Box& box, const std::vector<double>& widths, double extra) const {
  box.made = true;
  box.lo.resize(p.size());
  box.hi.resize(p.size());
  // The ratios of weights alone count. Where the largest lower end is tiny, weights are taken in its units, since a key
  // far below the maximum may win if its own error is small.
  double largest_lo = -infinity;
  for (std::size_t t = 0; t < p.size(); ++t) largest_lo = std::max(largest_lo, z[t] - z_max - widths[t] - extra);
  box.log_unit = largest_lo < -500 ? std::max(largest_lo, -std::numeric_limits<double>::max()) : 0;
  const products::EndSums sums = products::ends({z_max, box.log_unit, extra}, z.data(), widths.data(), box.lo.data(),
                                                box.hi.data(), std::ssize(p));
  box.lo_sum = sums.lo;
  box.hi_sum = sums.hi;
}

double RowNumbers::largest_sum(const Numbers& m) const {
  // Weights above e^lazy are wrong arguments of exp.
  const double largest_weight = std::exp(bounded(std::min(600.0, wrong_shift * z_all) + every_exp));
  return m.exp_lazy * std::min(mass_most * std::exp(bounded(g)), static_cast<double>(n) * largest_weight);
}

double RowNumbers::denominator_error(const Numbers& m, double largest, double rho_used, bool sum_of_rounded) const {
  const double keys_counted = static_cast<double>(n);
  // The larger the sum, the further its reciprocal may underflow.
  double a = m.ln_loss_of_weights(keys_counted, blocks, r) + 3 * m.c_div * m.u_final +
             3 * keys_counted * rescaled * rho_used + (1 + m.division_excess()) * m.eta_final * largest;
  if (sum_of_rounded) a += keys_counted * m.eta_weights * rho_used;
  if (m.flush) a += 3 * keys_counted * m.eta_softmax * rho_used;
  return a;
}

double RowNumbers::denominator_error_in_box(const Numbers& m, double error, double rho_used,
                                            bool sum_of_rounded) const {
  const double keys_counted = static_cast<double>(n);
  if (!(of_weights.keys < keys_counted) || !(error < 0.25)) return error;
  double underflow = 3 * rescaled + (sum_of_rounded ? m.eta_weights : 0) + (m.flush ? 3 * m.eta_softmax : 0);
  underflow *= keys_counted * rho_used;
  const double lost = (1 + 6 * error) * (of_weights.rest + underflow);
  if (!(lost < 0.5)) return error;
  return std::min(error, error - m.spared_weights(keys_counted, of_weights.keys) - std::log1p(-lost));
}

int RowNumbers::combinations(const Call& call, Combination out[4]) const {
  const Numbers& m = call.numbers;
  const Arithmetic& how = m.arithmetic;
  const double t = m.shared_rounding(static_cast<double>(n), blocks, r, z_top);
  int count = 0;
  if (how.normalise_after && how.sum_of_unrounded)
    out[count++] = {0, m.u_weights + t, false, false, std::min(m.u_weights, m.per_unit_weight * growth(top_off)) + t};
  if (how.normalise_after && how.sum_of_rounded) out[count++] = {m.weights_round ? 1 : 0, t, true, false};
  if (how.normalise_before) out[count++] = {0, m.u_weights + t + 2 * m.c_div * m.u_softmax, false, true};
  if (how.normalise_lse)
    out[count++] = {0,
                    m.u_weights + t +
                        m.u_softmax * ((2 + (m.exp2 ? 4 : 0)) * (z_top + m.lazy + ln_n + 1) + m.a3 * (ln_n + 1)) +
                        (3 + r) * m.ln_exp + 2 * m.c_div * m.u_softmax,
                    false, true};
  for (int w = 0; w < count; ++w) out[w].shared = out[w].sum_of_rounded ? 0 : m.u_weights;
  return count;
}

// ln sum e^(z - zmax + sign d), however large d is.
double Row::log_sum(double sign) const {
  double top = -infinity;
  for (std::size_t t = 0; t < d.size(); ++t) top = std::max(top, z[t] - z_max + sign * d[t]);
  Lanes total = fill(0);
  for (std::size_t t = 0; t < d.size(); t += lane_count) total += exp((load(&z[t]) - z_max + sign * load(&d[t])) - top);
  return top + std::log(sum(total));
}

// Section 4b.
Row::Lse Row::lse(const Call& call) {
  const Numbers& m = call.numbers;
  const bool wide = *std::max_element(d.begin(), d.end()) > 500;  // past the box's own ends
  const Box& weights = box(call, 0);
  const double lo = wide ? log_sum(-1) : std::log(weights.lo_sum), hi = wide ? log_sum(1) : std::log(weights.hi_sum);
  const double c = std::max(std::fabs(lo), std::fabs(hi));
  const bool rounded = m.arithmetic.sum_of_rounded && m.weights_round;
  const double a = denominator_error_in_box(m, denominator_error(m, largest_sum(m), rho, rounded), rho, rounded);
  double radius = a * (1 + m.u_softmax) +
                  m.u_softmax * ((2 + (m.exp2 ? 3 : 0) + (m.merges ? 3 : 0)) * (z_top + c + m.lazy) + 2 * c) +
                  0x1p-48 * (z_top + c) + 4 * (static_cast<double>(n) + 8) * 0x1p-53;
  if (rounded) radius += m.u_weights;
  if (m.arithmetic.lse_merge == LseMerge::chain)
    radius += m.u_softmax * 3 * (m.splits(static_cast<double>(n)) - 1) * (z_top + c + 1);
  return {z_max + std::log(mass), z_max + lo - radius, z_max + hi + radius};
}

}  // namespace attest::oracle
