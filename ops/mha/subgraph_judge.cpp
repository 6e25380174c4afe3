#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "core/policy.hpp"
#include "ops/mha/parts.hpp"
#include "ops/mha/subgraph_places.hpp"
#include "oracle/mha/mha.hpp"

namespace attest::ops::of_mha {
namespace {

using graph::Array;
using of_attention::SpeltCall;
using std::size_t;

constexpr double most_multiply_adds = 1 << 28;

// ---- what a runtime promises

// No runtime says which tensors between its operators it rounds to their type. In 32 and 64 bits each choice is an
// order of a sum, or one that f32 permits anyhow. In 16 bits, taken literally, any of them may be rounded or not:
// operands that are rounded from f32 hold every choice, a product that is rounded before its bias (docs/graphs.md,
// section 6). Under `inner=f32` none is rounded.
Contract contract_of(const graph::Precision& precision, Format storage, Format softmax) {
  const Format inner = precision.computed(storage);
  Contract contract;
  contract.attention = of_attention::contract_of(precision, storage, softmax);
  contract.gemm = graph::accumulator_of(inner);
  if (is_short(inner)) contract.attention.policy.set(Stage::storage, Format::f32);
  if (inner == storage) return contract;
  std::ranges::fill(contract.projections, false);
  contract.projections[static_cast<size_t>(attest::mha::Projected::unrounded)] = true;
  contract.heads_rounded = false;
  contract.heads_unrounded = true;
  return contract;
}

// ---- the block as the operation has it

// A number for each kind of list, in the order in which kinds come.
template <class Key>
std::vector<Index> kinds_of(const std::vector<Key>& keys, Index& count) {
  std::map<Key, Index> known;
  std::vector<Index> kinds;
  for (const Key& key : keys) kinds.push_back(known.emplace(key, static_cast<Index>(known.size())).first->second);
  count = static_cast<Index>(known.size());
  return kinds;
}

// The parts of a block's call.
struct Parts {
  Source q, k, v;
  Linear out;
  Core core;
  Index batch = 0, heads = 0;
  std::vector<Index> sample_of;  // [batch, heads]: which of attention's
  std::vector<Index> row_of;     // [batch, rows]: which of the output
  std::vector<Index> column_of;  // [heads, dv]: which of what is projected last; -1 for none
};

class Call {
 public:
  Call(const Block& block, const NumbersOfValues& numbers, const Array& got, const graph::Precision& precision)
      : block_(block), numbers_(numbers), got_(got), precision_(precision) {}

  SubgraphVerdict verdict();

 private:
  using Reason = std::optional<std::string>;
  Reason read();
  Reason read_source(const Projection& from, const Moves& moves, char which, Index rows, Index width, Source& source);
  Reason find_heads();
  Reason find_merge();
  void make();
  void make_masks();
  [[nodiscard]] attest::mha::Call call_at(double scale) const;
  Verdict judged(double scale);
  [[nodiscard]] bool may_overflow() const;
  bool folds_of_scale_pass(double scale);
  void set_weights(Tensor& w, Tensor& b, const Source& source, Index first, double factor) const;

  const Block& block_;
  const NumbersOfValues& numbers_;
  const Array& got_;
  const graph::Precision& precision_;
  Parts parts_;
  Contract contract_;
  Index width_ = 0, head_dim_ = 0, v_first_ = 0;
  Tensor x_, memory_, w_q_, w_k_, w_v_, w_out_, b_q_, b_k_, b_v_, b_out_, bias_, keep_, out_;
};

Call::Reason Call::read_source(const Projection& from, const Moves& moves, char which, Index rows, Index width,
                               Source& source) {
  auto linear = linear_of(from, numbers_, got_.type);
  const Array& result = numbers_.at(from.result);
  if (!linear || result.size() != linear->tokens * linear->outputs || result.shape.back() != linear->outputs)
    return "its projections are none of a matrix and a row";
  source.linear = *std::move(linear);
  source.rows = rows;
  source.width = width;
  const auto places = moved(moves, numbers_, numbered(result.shape));
  auto all = places ? read_as(block_, parts_.core.call, *places, which) : std::nullopt;
  if (!all || static_cast<Index>(all->size()) != parts_.core.call.samples * rows * width)
    return "its projections do not become heads";
  source.places = *std::move(all);
  if (!source.is_regular(parts_.core.call.samples)) return "its rows are not tokens";
  return std::nullopt;
}

Call::Reason Call::read() {
  if (got_.size() == 0) return "it is too large, or empty";
  parts_.core = core_of(block_, numbers_);
  const SpeltCall& call = parts_.core.call;
  if (!call.unjudged.empty()) return call.unjudged;
  if (call.format != graph::format_of(got_.type)) return "its tensors are of several types";
  if (auto no = read_source(block_.q, block_.to_q, 'q', call.rows, call.d, parts_.q)) return no;
  if (auto no = read_source(block_.k, block_.to_k, 'k', call.keys, call.d, parts_.k)) return no;
  if (auto no = read_source(block_.v, block_.to_v, 'v', call.keys, call.dv, parts_.v)) return no;
  auto out = linear_of(block_.out, numbers_, got_.type);
  if (!out || got_.size() != out->tokens * out->outputs || got_.shape.back() != out->outputs)
    return "its projections are none of a matrix and a row";
  parts_.out = *std::move(out);
  const auto size = [](Index n) { return static_cast<double>(n); };
  double work = 2 * size(call.samples * call.rows) * size(call.keys) * size(call.d + call.dv);
  for (const Linear* one : {&parts_.q.linear, &parts_.k.linear, &parts_.v.linear, &parts_.out})
    work += size(one->tokens) * size(one->inputs) * size(one->outputs);
  if (work > most_multiply_adds) return "it is too large, or empty";
  if (auto no = find_heads()) return no;
  return find_merge();
}

// Samples that attend to the same tokens are heads of one, and those of the same columns are one head.
Call::Reason Call::find_heads() {
  using Lists = std::tuple<std::vector<Index>, std::vector<Index>, std::vector<Index>>;
  std::vector<Lists> tokens, columns;
  const Index samples = parts_.core.call.samples;
  for (Index s = 0; s < samples; ++s) {
    tokens.emplace_back(parts_.q.tokens(s), parts_.k.tokens(s), parts_.v.tokens(s));
    columns.emplace_back(parts_.q.columns(s), parts_.k.columns(s), parts_.v.columns(s));
  }
  const std::vector<Index> batches = kinds_of(tokens, parts_.batch), heads = kinds_of(columns, parts_.heads);
  parts_.sample_of.assign(static_cast<size_t>(parts_.batch * parts_.heads), -1);
  for (Index s = 0; s < samples; ++s)
    parts_.sample_of[static_cast<size_t>(batches[static_cast<size_t>(s)] * parts_.heads +
                                         heads[static_cast<size_t>(s)])] = s;
  if (std::ranges::find(parts_.sample_of, -1) != parts_.sample_of.end() || samples != parts_.batch * parts_.heads)
    return "its heads are not those of all tokens";
  return std::nullopt;
}

Call::Reason Call::find_merge() {
  const SpeltCall& call = parts_.core.call;
  Array places = numbered(numbers_.at(block_.heads).shape);
  std::copy(parts_.core.order.begin(), parts_.core.order.end(), places.integers.begin());
  const auto merged = moved(block_.to_out, numbers_, std::move(places));
  const Linear& out = parts_.out;
  const std::string other = "its heads are not joined token by token";
  if (!merged || merged->size() != out.tokens * out.inputs || out.tokens != parts_.batch * call.rows) return other;
  std::vector<Index> batch_of(static_cast<size_t>(call.samples)), head_of(static_cast<size_t>(call.samples));
  for (Index n = 0; n < call.samples; ++n) {
    const auto s = static_cast<size_t>(parts_.sample_of[static_cast<size_t>(n)]);
    batch_of[s] = n / parts_.heads;
    head_of[s] = n % parts_.heads;
  }
  parts_.row_of.assign(static_cast<size_t>(parts_.batch * call.rows), -1);
  parts_.column_of.assign(static_cast<size_t>(parts_.heads * call.dv), -1);
  for (Index t = 0; t < out.tokens; ++t)
    for (Index m = 0; m < out.inputs; ++m) {
      const Index place = merged->integers[static_cast<size_t>(t * out.inputs + m)], c = place % call.dv,
                  row = place / call.dv % call.rows;
      const auto s = static_cast<size_t>(place / call.dv / call.rows);
      Index& of_row = parts_.row_of[static_cast<size_t>(batch_of[s] * call.rows + row)];
      Index& of_column = parts_.column_of[static_cast<size_t>(head_of[s] * call.dv + c)];
      if (m == 0 && of_row < 0) of_row = t;
      if (t == 0 && of_column < 0) of_column = m;
      if (of_row != t || of_column != m) return other;
    }
  return std::nullopt;
}

// Rows `first` and on of x are the projection's own inputs.
void Call::set_weights(Tensor& w, Tensor& b, const Source& source, Index first, double factor) const {
  const Index rows = parts_.heads * head_dim_;
  const DType type = dtype_of(parts_.core.call.format);
  const Format computed = precision_.computed(parts_.core.call.format);
  w = packed_tensor(std::vector<double>(static_cast<size_t>(rows * width_)), type, std::array{rows, width_});
  b = packed_tensor(std::vector<double>(static_cast<size_t>(rows)), type, std::array{rows});
  const auto folded = [&](double x) { return factor == 1 ? x : round_to(computed, x * factor); };
  for (Index h = 0; h < parts_.heads; ++h) {
    const std::vector<Index> columns = source.columns(parts_.sample_of[static_cast<size_t>(h)]);
    for (Index c = 0; c < source.width; ++c) {
      const Index column = columns[static_cast<size_t>(c)];
      for (Index n = 0; n < source.linear.inputs; ++n)
        w.set(h * head_dim_ + c, first + n, 0, 0,
              folded(source.linear.weight[static_cast<size_t>(column * source.linear.inputs + n)]));
      b.set(h * head_dim_ + c, 0, 0, 0, folded(source.linear.bias[static_cast<size_t>(column)]));
      // A result below the normal numbers is off by half of the least one when rounded, however small its terms are.
      // The oracle grants that to a weight of 1, which meets a column of zeros.
      w.set(h * head_dim_ + c, width_ - 1, 0, 0, is_short(computed) ? 1 : 0);
    }
  }
}

void Call::make() {
  const SpeltCall& call = parts_.core.call;
  const DType type = dtype_of(call.format);
  const Linear &of_q = parts_.q.linear, &of_k = parts_.k.linear, &of_v = parts_.v.linear, &of_out = parts_.out;
  bool one_memory = of_k.x == of_v.x;
  for (Index b = 0; one_memory && b < parts_.batch; ++b) {
    const Index sample = parts_.sample_of[static_cast<size_t>(b * parts_.heads)];
    one_memory = parts_.k.tokens(sample) == parts_.v.tokens(sample);
  }
  // Keys and values of other tokens lie beside each other in memory; zeros meet what is not a projection's own.
  v_first_ = one_memory ? 0 : of_k.inputs;
  width_ = std::max({of_q.inputs, v_first_ + of_v.inputs, of_k.inputs, of_out.outputs}) + 1;
  head_dim_ = std::max(call.d, call.dv);
  const auto tokens = [&](Index rows) {
    const std::array shape{parts_.batch, rows, width_};
    return packed_tensor(std::vector<double>(static_cast<size_t>(product_of(shape))), type, shape);
  };
  const auto fill = [&](Tensor& to, const Source& source, Index first) {
    for (Index b = 0; b < parts_.batch; ++b) {
      const std::vector<Index> rows = source.tokens(parts_.sample_of[static_cast<size_t>(b * parts_.heads)]);
      for (Index i = 0; i < source.rows; ++i)
        for (Index c = 0; c < source.linear.inputs; ++c)
          to.set(b, i, first + c, 0, source.linear.at(rows[static_cast<size_t>(i)], c));
    }
  };
  x_ = tokens(call.rows);
  memory_ = tokens(call.keys);
  fill(x_, parts_.q, 0);
  fill(memory_, parts_.k, 0);
  if (!one_memory) fill(memory_, parts_.v, v_first_);
  set_weights(w_q_, b_q_, parts_.q, 0, 1);
  set_weights(w_k_, b_k_, parts_.k, 0, 1);
  set_weights(w_v_, b_v_, parts_.v, v_first_, 1);

  // Rows past those of the graph repeat its first one.
  const Index q_width = parts_.heads * head_dim_;
  w_out_ = packed_tensor(std::vector<double>(static_cast<size_t>(width_ * q_width)), type, std::array{width_, q_width});
  b_out_ = packed_tensor(std::vector<double>(static_cast<size_t>(width_)), type, std::array{width_});
  out_ = tokens(call.rows);
  for (Index e = 0; e < width_; ++e) {
    const Index from = e < of_out.outputs ? e : 0;
    b_out_.set(e, 0, 0, 0, of_out.bias[static_cast<size_t>(from)]);
    for (Index h = 0; h < parts_.heads; ++h)
      for (Index c = 0; c < call.dv; ++c)
        if (const Index column = parts_.column_of[static_cast<size_t>(h * call.dv + c)]; column >= 0)
          w_out_.set(e, h * head_dim_ + c, 0, 0, of_out.weight[static_cast<size_t>(from * of_out.inputs + column)]);
    for (Index b = 0; b < parts_.batch; ++b)
      for (Index i = 0; i < call.rows; ++i)
        out_.set(b, i, e, 0,
                 got_.floats[static_cast<size_t>(
                     parts_.row_of[static_cast<size_t>(b * call.rows + i)] * of_out.outputs + from)]);
  }
  make_masks();
}

void Call::make_masks() {
  const SpeltCall& call = parts_.core.call;
  const std::array shape{parts_.batch, parts_.heads, call.rows, call.keys};
  const auto by_heads = [&](const std::vector<double>& numbers, DType type) {
    Tensor made(type, shape);
    for_each_index(shape, [&](Index b, Index h, Index i, Index j) {
      const Index sample = parts_.sample_of[static_cast<size_t>(b * parts_.heads + h)];
      made.set(b, h, i, j, numbers[static_cast<size_t>((sample * call.rows + i) * call.keys + j)]);
    });
    return made;
  };
  if (call.bias) bias_ = by_heads(*call.bias, dtype_of(call.bias_format));
  if (parts_.core.keep) keep_ = by_heads(*parts_.core.keep, DType::boolean);
  if (!block_.spelt || !block_.spelt->choice) return;
  const auto placed = [](const Source& source, bool magnitudes) {
    const std::vector<double> all = products_of(source.linear, magnitudes);
    std::vector<double> numbers;
    for (const double place : source.places) numbers.push_back(all[static_cast<size_t>(place)]);
    return numbers;
  };
  const std::vector<double> q = placed(parts_.q, false), k = placed(parts_.k, false), q_sizes = placed(parts_.q, true),
                            k_sizes = placed(parts_.k, true);
  // Projections in 16 bits are off by a few roundings of the products' magnitudes, beside the errors of the scores.
  keep_ = by_heads(of_attention::kept(*block_.spelt->choice, call, {q, k, q_sizes, k_sizes, 10}), DType::boolean);
}

attest::mha::Call Call::call_at(double scale) const {
  attest::mha::Call call{};
  call.x = x_.view();
  call.memory = memory_.view();
  call.w_q = w_q_.view();
  call.w_k = w_k_.view();
  call.w_v = w_v_.view();
  call.w_out = w_out_.view();
  call.b_q = b_q_.view();
  call.b_k = b_k_.view();
  call.b_v = b_v_.view();
  call.b_out = b_out_.view();
  call.bias = bias_.view();
  call.keep = keep_.view();
  call.out = out_.view();
  call.heads = call.kv_heads = parts_.heads;
  call.head_dim = head_dim_;
  call.causal = parts_.core.causal;
  call.scale = scale;
  return call;
}

Verdict Call::judged(double scale) {
  const attest::mha::Call call = call_at(scale);
  return oracle::MhaOracle(contract_, call).judge(out_);
}

// Tells whether a product may be infinite in its type before its bias is added.
bool Call::may_overflow() const {
  const SpeltCall& call = parts_.core.call;
  if (precision_.computed(call.format) != Format::f16) return false;
  const double most = overflow_threshold(Format::f16) / 2;
  double largest = 0;
  for (const Source* one : {&parts_.q, &parts_.k, &parts_.v}) {
    const std::vector<double> sizes = products_of(one->linear, true);
    for (const double size : sizes)
      if (!(size < most)) return true;
    if (one == &parts_.v) largest = *std::ranges::max_element(sizes);
  }
  for (Index e = 0; e < parts_.out.outputs; ++e) {
    double size = std::fabs(parts_.out.bias[static_cast<size_t>(e)]);
    for (Index c = 0; c < parts_.out.inputs; ++c)
      size += largest * std::fabs(parts_.out.weight[static_cast<size_t>(e * parts_.out.inputs + c)]);
    if (!(size < most)) return true;
  }
  return false;
}

// A compiler of graphs may multiply the weights of q, or of k, or of both by the scale beforehand, in place of the
// projections' results.
bool Call::folds_of_scale_pass(double scale) {
  if (!block_.spelt || scale == 1) return false;
  const double root = std::sqrt(std::fabs(scale));
  const Format computed = precision_.computed(parts_.core.call.format);
  // The factor as it is, or as one over a number of this format.
  const auto others = [&](double factor) {
    return std::array{factor, round_to(computed, 1 / round_to(computed, 1 / factor))};
  };
  const auto passes = [&](double of_q, double of_k, double rest) {
    set_weights(w_q_, b_q_, parts_.q, 0, of_q);
    set_weights(w_k_, b_k_, parts_.k, 0, of_k);
    return judged(rest).kind != VerdictKind::fail;
  };
  bool passed = false;
  for (const double factor : others(scale)) passed = passed || passes(factor, 1, 1) || passes(1, factor, 1);
  for (const double factor : others(root)) passed = passed || (scale > 0 && passes(factor, factor, 1));
  set_weights(w_q_, b_q_, parts_.q, 0, 1);
  set_weights(w_k_, b_k_, parts_.k, 0, 1);
  return passed;
}

SubgraphVerdict Call::verdict() {
  if (auto no = read()) return unjudged(*std::move(no));
  if (may_overflow()) return unjudged("a product may be infinite before its bias is added");
  const SpeltCall& call = parts_.core.call;
  contract_ = contract_of(precision_, call.format, call.softmax);
  make();
  SubgraphVerdict told;
  const attest::Contract said = of_attention::contract_of(precision_, call.format, call.softmax);
  told.bound = fmt::format("an attention block of {} head{}, policy {}", parts_.heads, parts_.heads == 1 ? "" : "s",
                           attest::to_text(said.policy));
  told.verdict = judged(call.scale);
  // Counts leave out the rows that repeat another.
  told.verdict.counts.judged = told.verdict.counts.judged * parts_.out.outputs / width_;
  told.verdict.counts.wide = told.verdict.counts.wide * parts_.out.outputs / width_;
  told.verdict.counts.undetermined = told.verdict.counts.undetermined * parts_.out.outputs / width_;
  if (told.verdict.kind != VerdictKind::fail) return told;
  const auto& evidence = told.verdict.evidence;
  // A sum that is rounded below the normal numbers before its bias is added.
  constexpr double few_steps = 0x1p-22;
  if (precision_.computed(call.format) == Format::f16 && evidence && evidence->wrong == Wrong::finite &&
      evidence->got > evidence->lo - few_steps && evidence->got < evidence->hi + few_steps)
    return unjudged("an element is off by a few of the least numbers of its type");
  if (folds_of_scale_pass(call.scale)) {
    told.verdict = Verdict::pass(told.verdict.counts);
    return told;
  }
  if (evidence) {
    const auto [b, i, e, none] = evidence->index;
    told.element =
        parts_.row_of[static_cast<size_t>(b * call.rows + i)] * parts_.out.outputs + (e < parts_.out.outputs ? e : 0);
  }
  return told;
}

}  // namespace

SubgraphVerdict verdict_on(const Block& block, const NumbersOfValues& numbers, const Array& got,
                           const graph::Precision& precision) {
  return Call(block, numbers, got, precision).verdict();
}

}  // namespace attest::ops::of_mha
