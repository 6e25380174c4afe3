#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/ensemble.hpp"

namespace attest::models {

// The picture of one tensor for a report: its wrong elements, and the distance of all of them against the permitted
// one.
struct Picture {
  std::string tensor;
  std::vector<Index> shape;
  Index judged = 0, wrong = 0;
  std::array<Index, 4> extents{1, 1, 1,
                               1};  // the first four lengths; if there are more, those before the last three are one
  std::vector<std::array<Index, 4>> wrong_at{};  // one of each cell that has any (core/picture.hpp)
  // "1 of 2 along axis 0, 64 of 64 along axis 1": at how many indices of each axis a wrong element lies. Empty where
  // none is wrong.
  std::string words{};
  std::map<int, Index> octaves{};  // elements whose distance is 2^k to 2^(k+1) of what is permitted
  Index exact = 0;                 // without a distance
  Index no_number = 0;             // wrong: one of the two is no finite number alone, or integers differ
};

// A picture of each output in which an element was judged: `a` and `b` are results of the same problem that may be
// `permitted` deviations of `spreads` apart, element by element. All in the order of the outputs of `model`; one whose
// shapes or types differ has no picture.
std::vector<Picture> pictures_of(const graph::Model& model, const std::vector<graph::Spread>& spreads,
                                 const std::vector<graph::Array>& a, const std::vector<graph::Array>& b,
                                 double permitted);

// The picture as JSON with the keys of a kernel's explanation (docs/explain.md): tensor, wrong, judged, words, axes,
// extents, wrong_at, errors; and its shape.
nlohmann::ordered_json to_json(const Picture& picture);
// Throws nlohmann's exceptions for what to_json does not give.
Picture picture_from_json(const nlohmann::json& object);

}  // namespace attest::models
