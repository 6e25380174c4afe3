#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// The heads of an input, which may have an axis of its own. `attribute`: the one that says how many there are.
Array heads_of(const Step& step, const Array& x, Index heads, std::string_view attribute) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3) step.refuse(fmt::format("{} in place of three axes or four", shape_text(x.shape)));
  if (heads < 1 || x.shape[2] % heads != 0)
    step.refuse(fmt::format("{} of {} heads: say {}", shape_text(x.shape), heads, attribute));
  return in_heads(step, x, heads);
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

// The keys that a row may attend to by causality, windows and lengths: [batch or 1, 1, rows, keys]. Rows begin at
// `past`, or end where the keys of their sample do.
Array open_keys(const Step& step, Index batch, Index rows, Index keys, Index past) {
  const bool causal = step.integer("is_causal", 0) != 0;
  const Index left = step.integer("left_window_size", -1), right = step.integer("right_window_size", -1);
  std::vector<Index> lengths;
  if (step.maybe(6) != nullptr) {
    lengths = step.numbers(6);
    if (std::ssize(lengths) != batch) step.refuse(fmt::format("{} lengths of {} samples", lengths.size(), batch));
  }
  Array open = step.make(Type::boolean, {lengths.empty() ? 1 : batch, 1, rows, keys}, 1);
  auto next = open.integers.begin();
  for (Index b = 0; b < open.shape[0]; ++b) {
    const Index length = lengths.empty() ? keys : lengths[static_cast<std::size_t>(b)];
    const Index offset = lengths.empty() ? past : length - rows;
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < keys; ++j) {
        const Index behind = i + offset - j;  // the key's distance before the row
        *next++ =
            j < length && (!causal || behind >= 0) && (left < 0 || behind <= left) && (right < 0 || -behind <= right);
      }
  }
  return open;
}

// A mask that ends before the keys do closes the others.
Array of_all_keys(Step& step, const Array& mask, Index keys) {
  if (mask.rank() == 0 || mask.shape.back() >= keys || mask.shape.back() == 1) return mask;
  const Array pads = integers(Type::i64, {2}, {0, keys - mask.shape.back()});
  const Array last = integers(Type::i64, {1}, {-1});
  Array closed = zeros(mask.type, {});
  if (is_floating(mask.type)) closed.floats[0] = -std::numeric_limits<double>::infinity();
  return step.part(pad, {&mask, &pads, &closed, &last}, {});
}

// Rows of scores that no key is left to have weights of 0.
void close_empty_rows(Array& weights, const Array& scores) {
  const auto keys = static_cast<std::size_t>(scores.shape.back());
  for (std::size_t row = 0; keys > 0 && row < scores.floats.size(); row += keys) {
    const auto of_row = std::span(scores.floats).subspan(row, keys);
    if (std::ranges::all_of(of_row, [](double x) { return x == -std::numeric_limits<double>::infinity(); }))
      std::fill_n(weights.floats.begin() + static_cast<std::ptrdiff_t>(row), keys, 0.0);
  }
}

}  // namespace

// The function of its schema: q and k times the root of the scale, their product, a softcap, the mask added, softmax,
// the product with v. Before version 25 documents and implementations differ of rows that no key is left to, which are
// NaN here: nothing is known.
void attention(Step& step) {
  for (const std::size_t index : {0, 1, 2})
    if (!is_floating(step.in(index).type) || step.in(index).type != step.in(0).type)
      step.refuse("q, k and v of one floating-point type are evaluated");
  const Array *const past_k = step.maybe(4), *const past_v = step.maybe(5), *const mask = step.maybe(3);
  if ((past_k == nullptr) != (past_v == nullptr) || (past_k != nullptr && step.maybe(6) != nullptr))
    step.refuse("past keys go with past values, and without lengths");
  const double softcap = step.number("softcap", 0);
  const Index mode = step.integer("qk_matmul_output_mode", 0);
  const auto of = [&step](void (*evaluate)(Step&), std::vector<const Array*> inputs,
                          std::map<std::string, Attribute, std::less<>> attributes = {}) {
    return step.part(evaluate, std::move(inputs), std::move(attributes));
  };
  const bool flat = step.in(0).rank() == 3;
  const Array q = heads_of(step, step.in(0), step.integer("q_num_heads", 0), "q_num_heads");
  const Index heads = q.shape[1], of_keys = step.integer("kv_num_heads", 0);
  const auto present = [&](std::size_t index, const Array* past) {
    Array own = heads_of(step, step.in(index), of_keys, "kv_num_heads");
    return past == nullptr ? own : of(concat, {past, &own}, {{"axis", std::int64_t{2}}});
  };
  Array present_k = present(1, past_k), present_v = present(2, past_v);
  const Array k = repeated(step, present_k, heads), v = repeated(step, present_v, heads);
  const double scale = step.number("scale", 1 / std::sqrt(static_cast<double>(q.shape[3])));

  Array root = floats(q.type, {}, {std::sqrt(std::fabs(scale))}), other = root;
  if (scale < 0) other.floats[0] = -other.floats[0];
  step.round(root);
  step.round(other);
  const Array scaled_q = of(multiply, {&q, &root}), scaled_k = of(multiply, {&k, &other});
  const Array turned = transposed(step, scaled_k, std::vector<Index>{0, 1, 3, 2});
  Array scores = of(matrix_product, {&scaled_q, &turned});
  Array told = scores;  // the numbers of the fourth output
  if (softcap != 0) {
    const Array cap = floats(q.type, {}, {softcap});
    scores = of(divide, {&scores, &cap});
    scores = of(hyperbolic_tangent, {&scores});
    scores = of(multiply, {&scores, &cap});
  }
  if (mode == 1) told = scores;
  const Array closed = floats(q.type, {}, {-std::numeric_limits<double>::infinity()});
  const Index rows = scores.shape[2], keys = scores.shape[3];
  if (mask != nullptr) {
    const Array whole = of_all_keys(step, *mask, keys);
    const Array masked =
        whole.type == Type::boolean ? of(where, {&whole, &scores, &closed}) : of(add, {&scores, &whole});
    if (masked.shape != scores.shape)
      step.refuse(fmt::format("a mask {} of scores {}", shape_text(mask->shape), shape_text(scores.shape)));
    scores = masked;
  }
  const Array open = open_keys(step, q.shape[0], rows, keys, past_k == nullptr ? 0 : past_k->shape[2]);
  if (std::ranges::count(open.integers, 0) > 0) scores = of(where, {&open, &scores, &closed});
  if (mode == 2) told = scores;
  if (const Index type = step.integer("softmax_precision", 0); type != 0) scores = of(cast, {&scores}, {{"to", type}});
  Array weights = of(softmax, {&scores}, {{"axis", std::int64_t{-1}}});
  if (step.opset() >= 25) {
    step.spread(scores);
    close_empty_rows(weights, scores);
  }
  weights = of(cast_like, {&weights, &v});
  if (mode == 3) told = weights;
  Array out = of(matrix_product, {&weights, &v});
  step.outputs.push_back(flat ? out_of_heads(step, out) : std::move(out));
  step.outputs.push_back(std::move(present_k));
  step.outputs.push_back(std::move(present_v));
  step.outputs.push_back(std::move(told));
}

void rotary_embedding(Step& step) {
  floats_alone(step, step.in(0));
  const bool flat = step.in(0).rank() == 3;
  Array x = heads_of(step, step.in(0), step.integer("num_heads", 0), "num_heads");
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
