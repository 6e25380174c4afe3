#pragma once
#include "core/format.hpp"

namespace attest {

// The number of `format` next to x at or above it (`up`), or at or below it: infinite, or the largest finite one, past that.
// f64 holds every x.
double round_toward(Format format, double x, bool up) noexcept;

}  // namespace attest
