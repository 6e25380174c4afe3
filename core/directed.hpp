#pragma once
#include "core/format.hpp"

namespace attest {

// Returns the number of `format` next to x, at or above it (`up`), or at or below it. Past the largest finite number
// that is infinity or the largest finite number. f64 holds every x.
double round_toward(Format format, double x, bool up) noexcept;

}  // namespace attest
