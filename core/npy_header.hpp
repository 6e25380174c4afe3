#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace attest {

// The header of an .npy file (NumPy enhancement proposal 1, versions 1 to 3).
struct NpyHeader {
  std::string descr;  // "(structured)" where the dtype is no string
  bool fortran_order = false;
  std::vector<Index> shape;  // at most 8 axes; their product fits an Index
  std::size_t bytes = 0;     // where the data begin
};

// Throws Error(usage) with one clause for anything else than what numpy writes.
NpyHeader read_npy_header(std::span<const std::byte> bytes);

}  // namespace attest
