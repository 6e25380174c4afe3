#include "core/npz_writer.hpp"

#include <fmt/format.h>

#include <array>

#include "core/error.hpp"
#include "core/npz.hpp"

// A zip archive of stored members (PKWARE APPNOTE 6.3, sections 4.3.7, 4.3.12, 4.3.16).
namespace attest {
namespace {

std::uint32_t checksum(std::string_view data) {
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

void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

void NpzWriter::add(const std::string& name, const std::string& data) {
  if (bytes_.size() + data.size() > 0xF0000000u)
    throw usage_error("the tensors pass 4 GB, more than a plain zip file holds; shrink the problem first");
  std::string common;
  put_number(common, 20, 2);            // version needed
  put_number(common, 0, 2);             // flags
  put_number(common, 0, 2);             // stored
  put_number(common, 0x5A21'0000u, 4);  // a fixed date, so that equal content gives equal bytes
  put_number(common, checksum(data), 4);
  put_number(common, data.size(), 4);
  put_number(common, data.size(), 4);
  put_number(common, name.size(), 2);
  put_number(common, 0, 2);  // no extra field
  put_number(directory_, 0x02014b50, 4);
  put_number(directory_, 20, 2);
  directory_ += common;
  put_number(directory_, 0, 2 + 2 + 2);  // comment, disk, internal attributes
  put_number(directory_, 0, 4);          // external attributes
  put_number(directory_, bytes_.size(), 4);
  directory_ += name;
  put_number(bytes_, 0x04034b50, 4);
  bytes_ += common + name + data;
  ++members_;
}

std::string NpzWriter::finish() const {
  std::string all = bytes_ + directory_;
  put_number(all, 0x06054b50, 4);
  put_number(all, 0, 4);
  put_number(all, members_, 2);
  put_number(all, members_, 2);
  put_number(all, directory_.size(), 4);
  put_number(all, bytes_.size(), 4);
  put_number(all, 0, 2);
  return all;
}

std::string npy_head(std::string_view descr, std::span<const Index> shape) {
  std::string lengths;
  for (const Index n : shape) lengths += fmt::format("{}, ", n);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, lengths);
  header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string data("\x93NUMPY\x01\x00", 8);
  put_number(data, header.size(), 2);
  return data + header;
}

std::string npy(const Tensor& tensor) {
  std::string data = npy_head(descr(named_type(tensor.dtype())), tensor.shape());
  const attest_tensor view = tensor.view();
  const std::size_t width = size_of(tensor.dtype());
  for_each_index(tensor.shape(), [&](Index a, Index b, Index c, Index d) {
    data.append(static_cast<const char*>(attest_at(&view, a, b, c, d)), width);
  });
  return data;
}

}  // namespace attest
