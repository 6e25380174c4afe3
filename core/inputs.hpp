#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/attention/call.hpp"
#include "core/problem.hpp"
#include "core/tensor.hpp"

namespace attest {

// The options of a call besides its tensors.
struct CallOptions {
  double scale = 1;
  bool scale_is_default = false;
  double softcap = 0;
  bool causal = false;
  Align align = Align::top_left;
  Index window_left = -1, window_right = -1;
  Index threads = 0;
  std::string form{};  // forms_json() of the problem's
};

// The tensors and options of one call, derived from a problem. Absent tensors are not present().
struct Inputs : CallOptions {
  Tensor q, k, v, bias, keep, kv_lengths;

  // All six, in the order of Edit::Tensor and of the call's inputs.
  static constexpr std::array<Tensor Inputs::*, 6> members{&Inputs::q,    &Inputs::k,    &Inputs::v,
                                                           &Inputs::bias, &Inputs::keep, &Inputs::kv_lengths};
  struct Named {
    std::string_view name;
    const Tensor& tensor;
  };
  // Returns the tensors that are present.
  [[nodiscard]] std::vector<Named> named() const;

  [[nodiscard]] const CallOptions& options() const noexcept { return *this; }
  void set_options(const CallOptions& options) { static_cast<CallOptions&>(*this) = options; }
  // The call a subject gets. Points into *this, `out` and `lse` (which may be absent).
  [[nodiscard]] attest_attention call(const Tensor& out, const Tensor& lse) const noexcept;
  [[nodiscard]] Inputs clone() const;
};

// Values from (seed, tensor, origin + index), without libm: the same bits everywhere. Throws what validate() throws.
Inputs materialise(const Problem& problem);

// Poisoned output tensors in the problem's layout; `fence`: what guards and gaps hold (core/tensor.hpp).
Tensor make_out(const Problem& problem, std::uint64_t fence = Tensor::plain_fence);
Tensor make_lse(const Problem& problem,
                std::uint64_t fence = Tensor::plain_fence);  // absent if the problem asks for none

// The keys [first, last) that causality and windows leave to query row `row` of `rows` in a sample of `length` keys.
// `call` is a Problem or CallOptions. Windows may be as wide as the type: nothing is added to them that could wrap.
struct KeyRange {
  Index first, last;
};
template <class Call>
KeyRange key_range(const Call& call, Index row, Index rows, Index length) noexcept {
  const Index diagonal = call.align == Align::bottom_right ? row + length - rows : row;
  Index first = 0, last = length;
  if (call.causal) last = std::min(last, diagonal + 1);
  if (call.window_left >= 0 && call.window_left < diagonal) first = std::min(diagonal - call.window_left, length);
  if (call.window_right >= 0 && call.window_right < last - diagonal) last = diagonal + call.window_right + 1;
  return {first, std::max(first, last)};
}

// Strides and base offset of a logical [n0,n1,n2,n3] tensor in `layout`.
struct Placement {
  std::array<Index, 4> strides;
  Index base_offset;
};
Placement place(Layout layout, const std::array<Index, 4>& shape);
// Returns the place of a tensor of `shape` in `layout` that has stride 0 along the axes of `shared`, bit a for axis a.
// The other axes lie as if the shared ones had one element each.
Placement place(Layout layout, const std::array<Index, 4>& shape, unsigned shared);

// The rows whose outputs are judged, as flat indices over [B,Hq,Lq], ascending: all, or `rows` that the problem's seed draws.
std::vector<Index> judged_rows(const Problem& problem);

// A query row [b, h, i], and the one that a flat index over [B,Hq,Lq] means.
struct RowIndex {
  Index b, h, i;
};
constexpr RowIndex row_index(const Problem& problem, Index flat) noexcept {
  return {flat / problem.lq / problem.hq, flat / problem.lq % problem.hq, flat % problem.lq};
}
// Tells whether `flat` is the row after `row`, of flat index `before`, in one head: most rows are, and need no
// division.
constexpr bool follows(const Problem& problem, const RowIndex& row, Index before, Index flat) noexcept {
  return flat == before + 1 && row.i + 1 < problem.lq;
}

}  // namespace attest
