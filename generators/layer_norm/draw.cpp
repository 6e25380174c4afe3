#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "core/supports.hpp"
#include "generators/accepted.hpp"
#include "generators/edges.hpp"
#include "generators/layer_norm/domain.hpp"
#include "generators/models.hpp"
#include "generators/source.hpp"
#include "generators/weighted.hpp"

namespace attest::layer_norm {
namespace {

// The uses of a seed, apart from the streams of attention (generators/draw.cpp).
enum : std::uint64_t { shape_stream = 11, rest_stream = 12, rows_stream = 13 };

constexpr std::uint64_t shapes_per_many_rows = 500;
constexpr Index many_rows = 65'536;
constexpr Index most_judged_elements = Index{1} << 18;
// The smallest budget of elements for a model's norm, four rows of the widest; and its rows, the tokens of one call.
constexpr Index least_model_elements = Index{1} << 16;
constexpr auto model_rows = std::to_array<Index>({1, 2, 8, 16, 17, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192});

const Field& field(std::string_view name) { return *find_field(name); }

template <class T>
void draw_label(T& member, std::string_view name, const Domain& domain, Source& source) {
  member = static_cast<T>(weighted(source, field(name).weights, domain.range(field(name))));
}

Index clipped(Index n, const Range& range) { return range.floor(std::clamp(n, range.lo, range.hi)); }

// Half of the exponents go to the width, at least: what is summed over is what breaks.
void draw_shape(Problem& p, const Domain& domain, Source& source, bool many) {
  const Range rows = domain.range(field("rows"));
  Range widths = domain.range(field("hidden"));
  widths.multiple = std::lcm(std::max<Index>(widths.multiple, 1), row_step(domain.supports().alignment, p.dtype));
  if (widths.empty() || widths.floor(widths.hi) < 1)
    throw usage_error("what the subject supports of layer_norm leaves no value of hidden");
  if (many && rows.hi > many_rows && domain.sizes() != SizeRegime::models) {
    p.rows = rows.floor(many_rows + source.below(3));
    p.hidden = std::max(widths.floor(1 + source.below(2)), widths.multiple);
    return;
  }
  const bool only_models = domain.sizes() == SizeRegime::models,
             model = only_models || (source.chance(1, shapes_per_model) && domain.sizes() == SizeRegime::both);
  if (model && widths.hi >= model_widths().front()) {
    const Index work = draw_model_work(source, least_model_elements, 7);
    p.hidden = clipped(draw_size(source, model_widths(), std::min(work, widths.hi)), widths);
    if (p.hidden < 1) p.hidden = widths.multiple;
    p.rows = clipped(draw_size(source, model_rows, std::max<Index>(work / p.hidden, 1)), rows);
    return;
  }
  if (only_models) refuse_models();
  const Index dice = source.below(1000);
  const Index most = dice == 0 ? Index{1} << 24 : dice < 100 ? Index{1} << 20 : Index{1} << 16;
  const Index work = source.log_uniform(most);
  p.hidden = clipped(edge_biased(source, field("hidden").edges, std::clamp<Index>(work, 1, widths.hi)), widths);
  if (p.hidden < 1) p.hidden = widths.multiple;
  const Index left = std::max<Index>(work / p.hidden, 1);
  p.rows = clipped(edge_biased(source, field("rows").edges, std::clamp<Index>(left, 1, rows.hi)), rows);
  if (rows.lo == 0 && source.chance(1, 50)) p.rows = 0;
}

void draw_options(Problem& p, const Domain& domain, Source& source) {
  constexpr std::array epsilons{1e-5, 1e-5, 1e-5, 1e-6, 1e-6, 1e-12, 1e-8, 1e-3, 0.0, 0x1p-40, 0.5, 1.0};
  draw_label(p.norm, "norm", domain, source);
  p.epsilon = source.pick(epsilons);
  draw_label(p.residual, "residual", domain, source);
  draw_label(p.sum_out, "sum_out", domain, source);
  if (p.residual == Residual::none) p.sum_out = false;
  draw_label(p.gamma, "gamma", domain, source);
  draw_label(p.beta, "beta", domain, source);
  draw_label(p.param_type, "param_type", domain, source);
  const bool params = p.gamma != Weights::none || p.beta != Weights::none;
  if (!params || !narrower(p.dtype, Format::f32)) p.param_type = ParamType::same;
  draw_label(p.threads, "threads", domain, source);
}

void draw_layouts(Problem& p, const Domain& domain, Source& source) {
  const bool plain = source.chance(1, 2);
  for (const auto& [layout, name] : {std::pair{&Problem::x_layout, "x_layout"},
                                     {&Problem::residual_layout, "residual_layout"},
                                     {&Problem::param_layout, "param_layout"},
                                     {&Problem::out_layout, "out_layout"}}) {
    draw_label(p.*layout, name, domain, source);
    if (plain) p.*layout = Layout::contiguous;
    if (p.*layout == Layout::contiguous) continue;
    Problem alone = p;  // whatever else may be declined, this tensor is not the reason
    alone.x_layout = alone.residual_layout = alone.param_layout = alone.out_layout = Layout::contiguous;
    alone.*layout = p.*layout;
    if (declined_memory(alone, domain.supports())) p.*layout = Layout::contiguous;
  }
  const bool params = p.gamma != Weights::none || p.beta != Weights::none;
  if (p.residual == Residual::none) p.residual_layout = Layout::contiguous;
  if (!params) p.param_layout = Layout::contiguous;
}

void draw_values(Problem& p, const Domain& domain, Source& source) {
  draw_label(p.values, "values", domain, source);
  const bool extreme = p.values >= Values::roots_large;
  p.amplitude = extreme || source.chance(3, 4) ? 1 : std::ldexp(1.0, static_cast<int>(source.between(-20, 20)));
  p.offset = 0;
  if (!extreme && source.chance(1, 3)) {
    const double size = std::ldexp(source.chance(1, 2) ? 1.0 : 1.25, static_cast<int>(source.between(-3, 20)));
    p.offset = source.chance(1, 2) ? size : -size;
  }
  p.seed = source.next();
}

Problem draw_once(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, bool many) {
  Problem problem;
  Source shape(shape_key), rest(rest_key);
  problem.dtype = domain.dtypes()[static_cast<std::size_t>(shape.below(static_cast<Index>(domain.dtypes().size())))];
  draw_shape(problem, domain, shape, many);
  draw_options(problem, domain, rest);
  draw_layouts(problem, domain, rest);
  draw_values(problem, domain, rest);
  if (problem.elements() > most_judged_elements)
    problem.judged = std::max<Index>(most_judged_elements / problem.hidden, 1);
  return problem;
}

}  // namespace

Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) {
  const std::uint64_t plan = case_number / repeat, first = plan * repeat;
  const auto key = [&](std::uint64_t stream, std::uint64_t number) {
    return extend(extend(mix(seed), stream), number);
  };
  const bool many =
      plan % shapes_per_many_rows == below(key(rows_stream, plan / shapes_per_many_rows), shapes_per_many_rows);
  auto planned =
      draw_until_accepted<Drawing>(domain, key(shape_stream, plan), key(rest_stream, first),
                                   [&](std::uint64_t shape_key, std::uint64_t rest_key, std::uint64_t attempt) {
                                     return draw_once(domain, shape_key, rest_key, many && attempt == 0);
                                   });
  if (case_number == first) return planned;
  return redraw_until_accepted(domain, std::move(planned), key(rest_stream, case_number),
                               [&](Problem& problem, std::uint64_t rest_key) {
                                 Source rest(rest_key);
                                 draw_values(problem, domain, rest);
                               });
}

}  // namespace attest::layer_norm
