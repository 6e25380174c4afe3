#include "oracle/attention.hpp"

#include "oracle/call.hpp"
#include "oracle/element.hpp"
#include "oracle/outcome.hpp"
#include "oracle/row.hpp"

namespace attest::oracle {

struct AttentionOracle::State {
  State(const Contract& contract, const Problem& the_problem, const Inputs& inputs)
      : problem(the_problem), call(contract, the_problem, inputs) {}

  const Problem& problem;
  Call call;
  Row row;
  Column column;
  HeadFacts facts;
  Index facts_of = -1, row_of = -1;

  Row& at(Index b, Index h, Index i) {
    const Index kv = b * call.kv_heads + call.kv_head(h);
    if (facts_of != kv) {
      facts = head_facts(call, b, call.kv_head(h));
      facts_of = kv;
    }
    const Index index = (b * call.heads + h) * call.rows + i;
    if (row_of != index) row.evaluate(call, facts, b, h, i);
    row_of = index;
    return row;
  }
};

namespace {

// Gathers outcomes in the order of the elements and ends at the first that lies outside.
class Tally {
 public:
  // False if the element lies outside.
  bool add(const Enclosure& enclosure, const Rounding& round, double got, const char* tensor,
           std::array<Index, 4> index) {
    switch (judge_element(enclosure, round, got)) {
      case Outcome::undetermined:
        ++counts_.undetermined;
        return true;
      case Outcome::inside:
        ++counts_.judged;
        if (!is_wide(enclosure)) all_wide_ = false;
        return true;
      case Outcome::outside:
        break;
    }
    ++counts_.judged;
    evidence_ = evidence_of(enclosure, round, got);
    evidence_->tensor = tensor;
    evidence_->index = index;
    return false;
  }

  Verdict verdict() {
    if (evidence_) return Verdict::fail(std::move(*evidence_), counts_);
    if (counts_.judged == 0) return Verdict::vacuous("undetermined", counts_);
    if (!all_wide_) return Verdict::pass(counts_);
    counts_.wide = counts_.judged;
    return Verdict::vacuous("wide", counts_);
  }

 private:
  Counts counts_;
  bool all_wide_ = true;
  std::optional<Evidence> evidence_;
};

}  // namespace

AttentionOracle::AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs)
    : state_(std::make_unique<State>(contract, problem, inputs)) {}
AttentionOracle::~AttentionOracle() = default;

Enclosure AttentionOracle::out_enclosure(Index b, Index h, Index i, Index column) {
  return state_->column.evaluate(state_->call, state_->at(b, h, i), b, h, column);
}

Enclosure AttentionOracle::lse_enclosure(Index b, Index h, Index i) {
  return lse_enclosure_of(state_->call, state_->at(b, h, i));
}

Verdict AttentionOracle::judge_slowly(const Tensor& out, const Tensor& lse) {
  const Call& call = state_->call;
  const bool flush = call.numbers.flush;
  const Rounding round{call.numbers.output, format_of(out.dtype()), flush};
  const Rounding lse_round = lse.present() ? Rounding{format_of(lse.dtype()), format_of(lse.dtype()), flush} : round;
  const attest_tensor out_view = out.view(), lse_view = lse.view();
  Tally tally;
  for (const Index flat : judged_rows(state_->problem)) {
    const Index i = flat % call.rows, h = flat / call.rows % call.heads, b = flat / call.rows / call.heads;
    for (Index c = 0; c < call.dv; ++c)
      if (!tally.add(out_enclosure(b, h, i, c), round, attest_load(&out_view, b, h, i, c), "out", {b, h, i, c}))
        return tally.verdict();
    if (lse.present() && !tally.add(lse_enclosure(b, h, i), lse_round, attest_load(&lse_view, b, h, i, 0), "lse", {b, h, i, 0}))
      return tally.verdict();
  }
  return tally.verdict();
}

Verdict AttentionOracle::judge(const Tensor& out, const Tensor& lse) { return judge_slowly(out, lse); }

}  // namespace attest::oracle
