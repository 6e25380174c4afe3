#include "graph/precision.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace attest::graph {

Precision precision_from_text(std::string_view text) {
  Precision precision;
  precision.name = text;
  if (text == "literal") return precision;
  if (text == "inner=f32") {
    for (Format& format : precision.inner)
      if (format != Format::f64) format = Format::f32;
    return precision;
  }
  for (const Format run : {Format::bf16, Format::f16}) {
    if (text != fmt::format("run={}", name(run))) continue;
    for (Format& format : precision.inner)
      if (format != Format::f64) format = run;
    precision.outer = precision.inputs = precision.weights = precision.inner;
    return precision;
  }
  throw usage_error(fmt::format("'{}' is no precision of a graph: literal, inner=f32, run=bf16 and run=f16 are", text));
}

std::vector<Precision> Precision::that_store_less() const {
  const Precision own;
  if (inputs == own.inputs && weights == own.weights) return {};
  Precision kept = precision_from_text("inner=f32");
  kept.outer = outer;
  std::vector<Precision> all(3, kept);
  all[0].name = name + ", inputs alone";
  all[0].inputs = inputs;
  all[1].name = name + ", weights alone";
  all[1].weights = weights;
  all[2].name = name + ", inputs and weights";
  all[2].inputs = inputs;
  all[2].weights = weights;
  return all;
}

}  // namespace attest::graph
