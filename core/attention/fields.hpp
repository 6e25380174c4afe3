#pragma once
#include "core/field.hpp"

namespace attest {

// The fields of a problem of attention, in print order.
std::span<const Field> attention_fields() noexcept;

}  // namespace attest
