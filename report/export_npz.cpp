#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/number_text.hpp"
#include "report/export.hpp"

namespace attest::report {
namespace {

// ---- a zip archive of stored members (PKWARE APPNOTE 6.3, sections 4.3.7, 4.3.12, 4.3.16) --------------------------------

std::uint32_t crc32(std::string_view data) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> rows{};
    for (std::uint32_t n = 0; n < 256; ++n) {
      std::uint32_t c = n;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      rows[n] = c;
    }
    return rows;
  }();
  std::uint32_t c = 0xFFFFFFFFu;
  for (const char byte : data) c = table[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ (c >> 8);
  return ~c;
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

class Archive {
 public:
  void add(const std::string& name, const std::string& data) {
    if (bytes_.size() + data.size() > 0xF0000000u)
      throw usage_error("--to npz: the tensors pass 4 GB, more than a plain zip file holds; shrink the problem first");
    std::string common;
    put(common, 20, 2);            // version needed
    put(common, 0, 2);             // flags
    put(common, 0, 2);             // stored
    put(common, 0x5A21'0000u, 4);  // a fixed date, so that equal content gives equal bytes
    put(common, crc32(data), 4);
    put(common, data.size(), 4);
    put(common, data.size(), 4);
    put(common, name.size(), 2);
    put(common, 0, 2);  // no extra field
    put(directory_, 0x02014b50, 4);
    put(directory_, 20, 2);
    directory_ += common;
    put(directory_, 0, 2 + 2 + 2);  // comment, disk, internal attributes
    put(directory_, 0, 4);          // external attributes
    put(directory_, bytes_.size(), 4);
    directory_ += name;
    put(bytes_, 0x04034b50, 4);
    bytes_ += common + name + data;
    ++members_;
  }
  [[nodiscard]] std::string finish() const {
    std::string all = bytes_ + directory_;
    put(all, 0x06054b50, 4);
    put(all, 0, 4);
    put(all, members_, 2);
    put(all, members_, 2);
    put(all, directory_.size(), 4);
    put(all, bytes_.size(), 4);
    put(all, 0, 2);
    return all;
  }

 private:
  std::string bytes_, directory_;
  std::uint64_t members_ = 0;
};

// ---- .npy (NumPy enhancement proposal 1, format version 1.0) ---------------------------------------------------------------

std::string_view descr(DType type) {
  constexpr std::string_view names[] = {"<f2", "<u2", "<f4", "<f8", "<i4", "|b1"};
  return names[static_cast<int>(type)];
}

std::string npy(const Tensor& tensor) {
  std::string shape;
  for (const Index n : tensor.shape()) shape += fmt::format("{}, ", n);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr(tensor.dtype()), shape);
  header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string data("\x93NUMPY\x01\x00", 8);
  put(data, header.size(), 2);
  data += header;
  const attest_tensor view = tensor.view();
  const std::size_t width = size_of(tensor.dtype());
  std::array<Index, 4> n{1, 1, 1, 1};
  for (std::size_t axis = 0; axis < tensor.shape().size(); ++axis) n[axis] = tensor.shape()[axis];
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < n[3]; ++d) data.append(static_cast<const char*>(attest_at(&view, a, b, c, d)), width);
  return data;
}

}  // namespace

void write_npz(const Exported& exported, const std::filesystem::path& file) {
  Archive archive;
  nlohmann::ordered_json dtypes;
  const auto add = [&](const ops::NamedTensor& named) {
    archive.add(std::string(named.name) + ".npy", npy(*named.tensor));
    constexpr std::string_view names[] = {"f16", "bf16", "f32", "f64", "i32", "bool"};
    dtypes[std::string(named.name)] = names[static_cast<int>(named.tensor->dtype())];
  };
  std::ranges::for_each(exported.call.inputs(), add);
  if (exported.answered) std::ranges::for_each(exported.call.outputs(), add);
  nlohmann::ordered_json manifest{
      {"format", 1}, {"subject", exported.entry.subject}, {"problem", to_json(exported.entry.problem)}};
  for (const auto& [name, value] : exported.call.numbers()) manifest[std::string(name)] = hex_float(value);
  manifest["contract"] = to_json(exported.entry.contract);
  manifest["dtypes"] = dtypes;
  archive.add("manifest.json", json_text(manifest, 2));
  std::ofstream out(file, std::ios::binary);
  out << archive.finish() << std::flush;
  if (!out)
    throw usage_error(
        fmt::format("--to npz: {} cannot be written; check its folder and the space there", file.string()));
}

}  // namespace attest::report
