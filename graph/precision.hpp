#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/format.hpp"

namespace attest::graph {

// The formats in which a runtime promises to compute a graph (docs/graphs.md section 2): for the format of each float
// tensor the one that its numbers are rounded to where a node gives it, where it is an input or a weight of the graph,
// and where it is an output. Sums are added up in f32 where that is f16 or bf16.
struct Precision {
  using Formats = std::array<Format, format_count>;
  std::string name = "literal";
  Formats inner = every_format;
  Formats outer = inner, inputs = inner, weights = inner;

  [[nodiscard]] Format computed(Format own) const noexcept { return inner[static_cast<std::size_t>(own)]; }
  [[nodiscard]] Format result(Format own) const noexcept { return outer[static_cast<std::size_t>(own)]; }

  // Further precisions that keep a promise to run in 16 bits and store less in them, f32 between the nodes: inputs
  // alone rounded, weights alone, and both.
  [[nodiscard]] std::vector<Precision> that_store_less() const;
};

// "literal": every tensor in its own format. "inner=f32": f16 and bf16 at the inputs and outputs of the graph alone.
// "run=bf16" (f16): everything but f64 in another format. Throws Error(usage) for another text, naming these.
Precision precision_from_text(std::string_view text);

constexpr Format accumulator_of(Format format) noexcept { return format == Format::f64 ? Format::f64 : Format::f32; }

}  // namespace attest::graph
