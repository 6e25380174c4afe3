#include "oracle/call.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "oracle/decode.hpp"
#include "oracle/exact.hpp"
#include "oracle/lanes.hpp"

namespace attest::oracle {
namespace {

// The view of a tensor of four axes, or none where every element is 0.
attest_tensor unless_zero(const Tensor& tensor) {
  const attest_tensor view = tensor.view();
  if (!tensor.present()) return {};
  for (Index b = 0; b < view.shape[0]; ++b)
    for (Index h = 0; h < view.shape[1]; ++h)
      for (Index i = 0; i < view.shape[2]; ++i)
        for (Index c = 0; c < view.shape[3]; ++c)
          if (attest_load(&view, b, h, i, c) != 0) return view;
  return {};
}

}  // namespace

void read_strided(const attest_tensor& tensor, const void* first, Index stride, Index count, double* to) {
  const auto* from = static_cast<const std::byte*>(first);
  const DType type = *dtype_of(tensor.dtype);
  const Index step = stride * static_cast<Index>(size_of(type));
  if (stride == 1 && count >= lane_count) return decode(type, first, count, to);
  with_element(type, [&](auto element) {
    using Bits = typename decltype(element)::Bits;
    if (count < lane_count) {
      for (Index n = 0; n < count; ++n) to[n] = element.load(from + n * step);
      return;
    }
    // Elements that lie apart are brought together first.
    constexpr Index most = 64;
    Bits together[most];
    for (Index begin = 0; begin < count; begin += most) {
      const Index some = std::min(most, count - begin);
      for (Index n = 0; n < some; ++n) std::memcpy(together + n, from + (begin + n) * step, sizeof(Bits));
      decode(type, together, some, to + begin);
    }
  });
}

Call::Call(const Contract& the_contract, const Problem& problem, const Inputs& inputs, RoundingMode rounding,
           const Radii* radii)
    : contract(&the_contract),
      numbers(the_contract, problem.d, inputs.scale, inputs.softcap, rounding),
      q(inputs.q.view()),
      k(inputs.k.view()),
      v(inputs.v.view()),
      bias(inputs.bias.view()),
      keep(inputs.keep.view()),
      kv_lengths(inputs.kv_lengths.view()),
      q_radius(radii != nullptr ? unless_zero(radii->q) : attest_tensor{}),
      k_radius(radii != nullptr ? unless_zero(radii->k) : attest_tensor{}),
      v_radius(radii != nullptr ? unless_zero(radii->v) : attest_tensor{}),
      batch(problem.b),
      heads(problem.hq),
      kv_heads(problem.hkv),
      group(problem.hkv > 0 ? problem.group() : 1),
      rows(problem.lq),
      keys(problem.lk),
      d(problem.d),
      dv(problem.dv),
      has_bias(inputs.bias.present()),
      has_keep(inputs.keep.present()),
      has_radii(attest_present(&q_radius) || attest_present(&k_radius) || attest_present(&v_radius)),
      options(inputs.options()) {
  // A bias of a finer format than the score may be rounded to the score's before it is added.
  const Format score = the_contract.policy[Stage::score];
  numbers.has_bias = has_bias;
  if (has_bias && loses(score, format_of(inputs.bias.dtype()))) numbers.u_bias = numbers.u_score;
  if (has_bias && numbers.flush) numbers.smallest_bias = smallest_normal(format_of(inputs.bias.dtype()));
  if (const auto& mma = numbers.arithmetic.mma) {
    // Each tile ends with a block that others do not fill.
    const double lk = static_cast<double>(keys), block = static_cast<double>(mma->block);
    const double tiles = std::ceil(lk / static_cast<double>(numbers.arithmetic.kv_tile_min));
    numbers.most_blocks = std::floor((lk + tiles * (block - 1)) / block);
  }
  // a value inside such an interval need not be a multiple of any unit
  if (attest_present(&q_radius) || attest_present(&k_radius)) return;
  const Exactness exact = exactness(the_contract, inputs);
  numbers.exact_scores = exact.scores;
  if (exact.arguments) numbers.a3 = 0;
}

Index Call::length(Index b) const noexcept {
  if (!attest_present(&kv_lengths)) return keys;
  std::int32_t n = 0;
  std::memcpy(&n, attest_at(&kv_lengths, b, 0, 0, 0), sizeof n);
  return n;
}

bool Call::kept(Index b, Index h, Index i, Index j) const noexcept {
  return !has_keep || *static_cast<const std::uint8_t*>(attest_at(&keep, b, h, i, j)) != 0;
}

bool Call::unread(Index b, Index j) const noexcept {
  switch (contract->masked_unread) {
    case MaskedUnread::yes:
      return true;
    case MaskedUnread::beyond_length:
      return j >= length(b);
    case MaskedUnread::no:
      break;
  }
  return false;
}

}  // namespace attest::oracle
