#include "models/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/picture.hpp"

namespace attest::models {
namespace {

using graph::Array;
using nlohmann::json;
using nlohmann::ordered_json;

std::array<Index, 4> extents_of(const std::vector<Index>& shape) {
  std::array<Index, 4> extents{1, 1, 1, 1};
  const std::size_t folded = shape.size() > 4 ? shape.size() - 4 : 0;
  for (std::size_t k = 0; k < shape.size(); ++k) extents[k > folded ? k - folded : 0] *= shape[k];
  return extents;
}

std::array<Index, 4> index_of(Index element, const Picture& picture) {
  std::array<Index, 4> index{};
  for (std::size_t k = std::min<std::size_t>(picture.shape.size(), 4); k-- > 0; element /= picture.extents[k])
    index[k] = element % picture.extents[k];
  return index;
}

// The distance of two results, in deviations `s`; NaN where either is no number alone.
double apart(double x, double y, double s) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return std::nan("");
  return std::fabs(x - y) / s;
}

}  // namespace

std::vector<Picture> pictures_of(const graph::Model& model, const std::vector<graph::Spread>& spreads,
                                 const std::vector<Array>& a, const std::vector<Array>& b, double permitted) {
  constexpr int most_octaves = 1100;  // all that a float64 has
  std::vector<Picture> pictures;
  for (std::size_t o = 0; o < std::min({spreads.size(), a.size(), b.size(), model.outputs.size()}); ++o) {
    const Array& reference = spreads[o].reference;
    const auto fits = [&reference](const Array& one) {
      return one.shape == reference.shape && one.type == reference.type &&
             one.floats.size() == reference.floats.size() && one.integers.size() == reference.integers.size();
    };
    if (!fits(a[o]) || !fits(b[o])) continue;
    Picture picture{model.outputs[o].name, reference.shape};
    picture.extents = extents_of(picture.shape);
    const std::size_t axes = std::min<std::size_t>(picture.shape.size(), 4);
    const PictureGrid grid(static_cast<int>(axes), picture.extents);
    std::set<PictureGrid::Cell> drawn;
    std::array<std::vector<bool>, 4> met;  // by axis: the indices at which an element is wrong
    for (std::size_t k = 0; k < met.size(); ++k) met[k].resize(static_cast<std::size_t>(picture.extents[k]));
    const bool floating = graph::is_floating(reference.type);
    for (std::size_t i = 0; i < spreads[o].deviation.size(); ++i) {
      const double s = spreads[o].deviation[i];
      if (!std::isfinite(s) || (floating && !std::isfinite(reference.floats[i]))) continue;
      const double by = floating                               ? apart(a[o].floats[i], b[o].floats[i], s)
                        : a[o].integers[i] == b[o].integers[i] ? 0
                                                               : std::nan("");
      ++picture.judged;
      if (by == 0)
        ++picture.exact;
      else if (std::isnan(by))
        ++picture.no_number;
      else
        ++picture.octaves[std::isinf(by) ? most_octaves
                                         : std::clamp(std::ilogb(by / permitted), -most_octaves, most_octaves)];
      if (by <= permitted) continue;
      ++picture.wrong;
      const std::array<Index, 4> at = index_of(static_cast<Index>(i), picture);
      for (std::size_t k = 0; k < met.size(); ++k) met[k][static_cast<std::size_t>(at[k])] = true;
      if (drawn.insert(grid.cell(at)).second) picture.wrong_at.push_back(at);
    }
    if (picture.wrong > 0)
      for (std::size_t k = 0; k < axes; ++k)
        picture.words += fmt::format("{}{} of {} along axis {}", k == 0 ? "" : ", ", std::ranges::count(met[k], true),
                                     picture.extents[k], k);
    if (picture.judged > 0) pictures.push_back(std::move(picture));
  }
  return pictures;
}

ordered_json to_json(const Picture& picture) {
  ordered_json octaves = ordered_json::array();
  for (const auto& [octave, count] : picture.octaves) octaves.push_back({octave, count});
  return {{"tensor", picture.tensor},
          {"shape", picture.shape},
          {"wrong", picture.wrong},
          {"judged", picture.judged},
          {"words", picture.words},
          {"axes", std::min<std::size_t>(4, picture.shape.size())},
          {"extents", picture.extents},
          {"wrong_at", picture.wrong_at},
          {"errors", {{"octaves", std::move(octaves)}, {"exact", picture.exact}, {"no_number", picture.no_number}}}};
}

Picture picture_from_json(const json& object) {
  Picture picture;
  object.at("tensor").get_to(picture.tensor);
  object.at("shape").get_to(picture.shape);
  object.at("wrong").get_to(picture.wrong);
  object.at("judged").get_to(picture.judged);
  object.at("words").get_to(picture.words);
  object.at("extents").get_to(picture.extents);
  object.at("wrong_at").get_to(picture.wrong_at);
  const json& errors = object.at("errors");
  for (const json& octave : errors.at("octaves")) picture.octaves[octave.at(0).get<int>()] = octave.at(1).get<Index>();
  errors.at("exact").get_to(picture.exact);
  errors.at("no_number").get_to(picture.no_number);
  return picture;
}

}  // namespace attest::models
