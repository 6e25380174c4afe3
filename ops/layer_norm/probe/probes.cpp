#include "ops/layer_norm/probes.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "ops/layer_norm/probe/parts.hpp"
#include "ops/probe/sizes.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Arithmetic;
using attest::layer_norm::FlushToZero;
using attest::layer_norm::Merge;
using attest::layer_norm::NormForm;
using attest::layer_norm::Variance;
using probing::all_observed;
using probing::find;

// Tells whether the rows show a kernel that computes the variance in one pass.
bool loses_at_an_offset(const std::vector<ProbeRow>& rows) {
  const ProbeRow* row = find(rows, "variance");
  return row != nullptr && row->observed.starts_with("off by");
}

constexpr std::array narrowed_stages{Stage::sum, Stage::statistics, Stage::normalise, Stage::affine};

class LayerNormProbes final : public Probes {
 public:
  [[nodiscard]] std::vector<ProbeRow> stages(const ProbeTarget& target) const override {
    const Asking asking = of(target, target.contract);
    auto [rows, permitting, guilty] = probing::stage_rows(asking.asked, stage_questions(asking.maker, asking.further),
                                                          PlainLayerNorm(asking.contract.arithmetic));
    Asking further = of(target, permitting);
    further.asked.guilty = guilty;
    further.asked.promised = &target.contract;
    for (ProbeRow& row : number_rows(further)) rows.push_back(std::move(row));
    return rows;
  }
  [[nodiscard]] std::vector<ProbeRow> kept(const ProbeTarget& target, const AsksStage& asks) const override {
    const Asking asking = of(target, target.contract);
    std::vector<ProbeRow> rows =
        probing::kept_rows(target, stage_questions(asking.maker, asking.further),
                           PlainLayerNorm(asking.contract.arithmetic), [&](std::size_t stage) {
                             return std::ranges::count(narrowed_stages, static_cast<Stage>(stage)) != 0 && asks(stage);
                           });
    if (!rows.empty()) rows.push_back(variance_row(asking));
    return rows;
  }
  [[nodiscard]] std::vector<ProbeRow> semantics(const ProbeTarget& target) const override {
    Asking asking = of(target, target.contract);
    asking.asked.meaning = true;
    return meaning_rows(asking);
  }

  [[nodiscard]] std::vector<ops::Problem> sizes(const ops::Supports& supports, Format dtype) const override {
    struct Size {
      Index rows, hidden;
    };
    constexpr std::array sizes{Size{1, 1}, Size{1, 64}, Size{1, 1000}, Size{16, 768}, Size{1, 8192}, Size{512, 1024}};
    std::vector<ops::Problem> taken;
    for (const Size& size : sizes) {
      const Maker maker(supports.layer_norm, dtype, size.rows);
      Problem p = maker.blank(maker.width(size.hidden));
      p.values = Values::normal;
      p.epsilon = two_to(-17);  // a number that every format holds
      p.gamma = supports.layer_norm.gamma ? Weights::near : Weights::none;
      p.beta = supports.layer_norm.beta ? Weights::near : Weights::none;
      p.seed = 0x70726F6265;
      probing::take_size(taken, p, supports.layer_norm, dtype);
      if (!supports.layer_norm.residual || p.hidden < 256 || p.hidden > 1024) continue;
      p.residual = Residual::like_x;
      probing::take_size(taken, std::move(p), supports.layer_norm, dtype);
    }
    return taken;
  }
  // A sample is a row.
  [[nodiscard]] std::vector<Index> sample_counts() const override {
    return {2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  }
  [[nodiscard]] std::optional<ops::Problem> with_samples(const ops::Problem& problem, Index samples,
                                                         const ops::Supports& supports) const override {
    Problem p = problem.as<Problem>();
    constexpr Index most = Index{1} << 22;  // elements
    if (!supports.layer_norm.rows.offers(samples) || samples * p.hidden > most) return std::nullopt;
    p.rows = samples;
    return p;
  }
  [[nodiscard]] std::optional<ops::Problem> with_threads(const ops::Problem& problem, Index threads) const override {
    Problem p = problem.as<Problem>();
    p.threads = threads;
    return p;
  }
  [[nodiscard]] std::optional<Deterministic> deterministic(const ops::Contract& contract) const override {
    return contract.as<Contract>().deterministic;
  }
  [[nodiscard]] std::optional<BatchInvariance> batch_invariant(const ops::Contract& contract) const override {
    return contract.as<Contract>().batch_invariant;
  }

  [[nodiscard]] ops::Contract seen(const ops::Contract& contract, const std::vector<ProbeRow>& rows) const override {
    Contract c = contract.as<Contract>();
    c.policy = probing::policy_seen(contract, rows).as<Policy>();
    const ProbeRow* variance = find(rows, "variance");
    if (variance != nullptr && variance->standing == Standing::contradicts && loses_at_an_offset(rows)) {
      c.arithmetic.variance = Variance::one_pass;
      c.arithmetic.merge = Merge::none;
      c.arithmetic.merge_depth = 0;
    }
    if (const ProbeRow* row = find(rows, "normalised value"))
      if (row->observed == "rounded to storage" || row->observed == "not rounded")
        c.arithmetic.norm_rounded = row->observed == "rounded to storage";
    const std::string factor = all_observed(rows, "factor");
    if (factor == "gamma" || factor == "1 + gamma") c.gamma_offset = factor == "gamma" ? 0 : 1;
    const std::string flushed = all_observed(rows, "flush to zero");
    if (flushed == "no") c.arithmetic.flush_to_zero = FlushToZero::no;
    if (flushed == "results") c.arithmetic.flush_to_zero = FlushToZero::results;
    if (flushed == "beta" || flushed == "results and beta") c.arithmetic.flush_to_zero = FlushToZero::inputs;
    c.nan = NanRule::propagates;
    for (const ProbeRow& row : rows)
      if (row.stage.starts_with("NaN in ") && row.stage != "NaN in another row" && row.observed != "comes through")
        c.nan = NanRule::unspecified;
    c.deterministic = probing::deterministic_seen(rows);
    c.batch_invariant = probing::batch_seen(rows);
    return c;
  }

  // A kernel that keeps the generous reading in a narrow format may put the parts together in any form, and be off by
  // as much as that format rounds in the root: the bounds of these errors stay as they are. Sums may be cut.
  [[nodiscard]] ops::Contract narrowed(const ops::Contract& generous,
                                       const std::vector<ProbeRow>& rows) const override {
    Contract c = generous.as<Contract>();
    const Policy before = c.policy;
    Arithmetic& how = c.arithmetic;
    for (const Stage stage : narrowed_stages) {
      const auto least = probing::least_of(rows, static_cast<std::size_t>(stage));
      if (!least || !holds(*least, before[stage]) || *least == before[stage]) continue;
      if (stage == Stage::statistics) {
        if (loses_at_an_offset(rows)) continue;
        how.kappa = std::max(how.kappa, 8.0);
        if (!how.rsqrt_rel) how.rsqrt_rel = 2 * how.rsqrt_ulp * unit_roundoff(before[stage]);
      }
      c.policy.set(stage, *least);
    }
    if (c.policy == before) return generous;
    if (how.form == NormForm::centred) how.form = NormForm::folded;
    try {
      return attest::layer_norm::contract_from_json(nlohmann::json(attest::layer_norm::to_json(c)), c.policy);
    } catch (const Error&) {
      return generous;  // numbers that the subject declares say more than the formats could
    }
  }
  [[nodiscard]] SubjectInfo holding(SubjectInfo info, const std::vector<ops::Contract>& contracts,
                                    const std::vector<FormChoice>& /*apart*/) const override {
    auto& offer = info.layer_norm.value();
    offer.policies.clear();
    offer.arithmetic.clear();
    for (const ops::Contract& contract : contracts) {
      offer.policies.push_back(contract.as<Contract>().policy);
      offer.arithmetic.push_back(contract.as<Contract>().arithmetic);
    }
    return info;
  }

 private:
  static Asking of(const ProbeTarget& target, const ops::Contract& contract) {
    const Supports& supports = target.subject.info().layer_norm.value().supports;
    const int offset = contract.as<Contract>().gamma_offset;
    const Maker plain(supports, target.dtype, 1, offset), many(supports, target.dtype, 48, offset);
    const probing::Asked asked{target.subject, target.dtype, contract, target.policy_declared};
    // Some add a residual always, and say so when they are asked.
    const bool needs_residual = supports.residual && !asked.ask(plain.blank(plain.width(8))).done();
    return {asked, contract.as<Contract>(), needs_residual ? plain.with_residual() : plain,
            needs_residual ? many.with_residual() : many};
  }
};

}  // namespace

const Probes& probes() {
  static const LayerNormProbes all;
  return all;
}

}  // namespace attest::ops::of_layer_norm
