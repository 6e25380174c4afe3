#include <array>
#include <memory>

#include "core/mha/inputs.hpp"
#include "ops/attention/probe/model.hpp"
#include "ops/mha/probe/parts.hpp"

namespace attest::ops::of_mha {
namespace {

constexpr const auto& accumulators = stored_finest_first;  // tf32 accumulates nothing

class Plain {
 public:
  Plain(const Problem& problem, const Policy& policy, bool rounds, const of_attention::Scheme& scheme)
      : inputs_(materialise(problem)),
        out_(make_out(problem)),
        call_(inputs_.call(out_)),
        policy_(policy),
        storage_(problem.dtype),
        rounds_(rounds),
        scheme_(scheme) {
    if (!rounds_)
      for (const Stage stage : {Stage::operand, Stage::weights})
        policy_.attention.set(stage, at_least_f32(problem.dtype));
  }

  // One of out: its terms are the columns of heads that have a weight.
  [[nodiscard]] double out(Index b, Index i, Index e) const {
    double sum = 0;
    for (Index n = 0; n < call_.q_width(); ++n) {
      const double w = load(call_.w_out, e, n);
      if (w == 0) continue;
      const double o = head(b, n / call_.head_dim, i, n % call_.head_dim);
      sum = added(sum, operand(left(o)), operand(w));
    }
    if (attest_present(&call_.b_out)) sum = gemm(sum + load(call_.b_out, e));
    return round_to(storage_, round_to(policy_.attention[Stage::output], sum));
  }

 private:
  [[nodiscard]] double gemm(double x) const { return round_to(policy_.gemm, x); }
  [[nodiscard]] double operand(double x) const { return round_to(policy_.attention[Stage::operand], x); }
  [[nodiscard]] double added(double sum, double a, double b) const { return gemm(sum + gemm(a * b)); }
  [[nodiscard]] double left(double x) const { return rounds_ ? round_to(storage_, x) : x; }
  [[nodiscard]] double projected(const attest_tensor& tokens, const attest_tensor& weights, const attest_tensor& bias,
                                 Index b, Index token, Index row) const {
    double sum = 0;
    for (Index c = 0; c < call_.e(); ++c)
      sum = added(sum, operand(load(tokens, b, token, c)), operand(load(weights, row, c)));
    return left(attest_present(&bias) ? gemm(sum + load(bias, row)) : sum);
  }
  [[nodiscard]] double head(Index b, Index h, Index i, Index c) const {
    of_attention::PlainRow row;
    row.scale = call_.scale;
    const Index kv = h / call_.group(), d = call_.head_dim;
    for (Index n = 0; n < d; ++n) row.q.push_back(projected(call_.x, call_.w_q, call_.b_q, b, i, h * d + n));
    for (Index j = 0; j < call_.m(); ++j) {
      for (Index n = 0; n < d; ++n) row.k.push_back(projected(call_.memory, call_.w_k, call_.b_k, b, j, kv * d + n));
      row.v.push_back(projected(call_.memory, call_.w_v, call_.b_v, b, j, kv * d + c));
      if (attest_present(&call_.bias)) row.bias.push_back(load(call_.bias, b, h, i, j));
    }
    attest::Policy policy = policy_.attention;
    policy.set(Stage::output, rounds_ ? storage_ : policy[Stage::pv]);
    return modelled(row, policy, scheme_);
  }

  attest::mha::Inputs inputs_;
  Tensor out_;
  attest::mha::Call call_;
  Policy policy_;
  Format storage_;
  bool rounds_;
  of_attention::Scheme scheme_;
};

}  // namespace

std::size_t PlainBlock::schemes() const noexcept { return std::size(of_attention::schemes); }

probing::Elements PlainBlock::run(const ops::Problem& problem, const ops::Policy& policy, std::size_t scheme) const {
  const auto plain =
      std::make_shared<const Plain>(problem.as<Problem>(), policy.as<Policy>(), rounds_, of_attention::schemes[scheme]);
  return [plain](std::string_view, const probing::Place& at) { return plain->out(at[0], at[1], at[2]); };
}

std::span<const Format> PlainBlock::formats(std::size_t stage) const noexcept {
  return stage == gemm_stage ? std::span<const Format>(accumulators)
                             : of_attention::formats_of(static_cast<Stage>(stage));
}

}  // namespace attest::ops::of_mha
