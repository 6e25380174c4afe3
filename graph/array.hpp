#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/index.hpp"

namespace attest::graph {

// The type of the elements of a tensor in a graph, by ONNX's names. Those up to u64 lie in memory as numpy has them.
enum class Type : std::uint8_t {
  f16,
  bf16,
  f32,
  f64,
  i32,
  i64,
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  u64,
  u4,
  i4,
  u2,
  i2,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1
};
std::string_view name(Type type) noexcept;
// "float16, bfloat16, ...".
std::string type_names();
constexpr bool is_floating(Type type) noexcept { return type <= Type::f64; }
// Tells if a runtime's tensors in memory may have the type.
constexpr bool is_exchanged(Type type) noexcept { return type <= Type::u64; }
// Tells if a type is one of the floats of 8 and 4 bits, of which ONNX has storage and conversions alone. They are held
// as their bits, among the integers.
constexpr bool is_code(Type type) noexcept { return type >= Type::f8e4m3fn; }
// Bits of one element as files have it; those below a byte lie side by side, the first in the lowest bits.
int width_of(Type type) noexcept;
// Tells if an integer type has numbers below 0.
bool is_signed(Type type) noexcept;
// The least and the greatest number of an integer type (of uint64, the greatest that attest computes with, 2^63 - 1).
std::pair<std::int64_t, std::int64_t> range_of(Type type) noexcept;
// The number of an integer type that has the lowest of these bits: integers wrap round, as two's complement has it.
std::int64_t wrapped(Type type, std::uint64_t bits) noexcept;
// The format of a floating-point type.
Format format_of(Type type) noexcept;
// The number of a type in ONNX's TensorProto.DataType.
int data_type(Type type) noexcept;
// The type that ONNX's TensorProto.DataType numbers so; nullopt where Type has none.
std::optional<Type> type_numbered(std::int64_t data_type) noexcept;

// The product of `shape`. Throws Error(usage) with `what` if a length is negative or there are more than `most`
// elements.
Index elements(std::span<const Index> shape, Index most, std::string_view what);
// "[2, 3]".
std::string shape_text(std::span<const Index> shape);

// A tensor of any number of axes, row-major. Numbers of every floating-point type are held as doubles, integers and
// booleans exactly. Several runs of a graph are evaluated side by side: such a tensor holds one copy of its elements
// after the other, a lane for each run, and one that is the same in all runs holds one lane.
struct Array {
  Type type = Type::f32;
  std::vector<Index> shape;
  Index lanes = 1;
  std::vector<double> floats;          // for a floating-point type: lanes * size() of them, else none
  std::vector<std::int64_t> integers;  // for the other types
  // The tensors of a sequence of them, which is no tensor itself.
  std::shared_ptr<const std::vector<Array>> sequence{};

  [[nodiscard]] Index size() const noexcept;  // elements of a lane
  [[nodiscard]] Index rank() const noexcept { return static_cast<Index>(shape.size()); }
  // The elements of lane `index`, of the only one if there is one. By the kind of the type; not bounds checked.
  [[nodiscard]] std::span<const double> lane(Index index) const noexcept;
  [[nodiscard]] std::span<double> lane(Index index) noexcept;
  [[nodiscard]] std::span<const std::int64_t> integer_lane(Index index) const noexcept;
  [[nodiscard]] std::span<std::int64_t> integer_lane(Index index) noexcept;
};

inline bool is_exchanged(const Array& array) noexcept { return !array.sequence && is_exchanged(array.type); }

// Elements of value 0.
Array zeros(Type type, std::vector<Index> shape, Index lanes = 1);
// Makes an array of one lane from numbers in row-major order.
Array floats(Type type, std::vector<Index> shape, std::vector<double> values);
Array integers(Type type, std::vector<Index> shape, std::vector<std::int64_t> values);

}  // namespace attest::graph
