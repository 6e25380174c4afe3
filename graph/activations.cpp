#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

double attribute(const Step& step, std::string_view name, float otherwise) {
  return step.number(name, static_cast<double>(otherwise));
}

// max(0, min(1, alpha x + beta)), the line stored.
Array hard_line(Step& step, const Array& x, double alpha, double beta) {
  Array line = map_floats(step, x, [alpha](double v) { return alpha * v; });
  step.round(line);
  for (double& v : line.floats) v += beta;
  step.round(line);
  for (double& v : line.floats) v = v < 0 ? 0 : v > 1 ? 1 : v;
  return line;
}

}  // namespace

void leaky_relu(Step& step) {
  floats_alone(step, step.in(0));
  const double alpha = attribute(step, "alpha", 0.01f);
  Array out = map_floats(step, step.in(0), [alpha](double v) { return v < 0 ? alpha * v : v; });
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void exponential_linear(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  const double alpha = attribute(step, "alpha", 1.0f);
  // exp(x) - 1 is taken as a difference by many.
  Array powers = map_floats(step, x, [](double v) { return v < 0 ? std::exp(v) : 1; });
  step.function(powers, 2);
  step.round(powers);
  Array out = zip_floats(step, x, powers, [](double v, double e) { return v < 0 ? e - 1 : v; });
  step.round(out);
  for (double& v : out.floats) v = v < 0 ? alpha * v : v;
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void hard_sigmoid(Step& step) {
  floats_alone(step, step.in(0));
  step.outputs.push_back(hard_line(step, step.in(0), attribute(step, "alpha", 0.2f), attribute(step, "beta", 0.5f)));
}

void hard_swish(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  const Array weight = hard_line(step, x, 1.0 / 6, 0.5);
  Array out = zip_floats(step, x, weight, [](double v, double w) { return v * w; });
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void softplus(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  // log(1 + exp(x)); beyond 0 as x + log(1 + exp(-x)), which many runtimes do to stay in range.
  Array inner = map_floats(step, x, [](double v) { return std::exp(-std::fabs(v)); });
  step.function(inner, 2);
  step.round(inner);
  for (double& v : inner.floats) v = 1 + v;
  step.round(inner);
  for (double& v : inner.floats) v = std::log(v);
  step.function(inner, 2);
  step.round(inner);
  Array out = zip_floats(step, x, inner, [](double v, double rest) { return v > 0 ? v + rest : rest; });
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void batch_normalization(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  if (step.output_count() > 1 || step.integer("training_mode", 0) != 0)
    step.refuse("training is not evaluated: its first output alone");
  if (x.rank() < 2) step.refuse("it needs a channel axis");
  std::vector<Index> channels(x.shape.size(), 1);
  channels[1] = x.shape[1];
  const auto given = [&](std::size_t index) {
    Array one = step.in(index);
    same_types(step, x, one);
    if (one.rank() != 1 || one.size() != x.shape[1])
      step.refuse(fmt::format("input {} is {} of {} channels", index, shape_text(one.shape), x.shape[1]));
    one.shape = channels;
    return one;
  };
  const double epsilon = attribute(step, "epsilon", 1e-5f);
  Array scale = map_floats(step, given(4), [epsilon](double v) { return v + epsilon; });
  step.round(scale);
  for (double& v : scale.floats) v = 1 / std::sqrt(v);
  step.function(scale, 2);
  step.round(scale);
  scale = zip_floats(step, scale, given(1), [](double r, double gamma) { return r * gamma; });
  step.round(scale);
  // (x - mean) scale + bias, or with the constants folded into x scale + (bias - mean scale): the error of the second
  // is granted to both.
  Array moved = zip_floats(step, scale, given(3), [](double s, double mean) { return s * mean; });
  step.round(moved);
  moved = zip_floats(step, given(2), moved, [](double bias, double m) { return bias - m; });
  step.round(moved);
  Array out = zip_floats(step, x, scale, [](double v, double s) { return v * s; });
  step.round(out);
  out = zip_floats(step, out, moved, [](double v, double m) { return v + m; });
  step.round(out);
  step.outputs.push_back(std::move(out));
}

}  // namespace attest::graph
