#pragma once
#include <span>
#include <string_view>

#include "core/inputs.hpp"
#include "core/problem.hpp"

namespace attest::ops::of_attention {

// A call read otherwise than it was meant: the call that a kernel that misreads it takes it for.
struct Variant {
  std::string_view words, stage;
  // Changes `inputs`, which the problem's dimensions describe, and which lie as those of the call did. False where it
  // changes nothing: the call has no mask, say, or the problem is too large to be written out.
  bool (*apply)(Problem& problem, Inputs& inputs);
};
std::span<const Variant> variants();

}  // namespace attest::ops::of_attention
