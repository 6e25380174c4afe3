#pragma once
#include <cstdint>

#include "graph/array.hpp"

// Floats of 8 and 4 bits, as ONNX has them: storage and conversions.
namespace attest::graph {

// Says what becomes of numbers in a conversion to such a type; attributes of Cast and QuantizeLinear.
struct Coding {
  enum class Round : std::uint8_t { up, down, nearest };
  bool saturates = true;    // past the largest number: that one, else the type's infinity or NaN
  Round round = Round::up;  // float8e8m0 alone; the others are rounded to nearest, halves to even
};

// The number that a code stands for, exact in float32. `type`: is_code.
double decoded(Type type, std::int64_t code) noexcept;
// All numbers of such a tensor, as float32.
Array decoded(const Array& codes);
// The code of a number. Of float8e8m0 numbers below 0 are left open, and NaN here.
std::int64_t encoded(Type type, double x, const Coding& how) noexcept;

}  // namespace attest::graph
