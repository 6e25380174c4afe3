#include "engine/judge.hpp"

#include <algorithm>

#include "oracle/calibration.hpp"
#include "oracle/oracle.hpp"
#include "oracle/outcome.hpp"
#include "properties/compare.hpp"
#include "properties/statistical.hpp"

namespace attest::engine {
namespace {

class Surveyor {
 public:
  Surveyor(const SavedCall& call, const attest::Contract& contract)
      : call_(call), contract_(contract), oracle_(oracle::make_oracle(contract, call.problem, call.inputs)) {}

  // `first` is the element at which the verdict ended: the rows surveyed may not have it.
  Survey run(const Evidence& first, Index work) {
    survey_.worst = first;
    const attest::Problem& p = call_.problem;
    attest::Problem sample = p;
    const Index row_work = std::max<Index>((p.dv + 1) * std::max<Index>(p.lk, 1), 1);
    const auto judged = static_cast<Index>(judged_rows(p).size());
    sample.rows = std::min(judged, std::max<Index>(work / row_work, 64));
    const std::vector<Index> rows = judged_rows(sample);
    survey_.rows = static_cast<Index>(rows.size());
    survey_.all_rows = p.b * p.hq * p.lq;
    for (const Index row : rows) {
      const auto [b, h, i] = row_index(p, row);
      for (Index c = 0; c < p.dv; ++c)
        add(oracle_->out_enclosure(b, h, i, c), properties::out_rounding(contract_, call_.out),
            call_.out.at(b, h, i, c), "out", {b, h, i, c});
      if (!call_.lse.present()) continue;
      add(oracle_->lse_enclosure(b, h, i), properties::lse_rounding(contract_, call_.lse), call_.lse.at(b, h, i), "lse",
          {b, h, i, 0});
    }
    return survey_;
  }

 private:
  void add(const oracle::Enclosure& enclosure, const oracle::Rounding& round, double got, const char* tensor,
           const std::array<Index, 4>& index) {
    switch (oracle::judge_element(enclosure, round, got)) {
      case oracle::Outcome::inside:
        ++survey_.inside;
        return;
      case oracle::Outcome::undetermined:
        ++survey_.undetermined;
        return;
      case oracle::Outcome::outside:
        break;
    }
    Evidence evidence = oracle::evidence_of(enclosure, round, got);
    ++survey_.outside;
    if (!(evidence.ratio > survey_.worst.ratio)) return;
    evidence.tensor = tensor;
    evidence.index = index;
    survey_.worst = std::move(evidence);
  }

  const SavedCall& call_;
  const attest::Contract& contract_;
  std::unique_ptr<oracle::Oracle> oracle_;
  Survey survey_;
};

}  // namespace

Exit Judgement::exit() const noexcept {
  if (verdict.kind == VerdictKind::fail || statistical.kind == VerdictKind::fail) return Exit::found;
  return verdict.kind == VerdictKind::pass ? Exit::held : Exit::internal;
}

Judgement judge(const SavedCall& call, const attest::Contract& contract, Index survey_work,
                const oracle::Calibration* calibration) {
  Judgement judgement;
  const auto oracle = oracle::make_oracle(contract, call.problem, call.inputs);
  oracle::Statistics statistics;
  judgement.verdict = oracle->judge(call.out, call.lse, &statistics);
  const std::string_view refusal = oracle::statistical_refusal(contract);
  judgement.statistical =
      refusal.empty()
          ? properties::statistical_bound_verdict(
                judgement.verdict, statistics,
                (calibration ? *calibration : oracle::shipped_calibration()).thresholds_of_any_class(contract.policy),
                *oracle, call.out)
          : Verdict::skip(std::string(refusal));
  if (judgement.verdict.kind == VerdictKind::fail) {
    judgement.survey = Surveyor(call, contract).run(judgement.verdict.evidence.value(), survey_work);
  } else {
    judgement.t = statistics.t();
    judgement.elements = statistics.elements;
  }
  return judgement;
}

}  // namespace attest::engine
