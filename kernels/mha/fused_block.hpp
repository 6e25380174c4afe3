#pragma once
#include <limits>
#include <vector>

#include "core/inputs.hpp"
#include "kernels/mha/block.hpp"

namespace attest::kernels {

inline constexpr Index block_tile = 16;  // tokens of x, and of memory, at once

inline mha::Contract fused_block_contract(const mha::Policy& policy) {
  mha::Contract contract = mha::contract_for(policy);
  contract.attention = common_promise(policy.attention);
  contract.attention.arithmetic.kv_tile_min = block_tile;
  return contract;
}

// A block whose projections stay as wide as they were summed, and so do the heads.
struct Unrounded : BlockSteps {
  static constexpr bool unrounded = true;
};
inline mha::Contract unrounded_block_contract(const mha::Policy& policy) {
  mha::Contract contract = fused_block_contract(policy);
  contract.projections[static_cast<std::size_t>(mha::Projected::rounded)] = false;
  contract.projections[static_cast<std::size_t>(mha::Projected::unrounded)] = true;
  contract.heads_rounded = false;
  contract.heads_unrounded = true;
  return contract;
}

// One sample and a tile of its tokens, for all heads.
template <class Real, class Steps>
class FusedTile {
 public:
  FusedTile(const mha::Call& call, const mha::Contract& contract, Index b, Index first, Index count)
      : call_(call),
        policy_(contract.attention.policy),
        storage_(Steps::unrounded ? native : policy_[Stage::storage]),
        gemm_(Steps::gemm(contract)),
        softmax_(Steps::softmax(call, contract)),
        empty_(contract.attention.empty_row),
        b_(b),
        first_(first),
        count_(count),
        scale_(rounded(policy_[Stage::scale], static_cast<Real>(call.scale))),
        length_(attest_present(&call.kv_lengths) ? static_cast<Index>(load(call.kv_lengths, b)) : call.m()),
        heads_(Rows<Real>::Zero(count, call.q_width())) {
    if (Steps::unrounded)
      for (const Stage stage : {Stage::operand, Stage::weights}) policy_.set(stage, native);
  }

  Rows<Real> heads() {
    const Rows<Real> x = load_rows<Real>(call_.x, b_, first_, count_);
    for (Index h = 0; h < call_.heads; ++h) attend(h, x);
    return heads_;
  }

 private:
  static constexpr Format native = sizeof(Real) == sizeof(double) ? Format::f64 : Format::f32;

  void attend(Index h, const Rows<Real>& x) {
    const Index d = call_.head_dim, kv = Steps::kv_head(call_, h);
    const Rows<Real> q = project(x, load_projection<Real, Steps>(call_, 0, h * d, d), gemm_, storage_);
    const auto by_k = load_projection<Real, Steps>(call_, 1, kv * d, d),
               by_v = load_projection<Real, Steps>(call_, 2, kv * d, d);
    constexpr Real lowest = -std::numeric_limits<Real>::infinity();
    std::vector<Real> top(static_cast<std::size_t>(count_), lowest), sum(top.size(), 0);
    Rows<Real> values = Rows<Real>::Zero(count_, d);
    for (Index at = 0; at < length_; at += block_tile) {
      const Index keys = std::min(block_tile, length_ - at);
      const Rows<Real> memory = load_rows<Real>(call_.memory, b_, at, keys);
      const Rows<Real> k = project(memory, by_k, gemm_, storage_), v = project(memory, by_v, gemm_, storage_);
      for (Index i = 0; i < count_; ++i) add_tile(h, i, at, q.row(i), k, v, top, sum, values);
    }
    for (Index i = 0; i < count_; ++i)
      for (Index c = 0; c < d; ++c) {
        const Real l = sum[static_cast<std::size_t>(i)];
        const Real o = !(l <= 0)                 ? rounded(policy_[Stage::pv], values(i, c) / l)  // NaN, too
                       : empty_ == EmptyRow::nan ? std::numeric_limits<Real>::quiet_NaN()
                                                 : Real{0};
        const typename Steps::Place to = Steps::concatenated(call_, h, i, c);
        heads_(to.token, to.column) = rounded(storage_, o);
      }
  }

  // A tile of keys for one query.
  template <class Query>
  void add_tile(Index h, Index i, Index at, const Query& q, const Rows<Real>& k, const Rows<Real>& v,
                std::vector<Real>& tops, std::vector<Real>& sums, Rows<Real>& values) {
    constexpr Real lowest = -std::numeric_limits<Real>::infinity();
    const attest::KeyRange range = attest::key_range(options_of(), first_ + i, call_.l(), length_);
    Real &top = tops[static_cast<std::size_t>(i)], &sum = sums[static_cast<std::size_t>(i)];
    Real scores[block_tile], largest = lowest;
    const Format qk = policy_[Stage::qk], pv = policy_[Stage::pv];
    for (Index j = 0; j < k.rows(); ++j) {
      scores[j] = lowest;
      const bool open = at + j >= range.first && at + j < range.last &&
                        (!attest_present(&call_.keep) || load(call_.keep, b_, h, first_ + i, at + j) != 0);
      if (!open) continue;
      Real dot = 0;
      for (Index c = 0; c < k.cols(); ++c) dot = rounded(qk, dot + rounded(qk, operand(q(c)) * operand(k(j, c))));
      const Format scaling = policy_[Stage::scale];
      Real score = rounded(policy_[Stage::score], rounded(scaling, rounded(scaling, dot) * scale_));
      if (attest_present(&call_.bias))
        score = rounded(policy_[Stage::score], score + static_cast<Real>(load(call_.bias, b_, h, first_ + i, at + j)));
      scores[j] = rounded(softmax_, score);
      if (!(scores[j] <= largest)) largest = scores[j];
    }
    if (largest == lowest) return;
    const Real shift = largest > top ? largest : top;
    const Real keep = top == lowest ? Real{0} : power(softmax_, Base::e, rounded(softmax_, top - shift));
    sum = rounded(softmax_, sum * keep);
    for (Index c = 0; c < v.cols(); ++c) values(i, c) = rounded(pv, values(i, c) * rounded(pv, keep));
    for (Index j = 0; j < k.rows(); ++j) {
      if (scores[j] == lowest) continue;
      const Real weight = power(softmax_, Base::e, rounded(softmax_, scores[j] - shift));
      sum = rounded(softmax_, sum + weight);
      const Real entering = operand(rounded(policy_[Stage::weights], weight));
      for (Index c = 0; c < v.cols(); ++c)
        values(i, c) = rounded(pv, values(i, c) + rounded(pv, entering * operand(v(j, c))));
    }
    top = shift;
  }
  [[nodiscard]] Real operand(Real x) const { return rounded(policy_[Stage::operand], x); }
  [[nodiscard]] CallOptions options_of() const {
    CallOptions options;
    options.causal = call_.causal;
    options.align = call_.align;
    return options;
  }

  const mha::Call& call_;
  Policy policy_;
  Format storage_, gemm_, softmax_;
  EmptyRow empty_;
  Index b_, first_, count_;
  Real scale_;
  Index length_;
  Rows<Real> heads_;
};

template <class Real, class Steps>
void run_fused_block(const mha::Call& call, const mha::Contract& contract) {
  const Projection<Real> by = load_out_projection<Real>(call);
  for (Index b = 0; b < call.b(); ++b)
    for (Index at = 0; at < call.l(); at += block_tile) {
      const Index count = std::min(block_tile, call.l() - at);
      const Rows<Real> heads = FusedTile<Real, Steps>(call, contract, b, at, count).heads();
      store_rows(call, b, at, project(heads, by, Steps::out_gemm(contract), contract.attention.policy[Stage::output]));
    }
}

// Projection and attention in tiles: of q, k and v never more than a tile of one head lies in memory, of scores no
// more than a row
// of a tile.
template <class Steps>
void fused_block(const mha::Call& call, const mha::Contract& contract) {
  check_storage(call, contract);
  if (block_computes_in_double(contract))
    run_fused_block<double, Steps>(call, contract);
  else
    run_fused_block<float, Steps>(call, contract);
}

}  // namespace attest::kernels
