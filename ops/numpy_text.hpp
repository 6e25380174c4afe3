#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/format.hpp"

// Lines of NumPy that scripts of several operations have.
namespace attest::ops {

// "np.float16"; the bare name of a format that NumPy lacks, which ml_dtypes or numpy_definition() has.
inline std::string numpy_name(Format format) {
  const FormatTraits& row = traits(format);
  return fmt::format("{}{}", row.in_numpy() ? "np." : "", row.library);
}

// A function that rounds once, from whatever type, as astype() does to the formats that NumPy has; empty for those.
inline std::string numpy_definition(Format format) {
  const FormatTraits& row = traits(format);
  if (row.in_numpy()) return {};
  return fmt::format(
      "def {}(a):  # to nearest, ties to even\n"
      "    step = np.ldexp(1.0, np.maximum(np.frexp(a)[1], {}) - {})\n"
      "    a = np.rint(a / step) * step\n"
      "    return np.where(np.abs(a) >= 2.0**{}, np.copysign(np.inf, a), a)\n",
      row.library, row.min_exponent + 1, row.precision, row.max_exponent() + 1);
}

// An expression rounded to a format: "(x + y).astype(np.float16)", "bfloat16(x + y)".
inline std::string numpy_rounded(Format format, std::string_view expression) {
  if (!traits(format).in_numpy()) return fmt::format("{}({})", numpy_name(format), expression);
  const bool atom = expression.find_first_of(" (") == std::string_view::npos;
  return fmt::format("{}{}{}.astype({})", atom ? "" : "(", expression, atom ? "" : ")", numpy_name(format));
}

}  // namespace attest::ops
