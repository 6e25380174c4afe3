#pragma once
#include "ops/plain.hpp"

// out = scale x + y of n numbers: an operation that attest does not bring along, added from outside.
struct attest_scale_add {
  std::uint32_t struct_size, reserved;
  std::uint64_t flags;
  attest_tensor x, y, out;
  double scale;
};

namespace attest::scale_add {

struct Problem {
  Index n = 1;
  Format dtype = Format::f32;
  double scale = 1;
  std::uint64_t seed = 0;
  friend bool operator==(const Problem&, const Problem&) = default;
};

}  // namespace attest::scale_add

namespace attest::ops {

template <>
inline constexpr Role role_of<scale_add::Problem> = Role::problem;
const Op& scale_add_op();

}  // namespace attest::ops
