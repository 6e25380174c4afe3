#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "report/html.hpp"
#include "report/markup.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::json;
using Index = std::int64_t;
using At = std::array<Index, 4>;

constexpr Index most_panels = 12, most_cells = 32;

// The number of elements of an axis that one cell stands for.
Index step_of(Index extent) { return (extent + most_cells - 1) / most_cells; }

// The number of a tensor's axes; in a record of an earlier version, as far as their lengths tell.
int axes_of(const json& place) {
  const At extents = place.at("extents").get<At>();
  if (place.contains("axes")) return std::clamp(place.at("axes").get<int>(), 0, 4);
  return extents[3] != 1 ? 4 : extents[2] != 1 ? 3 : 2;
}

// Moves a tensor's axes to the last of four: the last lies from left to right, the one before it from above, and one
// more makes panels.
At moved(const At& of_axes, int axes, Index missing) {
  At all{missing, missing, missing, missing};
  for (int k = 0; k < axes; ++k) all[static_cast<std::size_t>(4 - axes + k)] = of_axes[static_cast<std::size_t>(k)];
  return all;
}

At extents_of(const json& place) {
  At extents = place.at("extents").get<At>();
  for (Index& extent : extents) extent = std::clamp<Index>(extent, 1, Index{1} << 40);
  return moved(extents, axes_of(place), 1);
}

}  // namespace

std::string geometry_svg(const json& place, std::string_view of_four) {
  if (!place.contains("extents") || !place.contains("wrong_at")) return {};
  const At extents = extents_of(place);
  const int axes = axes_of(place);
  const Index rows = (extents[2] + step_of(extents[2]) - 1) / step_of(extents[2]);
  const Index columns = (extents[3] + step_of(extents[3]) - 1) / step_of(extents[3]);
  std::map<std::pair<Index, Index>, std::set<std::pair<Index, Index>>>
      panels;  // by panel with a wrong element: its cells
  for (const json& entry : place.at("wrong_at")) {
    const At at = moved(entry.get<At>(), axes, 0);
    panels[{at[0], at[1]}].emplace(at[2] / step_of(extents[2]), at[3] / step_of(extents[3]));
  }
  const Index all = extents[0] * extents[1];
  std::vector<std::pair<Index, Index>> shown;
  for (const auto& [panel, cells] : panels)
    if (static_cast<Index>(shown.size()) < most_panels) shown.push_back(panel);
  for (Index p = 0; p < std::min(all, most_panels) && static_cast<Index>(shown.size()) < most_panels; ++p)
    if (const std::pair panel{p / extents[1], p % extents[1]}; !panels.contains(panel)) shown.push_back(panel);
  std::ranges::sort(shown);
  const Index cell = std::clamp<Index>(160 / std::max(rows, columns), 5, 16), gap = 18, label = 14;
  const Index width = std::max<Index>(columns * cell, 56), height = rows * cell;
  const Index across =
      std::clamp<Index>(640 / (width + gap), 1, static_cast<Index>(std::max<std::size_t>(1, shown.size())));
  const Index down = (static_cast<Index>(shown.size()) + across - 1) / across;
  const auto tensor = place.at("tensor").get<std::string>();
  const std::string title = fmt::format("{}: {} of {} elements are wrong", tensor, place.at("wrong").get<Index>(),
                                        place.at("judged").get<Index>());
  std::string svg = fmt::format(
      R"(<svg class="geometry" role="img" viewBox="0 0 {} {}" width="{}" aria-label="{}"><title>{}</title>)",
      across * (width + gap), down * (height + gap + label), across * (width + gap), escaped(title), escaped(title));
  for (std::size_t p = 0; p < shown.size(); ++p) {
    const Index x = static_cast<Index>(p) % across * (width + gap),
                y = static_cast<Index>(p) / across * (height + gap + label) + label;
    if (all > 1) svg += fmt::format(R"(<text x="{}" y="{}">[{},{}]</text>)", x, y - 4, shown[p].first, shown[p].second);
    svg +=
        fmt::format(R"(<rect class="right" x="{}" y="{}" width="{}" height="{}"/>)", x, y, columns * cell, rows * cell);
    if (const auto wrong = panels.find(shown[p]); wrong != panels.end())
      for (const auto& [row, column] : wrong->second)
        svg += fmt::format(R"(<rect class="wrong" x="{}" y="{}" width="{}" height="{}"/>)", x + column * cell,
                           y + row * cell, cell, cell);
  }
  svg += "</svg>";
  std::string note = fmt::format("A panel is {}, a cell {} {} by {} {}; those that are filled hold a wrong element.",
                                 axes <= 2   ? std::string_view("the tensor")
                                 : axes == 3 ? std::string_view("one index of the first axis")
                                             : of_four,
                                 step_of(extents[2]), step_of(extents[2]) == 1 ? "row" : "rows", step_of(extents[3]),
                                 step_of(extents[3]) == 1 ? "column" : "columns");
  if (all > static_cast<Index>(shown.size())) note += fmt::format(" {} of {} panels are shown.", shown.size(), all);
  return svg + "<p class=\"note\">" + escaped(note) + "</p>";
}

std::string errors_svg(const json& place) {
  if (!place.contains("errors")) return {};
  std::map<int, Index> octaves;
  for (const json& octave : place.at("errors").at("octaves"))
    octaves[std::clamp(octave.at(0).get<int>(), -64, 128)] += std::max<Index>(0, octave.at(1).get<Index>());
  const auto exact = place.at("errors").at("exact").get<Index>(),
             none = place.at("errors").at("no_number").get<Index>();
  const int least = octaves.empty() ? -1 : std::min(-1, octaves.begin()->first),
            most = octaves.empty() ? 1 : std::max(1, octaves.rbegin()->first);
  Index largest = std::max<Index>({1, exact, none});
  for (const auto& [octave, count] : octaves) largest = std::max(largest, count);
  const int bar = std::clamp(560 / (most - least + 5), 7, 26), height = 120, base = height + 16;
  const int width = (most - least + 5) * bar + 24;
  const auto tall = [&](Index count) {
    return count == 0
               ? 0.0
               : 4 + (height - 4) * std::log1p(static_cast<double>(count)) / std::log1p(static_cast<double>(largest));
  };
  std::string title =
      "errors against what is permitted, a bar for each power of two, as tall as the logarithm of its elements";
  std::string svg =
      fmt::format(R"(<svg class="errors" role="img" viewBox="0 0 {} {}" width="{}" aria-label="{}"><title>{}</title>)",
                  width, base + 24, width, escaped(title), escaped(title));
  const auto draw = [&](int slot, Index count, std::string_view style, const std::string& said) {
    if (count == 0) return;
    svg += fmt::format(R"(<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}"><title>{}</title></rect>)",
                       style, 12 + slot * bar, base - tall(count), bar - 1, tall(count), escaped(said));
  };
  draw(0, exact, "right", fmt::format("{} without an error", exact));
  for (const auto& [octave, count] : octaves)
    draw(octave - least + 2, count, octave < 0 ? "right" : "wrong",
         fmt::format("{}: 2^{} to 2^{} of the permitted distance", count, octave, octave + 1));
  draw(most - least + 4, none, "wrong", fmt::format("{} where one of the two is no number", none));
  const int bound = 12 + (0 - least + 2) * bar;
  svg += fmt::format(R"(<line class="bound" x1="{}" x2="{}" y1="4" y2="{}"/><text x="{}" y="12">permitted</text>)",
                     bound, bound, base, bound + 4);
  svg += fmt::format(R"(<line class="axis" x1="8" x2="{}" y1="{}" y2="{}"/>)", width - 8, base, base);
  if (exact > 0) svg += fmt::format(R"(<text x="12" y="{}">0</text>)", base + 14);
  for (int octave = least; octave <= most + 1; ++octave)
    if (octave % 10 == 0 || (most - least < 12 && octave % 4 == 0))
      svg += fmt::format(R"(<text class="middle" x="{}" y="{}">2^{}</text>)", 12 + (octave - least + 2) * bar,
                         base + 14, octave);
  if (none > 0) svg += fmt::format(R"(<text class="end" x="{}" y="{}">no number</text>)", width - 2, base + 14);
  return svg + "</svg>";
}

}  // namespace attest::report
