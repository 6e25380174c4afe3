#include "kernels/rows.hpp"

#include <cstring>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/loops.hpp"

namespace attest::kernels {
namespace {

bool is_short(DType type) noexcept { return is_floating(type) && attest::is_short(format_of(type)); }

template <class Element, class Real>
void read(const std::byte* first, const Block& block, Real* out) noexcept {
  constexpr Index size = sizeof(typename Element::Bits);
  for (Index r = 0; r < block.rows; ++r) {
    const std::byte* row = first + r * block.row_stride * size;
    Real* target = out + r * block.row_step;
    if (block.column_stride == 1 && block.column_step == 1) {
      for (Index c = 0; c < block.columns; ++c) target[c] = static_cast<Real>(Element::load(row + c * size));
    } else {
      for (Index c = 0; c < block.columns; ++c)
        target[c * block.column_step] = static_cast<Real>(Element::load(row + c * block.column_stride * size));
    }
  }
}

void write(std::byte* at, DType type, double x) noexcept {
  with_element(type, [at, x](auto element) { element.store(at, x); });
}

// The number of 16-bit numbers that are brought together before they are widened at once.
constexpr Index halves_at_once = 128;

auto widen_of(DType type) noexcept { return loops().widen[static_cast<std::size_t>(format_of(type))]; }
auto narrow_of(DType type) noexcept { return loops().narrow[static_cast<std::size_t>(format_of(type))]; }

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
  const bool turned = block.row_step == 1 && block.column_step != 1, halves = is_short(type);
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
  else if (is_short(type))
    narrow_of(type)(x, columns, reinterpret_cast<std::uint16_t*>(at));
  return type == DType::f32 || is_short(type);
}

}  // namespace

template <class Real>
void read_block(const std::byte* first, DType type, const Block& block, Real* out) noexcept {
  if constexpr (std::is_same_v<Real, float>)
    if (read_in_registers(first, type, block, out)) return;
  with_element(type, [&](auto element) { read<decltype(element)>(first, block, out); });
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

}  // namespace

void read_scattered(const std::byte* const* rows, Index offset, DType type, Index count, float* out) noexcept {
  if (is_short(type)) return gather_halves(rows, offset, type, count, out);
  with_element(type, [&](auto element) {
    for (Index r = 0; r < count; ++r) out[r] = static_cast<float>(element.load(rows[r] + offset));
  });
}

void write_scattered(std::byte* const* rows, Index offset, DType type, Index count, const float* x) noexcept {
  if (is_short(type)) {
    std::array<std::uint16_t, 64> bits;
    narrow_of(type)(x, count, bits.data());
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
