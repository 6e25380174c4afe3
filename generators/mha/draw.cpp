#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.hpp"
#include "generators/accepted.hpp"
#include "generators/mha/domain.hpp"
#include "generators/mha/shape.hpp"
#include "generators/source.hpp"
#include "generators/weighted.hpp"

namespace attest::mha {
namespace {

// The uses of a seed, apart from the streams of other operations.
enum : std::uint64_t { shape_stream = 21, rest_stream = 22 };

constexpr double selecting_scale = 256;  // docs/mha.md, section 7

template <class T, class Possible>
void draw_label(T& member, std::string_view name, const Domain& domain, Source& source, const Possible& possible) {
  member = static_cast<T>(weighted(source, find_field(name)->weights, domain.range(name), possible));
}
template <class T>
void draw_label(T& member, std::string_view name, const Domain& domain, Source& source) {
  draw_label(member, name, domain, source, [&](Index label) { return domain.offers(name, label); });
}

void draw_scale(Problem& p, const Domain& domain, Source& source) {
  p.scale.reset();
  const Supports& s = domain.supports();
  if (s.scale == Supports::Scale::only_default) return;
  draw_label(p.weights, "weights", domain, source);
  if (p.weights == Weights::selection) {
    p.scale = selecting_scale;
    return;
  }
  if (source.chance(7, 10)) return;
  const double usual = p.effective_scale();
  const std::array<double, 7> scales{1, 0.125, usual * 2, usual / 2, 1.0 / static_cast<double>(p.head_dim), -usual, 0};
  p.scale = source.pick(scales);
  if (s.scale == Supports::Scale::positive && !(*p.scale > 0)) p.scale = 1;
}

bool selects(const Problem& p) { return p.scale && *p.scale == selecting_scale; }

void draw_options(Problem& p, const Domain& domain, Source& source) {
  draw_label(p.packed, "packed", domain, source);
  draw_scale(p, domain, source);
  draw_label(p.causal, "causal", domain, source);
  if (p.causal) draw_label(p.align, "align", domain, source);
  draw_label(p.padding, "padding", domain, source);
  draw_label(p.bias, "bias", domain, source);
  draw_label(p.biases, "biases", domain, source);
  if (selects(p) && !p.has_in_biases()) {  // by which the probe selects
    const Biases with = p.has_out_bias() ? Biases::all : Biases::in;
    const auto label = static_cast<Index>(with);
    if (domain.range("biases").contains(label) && domain.offers("biases", label)) p.biases = with;
  }
  draw_label(p.threads, "threads", domain, source);
}

void draw_layouts(Problem& p, const Domain& domain, Source& source) {
  const bool plain = source.chance(1, 2);
  for (const auto& [layout, name] : {std::pair{&Problem::x_layout, "x_layout"},
                                     {&Problem::memory_layout, "memory_layout"},
                                     {&Problem::weight_layout, "weight_layout"},
                                     {&Problem::out_layout, "out_layout"}}) {
    draw_label(p.*layout, name, domain, source);
    if (plain) p.*layout = static_cast<Layout>(domain.range(name).lo);
    if (p.*layout == Layout::contiguous) continue;
    Problem alone = p;  // whatever else may be declined, this tensor is not the reason
    alone.x_layout = alone.memory_layout = alone.weight_layout = alone.out_layout = Layout::contiguous;
    alone.*layout = p.*layout;
    if (declined_memory(alone, domain.supports())) p.*layout = Layout::contiguous;
  }
  if (p.self) p.memory_layout = Layout::contiguous;
}

void draw_values(Problem& p, const Domain& domain, Source& source) {
  if (selects(p) && domain.range("weights").contains(static_cast<Index>(Weights::selection)))
    p.weights = Weights::selection;
  else
    draw_label(p.weights, "weights", domain, source, [&](Index label) {
      return label != static_cast<Index>(Weights::selection) || domain.range("weights").lo == label;
    });
  const Index dice = source.below(40);
  p.amplitude = dice < 30   ? 1
                : dice < 39 ? std::ldexp(1.0, static_cast<int>(source.between(-8, 4)))
                            : std::ldexp(1.0, min_exponent(p.dtype) + static_cast<int>(source.below(8)));
  p.seed = source.next();
}

Problem draw_once(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key) {
  Problem problem;
  Source shape(shape_key), rest(rest_key);
  problem.dtype = domain.dtypes()[static_cast<std::size_t>(shape.below(static_cast<Index>(domain.dtypes().size())))];
  draw_shape(problem, domain, shape);
  draw_options(problem, domain, rest);
  draw_layouts(problem, domain, rest);
  draw_values(problem, domain, rest);
  return problem;
}

}  // namespace

Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) {
  const std::uint64_t plan = case_number / repeat, first = plan * repeat;
  const auto key = [&](std::uint64_t stream, std::uint64_t number) {
    return extend(extend(mix(seed), stream), number);
  };
  auto planned = draw_until_accepted<Drawing>(domain, key(shape_stream, plan), key(rest_stream, first),
                                              [&](std::uint64_t shape_key, std::uint64_t rest_key, std::uint64_t) {
                                                return draw_once(domain, shape_key, rest_key);
                                              });
  if (case_number == first) return planned;
  return redraw_until_accepted(domain, std::move(planned), key(rest_stream, case_number),
                               [&](Problem& problem, std::uint64_t rest_key) {
                                 Source rest(rest_key);
                                 draw_values(problem, domain, rest);
                               });
}

}  // namespace attest::mha
