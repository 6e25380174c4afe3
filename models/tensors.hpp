#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/npz.hpp"
#include "core/npz_writer.hpp"
#include "graph/program.hpp"

namespace attest::models {

// Tensors of graphs as files and runtimes have them, and back.
NamedArray named(std::string name, const graph::Array& array);
// The array as one lane. It has no elements where `array` has no bytes. Throws Error(usage) for a type that graphs have
// not.
graph::Array array_of(const NamedArray& array);

// "context[1,0,3]", of a row-major element.
std::string element_text(std::string_view name, std::span<const Index> shape, Index element);

// The bytes of the array as an .npy; bf16 as uint16.
std::string npy_bytes(const graph::Array& array);

// Back from what NpzFile::add makes of them, of a graph's inputs. `where` names them in the Error(usage) for one that
// is missing or of another type.
struct RunsOf {
  std::vector<graph::Feeds> before;
  graph::Feeds feeds;
};
RunsOf runs_from(std::span<const NamedArray> arrays, const graph::Model& model, std::string_view where);

// Tensors by name as an .npz that is not compressed; bf16 as uint16.
class NpzFile {
 public:
  void add(std::string_view name, const graph::Array& array);
  // Inputs by their names, and those of the runs that must come before as `before.0.NAME`, `before.1.NAME`, ...
  void add(std::span<const graph::Feeds> before, const graph::Feeds& feeds);
  [[nodiscard]] std::string bytes() const { return writer_.finish(); }

 private:
  NpzWriter writer_;
};

}  // namespace attest::models
