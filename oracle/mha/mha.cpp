#include "oracle/mha/mha.hpp"

#include "oracle/outcome.hpp"

namespace attest::oracle {

MhaOracle::MhaOracle(const mha::Contract& contract, const mha::Call& call)
    : block_(contract, call), ways_(ways_of(block_)) {}

Enclosure MhaOracle::enclosure(std::size_t way, Index b, Index i, Index e) {
  if (way != row_way_ || b != row_b_ || i != row_i_) row_.evaluate(block_, *ways_[way], b, i);
  row_way_ = way;
  row_b_ = b;
  row_i_ = i;
  return row_.enclosure(block_, *ways_[way], e);
}

Verdict MhaOracle::judge_way(std::size_t way, const Tensor& out) {
  const Rounding round{block_.contract.attention.policy[Stage::output], format_of(out.dtype()), false};
  const attest_tensor view = out.view();
  Counts counts;
  bool all_wide = true;
  for (Index b = 0; b < block_.call.b(); ++b)
    for (Index i = 0; i < block_.call.l(); ++i)
      for (Index e = 0; e < block_.call.e(); ++e) {
        const Enclosure at = enclosure(way, b, i, e);
        const double got = attest_load(&view, b, i, e, 0);
        const Outcome outcome = judge_element(at, round, got);
        ++(outcome == Outcome::undetermined ? counts.undetermined : counts.judged);
        if (outcome == Outcome::inside && !is_wide(at)) all_wide = false;
        if (outcome != Outcome::outside) continue;
        Evidence evidence = evidence_of(at, round, got);
        evidence.tensor = "out";
        evidence.index = {b, i, e, 0};
        return Verdict::fail(std::move(evidence), counts);
      }
  if (counts.judged == 0) return Verdict::vacuous("undetermined", counts);
  if (!all_wide) return Verdict::pass(counts);
  counts.wide = counts.judged;
  return Verdict::vacuous("wide", counts);
}

Verdict MhaOracle::judge_slowly(const Tensor& out) {
  Verdict first;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    Verdict verdict = judge_way(way, out);
    if (verdict.kind != VerdictKind::fail) return verdict;
    if (way == 0) first = std::move(verdict);
  }
  return first;
}

Verdict MhaOracle::judge(const Tensor& out) { return judge_slowly(out); }

}  // namespace attest::oracle
