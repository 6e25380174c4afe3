// lse: the log-sum-exp may be asked for.
//
// A problem that asks for it is run without, one that does not with it. The log-sum-exp lies in its enclosure, and out
// in its own, whichever was asked. Catches a log-sum-exp in another base or without the maximum, one of an empty row
// that is not -inf, and paths that differ by the tensors they return.
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason log_sum_exp_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (!info.supports.lse) return "the subject gives no log-sum-exp";
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return std::nullopt;
}

Verdict check_log_sum_exp(Trial& trial) {
  Problem other = trial.problem();
  const bool asked = other.lse != LseOutput::none;
  if (asked)
    other.lse = LseOutput::none;
  else
    other.lse = other.dtype == Format::f64 ? LseOutput::f64 : LseOutput::f32;
  Verdict base = trial.judgement();
  const Result result = trial.run(trial.inputs(), other);
  if (result.violation) return Verdict::fail(*result.violation);
  Verdict beside =
      noted(trial.judge(result.out, result.lse), asked ? "without the log-sum-exp" : "with the log-sum-exp asked for");
  // Whichever call gave the log-sum-exp is held to all of its enclosures; the other to what the first does not show.
  Verdict& with = asked ? base : beside;
  Verdict& without = asked ? beside : base;
  if (with.kind == VerdictKind::fail) return std::move(with);
  if (without.kind == VerdictKind::fail) return std::move(without);
  return joined(std::move(with), std::move(without));
}

}  // namespace

Property log_sum_exp() {
  return {"lse",
          "RN(lo) <= lse(x) <= RN(hi), and f(x) in its enclosure with and without it",
          "the log-sum-exp is right where it is asked for, and asking for it changes nothing beyond rounding",
          Kind::bound,
          log_sum_exp_not_applicable,
          check_log_sum_exp,
          Asks::anything,
          Claim::element};
}

}  // namespace attest::properties
