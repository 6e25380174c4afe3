#include "core/npz.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/npy_header.hpp"

namespace attest {
namespace {

using Bytes = std::span<const std::byte>;

struct TypeRow {
  std::string_view name, descr;
};
constexpr TypeRow type_rows[] = {
    {"f16", "<f2"},   {"bf16", "<u2"},   {"f32", "<f4"},    {"f64", "<f8"}, {"i32", "<i4"},
    {"i64", "<i8"},   {"bool", "|b1"},   {"u8", "|u1"},     {"i8", "|i1"},  {"uint16", "<u2"},
    {"int16", "<i2"}, {"uint32", "<u4"}, {"uint64", "<u8"}, {"other", ""},
};  // by NamedArray::Type

NamedArray::Type type_of(std::string_view descr) {
  using enum NamedArray::Type;
  if (descr == "?") return boolean;
  if (descr.empty() || descr.front() == '>') return other;
  if (std::string_view("<|=").find(descr.front()) != std::string_view::npos) descr.remove_prefix(1);
  if (descr == "u2" || descr == "V2") return u16;
  const auto* const found = std::find_if(type_rows, type_rows + static_cast<int>(other),
                                         [&](const TypeRow& row) { return row.descr.substr(1) == descr; });
  return static_cast<NamedArray::Type>(found - type_rows);
}

// Elements in row-major order from those in column-major order.
std::vector<std::byte> to_row_major(Bytes data, const std::vector<Index>& shape, std::size_t size) {
  std::vector<std::byte> to(data.size());
  std::vector<Index> index(shape.size(), 0), stride(shape.size(), 1);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  Index from = 0;
  for (std::size_t done = 0; done < to.size(); done += size) {
    std::memcpy(to.data() + done, data.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return to;
}

// Every refusal of an archive or an array, with the name of what was read.
class Refusal {
 public:
  explicit Refusal(std::string_view name) : name_(name) {}
  [[noreturn]] void operator()(const std::string& reason) const {
    throw usage_error(fmt::format("{}: {}", name_, reason));
  }
  [[nodiscard]] Refusal of(std::string_view member) const { return Refusal(fmt::format("{}: {}", name_, member)); }

 private:
  std::string name_;
};

NamedArray array_of(std::vector<std::byte> file, std::string_view name, const Refusal& refuse) {
  NpyHeader header;
  try {
    header = read_npy_header(file);
  } catch (const Error& error) {
    refuse(error.what());
  }
  NamedArray array;
  array.name = name;
  array.descr = std::move(header.descr);
  array.type = type_of(array.descr);
  array.shape = std::move(header.shape);
  if (array.type == NamedArray::Type::other) return array;
  const Bytes data = Bytes(file).subspan(header.bytes);
  const std::size_t each = bytes_of(array.type);
  if (data.size() % each != 0 || static_cast<Index>(data.size() / each) != array.size())
    refuse(fmt::format("its header promises {} elements of {} bytes, and {} bytes follow: it is truncated or damaged",
                       array.size(), each, data.size()));
  if (header.fortran_order) {
    array.bytes = to_row_major(data, array.shape, each);
  } else {
    file.erase(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(header.bytes));
    array.bytes = std::move(file);
  }
  return array;
}

std::uint32_t crc_of(Bytes data) {
  uLong crc = crc32(0, nullptr, 0);
  while (!data.empty()) {
    const Bytes block = data.first(std::min(data.size(), std::size_t{1} << 30));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(block.size()));
    data = data.subspan(block.size());
  }
  return static_cast<std::uint32_t>(crc);
}

// Returns `data` expanded to exactly `size` bytes; nullopt if it is no deflate stream of that size. Grows with the
// bytes that really come out.
std::optional<std::vector<std::byte>> inflated(Bytes data, std::size_t size) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  std::vector<std::byte> out;
  int state = Z_OK;
  while (state == Z_OK) {
    constexpr std::size_t step = std::size_t{1} << 20;
    const std::size_t done = out.size();
    if (stream.avail_in == 0) {
      const std::size_t count = std::min(data.size(), std::size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
      stream.avail_in = static_cast<uInt>(count);
      data = data.subspan(count);
    }
    out.resize(std::min(size, done + step) + (done == size ? 1 : 0));  // one more shows a stream that goes on
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(out.size() - done);
    state = inflate(&stream, Z_NO_FLUSH);
    out.erase(out.end() - static_cast<std::ptrdiff_t>(stream.avail_out), out.end());
    if (out.size() > size) return std::nullopt;
  }
  if (state != Z_STREAM_END || out.size() != size || stream.avail_in != 0 || !data.empty()) return std::nullopt;
  return out;
}

// ---- the zip archive (APPNOTE 6.3, sections 4.3.7, 4.3.12, 4.3.16) --------------------------------------------------

constexpr std::size_t end_size = 22, entry_size = 46, local_size = 30;
constexpr std::uint32_t end_mark = 0x06054b50, entry_mark = 0x02014b50, local_mark = 0x04034b50;
constexpr std::uint64_t most_expansion = 1032;  // the most of deflate
constexpr std::string_view manifest_name = "manifest.json";

std::uint32_t number(Bytes bytes, std::size_t at, int count) {
  std::uint32_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= std::to_integer<std::uint32_t>(bytes[at + static_cast<std::size_t>(i)]) << (8 * i);
  return value;
}

class Archive {
 public:
  Archive(Bytes bytes, std::string_view name, std::uint64_t budget) : bytes_(bytes), refuse_(name), budget_(budget) {}

  // Calls take(member, contents) for every .npy and for the manifest.
  template <class Take>
  void each(Take&& take) {
    const std::size_t end = find_end();
    const std::size_t count = number(bytes_, end + 10, 2), size = number(bytes_, end + 12, 4);
    directory_ = number(bytes_, end + 16, 4);
    if (count == 0xffff || size == 0xffffffff || directory_ == 0xffffffff)
      refuse_("it is a zip64 archive: save fewer arrays than 65,535 and less than 4 GB in one file");
    if (number(bytes_, end + 4, 4) != 0) refuse_("it is one part of a zip archive in several parts: join them first");
    if (directory_ + size != end) refuse_("it is truncated or damaged: its zip directory is not where it should be");
    std::set<std::string, std::less<>> seen;
    std::size_t at = directory_;
    for (std::size_t i = 0; i < count; ++i) {
      const Entry entry = read_entry(at, end);
      at = entry.next;
      if (!seen.insert(entry.name).second) refuse_(fmt::format("it holds two members named {}", entry.name));
      if (!entry.name.ends_with(".npy") && entry.name != manifest_name) continue;
      take(entry.name, contents(entry));
    }
    if (at != end) refuse_("it is damaged: its zip directory holds more than the members it counts");
  }

 private:
  struct Entry {
    std::string name;
    std::uint32_t method, crc, compressed, size, offset;
    std::size_t next;
  };

  // The end record stands last, behind it at most a comment.
  [[nodiscard]] std::size_t find_end() const {
    if (bytes_.size() >= end_size)
      for (std::size_t back = end_size; back <= std::min(bytes_.size(), end_size + 0xffff); ++back) {
        const std::size_t at = bytes_.size() - back;
        if (number(bytes_, at, 4) == end_mark && number(bytes_, at + 20, 2) == back - end_size) return at;
      }
    refuse_("it is no .npz, or is truncated: the directory at the end of a zip archive is missing");
  }

  [[nodiscard]] Entry read_entry(std::size_t at, std::size_t end) const {
    if (end - at < entry_size || number(bytes_, at, 4) != entry_mark)
      refuse_("it is damaged: an entry of its zip directory is cut off");
    const std::size_t name_size = number(bytes_, at + 28, 2);
    const std::size_t whole = entry_size + name_size + number(bytes_, at + 30, 2) + number(bytes_, at + 32, 2);
    if (end - at < whole) refuse_("it is damaged: an entry of its zip directory is cut off");
    Entry entry{std::string(reinterpret_cast<const char*>(bytes_.data()) + at + entry_size, name_size),
                number(bytes_, at + 10, 2),
                number(bytes_, at + 16, 4),
                number(bytes_, at + 20, 4),
                number(bytes_, at + 24, 4),
                number(bytes_, at + 42, 4),
                at + whole};
    const Refusal refuse = refuse_.of(entry.name);
    if (number(bytes_, at + 8, 2) & 1) refuse("it is encrypted: save it without a password");
    if ((number(bytes_, at + 38, 4) >> 16 & 0xf000) == 0xa000) refuse("it is a symbolic link and no array");
    if (entry.compressed == 0xffffffff || entry.size == 0xffffffff || entry.offset == 0xffffffff)
      refuse("it needs zip64: save less than 4 GB in one file");
    return entry;
  }

  std::vector<std::byte> contents(const Entry& entry) {
    const Refusal refuse = refuse_.of(entry.name);
    if (entry.method != 0 && entry.method != 8)
      refuse(fmt::format("compression method {}: numpy.savez and numpy.savez_compressed write 0 and 8", entry.method));
    const Bytes data = stored_bytes(entry, refuse);
    const bool possible =
        entry.method == 0 ? entry.size == entry.compressed : entry.size <= most_expansion * (entry.compressed + 1ULL);
    if (!possible) refuse(fmt::format("it is damaged: {} bytes cannot hold {}", entry.compressed, entry.size));
    if (entry.size > budget_)
      refuse("with it the arrays pass the memory that is set aside for one file: save fewer arrays in it");
    budget_ -= entry.size;
    std::vector<std::byte> plain;
    if (entry.method == 0) {
      plain.assign(data.begin(), data.end());
    } else {
      auto expanded = inflated(data, entry.size);
      if (!expanded) refuse("it is damaged: its compressed bytes do not give the size its directory states");
      plain = std::move(*expanded);
    }
    if (crc_of(plain) != entry.crc) refuse("it is damaged: its checksum is wrong");
    return plain;
  }

  // Returns the bytes between a member's local header and the directory. Sizes are the directory's, since numpy leaves
  // those of the local header to a zip64 field.
  [[nodiscard]] Bytes stored_bytes(const Entry& entry, const Refusal& refuse) const {
    if (entry.offset > directory_ || directory_ - entry.offset < local_size ||
        number(bytes_, entry.offset, 4) != local_mark)
      refuse("it is damaged: its zip header is not where the directory says");
    const std::size_t begin =
        entry.offset + local_size + number(bytes_, entry.offset + 26, 2) + number(bytes_, entry.offset + 28, 2);
    if (begin > directory_ || directory_ - begin < entry.compressed)
      refuse("it is truncated or damaged: it ends before its contents");
    return bytes_.subspan(begin, entry.compressed);
  }

  Bytes bytes_;
  Refusal refuse_;
  std::uint64_t budget_;
  std::size_t directory_ = 0;
};

// Returns the formats of arrays of bits, which a manifest of ours gives by their names; none for a manifest of somebody
// else's.
std::map<std::string, NamedArray::Type> coded_arrays(Bytes text) {
  std::map<std::string, NamedArray::Type> types;
  constexpr int deepest = 16;
  const auto object = parse_json_or_discard({reinterpret_cast<const char*>(text.data()), text.size()}, deepest);
  if (!object.is_object() || !object.contains("dtypes") || !object["dtypes"].is_object()) return types;
  for (const auto& [key, value] : object["dtypes"].items())
    for (std::size_t n = 0; n < stored_formats.size(); ++n)
      if (value == name(stored_formats[n])) types[key] = static_cast<NamedArray::Type>(n);
  return types;
}

}  // namespace

std::string_view name(NamedArray::Type type) noexcept { return type_rows[static_cast<int>(type)].name; }
std::string_view descr(NamedArray::Type type) noexcept { return type_rows[static_cast<int>(type)].descr; }
std::size_t bytes_of(NamedArray::Type type) noexcept {
  return type == NamedArray::Type::other ? 0 : static_cast<std::size_t>(descr(type).back() - '0');
}

Format format_of(NamedArray::Type type) {
  if (!is_floating(type)) throw internal_error("format_of: not a floating-point array");
  return stored_formats[static_cast<std::size_t>(type)];
}

bool holds_bits_of(const NamedArray& array, NamedArray::Type type) noexcept {
  return (array.type == NamedArray::Type::u8 || array.type == NamedArray::Type::u16) && is_floating(type) &&
         !traits(format_of(type)).in_numpy() && bytes_of(array.type) == bytes_of(type);
}

Index NamedArray::size() const noexcept {
  Index elements = 1;
  for (const Index extent : shape) elements *= extent;
  return elements;
}

std::string NamedArray::described() const {
  return fmt::format("{} [{}]", type == Type::other ? std::string_view(descr) : attest::name(type),
                     fmt::join(shape, ", "));
}

void NamedArray::read(Index first, std::span<double> to) const noexcept {
  const std::byte* from = bytes.data() + static_cast<std::size_t>(first) * bytes_of(type);
  const auto each = [&]<class T>(T, auto&& convert) {
    for (double& x : to) {
      T bits;
      std::memcpy(&bits, from, sizeof bits);
      from += sizeof bits;
      x = convert(bits);
    }
  };
  const auto plain = [](auto bits) { return static_cast<double>(bits); };
  if (is_floating(type))
    return with_element(static_cast<DType>(type),
                        [&](auto element) { each(typename decltype(element)::Bits{}, decltype(element)::decoded); });
  switch (type) {
    case Type::i32:
      return each(std::int32_t{}, plain);
    case Type::i64:
      return each(std::int64_t{}, plain);
    case Type::boolean:
      return each(std::uint8_t{}, [](std::uint8_t bits) { return bits != 0 ? 1.0 : 0.0; });
    case Type::u8:
      return each(std::uint8_t{}, plain);
    case Type::i8:
      return each(std::int8_t{}, plain);
    case Type::u16:
      return each(std::uint16_t{}, plain);
    case Type::i16:
      return each(std::int16_t{}, plain);
    case Type::u32:
      return each(std::uint32_t{}, plain);
    case Type::u64:
      return each(std::uint64_t{}, plain);
    default:
      return;
  }
}

double NamedArray::at(Index flat) const noexcept {
  double value = 0;
  read(flat, {&value, 1});
  return value;
}

std::vector<NamedArray> read_npz(Bytes bytes, std::string_view name, std::uint64_t most_bytes) {
  std::vector<NamedArray> arrays;
  std::map<std::string, NamedArray::Type> coded;
  const Refusal refuse(name);
  Archive(bytes, name, most_bytes).each([&](const std::string& member, std::vector<std::byte> contents) {
    if (member == manifest_name)
      coded = coded_arrays(contents);
    else
      arrays.push_back(
          array_of(std::move(contents), std::string_view(member).substr(0, member.size() - 4), refuse.of(member)));
  });
  for (NamedArray& array : arrays)
    if (const auto found = coded.find(array.name); found != coded.end() && holds_bits_of(array, found->second))
      array.type = found->second;
  return arrays;
}

NamedArray read_npy(Bytes bytes, std::string_view name) {
  return array_of({bytes.begin(), bytes.end()}, name, Refusal(name));
}

std::vector<NamedArray> load_npz(const std::filesystem::path& file) {
  std::error_code error;
  const std::string name = file.string();
  if (!std::filesystem::exists(file, error)) throw usage_error(name + " does not exist");
  if (!std::filesystem::is_regular_file(file, error))
    throw usage_error(name + " is no regular file: give an .npz file");
  std::ifstream stream(file, std::ios::binary);
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!stream || error) throw usage_error(name + " cannot be read: check its permissions");
  if (size > most_array_bytes) throw usage_error(name + " is larger than 4 GB: save fewer arrays in one file");
  std::vector<std::byte> bytes(size);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(stream.gcount()) != size) throw usage_error(name + " cannot be read to its end");
  return read_npz(bytes, name);
}

}  // namespace attest
