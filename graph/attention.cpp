#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// [batch, length, heads * width] as [batch, heads, length, width].
Array in_heads(const Step& step, const Array& x, Index heads, std::string_view attribute) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3) step.refuse(fmt::format("{} in place of three axes or four", shape_text(x.shape)));
  if (heads < 1 || x.shape[2] % heads != 0)
    step.refuse(fmt::format("{} of {} heads: say {}", shape_text(x.shape), heads, attribute));
  Array split = x;
  split.shape = {x.shape[0], x.shape[1], heads, x.shape[2] / heads};
  return transposed(step, split, std::vector<Index>{0, 2, 1, 3});
}

Array out_of_heads(const Step& step, const Array& x) {
  Array out = transposed(step, x, std::vector<Index>{0, 2, 1, 3});
  out.shape = {out.shape[0], out.shape[1], out.shape[2] * out.shape[3]};
  return out;
}

// Each head of keys and values for as many heads of queries as share it, which lie side by side.
Array repeated(const Step& step, Array x, Index heads) {
  const Index own = x.shape[1];
  if (own < 1 || heads % own != 0) step.refuse(fmt::format("{} heads of queries, {} of keys", heads, own));
  if (own == heads) return x;
  const std::vector<Index> shape = x.shape;
  x.shape = {shape[0], own, 1, shape[2], shape[3]};
  x = broadcast_to(step, x, {shape[0], own, heads / own, shape[2], shape[3]});
  x.shape = {shape[0], heads, shape[2], shape[3]};
  return x;
}

}  // namespace

// As the function of its schema has it: q and k times the root of the scale, their product, the mask added, softmax, the product with v. Of rows that no key
// is left to, of which versions and implementations differ, nothing is known: NaN.
void attention(Step& step) {
  for (const std::size_t index : {0, 1, 2})
    if (!is_floating(step.in(index).type) || step.in(index).type != step.in(0).type)
      step.refuse("q, k and v of one floating-point type are evaluated");
  for (const std::size_t index : {4, 5, 6})
    if (step.maybe(index) != nullptr)
      step.refuse("past keys and values, and lengths, are not evaluated: leave these inputs out");
  if (step.integer("left_window_size", -1) >= 0 || step.integer("right_window_size", -1) >= 0)
    step.refuse("a window is not evaluated");
  if (step.number("softcap", 0) != 0) step.refuse("a softcap is not evaluated");
  const bool flat = step.in(0).rank() == 3;
  const Array q = in_heads(step, step.in(0), step.integer("q_num_heads", 0), "q_num_heads");
  const Index heads = q.shape[1], rows = q.shape[2];
  const Index of_keys = step.integer("kv_num_heads", 0);
  const Array k = repeated(step, in_heads(step, step.in(1), of_keys, "kv_num_heads"), heads);
  const Array v = repeated(step, in_heads(step, step.in(2), of_keys, "kv_num_heads"), heads);
  const double scale = step.number("scale", 1 / std::sqrt(static_cast<double>(q.shape[3])));

  Array root = floats(q.type, {}, {std::sqrt(std::fabs(scale))}), other = root;
  if (scale < 0) other.floats[0] = -other.floats[0];
  step.round(root);
  step.round(other);
  const auto of = [&step](void (*evaluate)(Step&), std::vector<const Array*> inputs,
                          std::map<std::string, Attribute, std::less<>> attributes = {}) {
    return step.part(evaluate, std::move(inputs), std::move(attributes));
  };
  const Array scaled_q = of(multiply, {&q, &root}), scaled_k = of(multiply, {&k, &other});
  const Array turned = transposed(step, scaled_k, std::vector<Index>{0, 1, 3, 2});
  Array scores = of(matrix_product, {&scaled_q, &turned});
  const Array closed = floats(q.type, {}, {-std::numeric_limits<double>::infinity()});
  if (const Array* const mask = step.maybe(3)) {
    const Array masked = mask->type == Type::boolean ? of(where, {mask, &scores, &closed}) : of(add, {&scores, mask});
    if (masked.shape != scores.shape)
      step.refuse(fmt::format("a mask {} of scores {}", shape_text(mask->shape), shape_text(scores.shape)));
    scores = masked;
  }
  if (step.integer("is_causal", 0) != 0) {
    const Index keys = scores.shape[3];
    Array open = zeros(Type::boolean, {rows, keys});
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j <= i && j < keys; ++j) open.integers[static_cast<std::size_t>(i * keys + j)] = 1;
    scores = of(where, {&open, &scores, &closed});
  }
  if (const Index type = step.integer("softmax_precision", 0); type != 0) scores = of(cast, {&scores}, {{"to", type}});
  Array weights = of(softmax, {&scores}, {{"axis", std::int64_t{-1}}});
  weights = of(cast_like, {&weights, &v});
  Array out = of(matrix_product, {&weights, &v});
  step.outputs.push_back(flat ? out_of_heads(step, out) : std::move(out));
}

void rotary_embedding(Step& step) {
  floats_alone(step, step.in(0));
  const bool flat = step.in(0).rank() == 3;
  Array x = in_heads(step, step.in(0), step.integer("num_heads", 0), "num_heads");
  const Index stated = step.integer("rotary_embedding_dim", 0), width = stated == 0 ? x.shape[3] : stated,
              half = width / 2;
  if (width < 0 || width > x.shape[3] || width % 2 != 0)
    step.refuse(fmt::format("{} of {} are turned", width, x.shape[3]));
  const bool interleaved = step.integer("interleaved", 0) != 0;
  // Cosines and sines of each token, for all heads.
  const auto angles = [&](std::size_t index) {
    Array given = step.maybe(3) == nullptr ? step.in(index)
                                           : step.part(gather, {&step.in(index), step.maybe(3)}, {{"axis", Index{0}}});
    if (given.rank() != 3 || given.shape != std::vector<Index>{x.shape[0], x.shape[2], half})
      step.refuse(fmt::format("angles {} of {}", shape_text(given.shape), shape_text(x.shape)));
    given.shape.insert(given.shape.begin() + 1, 1);
    return given;
  };
  const Array cosines = angles(1), sines = angles(2);
  std::vector<Index> shape = x.shape, strides = strides_of(x.shape);
  shape[3] = half;
  if (interleaved) strides[3] = 2;
  const Index apart = interleaved ? 1 : half;
  const Array a = gathered(step, x, shape, 0, strides), b = gathered(step, x, shape, half > 0 ? apart : 0, strides);
  const auto turned = [&](void (*join)(Step&), const Array& of_cosines, const Array& of_sines) {
    const Array left = step.part(multiply, {&of_cosines, &cosines}, {}),
                right = step.part(multiply, {&of_sines, &sines}, {});
    return step.part(join, {&left, &right}, {});
  };
  const Array first = turned(subtract, a, b), second = turned(add, b, a);
  step.spread(x);
  for (Index l = 0; l < x.lanes; ++l)
    for (Index i = 0; i < first.size(); ++i) {
      const auto to = static_cast<std::size_t>(i / half * x.shape[3] + i % half * (interleaved ? 2 : 1));
      x.lane(l)[to] = first.lane(l)[static_cast<std::size_t>(i)];
      x.lane(l)[to + static_cast<std::size_t>(apart)] = second.lane(l)[static_cast<std::size_t>(i)];
    }
  step.outputs.push_back(flat ? out_of_heads(step, x) : std::move(x));
}

}  // namespace attest::graph
