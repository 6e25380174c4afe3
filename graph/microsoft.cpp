// Operators of the domain com.microsoft, as ONNX Runtime's ContribOperators.md has them, written as ONNX's own: a
// kernel that fuses these rounds less often.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

using Attributes = std::map<std::string, Attribute, std::less<>>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

Array plus(Step& step, const Array& x, const Array* more) {
  return more == nullptr ? x : step.part(add, {&x, more}, {});
}

// LayerNormalization of the last axis.
Array normalised(Step& step, void (*norm)(Step&), const Array& x, const Array* gamma, const Array* beta) {
  std::vector<const Array*> inputs{&x, gamma};
  if (beta != nullptr) inputs.push_back(beta);
  return step.part(norm, std::move(inputs), {{"epsilon", step.number("epsilon", static_cast<double>(1e-12f))}});
}

void skip_and_norm(Step& step, void (*norm)(Step&), const Array* beta, const Array* bias) {
  if (step.gives(1) || step.gives(2)) step.refuse("its mean and deviation are not evaluated: leave these outputs out");
  Array sum = plus(step, step.part(add, {&step.in(0), &step.in(1)}, {}), bias);
  if (sum.shape != step.in(0).shape) step.refuse("its skip or bias is larger than its input");
  step.outputs = {normalised(step, norm, sum, &step.in(2), beta), Array{}, Array{}, Array{}};
  step.outputs[3] = std::move(sum);
}

}  // namespace

void skip_layer_normalization(Step& step) { skip_and_norm(step, layer_normalization, step.maybe(3), step.maybe(4)); }
void skip_rms_normalization(Step& step) { skip_and_norm(step, rms_normalization, nullptr, step.maybe(3)); }

void biased_gelu(Step& step) {
  const Array x = plus(step, step.in(0), &step.in(1));
  step.outputs.push_back(step.part(gelu, {&x}, {}));
}

void fast_gelu(Step& step) {
  const Array x = plus(step, step.in(0), step.maybe(1));
  step.outputs.push_back(step.part(gelu, {&x}, {{"approximate", std::string("tanh")}}));
}

void quick_gelu(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  const Array alpha = floats(x.type, {}, {step.number("alpha", static_cast<double>(1.702f))});
  const Array scaled = step.part(multiply, {&x, &alpha}, {});
  const Array weight = step.part(sigmoid, {&scaled}, {});
  step.outputs.push_back(step.part(multiply, {&x, &weight}, {}));
}

void scaled_product(Step& step) {
  const auto operand = [&step](std::size_t index, std::string_view turned, std::string_view batch_turned) {
    Array x = step.in(index);
    if (x.rank() < 2) return x;
    std::vector<Index> order;
    for (Index k = 0; k < x.rank(); ++k) order.push_back(k);
    if (step.integer(batch_turned, 0) != 0) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (step.integer(turned, 0) != 0) std::swap(order[order.size() - 2], order.back());
    return transposed(step, x, order);
  };
  const Array a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
  Array out = step.part(matrix_product, {&a, &b}, {});
  if (const double alpha = step.number("alpha", 1); alpha != 1) {
    const Array factor = floats(out.type, {}, {alpha});
    out = step.part(multiply, {&out, &factor}, {});
  }
  step.outputs.push_back(std::move(out));
}

void embedded_layer_normalization(Step& step) {
  const Array& ids = step.in(0);
  if (ids.rank() != 2) step.refuse(fmt::format("ids {}", shape_text(ids.shape)));
  const Index batch = ids.shape[0], length = ids.shape[1];
  const auto rows = [&step](std::size_t table, const Array& of) {
    return step.part(gather, {&step.in(table), &of}, {{"axis", std::int64_t{0}}});
  };
  Array places = zeros(Type::i64, {1, length});
  for (Index i = 0; i < length; ++i) places.integers[static_cast<std::size_t>(i)] = i;
  const Array words = rows(2, ids), positions = rows(3, step.maybe(8) == nullptr ? places : step.in(8));
  Array sum = step.part(add, {&words, &positions}, {});
  if (step.maybe(1) != nullptr) {
    const Array segments = rows(4, step.in(1));
    sum = plus(step, sum, &segments);
  }
  // The number of words of each sample, or where the first 0 of its mask is: the same where ones come first.
  Array ends = zeros(Type::i32, {batch});
  if (step.maybe(7) != nullptr) {
    const auto mask = step.numbers(7);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      const auto sample = i / static_cast<std::size_t>(length);
      if (mask[i] != 0 && ends.integers[sample] != static_cast<std::int64_t>(i % static_cast<std::size_t>(length)) &&
          step.gives(1))
        step.refuse("zeros before ones of a mask, for which its document gives two indices");
      ends.integers[sample] += mask[i] != 0;
    }
  }
  step.outputs = {normalised(step, layer_normalization, sum, &step.in(5), &step.in(6)), std::move(ends), Array{}};
  step.outputs[2] = std::move(sum);
}

namespace {

Array behind(Step& step, const Array* past, const Array& x) {
  return past == nullptr ? x : step.part(concat, {past, &x}, {{"axis", std::int64_t{2}}});
}

enum class Key : std::uint8_t { open, filled, closed };

// The addend of scores, [batch, 1, queries, keys]: 0, `filler` or minus infinity. Runtimes differ on rows to which no
// key is open: nothing is known of these.
Array mask_of(const Step& step, Type type, std::vector<Index> shape, double filler,
              const std::function<Key(Index sample, Index query, Index key)>& state) {
  Array mask = step.make(type, std::move(shape), 1);
  const Index queries = mask.shape[2], keys = mask.shape[3];
  auto row = mask.floats.begin();
  for (Index sample = 0; sample < mask.shape[0]; ++sample)
    for (Index query = 0; query < queries; ++query, row += keys) {
      bool any = false;
      for (Index key = 0; key < keys; ++key) {
        const Key found = state(sample, query, key);
        row[key] = found == Key::open ? 0 : found == Key::filled ? filler : -infinity;
        any = any || found == Key::open;
      }
      if (!any) std::fill_n(row, keys, unknown);
    }
  return mask;
}

// The keys that a mask of integers leaves: [batch] or [2 batch] ends and starts, [batch, keys], [batch, queries, keys].
std::function<bool(Index, Index, Index)> kept_by(const Step& step, std::size_t index, Index batch, Index queries,
                                                 Index keys) {
  if (step.maybe(index) == nullptr) return [](Index, Index, Index) { return true; };
  const auto shape = step.in(index).shape;
  auto given = step.numbers(index);
  const auto at = [given = std::move(given)](Index i) { return given[static_cast<std::size_t>(i)]; };
  if (shape == std::vector<Index>{batch}) return [=](Index b, Index, Index j) { return j < at(b); };
  if (shape == std::vector<Index>{2 * batch})
    return [=](Index b, Index, Index j) { return j < at(b) && j >= at(batch + b); };
  if (shape == std::vector<Index>{batch, keys}) return [=](Index b, Index, Index j) { return at(b * keys + j) > 0; };
  if (shape == std::vector<Index>{batch, queries, keys})
    return [=](Index b, Index i, Index j) { return at((b * queries + i) * keys + j) > 0; };
  step.refuse(fmt::format("a mask {} of {} samples, {} queries and {} keys", shape_text(shape), batch, queries, keys));
}

// Attention of q, k and v [batch, heads, length, width], with a mask as input `mask` and an addend of scores as input
// `bias`: [batch, queries, heads * width].
Array attended(Step& step, const Array& q, const Array& k, const Array& v, std::size_t mask, std::size_t bias) {
  const Index batch = q.shape[0], queries = q.shape[2], keys = k.shape[2], past = keys - queries;
  const bool causal = step.integer("unidirectional", 0) != 0;
  if (causal && past < 0) step.refuse(fmt::format("{} queries and {} keys in order", queries, keys));
  const auto kept = kept_by(step, mask, batch, queries, keys);
  Array added = mask_of(step, q.type, {batch, 1, queries, keys}, step.number("mask_filter_value", -10000),
                        [&](Index b, Index i, Index j) {
                          if (causal && j > past + i) return Key::closed;
                          return kept(b, i, j) ? Key::open : Key::filled;
                        });
  added = plus(step, added, step.maybe(bias));
  Attributes scaled;
  if (step.attribute("scale") != nullptr) scaled.emplace("scale", step.number("scale", 0));
  return out_of_heads(step, step.part(attention, {&q, &k, &v, &added}, std::move(scaled)));
}

}  // namespace

void multi_head_attention(Step& step) {
  for (const std::size_t index : {8, 9})
    if (step.maybe(index) != nullptr) step.refuse("buffers that are shared are not evaluated: leave these inputs out");
  const Index heads = step.integer("num_heads", 0);
  Array q = step.in(0), k = step.in(1), v = step.in(2);
  floats_alone(step, q);
  if (const Array* const bias = step.maybe(3)) {
    Index from = 0;
    for (Array* const one : {&q, &k, &v}) {
      if (one->rank() != 3) continue;  // keys and values of a cross attention have theirs
      const Array own = section(step, *bias, 0, from, one->shape[2]);
      *one = plus(step, *one, &own);
      from += one->shape[2];
    }
  }
  q = in_heads(step, q, heads);
  for (Array* const one : {&k, &v})
    if (one->rank() == 3) *one = in_heads(step, *one, heads);
  k = behind(step, step.maybe(6), k);
  v = behind(step, step.maybe(7), v);
  Array out = attended(step, q, k, v, 4, 5);
  step.outputs = {std::move(out), std::move(k), std::move(v)};
}

void projected_attention(Step& step) {
  if (step.integer("do_rotary", 0) != 0 || step.maybe(6) != nullptr ||
      step.integer("past_present_share_buffer", 0) != 0)
    step.refuse("rotary positions and buffers that are shared are not evaluated");
  const Array& weights = step.in(1);
  const Index heads = step.integer("num_heads", 0);
  const Array all = plus(step, step.part(matrix_product, {&step.in(0), &weights}, {}), step.maybe(2));
  if (all.rank() != 3) step.refuse(fmt::format("an input {}", shape_text(step.in(0).shape)));
  const auto widths = step.integers("qkv_hidden_sizes").value_or(std::vector<Index>(3, all.shape[2] / 3));
  if (widths.size() != 3 || widths[0] + widths[1] + widths[2] != all.shape[2])
    step.refuse(fmt::format("weights {} for {}", shape_text(weights.shape), shape_text(widths)));
  Array parts[3];
  Index from = 0;
  for (std::size_t i = 0; i < 3; from += widths[i++])
    parts[i] = in_heads(step, section(step, all, 2, from, widths[i]), heads);
  if (const Array* const past = step.maybe(4))
    for (const Index i : {0, 1}) {
      Array before = section(step, *past, 0, i, 1);
      before.shape.erase(before.shape.begin());
      Array& own = parts[1 + i];
      own = behind(step, &before, own);
    }
  step.outputs.push_back(attended(step, parts[0], parts[1], parts[2], 3, 5));
  if (!step.gives(1)) return;
  for (Array* const one : {&parts[1], &parts[2]}) one->shape.insert(one->shape.begin(), 1);
  step.outputs.push_back(step.part(concat, {&parts[1], &parts[2]}, {{"axis", std::int64_t{0}}}));
}

namespace {

// Heads [batch, heads, length, width] turned by tables of cosines and sines [positions, half], at positions [batch,
// length].
Array turned(Step& step, const Array& x, const Array& cosines, const Array& sines, const Array& positions,
             Index interleaved) {
  if (cosines.rank() != 2) step.refuse(fmt::format("cosines {}", shape_text(cosines.shape)));
  return step.part(rotary_embedding, {&x, &cosines, &sines, &positions},
                   {{"interleaved", interleaved}, {"rotary_embedding_dim", 2 * cosines.shape[1]}});
}

// The positions first + 0, 1, ... of each sample.
Array positions_from(const std::vector<Index>& first, Index length) {
  Array out = zeros(Type::i64, {static_cast<Index>(first.size()), length});
  for (std::size_t i = 0; i < out.integers.size(); ++i)
    out.integers[i] = first[i / static_cast<std::size_t>(length)] + static_cast<Index>(i) % length;
  return out;
}

}  // namespace

void turned_by_tables(Step& step) {
  const Array &x = step.in(0), &cosines = step.in(2);
  if (step.number("scale", 1) != 1 || step.integer("is_packed_batching", 0) != 0)
    step.refuse("a scale and packed batches are not evaluated");
  const bool flat = x.rank() == 3;
  Index heads = step.integer("num_heads", 0);
  if (flat && heads == 0 && cosines.rank() == 2 && cosines.shape[1] > 0) heads = x.shape[2] / (2 * cosines.shape[1]);
  const Array apart = flat ? in_heads(step, x, heads) : x;
  if (apart.rank() != 4) step.refuse(fmt::format("an input {}", shape_text(x.shape)));
  Array positions = step.in(1);
  if (positions.size() == 1)
    positions = positions_from(std::vector<Index>(static_cast<std::size_t>(apart.shape[0]), step.numbers(1).front()),
                               apart.shape[2]);
  const Array out = turned(step, apart, cosines, step.in(3), positions, step.integer("interleaved", 0));
  step.outputs.push_back(flat ? out_of_heads(step, out) : out);
}

namespace {

// Keys or values [batch, heads, capacity, width] of each sample: those of the past before row `start`, new ones from
// there on, `empty` from row `end` on.
Array in_cache(const Step& step, const Array* past, const Array& fresh, Index capacity,
               const std::vector<Index>& starts, const std::vector<Index>& ends, double empty) {
  const Index heads = fresh.shape[1], rows = fresh.shape[2], width = fresh.shape[3];
  Array out = step.make(fresh.type, {fresh.shape[0], heads, capacity, width},
                        std::max(fresh.lanes, past == nullptr ? 1 : past->lanes));
  for (Index l = 0; l < out.lanes; ++l)
    for (Index i = 0; i < fresh.shape[0] * heads; ++i) {
      const auto sample = static_cast<std::size_t>(i / heads);
      const auto to = out.lane(l).begin() + i * capacity * width;
      std::fill_n(to, capacity * width, empty);
      if (past != nullptr) std::copy_n(past->lane(l).begin() + i * past->shape[2] * width, starts[sample] * width, to);
      std::copy_n(fresh.lane(l).begin() + i * rows * width, (ends[sample] - starts[sample]) * width,
                  to + starts[sample] * width);
    }
  return out;
}

}  // namespace

void grouped_attention(Step& step) {
  if (step.number("softcap", 0) != 0 || step.integer("smooth_softmax", 0) > 0 || step.maybe(11) != nullptr)
    step.refuse("a softcap, a smooth softmax and sinks are not evaluated");
  if (step.integer("local_window_size", -1) > 0 || step.integer("sliding_window_cache", 0) != 0 ||
      step.integer("causal", 1) == 0)
    step.refuse("windows, and keys that are out of order, are not evaluated");
  if (step.maybe(9) != nullptr || step.integer("qk_output", 0) != 0)
    step.refuse("position_ids and scores are not evaluated: leave them out");
  for (const std::size_t index : {12, 13, 14, 15})
    if (step.maybe(index) != nullptr) step.refuse("quantised caches and norms within are not evaluated");
  const Index heads = step.integer("num_heads", 0), of_keys = step.integer("kv_num_heads", 0);
  Array q = step.in(0), k, v;
  floats_alone(step, q);
  if (q.rank() != 3 || heads < 1 || of_keys < 1) step.refuse(fmt::format("a query {}", shape_text(q.shape)));
  if (step.maybe(1) == nullptr) {
    const Array packed = q;
    const Index width = q.shape[2] / (heads + 2 * of_keys);
    q = section(step, packed, 2, 0, heads * width);
    k = section(step, packed, 2, heads * width, of_keys * width);
    v = section(step, packed, 2, (heads + of_keys) * width, of_keys * width);
  } else {
    k = step.in(1);
    v = step.in(2);
  }
  q = in_heads(step, q, heads);
  k = in_heads(step, k, of_keys);
  v = in_heads(step, v, of_keys);
  const Index batch = q.shape[0], rows = q.shape[2];
  const Index total = step.in(6).size() == 1 ? step.numbers(6).front() : -1;
  const Index before = step.maybe(3) == nullptr ? 0 : step.in(3).shape.at(2);
  // Tokens of a sample: `starts` are past, the new ones end at `ends`. The first prompt may have padding behind these.
  std::vector<Index> ends = step.numbers(5), starts;
  if (std::ssize(ends) != batch) step.refuse(fmt::format("{} lengths of {} samples", ends.size(), batch));
  for (Index& end : ends) {
    ++end;
    starts.push_back(total == rows ? 0 : end - rows);
    if (end < 1 || end > total || starts.back() < 0 || starts.back() > before)
      step.refuse(fmt::format("{} tokens of {}, {} of them new and at most {} past", end, total, rows, before));
  }
  if (step.integer("do_rotary", 0) != 0)
    for (Array* const one : {&q, &k})
      *one = turned(step, *one, step.in(7), step.in(8), positions_from(starts, rows),
                    step.integer("rotary_interleaved", 0));
  const Index capacity = std::max(before, total);
  const auto cached = [&](std::size_t past, const Array& fresh, double empty) {
    return in_cache(step, step.maybe(past), fresh, capacity, starts, ends, empty);
  };
  Array added = mask_of(step, q.type, {batch, 1, rows, capacity}, 0, [&](Index b, Index i, Index j) {
    const auto sample = static_cast<std::size_t>(b);
    const bool is_token = starts[sample] + i < ends[sample];
    return is_token && j <= starts[sample] + i ? Key::open : Key::closed;
  });
  added = plus(step, added, step.maybe(10));
  Attributes scaled;
  if (const double scale = step.number("scale", 0); scale != 0) scaled.emplace("scale", scale);
  const Array keys = cached(3, k, 0), values = cached(4, v, 0);
  step.outputs.push_back(out_of_heads(step, step.part(attention, {&q, &keys, &values, &added}, std::move(scaled))));
  // The contents of a cache past a sample's tokens are not said.
  if (step.gives(1) || step.gives(2)) {
    step.outputs.push_back(cached(3, k, unknown));
    step.outputs.push_back(cached(4, v, unknown));
  }
}

void product_of_packed_bits(Step& step) {
  const Array& a = step.in(0);
  floats_alone(step, a);
  const Index k = step.integer("K", 0), n = step.integer("N", 0), bits = step.integer("bits", 4);
  const Index block = step.integer("block_size", 0);
  if (k < 1 || n < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8))
    step.refuse(fmt::format("K {}, N {}, {} bits in blocks of {}", k, n, bits, block));
  if (step.integer("accuracy_level", 0) > 1)
    step.refuse("an input that may be rounded before it is multiplied is not evaluated: accuracy_level 0 and 1 are");
  if (step.maybe(4) != nullptr || step.integer("weight_prepacked", 0) != 0)
    step.refuse("g_idx and weights in a layout of a provider are not evaluated");
  const Index blocks = (k + block - 1) / block, each = 8 / bits;
  // Number `i` of a row of packed ones, the lowest bits first.
  const auto packed = [&](std::span<const std::int64_t> bytes, Index row, Index i, Index count) {
    const auto byte =
        static_cast<std::uint64_t>(bytes[static_cast<std::size_t>(row * ((count + each - 1) / each) + i / each)]);
    return static_cast<double>(byte >> (i % each * bits) & ((1U << bits) - 1));
  };
  const auto check = [&](std::size_t index, Type type, Index count) {
    if (step.in(index).type != type || step.in(index).size() != count)
      step.refuse(fmt::format("input {} is {} {}", index, name(step.in(index).type), shape_text(step.in(index).shape)));
  };
  const Index stored = blocks * block;  // numbers of a row, its last block filled up
  check(1, Type::u8, n * ((stored + each - 1) / each));
  check(2, a.type, n * blocks);
  const Array* const zero = step.maybe(3);
  const bool integral = zero != nullptr && !is_floating(zero->type);
  if (zero != nullptr) check(3, integral ? Type::u8 : a.type, n * (integral ? (blocks + each - 1) / each : blocks));
  const auto weights = step.numbers(1), zeros_packed = integral ? step.numbers(3) : std::vector<Index>();
  // Weights are [k, n], like the scales and zero points that are no integers.
  Array q = step.make(a.type, {k, n}, 1);
  for (Index row = 0; row < n; ++row)
    for (Index i = 0; i < k; ++i) {
      const double point = integral          ? packed(zeros_packed, row, i / block, blocks)
                           : zero == nullptr ? std::ldexp(1, static_cast<int>(bits) - 1)
                                             : 0;
      q.floats[static_cast<std::size_t>(i * n + row)] = packed(weights, row, i, stored) - point;
    }
  const auto spread_out = [&](const Array& of_blocks) {
    Array apart = of_blocks;
    apart.shape = {n, blocks, 1};
    apart = broadcast_to(step, apart, {n, blocks, block});
    apart.shape = {n, stored};
    return transposed(step, section(step, apart, 1, 0, k), std::vector<Index>{1, 0});
  };
  if (zero != nullptr && !integral) {
    const Array points = spread_out(*zero);
    q = step.part(subtract, {&q, &points}, {});
  }
  const Array scales = spread_out(step.in(2));
  const Array b = step.part(multiply, {&q, &scales}, {});
  step.outputs.push_back(plus(step, step.part(matrix_product, {&a, &b}, {}), step.maybe(5)));
}

}  // namespace attest::graph
