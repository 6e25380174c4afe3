#pragma once
#include "core/problem.hpp"
#include "core/subject.hpp"

namespace attest::properties {

// Returns the layout in which the law `layout` asks a problem again: contiguous where some tensor is not, else one of
// those that the subject takes, drawn from the problem's seed; contiguous too where it takes no other.
Layout other_layout(const Problem& problem, const Supports& supports);

}  // namespace attest::properties
