#include "ops/reading.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/layer_norm/inputs.hpp"
#include "ops/layer_norm/parts.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Inputs;
using attest::layer_norm::Norm;
using attest::layer_norm::Stage;
using oracle::layer_norm::Interval;
using oracle::layer_norm::LayerNormOracle;

constexpr auto places = std::to_array<std::string_view>({"row", "column"});

// ---- the call, read otherwise ---------------------------------------------------------------------------------------

struct Variant {
  std::string_view words, stage;
  bool (*apply)(Problem&, Inputs&);
};
template <Tensor Inputs::*member>
bool left_out(Problem&, Inputs& in) {
  if (!(in.*member).present()) return false;
  in.*member = Tensor();
  return true;
}
template <class Value>
bool residual_read(Inputs& in, Value value) {
  if (!in.residual.present()) return false;
  Tensor read(in.residual.dtype(), in.residual.shape());
  for (Index row = 0; row < read.shape()[0]; ++row)
    for (Index c = 0; c < read.shape()[1]; ++c) read.set(row, c, 0, 0, value(row, c));
  in.residual = std::move(read);
  return true;
}
constexpr auto variants = std::to_array<Variant>({
    {"epsilon ignored", "statistics", [](Problem&, Inputs& in) { return std::exchange(in.epsilon, 0) != 0; }},
    {"the other norm: RMSNorm for LayerNorm, or LayerNorm for RMSNorm", "statistics",
     [](Problem& p, Inputs& in) {
       p.norm = in.norm = in.norm == Norm::rms ? Norm::layer : Norm::rms;
       return true;
     }},
    {"gamma ignored", "affine", left_out<&Inputs::gamma>},
    {"beta ignored", "affine", left_out<&Inputs::beta>},
    {"the residual ignored", "sum", left_out<&Inputs::residual>},
    {"the residual added twice", "sum",
     [](Problem&, Inputs& in) {
       return residual_read(in, [&](Index row, Index c) { return 2 * in.residual.at(row, c); });
     }},
    {"the residual of the first row added to every row", "reading",
     [](Problem& p, Inputs& in) {
       return p.rows > 1 && residual_read(in, [&](Index, Index c) { return in.residual.at(0, c); });
     }},
    {"1e-5 whatever epsilon is", "statistics",
     [](Problem&, Inputs& in) { return std::exchange(in.epsilon, 1e-5) != 1e-5; }},
});

// ---- what else may have been promised -------------------------------------------------------------------------------

struct Narrowing {
  Stage stage;
  std::string_view words;
};
constexpr auto narrowings = std::to_array<Narrowing>({
    {Stage::sum, "x + residual"},
    {Stage::statistics, "the statistics"},
    {Stage::normalise, "the normalised values"},
    {Stage::affine, "the affine part"},
    {Stage::output, "the output"},
});

void check(const Contract& contract) {
  (void)attest::layer_norm::contract_from_json(nlohmann::json(to_json(contract)), contract.policy);
}

class Departures : public DeparturesOf<Contract> {
 public:
  explicit Departures(const Contract& declared) : DeparturesOf(declared, check) {}

  void add_formats() {
    for (const auto& [stage, words] : narrowings)
      for (const Format format : stored_finest_first)
        if (narrower(format, declared_.policy[stage]))
          add(Departure::Kind::format, name(stage), name(stage), precision(declared_.policy[stage]) - precision(format),
              fmt::format("{} in {} ({}={})", words, attest::name(format), name(stage), attest::name(format)),
              [of = stage, format](Contract& c) { c.policy.set(of, format); });
  }
  void add_numbers() {
    using enum Departure::Kind;
    using enum attest::layer_norm::Variance;
    for (const auto& [variance, words] :
         {std::pair{two_pass, "the variance in two passes"}, std::pair{shifted, "the variance about the first element"},
          std::pair{one_pass, "the variance as E[x^2] - E[x]^2"}})
      add(number, "variance", "statistics", static_cast<double>(variance),
          fmt::format("{} (variance={})", words, name(variance)), [way = variance](Contract& c) {
            c.arithmetic.variance = way;
            c.arithmetic.merge = attest::layer_norm::Merge::none;
            c.arithmetic.merge_depth = 0;
          });
    add(number, "depth", "statistics", 1, "sums over the row one by one (depth)",
        [](Contract& c) { c.arithmetic.depth = attest::layer_norm::AnyDepth{}; });
    add(number, "kappa", "statistics", 3, "sums that truncate (kappa=3)", [](Contract& c) { c.arithmetic.kappa = 3; });
    for (const int bits : {20, 17, 14, 12, 10, 8})
      add(number, "rsqrt", "statistics", -bits,
          fmt::format("a reciprocal root that is off by 2^-{} of itself (rsqrt_rel)", bits),
          [&](Contract& c) { c.arithmetic.rsqrt_rel = std::ldexp(1., -bits); });
    add(number, "norm_rounded", "normalise", 1, "the normalised values rounded to storage (norm_rounded)",
        [](Contract& c) { c.arithmetic.norm_rounded = true; });
    add(number, "clamp", "statistics", 1, "a negative variance as 0 (clamp)",
        [](Contract& c) { c.arithmetic.clamp = true; });
    add(number, "flush", "output", 1, "subnormal numbers flushed to zero (flush_to_zero)",
        [](Contract& c) { c.arithmetic.flush_to_zero = attest::layer_norm::FlushToZero::inputs; });
  }
  void add_semantics() {
    add(Departure::Kind::semantics, "gamma_offset", "affine", 1,
        declared_.gamma_offset == 0 ? "gamma stored less 1 (gamma_offset)" : "gamma stored as it is (gamma_offset)",
        [](Contract& c) { c.gamma_offset = 1 - c.gamma_offset; });
    add(Departure::Kind::semantics, "nan", "statistics", 1, "NaN that need not propagate (nan)",
        [](Contract& c) { c.nan = NanRule::unspecified; });
  }
};

// ---- the reading ----------------------------------------------------------------------------------------------------

class LayerNormReading final : public Reading {
 public:
  explicit LayerNormReading(const attest_layer_norm& call) {
    Problem& p = problem_;
    p.rows = call.x.shape[0];
    p.hidden = call.x.shape[1];
    p.dtype = format_of(dtype_of(call.x.dtype).value());
    p.norm = inputs_.norm = call.rms != 0 ? Norm::rms : Norm::layer;
    p.epsilon = inputs_.epsilon = call.epsilon;
    p.sum_out = attest_present(&call.sum_out);
    for (const attest_tensor* params : {&call.gamma, &call.beta})
      if (attest_present(params) && format_of(dtype_of(params->dtype).value()) != p.dtype)
        p.param_type = attest::layer_norm::ParamType::f32;
    inputs_.x = copied_packed(call.x);
    inputs_.residual = copied_packed(call.residual);
    inputs_.gamma = copied_packed(call.gamma);
    inputs_.beta = copied_packed(call.beta);
    out_ = copied_packed(call.out);
    sum_out_ = copied_packed(call.sum_out);
    tell(p, inputs_);
    for (const Variant& variant : variants) {
      Misread& misread = misread_.emplace_back(Misread{false, p, inputs_.clone()});
      misread.differs = variant.apply(misread.problem, misread.inputs);
      misread.problem.epsilon = misread.inputs.epsilon;
      tell(misread.problem, misread.inputs);
    }
  }

  [[nodiscard]] Index work() const override { return problem_.elements() * 2; }
  [[nodiscard]] std::span<const std::string_view> coordinates() const override { return places; }

  [[nodiscard]] std::vector<Element> elements(const ops::Contract& any, std::size_t variant,
                                              Index most_work) const override {
    const auto& contract = any.as<Contract>();
    const Asked asked = asked_of(variant);
    LayerNormOracle oracle(contract, *asked.problem, *asked.inputs);
    const oracle::Rounding round{contract.policy[Stage::output], problem_.dtype, contract.arithmetic.flushes()};
    Problem sample = problem_;
    sample.judged = rows_within(most_work);
    std::vector<Element> all;
    for (const Index row : judged_rows(sample)) {
      for (Index c = 0; c < problem_.hidden; ++c) {
        const Interval interval = oracle.interval(row, c);
        const oracle::Enclosure& e = interval.enclosure;
        const double got = out_.at(row, c);
        all.push_back({"out",
                       {row, c, 0, 0},
                       got,
                       round(e.y),
                       round.low(e.lo),
                       round.high(e.hi),
                       e.expect == oracle::Expect::number,
                       oracle.outcome(interval, got),
                       {row, c}});
      }
      for (Index c = 0; sum_out_.present() && asked.inputs->residual.present() && c < problem_.hidden; ++c) {
        const std::vector<double> sums = oracle.sums(row, c);
        const auto [lo, hi] = std::ranges::minmax(sums);
        const double got = sum_out_.at(row, c);
        const bool right =
            std::ranges::any_of(sums, [&](double s) { return s == got || (std::isnan(s) && std::isnan(got)); });
        all.push_back({"sum_out",
                       {row, c, 0, 0},
                       got,
                       sums.front(),
                       lo,
                       hi,
                       !std::isnan(sums.front()),
                       right ? oracle::Outcome::inside : oracle::Outcome::outside,
                       {row, c}});
      }
    }
    return all;
  }

  [[nodiscard]] VerdictKind judge(const ops::Contract& contract, std::size_t variant, Index most_work) const override {
    const Asked asked = asked_of(variant);
    const bool sums = sum_out_.present() && asked.inputs->residual.present();
    const Tensor none;
    Problem sample = *asked.problem;
    sample.judged = rows_within(most_work);
    const Format output = contract.as<Contract>().policy[Stage::output];
    if (narrower(output, problem_.dtype))
      for (Index row = 0; row < problem_.rows; ++row)
        for (Index c = 0; c < problem_.hidden; ++c)
          if (!is_of(output, out_.at(row, c))) return VerdictKind::fail;
    return LayerNormOracle(contract.as<Contract>(), sample, *asked.inputs).judge(out_, sums ? sum_out_ : none).kind;
  }

  [[nodiscard]] std::vector<Departure> departures(const ops::Contract& contract) const override {
    Departures found(contract.as<Contract>());
    for (std::size_t i = 0; i < misread_.size(); ++i)
      if (misread_[i].differs)
        found.all.push_back({std::string(variants[i].words), variants[i].stage, variants[i].words, 1,
                             Departure::Kind::semantics, contract, i + 1});
    found.add_semantics();
    found.add_numbers();
    found.add_formats();
    return std::move(found.all);
  }

  [[nodiscard]] std::vector<Departure> policies(const ops::Contract& contract) const override {
    const auto& declared = contract.as<Contract>();
    Departures found(declared);
    for (const auto& named : attest::layer_norm::named_policies())
      if (named.policy[Stage::storage] == declared.policy[Stage::storage])
        found.add(Departure::Kind::format, "policy", "", 0, std::string(named.name),
                  [&](Contract& c) { c.policy = named.policy; });
    return std::move(found.all);
  }

 private:
  struct Misread {
    bool differs;
    Problem problem;
    Inputs inputs;
  };
  struct Asked {
    const Problem* problem;
    const Inputs* inputs;
  };
  // Sets the fields that say which tensors there are, for the oracle reads that from a problem.
  static void tell(Problem& p, const Inputs& in) {
    using attest::layer_norm::Residual;
    using attest::layer_norm::Weights;
    p.residual = in.residual.present() ? Residual::like_x : Residual::none;
    p.gamma = in.gamma.present() ? Weights::normal : Weights::none;
    p.beta = in.beta.present() ? Weights::normal : Weights::none;
  }
  // The number of rows that are looked at, in the sense of Problem::judged.
  [[nodiscard]] Index rows_within(Index most_work) const {
    if (work() <= most_work) return 0;
    return std::clamp<Index>(most_work / std::max<Index>(2 * problem_.hidden, 1), 1, problem_.rows);
  }
  [[nodiscard]] Asked asked_of(std::size_t variant) const {
    if (variant == 0) return {&problem_, &inputs_};
    const Misread& misread = misread_.at(variant - 1);
    return misread.differs ? Asked{&misread.problem, &misread.inputs} : Asked{&problem_, &inputs_};
  }

  Problem problem_;
  Inputs inputs_;
  Tensor out_, sum_out_;
  std::vector<Misread> misread_;
};

}  // namespace

std::unique_ptr<Reading> reading(const attest_layer_norm& call) { return std::make_unique<LayerNormReading>(call); }

}  // namespace attest::ops::of_layer_norm
