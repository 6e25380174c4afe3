#include "properties/masks.hpp"

#include <algorithm>
#include <limits>

namespace attest::properties {

Masks::Masks(const Inputs& inputs, const Contract& contract) noexcept
    : keep_(inputs.keep.view()),
      bias_(inputs.bias.view()),
      lengths_(inputs.kv_lengths.view()),
      causal_(inputs.causal),
      bottom_right_(inputs.align == Align::bottom_right),
      // A softcap after the bias turns -inf into -c, an ordinary score.
      bias_masks_(contract.softcap_before_bias || !(inputs.softcap > 0)),
      closed_(contract.mask_added ? Part::minus_inf : Part::masked),
      window_left_(inputs.window_left),
      window_right_(inputs.window_right),
      rows_(inputs.q.shape()[2]),
      keys_(inputs.k.shape()[2]) {}

double Masks::bias(Index b, Index h, Index i, Index j) const noexcept {
  return attest_present(&bias_) ? load(bias_, b, h, i, j) : 0;
}

bool Masks::has_key(Index b, Index h, Index i) const noexcept {
  for (Index j = 0, last = std::min(end(b, i), length(b)); j < last; ++j)
    if (part(b, h, i, j) == Part::attended) return true;
  return false;
}

Index Masks::end_of(Index diagonal) const noexcept {
  Index last = keys_;
  if (causal_) last = std::min(last, diagonal + 1);
  if (window_right_ >= 0 && window_right_ < last - diagonal) last = diagonal + window_right_ + 1;
  return std::max<Index>(last, 0);
}

bool Masks::by_position_alone() const noexcept {
  return !attest_present(&keep_) && !(bias_masks_ && attest_present(&bias_));
}

template <class Closed>
Index Masks::single_of(Index first, Index last, const Closed& closed) noexcept {
  Index found = -1;
  for (Index j = first; j < last; ++j) {
    if (closed(j)) continue;
    if (found >= 0) return -1;
    found = j;
  }
  return found;
}

Index Masks::single(Index b, Index h, Index i) const noexcept {
  const Index own = length(b), on_diagonal = diagonal(own, i);
  const Index first = begin_of(on_diagonal), last = std::min({end_of(on_diagonal), own, keys_});
  const bool has_bias = bias_masks_ && attest_present(&bias_);
  if (!attest_present(&keep_)) {
    if (!has_bias) return last - first == 1 ? first : -1;
    return single_of(first, last, [&](Index j) { return closed_by_bias(b, h, i, j); });
  }
  if (keep_.dtype.code != ATTEST_BOOL || first >= last)
    return single_of(first, last, [&](Index j) { return part(b, h, i, j) != Part::attended; });
  const auto* const keep = static_cast<const std::uint8_t*>(attest_at(&keep_, b, h, i, 0));
  const Index step = keep_.strides[3];
  if (!has_bias) return single_of(first, last, [&](Index j) { return keep[j * step] == 0; });
  return single_of(first, last, [&](Index j) { return keep[j * step] == 0 || closed_by_bias(b, h, i, j); });
}

bool Masks::closed_by_bias(Index b, Index h, Index i, Index j) const noexcept {
  return bias(b, h, i, j) == -std::numeric_limits<double>::infinity();
}

Part Masks::part(Index b, Index h, Index i, Index j) const noexcept {
  const Index own = length(b), g = diagonal(own, i);
  if (j >= own || (causal_ && j > g) || (window_left_ >= 0 && g - j > window_left_) ||
      (window_right_ >= 0 && j - g > window_right_))
    return closed_;
  if (attest_present(&keep_) && load(keep_, b, h, i, j) == 0) return closed_;
  if (bias_masks_ && closed_by_bias(b, h, i, j)) return Part::minus_inf;
  return Part::attended;
}

}  // namespace attest::properties
