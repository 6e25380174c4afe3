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
    precision.outer = precision.inner;
    return precision;
  }
  throw usage_error(fmt::format("'{}' is no precision of a graph: literal, inner=f32, run=bf16 and run=f16 are", text));
}

}  // namespace attest::graph
