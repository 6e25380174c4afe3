#include "kernels/rows.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/loops.hpp"

namespace attest::kernels {
namespace {

template <class T>
T raw(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Returns attest_f16_load(bits) without its branch, so that rows of it run in registers: a product moves the exponent,
// which makes subnormals right too; infinity and NaN get the largest exponent back.
float decode(std::uint16_t bits) noexcept {
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(finite | special | (bits & 0x8000u) << 16);
}

template <class Real, class T, class Decode>
void read(const std::byte* first, const Block& block, Real* out, Decode decode) noexcept {
  constexpr Index size = sizeof(T);
  for (Index r = 0; r < block.rows; ++r) {
    const std::byte* row = first + r * block.row_stride * size;
    Real* target = out + r * block.row_step;
    if (block.column_stride == 1 && block.column_step == 1) {
      for (Index c = 0; c < block.columns; ++c) target[c] = static_cast<Real>(decode(raw<T>(row + c * size)));
    } else {
      for (Index c = 0; c < block.columns; ++c)
        target[c * block.column_step] = static_cast<Real>(decode(raw<T>(row + c * block.column_stride * size)));
    }
  }
}

template <class Real>
void write(std::byte* at, DType type, Real x) noexcept {
  if (type == DType::f64) {
    const auto value = static_cast<double>(x);
    std::memcpy(at, &value, sizeof value);
  } else if (type == DType::f32) {
    const auto value = static_cast<float>(x);
    std::memcpy(at, &value, sizeof value);
  } else {
    std::uint16_t bits;
    if constexpr (std::is_same_v<Real, float>)
      bits = type == DType::f16 ? attest_f16_store(x) : attest_bf16_store(x);
    else
      bits = type == DType::f16 ? encode_f16(x) : encode_bf16(x);
    std::memcpy(at, &bits, sizeof bits);
  }
}

}  // namespace

namespace {

// The number of 16-bit numbers that are brought together before they are widened at once.
constexpr Index halves_at_once = 128;

auto widen_of(DType type) noexcept { return type == DType::f16 ? loops().widen_f16 : loops().widen_bf16; }

// Rows of 16 bits whose elements lie apart.
void read_spaced_halves(const std::byte* first, DType type, const Block& block, float* out) noexcept {
  constexpr Index size = sizeof(std::uint16_t);
  const auto widen = widen_of(type);
  std::array<std::uint16_t, halves_at_once> bits;
  std::array<float, halves_at_once> wide;
  for (Index r = 0; r < block.rows; ++r)
    for (Index c = 0; c < block.columns; c += halves_at_once) {
      const std::byte* from = first + (r * block.row_stride + c * block.column_stride) * size;
      float* to = out + r * block.row_step + c * block.column_step;
      const Index count = std::min(halves_at_once, block.columns - c);
      for (Index n = 0; n < count; ++n, from += block.column_stride * size)
        std::memcpy(&bits[static_cast<std::size_t>(n)], from, sizeof bits[0]);
      widen(bits.data(), count, block.column_step == 1 ? to : wide.data());
      for (Index n = 0; n < count && block.column_step != 1; ++n)
        to[n * block.column_step] = wide[static_cast<std::size_t>(n)];
    }
}

// Reads rows whose elements lie side by side in registers, side by side or turned into columns; rows of 16 bits
// wherever they lie. Returns false where the rows are not of this kind.
bool read_in_registers(const std::byte* first, DType type, const Block& block, float* out) noexcept {
  const bool turned = block.row_step == 1 && block.column_step != 1, halves = type == DType::f16 || type == DType::bf16;
  if (block.column_stride != 1 || (!turned && block.column_step != 1)) {
    if (halves) read_spaced_halves(first, type, block, out);
    return halves;
  }
  if (type == DType::f32) {
    const auto* from = reinterpret_cast<const float*>(first);
    if (turned)
      loops().columns(from, block.row_stride, block.rows, block.columns, block.column_step, out);
    else
      for (Index r = 0; r < block.rows; ++r)
        std::memcpy(out + r * block.row_step, from + r * block.row_stride,
                    static_cast<std::size_t>(block.columns) * sizeof *out);
    return true;
  }
  if (!halves) return false;
  const auto widen = widen_of(type);
  const auto* from = reinterpret_cast<const std::uint16_t*>(first);
  if (!turned) {
    for (Index r = 0; r < block.rows; ++r) widen(from + r * block.row_stride, block.columns, out + r * block.row_step);
    return true;
  }
  constexpr Index rows_at_once = 16, columns_at_once = 128;
  std::array<float, rows_at_once * columns_at_once> wide;
  if (block.row_stride == block.columns && block.columns <= columns_at_once) {  // several rows at once
    const Index most = std::ssize(wide) / std::max<Index>(block.columns, 1);
    for (Index r = 0; r < block.rows; r += most) {
      const Index rows = std::min(most, block.rows - r);
      widen(from + r * block.columns, rows * block.columns, wide.data());
      loops().columns(wide.data(), block.columns, rows, block.columns, block.column_step, out + r);
    }
    return true;
  }
  for (Index r = 0; r < block.rows; r += rows_at_once)
    for (Index c = 0; c < block.columns; c += columns_at_once) {
      const Index rows = std::min(rows_at_once, block.rows - r), columns = std::min(columns_at_once, block.columns - c);
      for (Index i = 0; i < rows; ++i)
        widen(from + (r + i) * block.row_stride + c, columns, wide.data() + i * columns_at_once);
      loops().columns(wide.data(), columns_at_once, rows, columns, block.column_step, out + c * block.column_step + r);
    }
  return true;
}

// Writes `columns` elements side by side. Returns false where they are not of this kind.
bool write_in_registers(std::byte* at, DType type, Index columns, const float* x) noexcept {
  if (type == DType::f32)
    std::memcpy(at, x, static_cast<std::size_t>(columns) * sizeof *x);
  else if (type == DType::f16)
    loops().narrow_f16(x, columns, reinterpret_cast<std::uint16_t*>(at));
  else if (type == DType::bf16)
    loops().narrow_bf16(x, columns, reinterpret_cast<std::uint16_t*>(at));
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

}  // namespace

template <class Real>
void read_block(const std::byte* first, DType type, const Block& block, Real* out) noexcept {
  if constexpr (std::is_same_v<Real, float>)
    if (read_in_registers(first, type, block, out)) return;
  switch (type) {
    case DType::f16:
      return read<Real, std::uint16_t>(first, block, out, [](std::uint16_t x) { return decode(x); });
    case DType::bf16:
      return read<Real, std::uint16_t>(first, block, out, [](std::uint16_t x) { return attest_bf16_load(x); });
    case DType::f32:
      return read<Real, float>(first, block, out, [](float x) { return x; });
    case DType::f64:
      return read<Real, double>(first, block, out, [](double x) { return x; });
    case DType::boolean:
      return read<Real, std::uint8_t>(first, block, out, [](std::uint8_t x) { return x; });
    case DType::i32:
      return read<Real, std::int32_t>(first, block, out, [](std::int32_t x) { return x; });
  }
}

template <class Real>
void write_row(const View& view, Index b, Index h, Index i, Index columns, const Real* x) noexcept {
  std::byte* at = view.at(b, h, i);
  if constexpr (std::is_same_v<Real, float>)
    if (view.strides[3] == 1 && write_in_registers(at, view.type, columns, x)) return;
  const Index step = view.strides[3] * static_cast<Index>(size_of(view.type));
  for (Index c = 0; c < columns; ++c) write(at + c * step, view.type, x[c]);
}

namespace {

void gather_halves(const std::byte* const* rows, Index offset, DType type, Index count, float* out) noexcept {
  std::array<std::uint16_t, halves_at_once> bits;
  for (Index r = 0; r < count; r += halves_at_once) {
    const Index some = std::min(halves_at_once, count - r);
    for (Index n = 0; n < some; ++n)
      std::memcpy(&bits[static_cast<std::size_t>(n)], rows[r + n] + offset, sizeof bits[0]);
    widen_of(type)(bits.data(), some, out + r);
  }
}

template <class T, class Decode>
void gather_elements(const std::byte* const* rows, Index offset, Index count, float* out, Decode decode) noexcept {
  for (Index r = 0; r < count; ++r) out[r] = static_cast<float>(decode(raw<T>(rows[r] + offset)));
}

}  // namespace

void read_scattered(const std::byte* const* rows, Index offset, DType type, Index count, float* out) noexcept {
  switch (type) {
    case DType::f16:
    case DType::bf16:
      return gather_halves(rows, offset, type, count, out);
    case DType::f32:
      return gather_elements<float>(rows, offset, count, out, [](float x) { return x; });
    case DType::f64:
      return gather_elements<double>(rows, offset, count, out, [](double x) { return x; });
    case DType::boolean:
      return gather_elements<std::uint8_t>(rows, offset, count, out, [](std::uint8_t x) { return x; });
    case DType::i32:
      return gather_elements<std::int32_t>(rows, offset, count, out, [](std::int32_t x) { return x; });
  }
}

void write_scattered(std::byte* const* rows, Index offset, DType type, Index count, const float* x) noexcept {
  if (type == DType::f16 || type == DType::bf16) {
    std::array<std::uint16_t, 64> bits;
    (type == DType::f16 ? loops().narrow_f16 : loops().narrow_bf16)(x, count, bits.data());
    for (Index r = 0; r < count; ++r) std::memcpy(rows[r] + offset, &bits[static_cast<std::size_t>(r)], sizeof bits[0]);
  } else {
    for (Index r = 0; r < count; ++r) write(rows[r] + offset, type, x[r]);
  }
}

template <class Real>
void write_output(const Call& call, Index b, Index h, Index i, Real* row, const Real* lse) noexcept {
  round_all(call[Stage::output], row, call.dv);
  write_row(call.out, b, h, i, call.dv, row);
  if (call.lse) write_row(call.lse, b, h, i, 1, lse);
}

template void read_block(const std::byte*, DType, const Block&, float*) noexcept;
template void read_block(const std::byte*, DType, const Block&, double*) noexcept;
template void write_row(const View&, Index, Index, Index, Index, const float*) noexcept;
template void write_row(const View&, Index, Index, Index, Index, const double*) noexcept;

template void write_output(const Call&, Index, Index, Index, float*, const float*) noexcept;
template void write_output(const Call&, Index, Index, Index, double*, const double*) noexcept;

}  // namespace attest::kernels
