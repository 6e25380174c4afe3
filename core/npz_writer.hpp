#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/index.hpp"
#include "core/tensor.hpp"

namespace attest {

// An .npz that is not compressed: equal members give equal bytes.
class NpzWriter {
 public:
  // `name` with its ending, ".npy" of an array. Throws Error(usage) past what a plain zip file holds.
  void add(const std::string& name, const std::string& data);
  [[nodiscard]] std::string finish() const;

 private:
  std::string bytes_, directory_;
  std::uint64_t members_ = 0;
};

// Returns the header of an .npy (NumPy enhancement proposal 1, format version 1.0) of a dtype such as "<f4".
std::string npy_head(std::string_view descr, std::span<const Index> shape);
// Returns a tensor as an .npy, row by row; bf16 as uint16.
std::string npy(const Tensor& tensor);

}  // namespace attest
