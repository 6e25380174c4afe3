#include "ops/reading.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "ops/attention/parts.hpp"
#include "ops/mha/parts.hpp"
#include "oracle/mha/mha.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Inputs;
using attest::mha::Projected;
using oracle::MhaOracle;

constexpr auto coordinates_of_out = std::to_array<std::string_view>({"sample", "token", "column"});

// ---- the call, read otherwise ---------------------------------------------------------------------------------------

template <Tensor Inputs::*... members>
bool without(Inputs& in) {
  const bool any = ((in.*members).present() || ...);
  ((in.*members = Tensor()), ...);
  return any;
}
// Rows of the three projections, and their biases, taken from elsewhere: from(projection, row) gives both.
template <class From>
bool taken(Inputs& in, From from) {
  const attest::mha::Problem& p = in.problem;
  Tensor Inputs::*const weights[] = {&Inputs::w_q, &Inputs::w_k, &Inputs::w_v};
  Tensor Inputs::*const biases[] = {&Inputs::b_q, &Inputs::b_k, &Inputs::b_v};
  Tensor w[3], b[3];
  for (int projection = 0; projection < 3; ++projection) {
    const Index rows = projection == 0 ? p.q_width() : p.kv_width();
    w[projection] = Tensor((in.w_q).dtype(), std::array{rows, p.e});
    if (p.has_in_biases()) b[projection] = Tensor(in.w_q.dtype(), std::array{rows});
    for (Index row = 0; row < rows; ++row) {
      const auto [of, at] = from(projection, row);
      for (Index c = 0; c < p.e; ++c) w[projection].set(row, c, 0, 0, (in.*weights[of]).at(at, c));
      if (p.has_in_biases()) b[projection].set(row, 0, 0, 0, (in.*biases[of]).at(at));
    }
  }
  for (int projection = 0; projection < 3; ++projection) {
    in.*weights[projection] = std::move(w[projection]);
    in.*biases[projection] = std::move(b[projection]);
  }
  return true;
}
// Each of the three read as another.
template <int q, int k, int v>
bool exchanged(Inputs& in) {
  const bool alike = in.problem.heads == in.problem.kv_heads;
  if (!alike && q != 0) return false;
  constexpr int of[] = {q, k, v};
  return taken(in, [&](int projection, Index row) { return std::pair{of[projection], row}; });
}
// The packed rows, [3, heads, head_dim], read as [heads, 3, head_dim].
bool interleaved(Inputs& in) {
  const attest::mha::Problem& p = in.problem;
  if (p.heads != p.kv_heads || p.heads < 2) return false;
  return taken(in, [&](int projection, Index row) {
    const Index at = (row / p.head_dim * 3 + projection) * p.head_dim + row % p.head_dim;
    return std::pair{static_cast<int>(at / p.q_width()), at % p.q_width()};
  });
}

// The rows of each projection, [heads, head_dim], read as [head_dim, heads].
bool heads_inside(Inputs& in) {
  const attest::mha::Problem& p = in.problem;
  if (p.heads < 2 || p.head_dim < 2) return false;
  return taken(in, [&](int projection, Index row) {
    const Index heads = projection == 0 ? p.heads : p.kv_heads;
    return std::pair{projection, row % p.head_dim * heads + row / p.head_dim};
  });
}
// Query head h reads key/value head h modulo their number: as many of these as heads, each where it is read.
bool key_heads_in_turn(Inputs& in) {
  const Index width = in.problem.kv_width();
  if (in.problem.kv_heads < 2 || in.problem.kv_heads == in.problem.heads) return false;
  in.problem.kv_heads = in.problem.heads;
  return taken(in, [&](int projection, Index row) {
    return std::pair{projection, projection == 0 ? row : row % width};
  });
}
bool out_transposed(Inputs& in) {
  const Index e = in.problem.e, width = in.problem.q_width();
  if (e < 2 || width < 2) return false;
  Tensor read(in.w_out.dtype(), in.w_out.shape());
  for (Index row = 0; row < e; ++row)
    for (Index c = 0; c < width; ++c) {
      const Index at = c * e + row;
      read.set(row, c, 0, 0, in.w_out.at(at / width, at % width));
    }
  in.w_out = std::move(read);
  return true;
}

bool rescaled(Inputs& in, double scale) {
  if (scale == in.problem.effective_scale() || !std::isfinite(scale)) return false;
  in.problem.scale = scale;
  return true;
}

// Tokens where they would lie with other strides, as far as the memory of the tensor goes.
bool read_again(Tensor& to, bool tokens_first) {
  if (!to.present()) return false;
  const attest_tensor tensor = to.view();
  const std::array<Index, 3> n{tensor.shape[0], tensor.shape[1], tensor.shape[2]};
  const std::array<Index, 3> strides =
      tokens_first ? std::array<Index, 3>{n[2], n[0] * n[2], 1} : std::array<Index, 3>{n[1] * n[2], n[2], 1};
  Index reach = 0, other = 0;
  bool differs = false;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    reach += (n[axis] - 1) * tensor.strides[axis];
    other += (n[axis] - 1) * strides[axis];
    differs = differs || (n[axis] > 1 && strides[axis] != tensor.strides[axis]);
  }
  if (!differs || other > reach) return false;
  attest_tensor again = tensor;
  std::array<std::int64_t, 3> own{strides[0], strides[1], strides[2]};
  again.strides = own.data();
  Tensor read(to.dtype(), n);
  for (Index b = 0; b < n[0]; ++b)
    for (Index i = 0; i < n[1]; ++i)
      for (Index c = 0; c < n[2]; ++c) read.set(b, i, c, 0, load(again, b, i, c));
  to = std::move(read);
  return true;
}
template <bool tokens_first>
bool tokens_read_again(Inputs& in) {
  const bool x = read_again(in.x, tokens_first), memory = read_again(in.memory, tokens_first);
  return x || memory;
}
// Tokens that lay before samples where they came from, which a packed copy does not show any more, read in that order
// as if they lay behind them.
bool tokens_taken_in_turn(Inputs& in) {
  bool any = false;
  for (Tensor Inputs::*member : {&Inputs::x, &Inputs::memory}) {
    const Tensor& from = in.*member;
    if (!from.present()) continue;
    const Index samples = from.shape()[0], tokens = from.shape()[1], width = from.shape()[2];
    if (samples < 2 || tokens < 2 || from.strides()[1] != width || from.strides()[0] != tokens * width) continue;
    Tensor read(from.dtype(), from.shape());
    for (Index s = 0; s < samples; ++s)
      for (Index i = 0; i < tokens; ++i) {
        const Index at = s * tokens + i;
        for (Index c = 0; c < width; ++c) read.set(s, i, c, 0, from.at(at % samples, at / samples, c));
      }
    in.*member = std::move(read);
    any = true;
  }
  return any;
}
bool of_first_sample(Inputs& in) {
  if (in.problem.b < 2) return false;
  for (Tensor Inputs::*member : {&Inputs::x, &Inputs::memory}) {
    const Tensor& from = in.*member;
    if (!from.present()) continue;
    Tensor read(from.dtype(), from.shape());
    for (Index b = 0; b < from.shape()[0]; ++b)
      for (Index i = 0; i < from.shape()[1]; ++i)
        for (Index c = 0; c < from.shape()[2]; ++c) read.set(b, i, c, 0, from.at(0, i, c));
    in.*member = std::move(read);
  }
  return true;
}

struct Variant {
  std::string_view words, stage;
  bool (*apply)(Inputs&);
};
constexpr auto variants = std::to_array<Variant>({
    {"the biases of q, k and v ignored", "q", without<&Inputs::b_q, &Inputs::b_k, &Inputs::b_v>},
    {"b_q ignored", "q", without<&Inputs::b_q>},
    {"b_k ignored", "k", without<&Inputs::b_k>},
    {"b_v ignored", "v", without<&Inputs::b_v>},
    {"b_out ignored", "out", without<&Inputs::b_out>},
    {"the packed projection read head by head", "q", interleaved},
    {"q and k taken for each other", "q", exchanged<1, 0, 2>},
    {"k and v taken for each other", "k", exchanged<0, 2, 1>},
    {"q and v taken for each other", "q", exchanged<2, 1, 0>},
    {"q, k, v taken for k, v, q", "q", exchanged<1, 2, 0>},
    {"q, k, v taken for v, q, k", "q", exchanged<2, 0, 1>},
    {"causality ignored", "mask", [](Inputs& in) { return std::exchange(in.problem.causal, false); }},
    {"the diagonal measured from the other corner", "mask",
     [](Inputs& in) {
       if (!in.problem.causal) return false;
       in.problem.align = in.problem.align == Align::top_left ? Align::bottom_right : Align::top_left;
       return true;
     }},
    {"the keep mask ignored", "mask", without<&Inputs::keep>},
    {"key lengths ignored", "mask", without<&Inputs::kv_lengths>},
    {"the bias of scores ignored", "score", without<&Inputs::bias>},
    {"the scale ignored", "scale", [](Inputs& in) { return rescaled(in, 1); }},
    {"the scale applied twice", "scale",
     [](Inputs& in) {
       const double scale = in.problem.effective_scale();
       return rescaled(in, scale * scale);
     }},
    {"1/sqrt(head_dim) whatever the scale", "scale",
     [](Inputs& in) { return rescaled(in, 1 / std::sqrt(static_cast<double>(in.problem.head_dim))); }},
    {"1/sqrt(e) as the scale", "scale",
     [](Inputs& in) { return rescaled(in, 1 / std::sqrt(static_cast<double>(in.problem.e))); }},
    {"tokens read as if samples came before them, without gaps", "reading", tokens_read_again<false>},
    {"tokens read as if they came before samples", "reading", tokens_read_again<true>},
    {"tokens that came before samples read as if they lay behind them", "reading", tokens_taken_in_turn},
    {"rows of the projections read as [head_dim, heads]", "reading", heads_inside},
    {"head h reading key/value head h modulo their number", "reading", key_heads_in_turn},
    {"w_out read as [width, e]", "reading", out_transposed},
    {"the tokens of sample 0 for every sample", "reading", of_first_sample},
});

// ---- what else may have been promised -------------------------------------------------------------------------------

class Departures : public DeparturesOf<Contract> {
 public:
  explicit Departures(const Contract& declared) : DeparturesOf(declared, attest::mha::check) {}

  void add_own() {
    using enum Departure::Kind;
    add(number, "projections", "q", 1, "projections rounded before their bias, or left unrounded (projections)",
        [](Contract& c) { std::fill_n(c.projections, attest::mha::projected_count, true); });
    add(number, "heads", "heads", 1, "the heads rounded or left unrounded (heads)",
        [](Contract& c) { c.heads_rounded = c.heads_unrounded = true; });
    add(number, "gemm_chain", "gemm", 1, "products summed one by one (gemm_chain)",
        [](Contract& c) { c.gemm_chain.reset(); });
    for (const Format format : stored_finest_first)
      if (narrower(format, declared_.gemm))
        add(Departure::Kind::format, "gemm", "gemm", precision(declared_.gemm) - precision(format),
            fmt::format("the sums of the projections in {} (gemm={})", attest::name(format), attest::name(format)),
            [&](Contract& c) { c.gemm = format; });
  }
  // Adds the departures of its heads' attention.
  void add_of_attention() {
    for (Departure& of : of_attention::contract_departures(declared_.attention))
      add(of.kind, of.group, of.stage, of.size, std::move(of.words),
          [&](Contract& c) { c.attention = of.contract.as<attest::Contract>(); });
  }
};

// ---- the reading ----------------------------------------------------------------------------------------------------

class MhaReading final : public Reading {
 public:
  explicit MhaReading(const attest_mha& abi) {
    const attest::mha::Call call = attest::mha::from_plugin(abi);
    attest::mha::Problem& p = inputs_.problem;
    p.b = call.b();
    p.l = call.l();
    p.m = call.m();
    p.e = call.e();
    p.heads = call.heads;
    p.kv_heads = call.kv_heads;
    p.head_dim = call.head_dim;
    p.dtype = format_of(dtype_of(call.x.dtype).value());
    p.self = !attest_present(&abi.memory);
    if (!call.scale_is_default) p.scale = call.scale;
    p.causal = call.causal;
    p.align = call.align;
    const bool in = attest_present(&call.b_q), out = attest_present(&call.b_out);
    using attest::mha::Biases;
    p.biases = in ? out ? Biases::all : Biases::in : out ? Biases::out : Biases::none;
    inputs_.x = copied_as_it_lies(call.x);
    inputs_.memory = copied_as_it_lies(abi.memory);
    for (const auto& [to, from] : {std::pair{&Inputs::w_q, &call.w_q},
                                   {&Inputs::w_k, &call.w_k},
                                   {&Inputs::w_v, &call.w_v},
                                   {&Inputs::w_out, &call.w_out},
                                   {&Inputs::b_q, &call.b_q},
                                   {&Inputs::b_k, &call.b_k},
                                   {&Inputs::b_v, &call.b_v},
                                   {&Inputs::b_out, &call.b_out},
                                   {&Inputs::bias, &call.bias},
                                   {&Inputs::keep, &call.keep},
                                   {&Inputs::kv_lengths, &call.kv_lengths}})
      inputs_.*to = copied_as_it_lies(*from);
    out_ = copied_as_it_lies(call.out);
  }

  [[nodiscard]] Index work() const override { return inputs_.problem.multiply_adds(); }
  [[nodiscard]] std::span<const std::string_view> coordinates() const override { return coordinates_of_out; }

  [[nodiscard]] std::vector<Element> elements(const ops::Contract& any, std::size_t variant,
                                              Index most_work) const override {
    const auto& contract = any.as<Contract>();
    const attest::mha::Call call = inputs_of(variant).call(out_);
    MhaOracle oracle(contract, call);
    std::vector<Element> first;
    for (std::size_t way = 0; way < oracle.ways(); ++way) {
      std::vector<Element> all = elements_of(oracle, way, contract, most_work);
      if (std::ranges::none_of(all, is_outside)) return all;
      if (way == 0) first = std::move(all);
    }
    return first;
  }

  [[nodiscard]] VerdictKind judge(const ops::Contract& any, std::size_t variant, Index most_work) const override {
    const auto& contract = any.as<Contract>();
    const Format output = contract.attention.policy[Stage::output];
    if (narrower(output, inputs_.problem.dtype) && !out_is_of(output)) return VerdictKind::fail;
    if (work() > most_work)
      return std::ranges::any_of(elements(any, variant, most_work), is_outside) ? VerdictKind::fail : VerdictKind::pass;
    const attest::mha::Call call = inputs_of(variant).call(out_);
    return MhaOracle(contract, call).judge(out_).kind;
  }

  [[nodiscard]] std::vector<Departure> departures(const ops::Contract& contract) const override {
    Departures found(contract.as<Contract>());
    for (std::size_t i = 0; i < variants.size(); ++i)
      found.all.push_back({std::string(variants[i].words), variants[i].stage, variants[i].words, 1,
                           Departure::Kind::semantics, contract, i + 1});
    found.add_of_attention();
    found.add_own();
    return std::move(found.all);
  }
  [[nodiscard]] std::vector<Departure> policies(const ops::Contract& contract) const override {
    const auto& declared = contract.as<Contract>();
    Departures found(declared);
    for (const attest::NamedPolicy& named : attest::named_policies())
      if (named.policy[Stage::storage] == declared.attention.policy[Stage::storage])
        found.add(Departure::Kind::format, "policy", "", 0, std::string(named.name), [&](Contract& c) {
          c.attention.policy = named.policy;
          c.gemm = named.policy[Stage::qk];
        });
    return std::move(found.all);
  }

  // ---- stages
  [[nodiscard]] std::vector<std::string_view> stages(const ops::Supports& any) const override {
    const Supports& supports = any.mha;
    std::vector<std::string_view> given;
    if (supports.stage_q) given.emplace_back("q");
    if (supports.stage_k) given.emplace_back("k");
    if (supports.stage_v) given.emplace_back("v");
    if (supports.stage_heads) given.emplace_back("heads_out");
    return given;
  }
  [[nodiscard]] std::string_view stage_name(std::string_view stage) const override {
    return stage == "heads_out" ? "heads" : stage;
  }
  // Heads are made of q, k and v by attention, whose stages come before them; all that is wrong before is wrong in q, k
  // or v.
  [[nodiscard]] bool lies_within(std::string_view fault, std::string_view stage) const override {
    const bool of_projections =
        fault == "q" || fault == "k" || fault == "v" || fault == "gemm" || fault == "reading" || fault == "memory";
    if (stage == "heads") return !of_projections && fault != "out";
    return of_projections && (fault == stage || fault.size() > 1);
  }
  [[nodiscard]] Tensor stage_tensor(std::string_view stage) const override {
    const DType type = dtype_of(at_least_f32(inputs_.problem.dtype));
    attest::mha::StageOutputs all = make_stages(inputs_.problem, type);
    return std::move(stage == "q" ? all.q : stage == "k" ? all.k : stage == "v" ? all.v : all.heads);
  }
  [[nodiscard]] std::vector<Element> stage_elements(std::string_view stage, const Tensor& given,
                                                    const ops::Contract& contract) const override {
    const std::string_view name = stage_name(stage);
    (name == "q" ? stages_.q : name == "k" ? stages_.k : name == "v" ? stages_.v : stages_.heads) = given.clone();
    attest::mha::Call call = inputs_.call(out_);
    call.stages = stages_.views();
    std::vector<Element> all;
    MhaOracle(contract.as<Contract>(), call).walk_stages(out_, [&](const oracle::BlockStages::Visited& at) {
      if (oracle::name(at.stage) != name) return true;
      all.push_back({name,
                     at.index,
                     at.got,
                     at.round(at.enclosure.y),
                     at.round(at.enclosure.lo),
                     at.round(at.enclosure.hi),
                     at.enclosure.expect == oracle::Expect::number,
                     at.outcome,
                     {}});
      return true;
    });
    return all;
  }

 private:
  static bool is_outside(const Element& e) { return e.outcome == oracle::Outcome::outside; }

  // Rows spread evenly over out.
  [[nodiscard]] std::vector<Element> elements_of(MhaOracle& oracle, std::size_t way, const Contract& contract,
                                                 Index most_work) const {
    const attest::mha::Problem& p = inputs_.problem;
    const oracle::Rounding round{contract.attention.policy[Stage::output], p.dtype,
                                 contract.attention.arithmetic.flush_to_zero};
    const Index rows = p.b * p.l, per_row = std::max<Index>(work() / std::max<Index>(rows, 1), 1);
    const Index told = std::clamp<Index>(most_work / per_row, 1, rows);
    std::vector<Element> all;
    for (Index n = 0; n < told; ++n) {
      const Index row = n * rows / told, b = row / p.l, i = row % p.l;
      for (Index e = 0; e < p.e; ++e) {
        const oracle::Enclosure at = oracle.enclosure(way, b, i, e);
        const double got = out_.at(b, i, e);
        all.push_back({"out",
                       {b, i, e, 0},
                       got,
                       round(at.y),
                       round(at.lo),
                       round(at.hi),
                       at.expect == oracle::Expect::number,
                       judge_element(at, round, got),
                       {b, i, e}});
      }
    }
    return all;
  }
  [[nodiscard]] bool out_is_of(Format format) const {
    const attest::mha::Problem& p = inputs_.problem;
    for (Index b = 0; b < p.b; ++b)
      for (Index i = 0; i < p.l; ++i)
        for (Index e = 0; e < p.e; ++e)
          if (!is_of(format, out_.at(b, i, e))) return false;
    return true;
  }
  // A variant that makes no other call of this one is this call.
  [[nodiscard]] const Inputs& inputs_of(std::size_t variant) const {
    if (variant == 0) return inputs_;
    if (variant != latest_) {
      latest_ = variant;
      latest_inputs_ = inputs_.clone();
      if (!variants[variant - 1].apply(latest_inputs_)) latest_inputs_ = inputs_.clone();
    }
    return latest_inputs_;
  }

  Inputs inputs_;
  Tensor out_;
  mutable std::size_t latest_ = 0;
  mutable Inputs latest_inputs_;
  mutable attest::mha::StageOutputs stages_;
};

}  // namespace

std::unique_ptr<Reading> reading(const attest_mha& call) { return std::make_unique<MhaReading>(call); }

}  // namespace attest::ops::of_mha
