#include "oracle/mha/quick_block.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "oracle/element.hpp"
#include "oracle/last_bit.hpp"
#include "oracle/outcome.hpp"
#include "oracle/reach.hpp"

namespace attest::oracle {
namespace {

constexpr Index few_bias_columns = 4;
constexpr double slack_of_sums = 1 - 1e-6;

double half_step(Format format, double x) {
  return power_of_normal(std::max(std::fabs(x), smallest_normal(format))) * unit_roundoff(format);
}

}  // namespace

QuickBlock::QuickBlock(const Way::Block& block, mha::Projected projected, bool heads_rounded)
    : block_(block),
      projected_(projected),
      heads_rounded_(heads_rounded),
      width_(block.call.e()),
      heads_format_(policy_of(block.contract, projected, heads_rounded)[Stage::output]) {
  accepted_.assign(static_cast<std::size_t>(block.call.b() * block.call.l() * width_), 0);
  // The products of this level are rounded to double themselves.
  if (block.storage == Format::f64 || block.contract.gemm == Format::f64) return;
  points_.emplace(block, projected);
  if (!sums_are_small()) return;
  way_.emplace(block, projected, heads_rounded, points_->take_inputs());
  call_ = &way_->attention();
  usable_ = true;
}

// Tells whether no sum can overflow on the way, by the norms of rows alone. Comparisons are false for NaN.
bool QuickBlock::sums_are_small() const {
  const Way::Block& at = block_;
  const Format gemm = at.contract.gemm;
  const double weights = std::max({points_->norms().w_q, points_->norms().w_k, points_->norms().w_v});
  const double biases = std::max({largest_magnitude(at.b_q), largest_magnitude(at.b_k), largest_magnitude(at.b_v)});
  const double terms = static_cast<double>(std::max(at.x.columns(), at.w_out.columns()) + 1);
  const SumRule rule(at.contract, heads_format_, at.storage);
  double grown = 1 + compounded(terms + 3, at.contract.attention.arithmetic.kappa * unit_roundoff(gemm));
  if (rule.unusual()) grown = 1 + rule.most_relative(terms + 3);
  const double projected = (std::max(points_->norms().x, points_->norms().memory) * weights + biases) * grown,
               values = std::sqrt(terms) * points_->largest();
  const double out = (values * points_->norms().w_out + largest_magnitude(at.b_out)) * grown;
  const double stored = points_->largest() + (grown - 1) * projected;
  const double factors =
      std::max({points_->norms().x, points_->norms().memory, weights, points_->norms().w_out, values});
  return factors < rule.overflowing_factor && projected < overflow_threshold(gemm) / 4 &&
         out < overflow_threshold(gemm) / 4 && stored < overflow_threshold(at.storage) / 4 &&
         out < overflow_threshold(at.storage) / 4;
}

void QuickBlock::average_heads() {
  const mha::Call& call = block_.call;
  const Index rows = call.b() * call.l(), d = call.head_dim, width = call.q_width();
  heads_ = Matrix(rows, width);
  margin_ = Matrix(rows, width);
  low_ = Matrix(rows, width);
  high_ = Matrix(rows, width);
  known_.assign(static_cast<std::size_t>(rows * call.heads), 0);
  most_.assign(known_.size(), {});
  Quick quick(*call_, heads_format_);
  if (quick.max_rows() == 0) return;
  // Errors of the last product that no certificate rules out.
  const bool wide_heads = precision(heads_format_) >= precision(Format::f32);
  const mha::Chain any{few_bias_columns, 0, 1};
  const double depth = std::min<double>(few_bias_columns, block_.contract.gemm_chain.value_or(any).depth(width));
  const bool in_blocks = way_->out_rule().blocks.any();  // a block may lose less than a rounding for each addition
  const double of_sum = wide_heads && !in_blocks ? depth * unit_roundoff(block_.contract.gemm) * slack_of_sums : 0;
  std::vector<RowIndex> some;
  const products::RoundRule rule = round_rule(heads_rounded_ ? heads_format_ : Format::f64);
  const auto lanes = static_cast<std::size_t>(padded(d));
  std::vector<double> mean(lanes), radius(lanes), minus(lanes), apart(lanes), low(lanes), high(lanes), middle(lanes);
  for (Index b = 0; b < call.b(); ++b)
    for (Index h = 0; h < call.heads; ++h)
      for (Index first = 0; first < call.l(); first += quick.max_rows()) {
        some.clear();
        for (Index i = first; i < std::min(call.l(), first + quick.max_rows()); ++i) some.push_back({b, h, i});
        quick.average(some);
        for (std::size_t n = 0; n < some.size(); ++n) {
          if (!quick.knows(static_cast<Index>(n))) continue;
          const Index row = b * call.l() + some[n].i;
          known_[static_cast<std::size_t>(row * call.heads + h)] = 1;
          most_[static_cast<std::size_t>(row * call.heads + h)] = quick.most(static_cast<Index>(n));
          for (Index c = 0; c < d; ++c) {
            const Quick::Reach at = quick.reach(static_cast<Index>(n), c);
            const auto to = static_cast<std::size_t>(c);
            mean[to] = at.mean;
            radius[to] = at.radius;
            minus[to] = -at.radius;
            apart[to] = at.apart;
          }
          // The ends, as they enter the projection.
          products::round_sums(rule, mean.data(), minus.data(), 0, padded(d), low.data());
          products::round_sums(rule, mean.data(), radius.data(), 0, padded(d), high.data());
          products::round_sums(rule, mean.data(), nullptr, 0, padded(d), middle.data());
          for (Index c = 0; c < d; ++c) {
            const auto from = static_cast<std::size_t>(c);
            const Index column = h * d + c;
            const double y = mean[from], lo = low[from], hi = high[from];
            // One set of weights serves all columns: what moves these together may cancel.
            const double jointly = apart[from] + half_step(heads_format_, middle[from]);
            heads_(row, column) = y;
            low_(row, column) = lo;
            high_(row, column) = hi;
            margin_(row, column) =
                std::min({hi - y, y - lo, jointly}) + (std::fabs(y) > 0x1p-100 ? of_sum * std::fabs(y) : 0);
          }
        }
      }
}

bool QuickBlock::accepts_closely(Index b, Index i, Index e, const Rounding& round, double got) {
  const Enclosure at = enclosure_of_points(b, i, e);
  return !at.undetermined && !at.zero_ok && at.expect == Expect::number && std::isfinite(got) &&
         judge_element(at, round, got) == Outcome::inside;
}

void QuickBlock::judge(const Tensor& out) {
  const mha::Call& call = block_.call;
  average_heads();
  sparse_.assign(static_cast<std::size_t>(width_), {});
  bool dense = false;
  for (Index e = 0; e < width_; ++e) {
    std::vector<Index>& columns = sparse_[static_cast<std::size_t>(e)];
    for (Index c = 0; c < call.q_width() && columns.size() <= few_bias_columns; ++c)
      if (block_.w_out(e, c) != 0) columns.push_back(c);
    if (columns.size() <= few_bias_columns) continue;
    columns.clear();
    dense = true;
  }
  if (dense) {
    sums_ = product(heads_, block_.w_out);
    margins_ = product(margin_, magnitudes(block_.w_out));
  }
  const attest_tensor view = out.view();
  for (Index row = 0; row < heads_.rows(); ++row) accept_row(row, view);
  prove_not_wide();
}

void QuickBlock::prove_not_wide() {
  // The cheap proofs come first; then the full formulas, with intervals that hold those of the projections. One element
  // mostly proves it for all others.
  for (const bool first : {true, false})
    for (const bool surely : {false, true})
      if (!not_wide_) not_wide_ = proves_not_wide_by(surely, first);
}

// Looks at one accepted element of the last row, which sees most keys, or at some of all rows.
bool QuickBlock::proves_not_wide_by(bool surely, bool first) {
  constexpr int most_looks = 3;
  int looks = 0;
  for (Index row = first ? heads_.rows() - 1 : 0; row < heads_.rows(); row += std::max<Index>(1, heads_.rows() / 4))
    for (Index e = 0; e < width_; ++e) {
      if (!accepts(row, e)) continue;
      if (surely ? surely_leaves_out(row, e) : leaves_out(row, e)) return true;
      if (first || ++looks == most_looks) break;
      e += width_ / 4;
    }
  return false;
}

// Tells whether the enclosure of an element leaves out what these points' values, projected, reach.
bool QuickBlock::surely_leaves_out(Index row, Index e) {
  const Index b = row / block_.call.l(), i = row % block_.call.l();
  const Enclosure narrow = enclosure_of_points(b, i, e);
  Points::Choices choices = points_->choices(b, i);
  const Way wide(block_, projected_, heads_rounded_, std::move(choices.centres), std::move(choices.radii));
  OutRow every;
  every.start(block_, b, i);
  const Enclosure at = every.enclosure(block_, wide, e);
  return !at.undetermined && at.expect == Expect::number && (at.lo > narrow.hull_lo || at.hi < narrow.hull_hi);
}

Enclosure QuickBlock::enclosure_of_points(Index b, Index i, Index e) {
  const Index row = b * block_.call.l() + i;
  if (row_of_ != row) row_.start(block_, b, i);
  row_of_ = row;
  // Where the quick levels know a head it is a number, which a weight of 0 leaves out.
  const auto known = known_.begin() + row * block_.call.heads;
  const bool all_known = std::all_of(known, known + block_.call.heads, [](char is) { return is != 0; });
  return row_.enclosure(block_, *way_, e, all_known);
}

QuickBlock::HeadReach QuickBlock::head_reach(Index row, Index h) const {
  const Numbers& m = call_->numbers;
  const Quick::Most& of = most_[static_cast<std::size_t>(row * block_.call.heads + h)];
  const double off = m.scale_magnitude *
                     (points_->q().off * points_->k().norm + (points_->q().norm + points_->q().off) * points_->k().off);
  const double grown =
      (1 + points_->q().off / (points_->q().norm + 1e-300)) * (1 + points_->k().off / (points_->k().norm + 1e-300));
  // Errors of scores grow as their bounds do, and what depends on these by less than the score itself.
  if (!(grown < 1.04) || !(m.u_softmax * (m.a1 + m.merged_a2(of.keys) + 4 * m.a3) < 0.3)) return {infinity, infinity};
  const double keys = of.keys, values = points_->v().largest + points_->v().off;
  const RowBounds most{static_cast<Index>(keys),
                       1.1 * of.e + 2.2 * off,
                       1.1 * of.d + 3 * off,
                       1.1 * of.z + 2.2 * off,
                       std::log(keys) * (1 + 1e-12),
                       m.rescalings(keys, static_cast<double>(call_->keys), keys),
                       m.merged_a2(keys)};
  if (!(most.d < 100)) return {infinity, infinity};
  // Weights are those of the points times e^-2d to e^2d at most, and a mean moves by less than that times how far
  // values lie from it, which may themselves be off.
  const double relative = growth_most(2 * most.d);
  return {relative,
          (2 * relative + 2) * points_->v().off + 1e-40 * values + largest_reach(*call_, most.numbers(m), values)};
}

// Tells whether the attended values, projected, reach further than the enclosure of an element on either side.
bool QuickBlock::leaves_out(Index row, Index e) const {
  const mha::Call& call = block_.call;
  const Index d = call.head_dim, b = row / call.l(), i = row % call.l();
  const double bias = block_.b_out[static_cast<std::size_t>(e)];
  double reach = 0, magnitude = std::fabs(bias), above = 0, below = 0, largest = 0, terms = 4;
  SumRule rule = way_->out_rule();
  double flushed = std::fabs(bias) < rule.smallest_input ? std::fabs(bias) : 0;
  const double lost = way_->flushes() ? 2 * smallest_normal(heads_format_) : 0;  // loss of a flushed head
  for (Index h = 0; h < call.heads; ++h) {
    const HeadReach of_head = head_reach(row, h);
    if (of_head.absolute == infinity) return false;
    const KeyRange range = call_->range(b, i);
    for (Index c = 0; c < d; ++c) {
      const double w = block_.w_out(e, h * d + c);
      if (w == 0) continue;
      const double mean = heads_(row, h * d + c);
      double most = -infinity, least = infinity;
      for (Index j = range.first; j < range.last; ++j) {
        if (!call_->kept(b, h, i, j)) continue;
        if (call_->has_bias && attest_load(&call_->bias, b, h, i, j) == -infinity) continue;
        const double moved = w * (attest_load(&call_->v, b, h / call.group(), j, c) - mean);
        most = std::max(most, moved);
        least = std::min(least, moved);
      }
      if (!(least <= most)) return false;  // no key is open
      ++terms;
      above += most;
      below -= least;
      const double apart = std::max({most, -least, 0.0}) * (1 + 1e-9);
      const double beside = of_head.relative * apart + std::fabs(w) * of_head.absolute;
      const double end = std::fabs(mean) + beside / std::fabs(w),
                   step = std::fabs(w) * (2 * half_step(heads_format_, end) + lost);
      largest = std::max(largest, std::fabs(w) + end + step / std::fabs(w));
      if (std::fabs(w) < rule.smallest_input) flushed += std::fabs(w) * end + step;
      reach += beside + step;
      magnitude += std::fabs(w) * end + step;
    }
  }
  rule.smallest_input = 0;
  double relative = compounded(terms, block_.contract.attention.arithmetic.kappa * unit_roundoff(rule.accumulator)),
         absolute = 2 * terms * half_smallest_subnormal(rule.accumulator) * (1 + magnitude);
  if (rule.unusual()) {
    relative = rule.most_relative(terms);
    absolute = (rule.most_absolute(terms, largest + std::fabs(bias)) + 2 * flushed) * (1 + relative) +
               4 * smallest_normal(block_.storage);
  }
  reach += 2 * (relative * magnitude + absolute) + 4 * half_step(block_.storage, magnitude);
  return std::max(above, below) > reach;
}

void QuickBlock::accept_row(Index row, const attest_tensor& out) {
  const mha::Call& call = block_.call;
  const Index heads = call.heads;
  // A weight of 0 would not hide a NaN.
  if (!std::all_of(known_.begin() + row * heads, known_.begin() + (row + 1) * heads,
                   [](char known) { return known != 0; }))
    return;
  const Rounding round{block_.contract.attention.policy[Stage::output], format_of(*dtype_of(out.dtype)), false};
  const bool separate = projected_ == mha::Projected::separate;
  for (Index e = 0; e < width_; ++e) {
    const double bias = block_.b_out[static_cast<std::size_t>(e)];
    const std::vector<Index>& columns = sparse_[static_cast<std::size_t>(e)];
    double lo = 0, hi = 0;
    // Products of rounded heads are exact in double, and so are many sums of few of them: an end that is a tie then
    // stays one.
    bool exact = heads_rounded_ && !columns.empty();
    const auto add = [&exact](double& sum, double term) {
      const double next = sum + term, part = next - sum;
      exact = exact && (sum - (next - part)) + (term - part) == 0;
      sum = next;
    };
    if (!columns.empty()) {
      // Head by head: where several columns of one have a weight, what rounds them moves them apart.
      for (std::size_t n = 0; n < columns.size();) {
        const Index head = columns[n] / call.head_dim;
        const std::size_t first = n;
        double sum = 0, jointly = 0, below = 0, above = 0;
        for (; n < columns.size() && columns[n] / call.head_dim == head; ++n) {
          const Index c = columns[n];
          const double w = block_.w_out(e, c), one = w * low_(row, c), other = w * high_(row, c);
          add(below, std::min(one, other));
          add(above, std::max(one, other));
          sum += w * heads_(row, c);
          jointly += std::fabs(w) * half_step(heads_format_, heads_(row, c)) * slack_of_sums;
        }
        if (n - first > 1) {
          exact = exact && below >= sum - jointly && above <= sum + jointly;
          below = std::max(below, sum - jointly);
          above = std::min(above, sum + jointly);
        }
        add(lo, below);
        add(hi, above);
      }
    } else if (sums_.rows() > 0) {
      const double margin = margins_(row, e) * slack_of_sums;
      lo = sums_(row, e) - margin;
      hi = sums_(row, e) + margin;
    }
    if (!(lo <= hi)) continue;
    if (separate) {
      lo = round_to(block_.storage, lo) + bias;
      hi = round_to(block_.storage, hi) + bias;
    } else {
      const double lost = 0x1p-50 * (std::fabs(lo) + std::fabs(hi) + std::fabs(bias));  // by these sums of doubles
      add(lo, bias);
      add(hi, bias);
      const double own = exact || (columns.size() == 1 && bias == 0) ? 0 : lost;
      lo += own;
      hi -= own;
    }
    const double got = attest_load(&out, row / call.l(), row % call.l(), e, 0);
    accepted_[static_cast<std::size_t>(row * width_ + e)] =
        (got >= lo || got >= round.low(lo)) && (got <= hi || got <= round.high(hi)) && std::isfinite(got);
  }
}

}  // namespace attest::oracle
