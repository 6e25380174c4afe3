#pragma once
#include "core/inputs.hpp"

namespace attest {

// A tensor of `shape` in `layout` that has stride 0 along the axes of `shared`, bit a for axis a: the others lie as if those
// had one element each.
Placement place(Layout layout, const std::array<Index, 4>& shape, unsigned shared);

}  // namespace attest
