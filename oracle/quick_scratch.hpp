#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "oracle/quick.hpp"

namespace attest::oracle {

// Buffers that outlive a problem: one set per thread.
struct Quick::Scratch {
  std::vector<State> rows;
  std::vector<std::uint8_t> bits, near;
  std::vector<double> together, kt, v, q, p, d, m, y, reach, got, bias, open, lo, hi;
  std::vector<float> scaled, squared, w, w2, first, second;  // of the moments
  template <class T>
  static T* need(std::vector<T>& buffer, Index count) {
    if (static_cast<Index>(buffer.size()) < count) buffer.resize(static_cast<std::size_t>(count));
    return buffer.data();
  }
  static Scratch& of_thread() {
    static thread_local Scratch scratch;
    return scratch;
  }
};

// Lower and upper bounds of ln n, a whole number from 1 on, without a logarithm.
inline double ln_least(double n) {
  return 0.6931471805599453 * static_cast<double>(std::bit_width(static_cast<std::uint64_t>(n)) - 1);
}
inline double ln_most(double n) {
  return 0.6931471805599453 * static_cast<double>(std::bit_width(static_cast<std::uint64_t>(n)));
}

}  // namespace attest::oracle
