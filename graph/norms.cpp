#include <fmt/format.h>

#include <utility>
#include <vector>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

const std::map<std::string, Attribute, std::less<>> last{{"axes", std::vector<std::int64_t>{2}}};

// The mean of the squares of what the mean is taken from, of each row of x [images, groups, length].
Array variance_in_two_passes(Step& step, const Array& x, const Array& mean) {
  const Array centred = step.part(subtract, {&x, &mean}, {});
  const Array squares = step.part(multiply, {&centred, &centred}, {});
  return step.part(reduce_mean, {&squares}, last);
}

// The mean of the squares less the square of the mean, as the function of GroupNormalization's schema has it.
Array variance_in_one_pass(Step& step, const Array& x, const Array& mean) {
  const Array squares = step.part(multiply, {&x, &x}, {});
  const Array of_squares = step.part(reduce_mean, {&squares}, last);
  const Array square = step.part(multiply, {&mean, &mean}, {});
  return step.part(subtract, {&of_squares, &square}, {});
}

// Groups of channels less their mean and over their deviation, times a scale and plus a bias, one for each channel or
// group: BatchNormalization with the statistics of each group of each sample, which are computed in the type that is
// numbered so, their own for 0.
void by_groups(Step& step, Index groups, Index stash_type, Array (*variance_of)(Step&, const Array&, const Array&)) {
  const Array &x = step.in(0), &scale = step.in(1), &bias = step.in(2);
  floats_alone(step, x);
  if (x.rank() < 3 || groups < 1 || x.shape[1] % groups != 0)
    step.refuse(fmt::format("{} groups of the channels of {}", groups, shape_text(x.shape)));
  const Index images = x.shape[0], channels = x.shape[1], all = images * channels;
  const Index plane = all == 0 ? 0 : x.size() / all;
  Array grouped = x;
  grouped.shape = {images, groups, channels / groups * plane};
  if (stash_type != 0) grouped = step.part(cast, {&grouped}, {{"to", stash_type}});
  Array mean = step.part(reduce_mean, {&grouped}, last);
  Array variance = variance_of(step, grouped, mean);
  for (Array* const one : {&mean, &variance}) *one = step.part(cast_like, {one, &x}, {});
  // One number for each channel of each sample.
  const auto wide = [&](Array one) {
    one = broadcast_to(step, one, {images, groups, channels / groups});
    one.shape = {all};
    return one;
  };
  const auto given = [&](const Array& one) {
    same_types(step, x, one);
    if (one.rank() != 1 || (one.size() != channels && one.size() != groups))
      step.refuse(fmt::format("a scale or bias {} of {} channels", shape_text(one.shape), channels));
    Array apart = one;
    apart.shape = {groups, one.size() / groups};
    return wide(std::move(apart));
  };
  Array flat = x;
  flat.shape = {1, all, plane};
  const Array gamma = given(scale), beta = given(bias), means = wide(mean), variances = wide(variance);
  Array out = step.part(batch_normalization, {&flat, &gamma, &beta, &means, &variances},
                        {{"epsilon", step.number("epsilon", static_cast<double>(1e-5f))}});
  out.shape = x.shape;
  step.outputs.push_back(std::move(out));
}

}  // namespace

void instance_normalization(Step& step) {
  const Array& x = step.in(0);
  by_groups(step, x.rank() < 2 ? 0 : x.shape[1], 0, variance_in_two_passes);
}
void group_normalization(Step& step) {
  by_groups(step, step.integer("num_groups", 0), step.integer("stash_type", 1), variance_in_one_pass);
}

}  // namespace attest::graph
