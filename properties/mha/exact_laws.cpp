#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.hpp"
#include "oracle/mha/mha.hpp"
#include "properties/mha/laws.hpp"

namespace attest::properties::block {
namespace {

// Equal as numbers but for `slack`, NaN equals NaN.
Verdict equal(const Tensor& expected, const Tensor& got, std::string_view note, double slack = 0) {
  const auto shape = expected.shape();
  Counts counts;
  for (Index b = 0; b < shape[0]; ++b)
    for (Index i = 0; i < shape[1]; ++i)
      for (Index e = 0; e < shape[2]; ++e) {
        const double one = expected.at(b, i, e), other = got.at(b, i, e);
        ++counts.judged;
        if (one == other || (std::isnan(one) && std::isnan(other)) || std::fabs(one - other) <= slack) continue;
        Evidence evidence;
        evidence.tensor = "out";
        evidence.index = {b, i, e, 0};
        evidence.got = other;
        evidence.expected = evidence.lo = evidence.hi = one;
        evidence.ratio = std::numeric_limits<double>::infinity();
        evidence.wrong = std::isnan(other) ? Wrong::nan : std::isinf(other) ? Wrong::infinity : Wrong::finite;
        evidence.note = note;
        return Verdict::fail(std::move(evidence), counts);
      }
  return Verdict::pass(counts);
}

// Inputs whose weights may be written through the views of their call.
class Changed {
 public:
  explicit Changed(const mha::Inputs& inputs) : inputs_(inputs.clone()), call_(inputs_.call(none_)) {}
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;

  [[nodiscard]] const mha::Inputs& inputs() const noexcept { return inputs_; }
  [[nodiscard]] mha::Inputs& inputs() noexcept { return inputs_; }
  [[nodiscard]] const mha::Call& call() const noexcept { return call_; }
  // Row `row` of a matrix and the same element of its bias.
  static void scale_row(const attest_tensor& weights, const attest_tensor& bias, Index row, double by) {
    for (Index c = 0; c < weights.shape[1]; ++c) store(weights, row, c, 0, 0, by * load(weights, row, c));
    if (attest_present(&bias)) store(bias, row, 0, 0, 0, by * load(bias, row));
  }
  static void scale_column(const attest_tensor& weights, Index column, double by) {
    for (Index r = 0; r < weights.shape[0]; ++r) store(weights, r, column, 0, 0, by * load(weights, r, column));
  }

 private:
  Tensor none_;
  mha::Inputs inputs_;
  mha::Call call_;
};

// Tells whether a channel is among those that a law changes.
bool chosen(const mha::Problem& problem, Index channel) {
  return (mix(problem.seed + 0x9e37u * static_cast<std::uint64_t>(channel + 1)) & 1) != 0;
}

// Tells whether no element of a row loses bits when it is doubled or halved.
bool scales(const attest_tensor& tensor, Format format, double by) {
  const Index columns = tensor.ndim > 1 ? tensor.shape[1] : 1;
  for (Index r = 0; r < tensor.shape[0]; ++r)
    for (Index c = 0; c < columns; ++c) {
      const double x = std::fabs(load(tensor, r, c) * by);
      if (x != 0 && (x < smallest_normal(format) || x > largest_finite(format))) return false;
    }
  return true;
}

}  // namespace

Verdict repeat(const BlockTrial& trial) {
  return equal(trial.out, trial.ask(trial.inputs), "the same call gave something else");
}

Verdict masked_tokens(const BlockTrial& trial) {
  Changed other(trial.inputs);
  const mha::Problem& p = trial.problem();
  bool any = false;
  for (Index b = 0; b < p.b; ++b)
    for (Index j = static_cast<Index>(other.inputs().kv_lengths.at(b)); j < p.m; ++j)
      for (Index c = 0; c < p.e; ++c) {
        other.inputs().memory.set(b, j, c, 0, static_cast<double>((j * 7 + c * 3) % 9) - 4);
        any = true;
      }
  if (!any) return Verdict::skip("no token lies past a length");
  return equal(trial.out, trial.ask(other.inputs()), "a token past its sample's length counted");
}

Verdict lone_head(const BlockTrial& trial) {
  const mha::Problem& p = trial.problem();
  const auto kept = static_cast<Index>(below(mix(p.seed), static_cast<std::uint64_t>(p.kv_heads)));
  Changed base(trial.inputs);
  const auto of_kept = [&](Index h) { return h / p.group() == kept; };
  for (Index column = 0; column < p.q_width(); ++column)
    if (!of_kept(column / p.head_dim)) Changed::scale_column(base.call().w_out, column, 0);
  Changed other(base.inputs());
  const mha::Call& call = other.call();
  const auto change = [&](const attest_tensor& weights, Index row) {
    for (Index c = 0; c < p.e; ++c)
      store(weights, row, c, 0, 0, 0.5 * load(weights, row, c) + ((row + c) % 3 == 0 ? 0.25 : 0));
  };
  for (Index row = 0; row < p.q_width(); ++row)
    if (!of_kept(row / p.head_dim)) change(call.w_q, row);
  for (Index row = 0; row < p.kv_width(); ++row)
    if (row / p.head_dim != kept) change(call.w_k, row), change(call.w_v, row);
  const Tensor first = trial.ask(base.inputs()), second = trial.ask(other.inputs());
  const auto shape = first.shape();
  for (Index b = 0; b < shape[0]; ++b)
    for (Index i = 0; i < shape[1]; ++i)
      for (Index e = 0; e < shape[2]; ++e)
        if (!std::isfinite(first.at(b, i, e)) || !std::isfinite(second.at(b, i, e)))
          return Verdict::skip("a head is not finite, and 0 times it no number");
  return equal(first, second, "a head that w_out takes nothing of counted");
}

namespace {

Verdict value_scaled(const BlockTrial& trial, double by, std::string_view note, double slack = 0) {
  const mha::Problem& p = trial.problem();
  Changed other(trial.inputs);
  for (Index row = 0; row < p.kv_width(); ++row) {
    if (!chosen(p, row)) continue;
    Changed::scale_row(other.call().w_v, other.call().b_v, row, by);
    const Index kv = row / p.head_dim;
    for (Index h = kv * p.group(); h < (kv + 1) * p.group(); ++h)
      Changed::scale_column(other.call().w_out, h * p.head_dim + row % p.head_dim, 1 / by);
  }
  return equal(trial.out, trial.ask(other.inputs()), note, slack);
}

// Returns the largest loss of an element to underflow: each value, weight times value, head and product with w_out may
// lose the smallest subnormal number of its format.
double lost_to_underflow(const BlockTrial& trial, const attest_tensor& w_out) {
  const mha::Contract& contract = trial.contract;
  int last = std::max(min_exponent(trial.problem().dtype), min_exponent(contract.gemm));
  for (std::size_t n = 0; n < stage_count; ++n)
    last = std::max(last, min_exponent(contract.attention.policy[static_cast<Stage>(n)]));
  double most = 1;
  for (Index e = 0; e < w_out.shape[0]; ++e)
    for (Index c = 0; c < w_out.shape[1]; ++c) most = std::max(most, std::fabs(load(w_out, e, c)));
  const auto losses = static_cast<double>(w_out.shape[1] * (trial.problem().m + trial.problem().e + 4));
  return std::ldexp(4 * losses * most, last);
}

}  // namespace

Verdict value_sign(const BlockTrial& trial) { return value_scaled(trial, -1, "a sign moved from w_v to w_out"); }

Verdict value_power(const BlockTrial& trial) {
  // A number that is doubled and halved must stay a normal number all the way.
  const Format storage = trial.problem().dtype;
  const mha::Contract& contract = trial.contract;
  if (contract.attention.arithmetic.flush_to_zero) return Verdict::skip("a value may be flushed");
  for (const Stage stage : {Stage::weights, Stage::pv, Stage::operand})
    if (min_exponent(contract.attention.policy[stage]) > -100) return Verdict::skip("a value may underflow");
  if (min_exponent(storage) > -100 || min_exponent(contract.gemm) > -100) return Verdict::skip("a value may underflow");
  Tensor none;
  const mha::Call call = trial.inputs.call(none);
  const auto fits = [&](const attest_tensor& tensor) {
    return !attest_present(&tensor) || (scales(tensor, storage, 0x1p-40) && scales(tensor, storage, 0x1p40));
  };
  if (!fits(call.w_v) || !fits(call.b_v) || !fits(call.w_out)) return Verdict::skip("a value may underflow");
  return value_scaled(trial, 2, "a factor of 2 moved from w_v to w_out", lost_to_underflow(trial, call.w_out));
}

Verdict score_sign(const BlockTrial& trial) {
  const mha::Problem& p = trial.problem();
  Changed other(trial.inputs);
  for (Index row = 0; row < p.kv_width(); ++row) {
    if (!chosen(p, row)) continue;
    Changed::scale_row(other.call().w_k, other.call().b_k, row, -1);
    const Index kv = row / p.head_dim;
    for (Index h = kv * p.group(); h < (kv + 1) * p.group(); ++h)
      Changed::scale_row(other.call().w_q, other.call().b_q, h * p.head_dim + row % p.head_dim, -1);
  }
  return equal(trial.out, trial.ask(other.inputs()), "a channel of w_q and w_k changed its sign");
}

Verdict head_permutation(const BlockTrial& trial) {
  const mha::Problem& p = trial.problem();
  Changed other(trial.inputs);
  Tensor none;
  const mha::Call from = trial.inputs.call(none), &to = other.call();
  const Index d = p.head_dim,
              shift = 1 + static_cast<Index>(below(mix(p.seed), static_cast<std::uint64_t>(p.heads - 1)));
  for (Index n = 0; n < p.q_width(); ++n) {
    const Index at = (n / d + shift) % p.heads * d + n % d;
    for (const auto& [w, moved] : {std::pair{from.w_q, to.w_q}, {from.w_k, to.w_k}, {from.w_v, to.w_v}})
      for (Index c = 0; c < p.e; ++c) store(moved, n, c, 0, 0, load(w, at, c));
    for (const auto& [b, moved] : {std::pair{from.b_q, to.b_q}, {from.b_k, to.b_k}, {from.b_v, to.b_v}})
      if (attest_present(&b)) store(moved, n, 0, 0, 0, load(b, at));
    for (Index e = 0; e < p.e; ++e) store(to.w_out, e, n, 0, 0, load(from.w_out, e, at));
  }
  // Bits may differ: the place of a head may decide which tile, lane or thread takes it. Results that differ are held
  // to the bound.
  const Tensor moved = trial.ask(other.inputs());
  Verdict verdict = equal(trial.out, moved, "heads stood in another order");
  if (verdict.kind != VerdictKind::fail) return verdict;
  verdict = oracle::MhaOracle(trial.contract, other.call()).judge(moved);
  if (verdict.evidence) verdict.evidence->note = "heads stood in another order";
  return verdict;
}

}  // namespace attest::properties::block
