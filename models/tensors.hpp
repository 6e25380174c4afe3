#pragma once
#include <string>
#include <string_view>

#include "core/npz.hpp"
#include "core/npz_writer.hpp"
#include "graph/array.hpp"

namespace attest::models {

// Tensors of graphs as files and runtimes have them, and back.
NamedArray named(std::string name, const graph::Array& array);
// One lane. Without elements where `array` has no bytes. Throws Error(usage) for a type that graphs have not.
graph::Array array_of(const NamedArray& array);

// As an .npy; bf16 as uint16.
std::string npy_bytes(const graph::Array& array);

// Tensors by name as an .npz that is not compressed; bf16 as uint16.
class NpzFile {
 public:
  void add(std::string_view name, const graph::Array& array);
  [[nodiscard]] std::string bytes() const { return writer_.finish(); }

 private:
  NpzWriter writer_;
};

}  // namespace attest::models
