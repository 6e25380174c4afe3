#include "oracle/mha/way.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace attest::oracle {
namespace {

std::vector<double> read_vector(const attest_tensor& tensor, Index count) {
  std::vector<double> values(static_cast<std::size_t>(count), 0);
  if (attest_present(&tensor))
    read_strided(tensor, attest_at(&tensor, 0, 0, 0, 0), tensor.strides[0], count, values.data());
  return values;
}

}  // namespace

Interval stored(mha::Projected how, Format storage, bool flush, double value, double error, double bias) {
  const Interval sum{value - error, value + error};
  switch (how) {
    case mha::Projected::unrounded:
      return sum;
    case mha::Projected::rounded:
      return rounded_ends(storage, flush, sum);
    case mha::Projected::separate:
      break;
  }
  return rounded_ends(storage, flush, with_bias(rounded_ends(storage, flush, sum), storage, flush, bias));
}

Interval rounded_ends(Format format, bool flush, Interval ends) {
  Interval rounded{round_to(format, ends.lo), round_to(format, ends.hi)};
  const double tiny = flush ? smallest_normal(format) : 0;  // a result that rounds to less may be 0
  if (rounded.lo > 0 && rounded.lo <= tiny) rounded.lo = 0;
  if (rounded.hi < 0 && rounded.hi >= -tiny) rounded.hi = 0;
  return rounded;
}

double half_ulp(Format format, double x) {
  const double magnitude = std::max(std::fabs(x), smallest_normal(format));
  return std::ldexp(1.0, std::ilogb(magnitude) - precision(format));
}

Interval with_bias(Interval ends, Format storage, bool flush, double bias) {
  const bool flushed = flush && std::fabs(bias) < smallest_normal(storage);
  return {ends.lo + (flushed ? std::min(bias, 0.0) : bias), ends.hi + (flushed ? std::max(bias, 0.0) : bias)};
}

Way::Block::Block(const mha::Contract& the_contract, const mha::Call& the_call)
    : contract(the_contract),
      call(the_call),
      storage(the_contract.attention.policy[Stage::storage]),
      x(read_matrix(the_call.x)),
      w_q(read_matrix(the_call.w_q)),
      w_k(read_matrix(the_call.w_k)),
      w_v(read_matrix(the_call.w_v)),
      w_out(read_matrix(the_call.w_out)),
      b_q(read_vector(the_call.b_q, the_call.q_width())),
      b_k(read_vector(the_call.b_k, the_call.kv_width())),
      b_v(read_vector(the_call.b_v, the_call.kv_width())),
      b_out(read_vector(the_call.b_out, the_call.e())) {
  if (the_call.memory.data != the_call.x.data || the_call.memory.byte_offset != the_call.x.byte_offset ||
      the_call.m() != the_call.l())
    memory = read_matrix(the_call.memory);
  if (contract.drops_b_k) b_k.assign(b_k.size(), 0);
}

attest::Policy policy_of(const mha::Contract& contract, mha::Projected projected, bool heads_rounded) {
  attest::Policy policy = contract.attention.policy;
  const Format storage = policy[Stage::storage], wide = at_least_f32(storage);
  if (projected == mha::Projected::unrounded)
    for (const Stage stage : {Stage::storage, Stage::operand, Stage::weights}) policy.set(stage, wide);
  return policy.set(Stage::output, heads_rounded ? storage : wide);
}

Way::Way(const Block& block, mha::Projected projected, bool heads_rounded)
    : projected_(projected),
      heads_rounded_(heads_rounded),
      contract_(block.contract.attention),
      problem_(mha::attention_of(block.call, block.storage)) {
  contract_.policy = policy_of(block.contract, projected, heads_rounded);
  const mha::Call& call = block.call;
  project_into(inputs_.q, radii_.q, block, block.x, block.w_q, block.b_q, call.l(), call.heads);
  project_into(inputs_.k, radii_.k, block, block.remembered(), block.w_k, block.b_k, call.m(), call.kv_heads);
  project_into(inputs_.v, radii_.v, block, block.remembered(), block.w_v, block.b_v, call.m(), call.kv_heads);
  prepare(block);
}

Way::Way(const Block& block, mha::Projected projected, bool heads_rounded, attest::Inputs points)
    : Way(block, projected, heads_rounded, std::move(points), Radii{}) {}

Way::Way(const Block& block, mha::Projected projected, bool heads_rounded, attest::Inputs centres, Radii radii)
    : projected_(projected),
      heads_rounded_(heads_rounded),
      contract_(block.contract.attention),
      problem_(mha::attention_of(block.call, block.storage)),
      inputs_(std::move(centres)),
      radii_(std::move(radii)) {
  contract_.policy = policy_of(block.contract, projected, heads_rounded);
  prepare(block);
}

void Way::prepare(const Block& block) {
  const mha::Call& call = block.call;
  if (attest_present(&call.bias)) {
    inputs_.bias = Tensor(*dtype_of(call.bias.dtype), std::array{call.b(), call.heads, call.l(), call.m()});
    for (Index b = 0; b < call.b(); ++b)
      for (Index h = 0; h < call.heads; ++h)
        for (Index i = 0; i < call.l(); ++i)
          for (Index j = 0; j < call.m(); ++j) inputs_.bias.set(b, h, i, j, attest::load(call.bias, b, h, i, j));
  }
  inputs_.scale = call.scale;
  inputs_.causal = call.causal;
  inputs_.align = call.align;
  call_.emplace(contract_, problem_, inputs_, RoundingMode::nearest, &radii_);
  call_->keep = call.keep;
  call_->has_keep = attest_present(&call.keep);
  call_->kv_lengths = call.kv_lengths;
  out_rule_ = SumRule(block.contract, heads_format(), block.storage);
}

void Way::project_into(Tensor& centre, Tensor& radius, const Block& block, const Matrix& x, const Matrix& w,
                       const std::vector<double>& bias, Index tokens, Index heads) const {
  const SumRule rule(block.contract, block.storage, block.storage);
  const Projected of = project(rule, x, w, separate() ? nullptr : bias.data());
  const Index width = w.rows(), d = width / heads;
  const std::array<Index, 4> shape{x.rows() / tokens, heads, tokens, d}, strides{tokens * width, d, width, 1};
  centre = Tensor(DType::f64, shape, strides);
  radius = Tensor(DType::f64, shape, strides);
  auto* centres = static_cast<double*>(centre.view().data);
  auto* radii = static_cast<double*>(radius.view().data);
  for (Index i = 0; i < x.rows(); ++i)
    for (Index n = 0; n < width; ++n) {
      double &c = centres[i * width + n], &r = radii[i * width + n];
      const Interval at = stored(projected_, block.storage, contract_.arithmetic.flush_to_zero, of.value(i, n),
                                 of.error(i, n), bias[static_cast<std::size_t>(n)]);
      if (of.is_unknown(i, n) || !std::isfinite(at.lo) || !std::isfinite(at.hi)) {
        c = 0;
        r = infinity;
      } else if (at.lo == at.hi) {
        c = at.lo;
        r = 0;
      } else {
        c = at.lo + (at.hi - at.lo) / 2;
        r = std::max(at.hi - c, c - at.lo) * (1 + 0x1p-51);
      }
    }
}

std::vector<WayName> ways_of(const mha::Contract& contract) {
  std::vector<WayName> ways;
  for (const mha::Projected how : {mha::Projected::rounded, mha::Projected::unrounded, mha::Projected::separate})
    for (const bool rounded : {true, false})
      if (contract.projections[static_cast<std::size_t>(how)] &&
          (rounded ? contract.heads_rounded : contract.heads_unrounded))
        ways.push_back({how, rounded});
  return ways;
}

}  // namespace attest::oracle
