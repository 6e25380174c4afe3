#pragma once
#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace attest::test {

inline std::string put(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) & 0xff : 0);
  return out;
}

// The checksum of zip archives, bit by bit.
inline std::uint32_t crc(const std::string& data) {
  std::uint32_t c = 0xffffffffu;
  for (const char byte : data) {
    c ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
  }
  return ~c;
}

struct Array {
  std::string name;
  std::array<Index, 4> shape;
  float first;  // elements first, first + 1, ...
};

// An .npz of float32 arrays.
inline void write_npz(const std::string& path, const std::vector<Array>& arrays) {
  std::string file, directory;
  for (const Array& a : arrays) {
    const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(a.shape[0]) +
                               ", " + std::to_string(a.shape[1]) + ", " + std::to_string(a.shape[2]) + ", " +
                               std::to_string(a.shape[3]) + "), }\n";
    std::string data = std::string("\x93NUMPY\x01\x00", 8) + put(header.size(), 2) + header;
    const Index size = a.shape[0] * a.shape[1] * a.shape[2] * a.shape[3];
    for (Index i = 0; i < size; ++i) {
      const float x = a.first + static_cast<float>(i);
      data.append(reinterpret_cast<const char*>(&x), sizeof x);
    }
    const std::string name = a.name + ".npy";
    const std::string common = put(20, 2) + put(0, 8) + put(crc(data), 4) + put(data.size(), 4) + put(data.size(), 4) +
                               put(name.size(), 2) + put(0, 2);
    directory += put(0x02014b50, 4) + put(20, 2) + common + put(0, 10) + put(file.size(), 4) + name;
    file += put(0x04034b50, 4) + common + name + data;
  }
  std::ofstream(path, std::ios::binary) << file << directory << put(0x06054b50, 4) << put(0, 4) << put(arrays.size(), 2)
                                        << put(arrays.size(), 2) << put(directory.size(), 4) << put(file.size(), 4)
                                        << put(0, 2);
}

}  // namespace attest::test
