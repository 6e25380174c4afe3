#pragma once
#include <cstdint>

#include "core/contract.hpp"
#include "core/inputs.hpp"

namespace attest::properties {

// The part of a key in a row (attest/plugin.h). minus_inf: a bias of -inf alone excludes it, or a mask that the
// contract says is added, so that its raw score counts.
enum class Part : std::uint8_t { masked, minus_inf, attended };

// The keys that take part in each row of one call.
class Masks {
 public:
  Masks(const Inputs& inputs, const Contract& contract) noexcept;
  [[nodiscard]] Part part(Index b, Index h, Index i, Index j) const noexcept;
  // Tells whether any key is attended: the row is not empty.
  [[nodiscard]] bool has_key(Index b, Index h, Index i) const noexcept;
  // Keys j >= end(b, i) are behind what causality and the right window leave to row i, in every head; 0..Lk.
  [[nodiscard]] Index end(Index b, Index i) const noexcept { return end_of(diagonal(length(b), i)); }
  // Returns the first key that the left window leaves to row i, in every head; 0 or more, and maybe past end().
  [[nodiscard]] Index begin(Index b, Index i) const noexcept { return begin_of(diagonal(length(b), i)); }
  // Tells whether every key from begin() to end() that its sample has takes part: nothing is said of single keys.
  [[nodiscard]] bool by_position_alone() const noexcept;
  // The one key that takes part in a row, -1 if there is none, or more.
  [[nodiscard]] Index single(Index b, Index h, Index i) const noexcept;
  // Lb: the keys that sample b has.
  [[nodiscard]] Index length(Index b) const noexcept {
    if (!attest_present(&lengths_)) return keys_;
    return *static_cast<const std::int32_t*>(attest_at(&lengths_, b, 0, 0, 0));
  }
  // 0 without a bias.
  [[nodiscard]] double bias(Index b, Index h, Index i, Index j) const noexcept;

 private:
  // The key beside row i of a sample that has `own` keys; what causality and windows leave there.
  [[nodiscard]] Index diagonal(Index own, Index i) const noexcept { return bottom_right_ ? i + own - rows_ : i; }
  [[nodiscard]] Index end_of(Index diagonal) const noexcept;
  [[nodiscard]] Index begin_of(Index diagonal) const noexcept {
    return window_left_ >= 0 && window_left_ < diagonal ? diagonal - window_left_ : 0;
  }
  [[nodiscard]] bool closed_by_bias(Index b, Index h, Index i, Index j) const noexcept;

  template <class Closed>
  static Index single_of(Index first, Index last, const Closed& closed) noexcept;

  attest_tensor keep_, bias_, lengths_;
  bool causal_, bottom_right_, bias_masks_;
  Part closed_;  // by a mask
  Index window_left_, window_right_, rows_, keys_;
};

}  // namespace attest::properties
