#include "ops/reading.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "ops/attention/parts.hpp"
#include "ops/attention/variants.hpp"
#include "oracle/attention.hpp"
#include "oracle/row.hpp"
#include "properties/compare.hpp"

namespace attest::ops::of_attention {
namespace {

constexpr auto places = std::to_array<std::string_view>(
    {"batch", "head", "row", "column", "key/value head", "first open key", "last open key", "number of open keys"});

// ---- what else may have been promised -------------------------------------------------------------------------------

struct Narrowing {
  Stage stage;
  std::string_view words;
};
constexpr auto narrowings = std::to_array<Narrowing>({
    {Stage::operand, "the operands of the products"},
    {Stage::scale, "the scale"},
    {Stage::qk, "the accumulation of q.k"},
    {Stage::score, "the stored scores"},
    {Stage::softcap, "the softcap"},
    {Stage::softmax, "maximum, exp and sum"},
    {Stage::weights, "the weights"},
    {Stage::pv, "the accumulation of PV"},
    {Stage::partial, "the partial results"},
    {Stage::output, "the output"},
});

class Departures : public DeparturesOf<Contract> {
 public:
  explicit Departures(const Contract& declared) : DeparturesOf(declared, check_numbers) {}

  void add_formats() {
    for (const auto& [stage, words] : narrowings)
      for (const Format format : finest_first) {
        if (!traits(format).in_memory() && stage != Stage::operand) continue;
        if (!narrower(format, declared_.policy[stage])) continue;
        add(Departure::Kind::format, name(stage), name(stage), precision(declared_.policy[stage]) - precision(format),
            fmt::format("{} in {} ({}={})", words, name(format), name(stage), name(format)),
            [of = stage, format](Contract& c) { c.policy.set(of, format); });
      }
  }
  void add_numbers() {
    using enum Departure::Kind;
    const Arithmetic& a = declared_.arithmetic;
    if (a.kappa < 3 && !a.mma)
      add(number, "kappa", "qk", 3, "accumulators that truncate (kappa=3)",
          [](Contract& c) { c.arithmetic.kappa = 3; });
    for (const int fewer : {1, 2, 3, 5, 8})
      if (a.mma && a.mma->frac > fewer)
        add(number, "mma", "qk", fewer,
            fmt::format("sums of tensor cores that keep {} {} less (mma)", fewer, fewer == 1 ? "bit" : "bits"),
            [&](Contract& c) { c.arithmetic.mma->frac -= fewer; });
    for (const int bits : {20, 17, 14, 12, 10, 8, 6})
      add(number, "exp", "softmax", -bits, fmt::format("an exp that is off by 2^-{} of itself (exp_rel)", bits),
          [&](Contract& c) { c.arithmetic.exp_rel = std::ldexp(1., -bits); });
    if (!a.flush_to_zero)
      add(number, "flush", "output", 1, "subnormal numbers flushed to zero (flush_to_zero)",
          [](Contract& c) { c.arithmetic.flush_to_zero = true; });
    add(number, "fold", "scale", 1, "the scale folded into q or k (fold)",
        [](Contract& c) { c.arithmetic.fold_q = c.arithmetic.fold_k = c.arithmetic.fold_sqrt = true; });
    add(number, "exp2", "softmax", 1, "exp(x) as 2^(x log2 e) (exp2)", [](Contract& c) { c.arithmetic.exp2 = true; });
    add(number, "normalise", "weights", 1,
        "weights normalised before or after, sums of rounded weights (normalise, sum_of)", [](Contract& c) {
          c.arithmetic.normalise_after = c.arithmetic.normalise_before = c.arithmetic.normalise_lse = true;
          c.arithmetic.sum_of_rounded = c.arithmetic.sum_of_unrounded = true;
        });
    add(number, "splits", "partial", 1, "keys in any order, tiles and splits (key_order, kv_tile_min, splits_max)",
        [](Contract& c) {
          c.arithmetic.key_order = KeyOrder::any;
          c.arithmetic.kv_tile_min = 1;
          c.arithmetic.splits_max.reset();
          c.arithmetic.lse_merge = LseMerge::chain;
          c.arithmetic.lazy.reset();
        });
  }
  void add_semantics() {
    using enum Departure::Kind;
    for (const auto& [rule, words] :
         {std::pair{EmptyRow::zero, "zeros in rows without open keys"},
          std::pair{EmptyRow::nan, "NaN in rows without open keys"},
          std::pair{EmptyRow::mean_v, "the mean of the values in rows without open keys"},
          std::pair{EmptyRow::mean_all, "the mean of all values, masked ones too, in rows without open keys"}})
      add(semantics, "empty_row", "empty row", 1, fmt::format("{} (empty_row)", words),
          [of = rule](Contract& c) { c.empty_row = of; });
    add(semantics, "softcap_order", "softcap", 1,
        declared_.softcap_before_bias ? "the softcap behind the bias (softcap_before_bias)"
                                      : "the softcap before the bias (softcap_before_bias)",
        [](Contract& c) { c.softcap_before_bias = !c.softcap_before_bias; });
    add(semantics, "mask_added", "mask", 1, "-inf added to the scores of closed keys (mask_added)",
        [](Contract& c) { c.mask_added = true; });
    add(semantics, "nan", "softmax", 1, "NaN that need not propagate (nan)",
        [](Contract& c) { c.nan = NanRule::unspecified; });
    add(semantics, "masked_unread", "pv", 1, "closed keys read, with weight 0 (masked_unread)",
        [](Contract& c) { c.masked_unread = MaskedUnread::no; });
  }
};

// ---- the reading ----------------------------------------------------------------------------------------------------

class AttentionReading final : public Reading {
 public:
  explicit AttentionReading(const attest_attention& call) {
    problem_.b = call.q.shape[0];
    problem_.hq = call.q.shape[1];
    problem_.lq = call.q.shape[2];
    problem_.d = call.q.shape[3];
    problem_.hkv = call.k.shape[1];
    problem_.lk = call.k.shape[2];
    problem_.dv = call.v.shape[3];
    problem_.dtype = format_of(dtype_of(call.q.dtype).value());
    inputs_.q = copied_as_it_lies(call.q);
    inputs_.k = copied_as_it_lies(call.k);
    inputs_.v = copied_as_it_lies(call.v);
    inputs_.bias = copied_as_it_lies(call.bias);
    inputs_.keep = copied_as_it_lies(call.keep);
    inputs_.kv_lengths = copied_as_it_lies(call.kv_lengths);
    inputs_.scale = call.scale;
    inputs_.scale_is_default = (call.flags & ATTEST_SCALE_IS_DEFAULT) != 0;
    inputs_.softcap = call.softcap;
    inputs_.causal = call.causal != 0;
    inputs_.align = call.align == ATTEST_TOP_LEFT ? Align::top_left : Align::bottom_right;
    inputs_.window_left = call.window_left;
    inputs_.window_right = call.window_right;
    out_ = copied_as_it_lies(call.out);
    lse_ = copied_as_it_lies(call.lse);
  }

  [[nodiscard]] Index work() const override {
    const attest::Problem& p = problem_;
    return p.b * p.hq * p.lq * (p.dv + 1) * std::max<Index>(p.lk, 1);
  }
  [[nodiscard]] std::span<const std::string_view> coordinates() const override { return places; }

  [[nodiscard]] std::vector<Element> elements(const ops::Contract& any, std::size_t variant,
                                              Index most_work) const override {
    const auto& contract = any.as<Contract>();
    const Asked asked = asked_of(variant);
    oracle::AttentionOracle oracle(contract, *asked.problem, *asked.inputs);
    oracle::Rounding out_rounding = properties::out_rounding(contract, out_);
    out_rounding.outward = variant == cut_output;
    attest::Problem sample = problem_;
    sample.rows = rows_within(most_work);
    std::vector<Element> all;
    for (const Index row : judged_rows(sample)) {
      const auto [b, h, i] = row_index(problem_, row);
      const std::vector<Index> at = place_of(b, h, i);
      for (Index c = 0; c < problem_.dv; ++c)
        all.push_back(
            element("out", {b, h, i, c}, oracle.out_enclosure(b, h, i, c), out_rounding, out_.at(b, h, i, c), at));
      if (!lse_.present()) continue;
      all.push_back(element("lse", {b, h, i, 0}, oracle.lse_enclosure(b, h, i),
                            properties::lse_rounding(contract, lse_), lse_.at(b, h, i), at));
      all.back().at[3] = -1;
    }
    return all;
  }

  [[nodiscard]] VerdictKind judge(const ops::Contract& contract, std::size_t variant, Index most_work) const override {
    const Asked asked = asked_of(variant);
    attest::Problem sample = *asked.problem;
    sample.rows = rows_within(most_work);
    if (variant == cut_output) {
      const std::vector<Element> all = elements(contract, variant, most_work);
      return std::ranges::any_of(all, [](const Element& e) { return e.outcome == oracle::Outcome::outside; })
                 ? VerdictKind::fail
                 : VerdictKind::pass;
    }
    const Format output = contract.as<Contract>().policy[Stage::output];
    if (narrower(output, format_of(out_.dtype())) && !out_is_of(output)) return VerdictKind::fail;
    return oracle::AttentionOracle(contract.as<Contract>(), sample, *asked.inputs).judge(out_, lse_).kind;
  }

  [[nodiscard]] std::vector<Departure> departures(const ops::Contract& contract) const override {
    const auto& declared = contract.as<Contract>();
    Departures found(declared);
    for (std::size_t i = 0; i < variants().size(); ++i) {
      const Variant& variant = variants()[i];
      found.all.push_back(
          {std::string(variant.words), variant.stage, variant.words, 1, Departure::Kind::semantics, declared, i + 1});
    }
    found.all.push_back({"the output converted otherwise than to nearest", name(Stage::output), "cut_output", 1,
                         Departure::Kind::number, declared, cut_output});
    std::ranges::move(contract_departures(declared), std::back_inserter(found.all));
    return std::move(found.all);
  }

  [[nodiscard]] std::vector<std::string_view> stages(const ops::Supports& supports) const override {
    std::vector<std::string_view> given;
    const auto& offered = supports.attention.stages;
    for (const std::string_view stage : {std::string_view("scores"), std::string_view("weights")})
      if (std::ranges::find(offered, stage) != offered.end()) given.push_back(stage);
    return given;
  }
  [[nodiscard]] Tensor stage_tensor(std::string_view) const override {
    Tensor tensor(dtype_of(at_least_f32(problem_.dtype)),
                  std::array{problem_.b, problem_.hq, problem_.lq, problem_.lk});
    tensor.poison();
    return tensor;
  }
  [[nodiscard]] std::vector<Element> stage_elements(std::string_view stage, const Tensor& given,
                                                    const ops::Contract& contract) const override {
    return stage == "scores" ? score_elements(given, contract.as<Contract>())
                             : weight_elements(given, contract.as<Contract>());
  }

  [[nodiscard]] std::vector<Departure> policies(const ops::Contract& contract) const override {
    const auto& declared = contract.as<Contract>();
    Departures found(declared);
    for (const attest::NamedPolicy& named : attest::named_policies())
      if (named.policy[Stage::storage] == declared.policy[Stage::storage])
        found.add(Departure::Kind::format, "policy", "", 0, std::string(named.name),
                  [&](Contract& c) { c.policy = named.policy; });
    return std::move(found.all);
  }

  // exp of a score alone overflows where the score does not.
  [[nodiscard]] std::string_view overflowing_stage(const ops::Contract& any, const Element& at) const override {
    const auto& contract = any.as<Contract>();
    const oracle::Call call(contract, problem_, inputs_);
    const auto [b, h, i, c] = at.index;
    oracle::Row row;
    row.evaluate(call, oracle::head_facts(call, b, call.kv_head(h)), b, h, i);
    if (row.kind != oracle::RowKind::ordinary || row.z.empty()) return {};
    double range = largest_finite(contract.policy[Stage::softmax]);
    for (const Stage taken_as : {Stage::weights, Stage::operand})
      range = std::min(range, largest_finite(contract.policy[taken_as]));
    const double most = *std::ranges::max_element(row.z);
    return most > std::log(range) && most < largest_finite(contract.policy[Stage::score]) ? name(Stage::softmax)
                                                                                          : std::string_view();
  }

 private:
  // The call as it was made, of which the output may lie on either side of its rounding.
  static constexpr std::size_t cut_output = std::numeric_limits<std::size_t>::max();
  [[nodiscard]] bool out_is_of(Format format) const {
    for (Index b = 0; b < problem_.b; ++b)
      for (Index h = 0; h < problem_.hq; ++h)
        for (Index i = 0; i < problem_.lq; ++i)
          for (Index c = 0; c < problem_.dv; ++c)
            if (!is_of(format, out_.at(b, h, i, c))) return false;
    return true;
  }
  struct Misread {
    std::size_t variant = 0;
    bool differs = false;
    attest::Problem problem;
    Inputs inputs;
  };
  // The call, or what a variant makes of it, if it makes anything of it.
  struct Asked {
    const attest::Problem* problem;
    const Inputs* inputs;
  };
  [[nodiscard]] Asked asked_of(std::size_t variant) const {
    if (variant == 0 || variant == cut_output) return {&problem_, &inputs_};
    if (latest_.variant != variant) {
      latest_ = {variant, false, problem_, inputs_.clone()};
      latest_.differs = variants()[variant - 1].apply(latest_.problem, latest_.inputs);
    }
    return latest_.differs ? Asked{&latest_.problem, &latest_.inputs} : Asked{&problem_, &inputs_};
  }

  // A score lies in z +- e (docs/bounds.md, section 1).
  [[nodiscard]] std::vector<Element> score_elements(const Tensor& given, const Contract& contract) const {
    const oracle::Call call(contract, problem_, inputs_);
    const oracle::Rounding round{Format::f64, format_of(given.dtype()), contract.arithmetic.flush_to_zero};
    std::vector<Element> all;
    oracle::Row row;
    for (Index b = 0; b < problem_.b; ++b)
      for (Index h = 0; h < problem_.hq; ++h) {
        const oracle::HeadFacts facts = oracle::head_facts(call, b, call.kv_head(h));
        for (Index i = 0; i < problem_.lq; ++i) {
          row.evaluate(call, facts, b, h, i);
          if (row.kind != oracle::RowKind::ordinary || row.score_lost || row.zero_ok) continue;
          const std::vector<Index> at = place_of(b, h, i);
          for (std::size_t t = 0; t < row.keys.size(); ++t) {
            oracle::Enclosure e;
            e.y = row.z[t];
            e.lo = row.z[t] - row.e[t];
            e.hi = row.z[t] + row.e[t];
            all.push_back(element("scores", {b, h, i, row.keys[t]}, e, round, given.at(b, h, i, row.keys[t]), at));
          }
        }
      }
    return all;
  }
  // A weight is what the row would give if its key's value were 1, all others 0, and nothing behind it rounded.
  [[nodiscard]] std::vector<Element> weight_elements(const Tensor& given, Contract contract) const {
    attest::Problem problem = problem_;
    constexpr Index most_numbers = Index{1} << 18;
    if (problem.b * problem.hkv * problem.lk * problem.lk > most_numbers) return {};
    problem.dv = problem.lk;
    Inputs inputs = inputs_.clone();
    inputs.v = Tensor(dtype_of(problem.dtype), std::array{problem.b, problem.hkv, problem.lk, problem.lk});
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hkv; ++h)
        for (Index j = 0; j < problem.lk; ++j)
          for (Index c = 0; c < problem.lk; ++c) inputs.v.set(b, h, j, c, j == c ? 1 : 0);
    for (const Stage behind : {Stage::pv, Stage::partial, Stage::output}) contract.policy.set(behind, Format::f64);
    contract.arithmetic.mma.reset();
    oracle::AttentionOracle oracle(contract, problem, inputs);
    const oracle::Rounding round{Format::f64, format_of(given.dtype()), contract.arithmetic.flush_to_zero};
    std::vector<Element> all;
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hq; ++h)
        for (Index i = 0; i < problem.lq; ++i) {
          const std::vector<Index> at = place_of(b, h, i);
          for (Index j = at[5]; j >= 0 && j <= at[6]; ++j)
            if (open(b, h, i, j))
              all.push_back(
                  element("weights", {b, h, i, j}, oracle.out_enclosure(b, h, i, j), round, given.at(b, h, i, j), at));
        }
    return all;
  }

  // The number of rows that are looked at, in the sense of Problem::rows.
  [[nodiscard]] Index rows_within(Index most_work) const {
    const Index rows = problem_.b * problem_.hq * problem_.lq;
    return work() <= most_work ? 0 : std::clamp<Index>(most_work / std::max<Index>(work() / rows, 1), 1, rows);
  }
  [[nodiscard]] bool open(Index b, Index h, Index i, Index j) const {
    return (!inputs_.keep.present() || inputs_.keep.at(b, h, i, j) != 0) &&
           (!inputs_.bias.present() || inputs_.bias.at(b, h, i, j) != -std::numeric_limits<double>::infinity());
  }
  [[nodiscard]] std::vector<Index> place_of(Index b, Index h, Index i) const {
    const Index length = inputs_.kv_lengths.present() ? static_cast<Index>(inputs_.kv_lengths.at(b)) : problem_.lk;
    const KeyRange range = key_range(inputs_, i, problem_.lq, length);
    Index first = -1, last = -1, count = 0;
    for (Index j = range.first; j < range.last; ++j) {
      if (!open(b, h, i, j)) continue;
      if (count++ == 0) first = j;
      last = j;
    }
    return {b, h, i, 0, problem_.hkv > 0 ? h / problem_.group() : 0, first, last, count};
  }

  static Element element(std::string_view tensor, const Witness& index, const oracle::Enclosure& enclosure,
                         const oracle::Rounding& round, double got, const std::vector<Index>& at) {
    Element e{tensor,
              index,
              got,
              round(enclosure.y),
              round.low(enclosure.lo),
              round.high(enclosure.hi),
              enclosure.expect == oracle::Expect::number,
              oracle::judge_element(enclosure, round, got),
              at};
    e.at[3] = index[3];
    return e;
  }

  attest::Problem problem_;
  Inputs inputs_;
  Tensor out_, lse_;
  mutable Misread latest_;
};

}  // namespace

std::string_view isolated_stage(std::string_view law, const Problem& problem, const Contract& contract,
                                const Verdict& verdict) {
  // Scores that all grow alike give the same weights: the maximum that is taken from them does not.
  if (law == "score-shift") return name(Stage::softmax);
  // Rounding to nearest and truncation treat both signs alike, in products and in sums: a conversion downwards does
  // not.
  if (law == "qk-sign" || law == "qk-flip") return name(Stage::operand);
  // A NaN that is lost on its way from a query or key to a weight is lost in a maximum or a sum.
  if (law == "nonfinite-attended" && verdict.evidence)
    for (const std::string_view from : {"NaN in q", "NaN in k"})
      if (verdict.evidence->note.find(from) != std::string::npos) return name(Stage::softmax);
  // Bits that differ from call to call come of sums in another order: those of partial results where a row has more
  // keys than a tile.
  if (law == "repeat" || law == "threads" || law == "batch-bitwise") {
    constexpr Index usual_tile = 16;  // keys in the smallest tile that kernels use
    if (verdict.evidence && verdict.evidence->tensor == "lse") return {};
    return problem.lk > std::max<Index>(contract.arithmetic.kv_tile_min, usual_tile) ? name(Stage::partial)
                                                                                     : name(Stage::pv);
  }
  return {};
}

std::vector<Departure> contract_departures(const Contract& declared) {
  Departures found(declared);
  found.add_semantics();
  found.add_numbers();
  found.add_formats();
  return std::move(found.all);
}

std::unique_ptr<Reading> reading(const attest_attention& call) { return std::make_unique<AttentionReading>(call); }

}  // namespace attest::ops::of_attention
