#pragma once
#include <string_view>

// Lines of NumPy that scripts of several operations have.
namespace attest::ops {

// Rounds once, from whatever type, as astype() does to the formats that NumPy has.
inline constexpr std::string_view numpy_bfloat16 =
    "def bfloat16(a):  # to nearest, ties to even\n"
    "    step = np.ldexp(1.0, np.maximum(np.frexp(a)[1], -125) - 8)\n"
    "    a = np.rint(a / step) * step\n"
    "    return np.where(np.abs(a) >= 2.0**128, np.copysign(np.inf, a), a)\n";

}  // namespace attest::ops
