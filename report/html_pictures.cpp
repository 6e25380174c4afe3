#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/picture.hpp"
#include "report/html.hpp"
#include "report/html_parts.hpp"
#include "report/markup.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::json;
using Index = std::int64_t;
using At = PictureGrid::At;

constexpr Index widest = 320;  // pixels, which a phone of 400 shows beside its margins

// The number of a tensor's axes; in a record of an earlier version, as far as their lengths tell.
int axes_of(const json& place) {
  const At extents = place.at("extents").get<At>();
  if (place.contains("axes")) return place.at("axes").get<int>();
  return extents[3] != 1 ? 4 : extents[2] != 1 ? 3 : 2;
}

PictureGrid grid_of(const json& place) {
  At extents = place.at("extents").get<At>();
  for (Index& extent : extents) extent = std::clamp<Index>(extent, 1, Index{1} << 30);
  return {axes_of(place), extents};
}

// "[0,0]", or "[0,0] to [1,3]" for a panel of several.
std::string panel_name(const PictureGrid& grid, Index panel) {
  const Index heads = grid.extents()[1], first = panel * grid.panel_step(),
              last = std::min(first + grid.panel_step(), grid.extents()[0] * heads) - 1;
  const std::string name = fmt::format("[{},{}]", first / heads, first % heads);
  return first == last ? name : fmt::format("{} to [{},{}]", name, last / heads, last % heads);
}

}  // namespace

std::string geometry_svg(const json& place, std::string_view of_four) {
  if (!place.contains("extents") || !place.contains("wrong_at")) return {};
  const PictureGrid grid = grid_of(place);
  std::set<PictureGrid::Cell> wrong;
  for (const json& entry : place.at("wrong_at")) wrong.insert(grid.cell(entry.get<At>()));
  const Index rows = grid.rows(), columns = grid.columns(), all = grid.panels();
  const Index cell = std::clamp<Index>(160 / std::max(rows, columns), 5, 16), gap = 18, label = 14;
  const Index named = grid.panel_step() > 1 ? 140 : 56;  // pixels, for a panel's name
  const Index width = std::max(columns * cell, all > 1 ? named : columns * cell), height = rows * cell;
  const Index across = std::clamp<Index>(widest / (width + gap), 1, all), down = (all + across - 1) / across;
  const std::string title = fmt::format("{}: {} of {} elements are wrong", said(place, "tensor"),
                                        place.at("wrong").get<Index>(), place.at("judged").get<Index>());
  std::string svg = fmt::format(
      R"(<svg class="geometry" role="img" viewBox="0 0 {} {}" width="{}" aria-label="{}"><title>{}</title>)",
      across * (width + gap), down * (height + gap + label), across * (width + gap), escaped(title), escaped(title));
  const auto corner = [&](Index p) {
    return std::pair{p % across * (width + gap), p / across * (height + gap + label) + label};
  };
  for (Index p = 0; p < all; ++p) {
    const auto [x, y] = corner(p);
    if (all > 1) svg += fmt::format(R"(<text x="{}" y="{}">{}</text>)", x, y - 4, panel_name(grid, p));
    svg +=
        fmt::format(R"(<rect class="right" x="{}" y="{}" width="{}" height="{}"/>)", x, y, columns * cell, rows * cell);
  }
  for (const PictureGrid::Cell& one : wrong) {
    const auto [x, y] = corner(one.panel);
    svg += fmt::format(R"(<rect class="wrong" x="{}" y="{}" width="{}" height="{}"/>)", x + one.column * cell,
                       y + one.row * cell, cell, cell);
  }
  const auto of = [](Index count, std::string_view one) { return counted(static_cast<std::uint64_t>(count), one); };
  const std::string panel = grid.panel_step() > 1 ? of(grid.panel_step(), "pair") + " of indices of the first axes"
                            : grid.axes() <= 2    ? "the tensor"
                            : grid.axes() == 3    ? "one index of the first axis"
                                                  : std::string(of_four);
  return svg + "</svg>" +
         fmt::format(
             "<p class=\"note\">A panel is {}, a cell {} by {}. A cell is filled if an element in it is wrong.</p>",
             escaped(panel), of(grid.row_step(), "row"), of(grid.column_step(), "column"));
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
  const int slots = most - least + 5, height = 120, base = height + 16;
  const double bar = std::min(26., static_cast<double>(widest - 24) / slots);
  const double width = slots * bar + 24;
  const auto tall = [&](Index count) {
    return count == 0
               ? 0.0
               : 4 + (height - 4) * std::log1p(static_cast<double>(count)) / std::log1p(static_cast<double>(largest));
  };
  std::string title =
      "errors against what is permitted, a bar for each power of two, as tall as the logarithm of its elements";
  std::string svg = fmt::format(
      R"(<svg class="errors" role="img" viewBox="0 0 {:.0f} {}" width="{:.0f}" aria-label="{}"><title>{}</title>)",
      width, base + 24, width, escaped(title), escaped(title));
  const auto draw = [&](int slot, Index count, std::string_view style, const std::string& told) {
    if (count == 0) return;
    svg +=
        fmt::format(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>)",
                    style, 12 + slot * bar, base - tall(count), std::max(1., bar - 1), tall(count), escaped(told));
  };
  draw(0, exact, "right", fmt::format("{} without an error", exact));
  for (const auto& [octave, count] : octaves)
    draw(octave - least + 2, count, octave < 0 ? "right" : "wrong",
         fmt::format("{}: 2^{} to 2^{} of the permitted distance", count, octave, octave + 1));
  draw(most - least + 4, none, "wrong", fmt::format("{} where one of the two is no number", none));
  const double bound = 12 + (2 - least) * bar;
  svg += fmt::format(R"(<line class="bound" x1="{:.1f}" x2="{:.1f}" y1="4" y2="{}"/>)", bound, bound, base);
  svg += 2 * bound > width ? fmt::format(R"(<text class="end" x="{:.1f}" y="12">permitted</text>)", bound - 4)
                           : fmt::format(R"(<text x="{:.1f}" y="12">permitted</text>)", bound + 4);
  svg += fmt::format(R"(<line class="axis" x1="8" x2="{:.0f}" y1="{}" y2="{}"/>)", width - 8, base, base);
  if (exact > 0) svg += fmt::format(R"(<text x="12" y="{}">0</text>)", base + 14);
  for (int octave = least; octave <= most + 1; ++octave)
    if (octave % (slots < 16 ? 4 : slots < 60 ? 10 : 40) == 0)
      svg += fmt::format(R"(<text class="middle" x="{:.1f}" y="{}">2^{}</text>)", 12 + (octave - least + 2) * bar,
                         base + 14, octave);
  if (none > 0) svg += fmt::format(R"(<text class="end" x="{:.0f}" y="{}">no number</text>)", width - 2, base + 14);
  return svg + "</svg>";
}

}  // namespace attest::report
