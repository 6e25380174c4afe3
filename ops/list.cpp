#include <array>

#include "ops/attention.hpp"
#include "ops/layer_norm.hpp"
#include "ops/mha.hpp"

namespace attest::ops {

// The first is meant where nothing names one. A program that lists others links this file of its own in place of this
// one.
std::span<const Op* const> all_ops() noexcept {
  static const std::array<const Op*, 3> ops{&attention_op(), &layer_norm_op(), &mha_op()};
  return ops;
}

}  // namespace attest::ops
