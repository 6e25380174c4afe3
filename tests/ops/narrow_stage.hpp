#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "ops/op.hpp"
#include "ops/probe/narrow.hpp"

namespace attest::test {

struct AskedNarrowStage {
  int failed = 0, asked = 0;
  std::string first;  // failure
};
// Holds a subject to the law narrow-stage on drawn problems of its first dtype, until one fails or so many were asked.
inline AskedNarrowStage ask_narrow_stage(const ops::Op& op, Subject& subject, int problems) {
  const Format dtype = op.dtypes(subject.info()).front();
  const ops::Contract contract = op.contract(subject.info(), dtype);
  const ops::Law& law = *ops::find_law(ops::probing::narrow_stage_name, op);
  const std::unique_ptr<ops::Domain> domain = op.domain(ops::Supports(subject.info()), {dtype});
  AskedNarrowStage result;
  for (int n = 0; n < problems && result.failed == 0; ++n) {
    const ops::Problem problem = domain->draw(44, static_cast<std::uint64_t>(n), 1).problem;
    if (law.not_applicable(problem, contract, subject.info())) continue;
    const Verdict verdict = op.trial(problem, contract, subject, nullptr)->check(law);
    result.asked += verdict.kind != VerdictKind::skip;
    if (verdict.kind != VerdictKind::fail) continue;
    ++result.failed;
    result.first = to_text(problem) + ": " + verdict.evidence->note;
  }
  return result;
}

}  // namespace attest::test
