#include "engine/judge.hpp"

#include "oracle/outcome.hpp"

namespace attest::engine {
namespace {

// `first` is the element at which the verdict ended: the rows surveyed may not have it.
Survey survey_of(ops::Exchange& call, const Contract& contract, const Evidence& first, Index work) {
  Survey survey;
  survey.worst = first;
  const auto walked = call.walk(contract, work, [&](const ops::Permitted& element) {
    switch (element.outcome) {
      case oracle::Outcome::inside:
        ++survey.inside;
        return;
      case oracle::Outcome::undetermined:
        ++survey.undetermined;
        return;
      case oracle::Outcome::outside:
        break;
    }
    ++survey.outside;
    if (element.evidence->ratio > survey.worst.ratio) survey.worst = *element.evidence;
  });
  survey.rows = walked.rows;
  survey.all_rows = walked.all_rows;
  return survey;
}

}  // namespace

Exit Judgement::exit() const noexcept {
  if (verdict.kind == VerdictKind::fail) return Exit::found;
  return verdict.kind == VerdictKind::pass ? Exit::held : Exit::incomplete;
}

Judgement judge(ops::Exchange& call, const Contract& contract, Index survey_work,
                const oracle::Calibration* calibration) {
  Judgement judgement;
  oracle::Statistics statistics;
  judgement.verdict = call.judge(contract, &statistics);
  judgement.statistical = call.statistical(contract, judgement.verdict, statistics, calibration);
  if (judgement.verdict.kind == VerdictKind::fail) {
    judgement.survey = survey_of(call, contract, judgement.verdict.evidence.value(), survey_work);
  } else {
    judgement.t = statistics.t();
    judgement.elements = statistics.elements;
  }
  return judgement;
}

}  // namespace attest::engine
