// The regions of the domain that must meet: kernels in the field break where regimes cross.
#include <cmath>
#include <cstdlib>

#include "generators/coverage.hpp"

namespace attest {
namespace {

using Regions = std::vector<Region>;

// A region for each label of a field but those in `without`, of problems for which `also` holds.
Regions labels(
    std::string_view field_name, const std::vector<std::string_view>& without = {},
    bool (*also)(const Problem&) = [](const Problem&) { return true; }) {
  const Field& field = *find_field(field_name);
  Regions regions;
  for (Index i = 0; i < std::ssize(field.labels); ++i) {
    const std::string_view label = field.labels[static_cast<std::size_t>(i)];
    if (std::find(without.begin(), without.end(), label) == without.end())
      regions.push_back(
          {std::string(label), [&field, i, also](const Problem& p) { return field.get(p) == i && also(p); }});
  }
  return regions;
}

bool windowed(const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }
bool biased(const Problem& p) { return p.bias != Bias::none; }
bool kept(const Problem& p) { return p.keep != Keep::none; }
bool bias_inf(const Problem& p) { return may_exclude(p.bias); }
bool bias_low(const Problem& p) {
  return p.bias == Bias::lowest || p.bias == Bias::minus_1e4 || p.bias == Bias::empty_lowest;
}
bool plain_bias(const Problem& p) { return biased(p) && !bias_inf(p) && !bias_low(p); }
bool masked(const Problem& p) { return p.causal || windowed(p) || kept(p) || biased(p) || p.lengths != Lengths::none; }

const Region causal_top{"causal", [](const Problem& p) { return p.causal && p.align == Align::top_left; }};
const Region causal_bottom{"causal-br", [](const Problem& p) { return p.causal && p.align == Align::bottom_right; }};
const Region window{"window", windowed};

Regions bias_kinds() { return {{"bias", plain_bias}, {"bias-inf", bias_inf}, {"bias-low", bias_low}}; }

Regions masks() {
  Regions regions{causal_top, causal_bottom, window, {"keep", kept}};
  for (Region& kind : bias_kinds()) regions.push_back(std::move(kind));
  regions.push_back({"lengths", [](const Problem& p) { return p.lengths != Lengths::none; }});
  return regions;
}

Regions diagonals() {
  return {{"none", [](const Problem& p) { return !p.causal && !windowed(p); }}, causal_top, causal_bottom, window};
}

// Only where an axis is repeated that has more than one member.
Regions stride_zero() {
  Regions regions;
  struct Tensor {
    std::string name;
    Layout Problem::*layout;
    Index Problem::*heads;
    Index Problem::*rows;
  };
  for (const Tensor& tensor : {Tensor{"q", &Problem::q_layout, &Problem::hq, &Problem::lq},
                               Tensor{"k", &Problem::k_layout, &Problem::hkv, &Problem::lk},
                               Tensor{"v", &Problem::v_layout, &Problem::hkv, &Problem::lk}})
    for (const auto& [axis, broadcast, extent] : {std::tuple{"batch", Layout::broadcast_batch, &Problem::b},
                                                  std::tuple{"heads", Layout::broadcast_heads, tensor.heads},
                                                  std::tuple{"rows", Layout::broadcast_rows, tensor.rows}})
      regions.push_back({tensor.name + " " + axis,
                         [layout = tensor.layout, broadcast = broadcast, extent = extent](const Problem& p) {
                           return p.*layout == broadcast && p.*extent > 1;
                         }});
  return regions;
}

// Named by what the tensor varies along, - where it does not.
Regions axes(std::string_view field_name, bool (*present)(const Problem&)) {
  const Field& field = *find_field(field_name);
  Regions regions;
  for (Index set = 0; set < 16; ++set) {
    std::string name = "----";
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (set >> axis & 1) name[axis] = "bhqk"[axis];
    regions.push_back({name, [&field, set, present](const Problem& p) { return field.get(p) == set && present(p); }});
  }
  return regions;
}

Regions empty_rows() {
  return {{"keep false", [](const Problem& p) { return p.keep == Keep::closed || p.keep == Keep::some_empty; }},
          {"bias -inf", [](const Problem& p) { return p.bias == Bias::empty_inf; }},
          {"bias lowest", [](const Problem& p) { return p.bias == Bias::empty_lowest; }},
          {"length 0", [](const Problem& p) { return p.lengths == Lengths::some_zero; }}};
}

Regions query_key_lengths() {
  return {{"1=lq<lk", [](const Problem& p) { return p.lq == 1 && p.lk > 1; }},
          {"lq<lk", [](const Problem& p) { return p.lq > 1 && p.lq < p.lk; }},
          {"lq=lk", [](const Problem& p) { return p.lq == p.lk && p.lk > 1; }},
          {"lq>lk", [](const Problem& p) { return p.lq > p.lk && p.lk > 0; }}};
}

Regions long_diagonals() {
  return {causal_top,
          causal_bottom,
          {"window", [](const Problem& p) { return windowed(p) && p.align == Align::top_left; }},
          {"window-br", [](const Problem& p) { return windowed(p) && p.align == Align::bottom_right; }}};
}

// lk in [from, to).
Region keys(std::string name, Index from, Index to) {
  return {std::move(name), [=](const Problem& p) { return from <= p.lk && p.lk < to; }};
}
constexpr Index no_end = Index{1} << 40;
Regions key_counts() {
  return {keys("1", 1, 2), keys("2..15", 2, 16), keys("16..255", 16, 256), keys("256..4095", 256, 4096),
          keys(">=4096", 4096, no_end)};
}

Regions decoding() {
  return {{"lq=1", [](const Problem& p) { return p.lq == 1; }}, {"lq>1", [](const Problem& p) { return p.lq > 1; }}};
}

Regions groups() {
  const auto ratio = [](const Problem& p) { return p.hkv > 0 ? p.hq / p.hkv : 0; };
  return {{"1", [=](const Problem& p) { return ratio(p) == 1; }},
          {"2", [=](const Problem& p) { return ratio(p) == 2; }},
          {"3..7", [=](const Problem& p) { return ratio(p) >= 3 && ratio(p) <= 7; }},
          {">=8", [=](const Problem& p) { return ratio(p) >= 8; }},
          {"one key head", [](const Problem& p) { return p.hkv == 1 && p.hq > 1; }}};
}

Regions widths_of_production() {
  Regions regions;
  for (const Index width : {64, 80, 96, 128, 256})
    regions.push_back({std::to_string(width), [=](const Problem& p) { return p.d == width && p.dv == width; }});
  return regions;
}

Regions groups_of_production() {
  const auto group = [](const Problem& p) { return p.hkv > 0 ? p.hq / p.hkv : 0; };
  return {{"4", [=](const Problem& p) { return group(p) == 4; }},
          {"8", [=](const Problem& p) { return group(p) == 8; }},
          {"4, long", [=](const Problem& p) { return group(p) == 4 && p.lk >= 256; }},
          {"8, long", [=](const Problem& p) { return group(p) == 8 && p.lk >= 256; }}};
}

// q, k and v in one layout.
Regions agreeing_layouts() {
  const Field& field = *find_field("q_layout");
  Regions regions;
  for (Index i = 0; i < std::ssize(field.labels); ++i)
    regions.push_back({std::string(field.labels[static_cast<std::size_t>(i)]), [i](const Problem& p) {
                         const auto layout = static_cast<Layout>(i);
                         return p.q_layout == layout && p.k_layout == layout && p.v_layout == layout;
                       }});
  return regions;
}

Regions scales() {
  const auto within = [](double lo, double hi) {
    return [=](const Problem& p) { return p.scale && *p.scale >= lo && *p.scale < hi; };
  };
  return {{"default", [](const Problem& p) { return !p.scale; }},
          {"0", [](const Problem& p) { return p.scale == 0.0; }},
          {"negative", [](const Problem& p) { return p.scale && *p.scale < 0; }},
          {"<2^-12", [=](const Problem& p) { return p.scale != 0.0 && within(0, 0x1p-12)(p); }},
          {"<1/8", within(0x1p-12, 0x1p-3)},
          {"<1", within(0x1p-3, 1)},
          {"1", [](const Problem& p) { return p.scale == 1.0; }},
          {"<16", [=](const Problem& p) { return p.scale != 1.0 && within(1, 16)(p); }},
          {">=16", within(16, HUGE_VAL)}};
}

constexpr Index tile_sizes[] = {16, 32, 64, 128, 192, 256, 512, 768};
Regions tiles(Index Problem::*length) {
  Regions regions;
  for (const Index tile : tile_sizes)
    for (const Index by : {-1, 0, 1})
      regions.push_back({std::to_string(tile + by), [=](const Problem& p) { return p.*length == tile + by; }});
  return regions;
}

Regions no_elements() {
  return {{"b=0", [](const Problem& p) { return p.b == 0; }},   {"hq=0", [](const Problem& p) { return p.hq == 0; }},
          {"lq=0", [](const Problem& p) { return p.lq == 0; }}, {"lk=0", [](const Problem& p) { return p.lk == 0; }},
          {"d=0", [](const Problem& p) { return p.d == 0; }},   {"dv=0", [](const Problem& p) { return p.dv == 0; }}};
}

Regions crowds() {
  Regions regions;
  for (const Index n : {65535, 65536, 65537}) {
    regions.push_back({"b=" + std::to_string(n), [=](const Problem& p) { return p.b == n; }});
    regions.push_back({"hq=" + std::to_string(n), [=](const Problem& p) { return p.hq == n; }});
  }
  return regions;
}

Regions dtypes() { return labels("dtype", {"tf32"}); }
Regions layouts(std::string_view field) { return labels(field); }
Regions mask_layouts() {
  return labels("mask_layout", {"broadcast_batch", "broadcast_heads", "broadcast_rows"},
                [](const Problem& p) { return kept(p) || biased(p); });
}

std::vector<Crossing> make_crossings() {
  const Regions no_mask{{"no mask", [](const Problem& p) { return !masked(p); }}, {"mask", masked}};
  return {
      {"stride 0 x mask", stride_zero(), masks(), {}},
      {"k layout x mask", layouts("k_layout"), masks(), {}},
      {"out layout x dtype",
       labels("out_layout", {"broadcast_batch", "broadcast_heads", "broadcast_rows"}),
       dtypes(),
       {}},
      {"mask layout x mask",
       mask_layouts(),
       {{"keep", kept}, {"bias", plain_bias}, {"bias-inf", bias_inf}, {"bias-low", bias_low}},
       {}},
      {"keep axes x diagonal", axes("keep_axes", kept), diagonals(), {}},
      {"bias axes x bias", axes("bias_axes", biased), bias_kinds(), {}},
      {"bias type x dtype",
       labels("bias_type", {}, biased),
       dtypes(),
       {{"f16", "f16"}, {"bf16", "bf16"}, {"f32", "f32"}, {"f64", "f64"}}},
      {"bias type x bias", labels("bias_type", {}, biased), bias_kinds(), {}},
      {"empty row x diagonal", empty_rows(), diagonals(), {}},
      {"empty row x dtype", empty_rows(), dtypes(), {}},
      {"keep x lengths", labels("keep", {"none"}), labels("lengths"), {}},
      {"diagonal x lengths of q and k", long_diagonals(), query_key_lengths(), {}},
      {"decode x keys", decoding(), key_counts(), {}},
      {"decode x lengths", decoding(), labels("lengths"), {}},
      {"keys >= 65536 x dtype", {keys("lk>=65536", 65536, no_end), keys("lk>65536", 65537, no_end)}, dtypes(), {}},
      {"k layout x heads per key head", layouts("k_layout"), groups(), {}},
      {"agreeing layouts x heads per key head", agreeing_layouts(), groups(), {}},
      {"agreeing layouts x mask", agreeing_layouts(), no_mask, {}},
      {"width of production x group", widths_of_production(), groups_of_production(), {}},
      {"values x dtype", labels("values", {"file"}), dtypes(), {}},
      {"values x keys", labels("values", {"file"}), key_counts(), {}},
      {"scale x dtype", scales(), dtypes(), {}},
      {"softcap x bias", {{"softcap", [](const Problem& p) { return p.softcap > 0; }}}, bias_kinds(), {}},
      {"lq at a tile x diagonal", tiles(&Problem::lq), diagonals(), {}},
      {"lk at a tile x diagonal", tiles(&Problem::lk), diagonals(), {}},
      {"empty dimension x mask", no_elements(), no_mask, {}},
      {"crowd x mask", crowds(), no_mask, {}},
  };
}

}  // namespace

std::span<const Crossing> crossings() {
  static const std::vector<Crossing> table = make_crossings();
  return table;
}

}  // namespace attest
