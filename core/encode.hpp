#pragma once
#include <cstddef>
#include <span>

#include "core/tensor.hpp"

namespace attest {

// Stores numbers as elements of a type, `stride` elements apart, with the bits of StoredElement<type>::encoded(), but several
// at once in wide registers.
void encode(DType type, std::span<const double> from, std::byte* to, Index stride = 1) noexcept;

}  // namespace attest
