#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace attest {

// One array of an .npz or .npy file (NumPy enhancement proposal 1), row-major whatever order the file has.
struct NamedArray {
  // u16 is a uint16 or two opaque bytes (numpy without bfloat16): only its user knows the meaning. `other` is a dtype
  // that attest does not read; such an array has a name, a shape and a descr, and no bytes.
  enum class Type : std::uint8_t { f16, bf16, f32, f64, i32, i64, boolean, u8, i8, u16, i16, u32, u64, other };
  static constexpr Type last_of_models = Type::u64;  // tensors of models have the types up to it

  std::string name;  // name of the member, without ".npy"
  Type type = Type::other;
  std::string descr;  // the dtype as the file states it, such as "<f4"
  std::vector<Index> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] Index size() const noexcept;  // elements
  // "f32 [1, 2, 3]".
  [[nodiscard]] std::string described() const;
  // Reads elements first, first + 1, ... in row-major order; exact but for i64 past 2^53. Not bounds checked; not for
  // `other`.
  void read(Index first, std::span<double> to) const noexcept;
  [[nodiscard]] double at(Index flat) const noexcept;
};
std::string_view name(NamedArray::Type type) noexcept;
// Tells whether an array of unsigned integers may be the bits of a type that NumPy lacks.
bool holds_bits_of(const NamedArray& array, NamedArray::Type type) noexcept;
// Returns the size of one element; 0 for `other`.
std::size_t bytes_of(NamedArray::Type type) noexcept;
// The dtype as an .npy states it, "<f4"; that of bits which NumPy has no number for is "<u2".
std::string_view descr(NamedArray::Type type) noexcept;
// Types begin with stored_formats.
constexpr bool is_floating(NamedArray::Type type) noexcept {
  return static_cast<std::size_t>(type) < stored_formats.size();
}
// Returns the format of a floating-point array.
Format format_of(NamedArray::Type type);
constexpr NamedArray::Type named_type(DType type) noexcept {
  return is_floating(type)    ? static_cast<NamedArray::Type>(type)
         : type == DType::i32 ? NamedArray::Type::i32
                              : NamedArray::Type::boolean;
}

inline constexpr std::uint64_t most_array_bytes = std::uint64_t{1} << 32;  // limit for one file, uncompressed

// Reads the arrays of an .npz: a zip archive (PKWARE APPNOTE 6.3) of .npy members, stored or deflated, in the order of
// its directory. A member manifest.json as export writes it says which uint16 arrays are bf16; members of other kinds
// are passed over. Throws Error(usage): one sentence with `name`, the member and the reason, for an archive that is
// truncated, damaged, encrypted, of 4 GB and more (zip64), or expands to more than `most_bytes`. Never takes more
// memory than the file can fill.
std::vector<NamedArray> read_npz(std::span<const std::byte> bytes, std::string_view name,
                                 std::uint64_t most_bytes = most_array_bytes);

// The array of a single .npy. Throws as read_npz.
NamedArray read_npy(std::span<const std::byte> bytes, std::string_view name);

// read_npz of a regular file. Throws Error(usage) also for a path that is none.
std::vector<NamedArray> load_npz(const std::filesystem::path& file);

}  // namespace attest
