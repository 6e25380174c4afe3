#include "oracle/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "oracle/call.hpp"
#include "oracle/element.hpp"
#include "oracle/outcome.hpp"
#include "oracle/quick.hpp"
#include "oracle/row.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {
namespace {

// Gathers outcomes in the order of the elements, up to the first that lies outside.
class Tally {
 public:
  // Elements known to lie inside.
  void accept(Index elements) {
    counts_.judged += elements;
    accepted_ += elements;
  }
  void undetermined() { ++counts_.undetermined; }
  void not_wide() { all_wide_ = false; }
  [[nodiscard]] bool all_wide() const { return all_wide_; }
  // Whether a verdict waits on enclosures that nobody computed: those of accepted elements may be wide or not.
  [[nodiscard]] bool open() const { return all_wide_ && accepted_ > 0; }

  // False if the element lies outside.
  bool add(const Enclosure& enclosure, const Rounding& round, double got, const char* tensor,
           std::array<Index, 4> index) {
    const Outcome outcome = judge_element(enclosure, round, got);
    ++(outcome == Outcome::undetermined ? counts_.undetermined : counts_.judged);
    if (outcome == Outcome::inside && !is_wide(enclosure)) all_wide_ = false;
    if (outcome != Outcome::outside) return true;
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
  Index accepted_ = 0;
  bool all_wide_ = true;
  std::optional<Evidence> evidence_;
};

}  // namespace

struct AttentionOracle::State {
  State(const Contract& contract, const Problem& the_problem, const Inputs& inputs, RoundingMode rounding)
      : problem(the_problem),
        call(contract, the_problem, inputs, rounding),
        has_statistics(rounding == RoundingMode::nearest && statistical_refusal(contract).empty()) {}

  const Problem& problem;
  Call call;
  bool has_statistics;
  Row row;
  Column column;
  HeadFacts facts;
  RowSpread spread;
  Index facts_of = -1, row_of = -1, spread_of = -1;

  [[nodiscard]] Index head_number(Index b, Index h) const { return b * call.kv_heads + call.kv_head(h); }
  [[nodiscard]] Index row_number(const RowIndex& r) const { return (r.b * call.heads + r.h) * call.rows + r.i; }

  Row& at(const RowIndex& r) {
    if (facts_of != head_number(r.b, r.h)) {
      facts = head_facts(call, r.b, call.kv_head(r.h));
      facts_of = head_number(r.b, r.h);
    }
    const Index number = row_number(r);
    if (row_of != number) row.evaluate(call, facts, r.b, r.h, r.i);
    row_of = number;
    return row;
  }
  Enclosure out(const RowIndex& r, Index c) { return saturated(column.evaluate(call, at(r), r.b, r.h, c)); }
  Enclosure lse(const RowIndex& r) { return saturated(lse_enclosure_of(call, at(r))); }
  // Toward zero, what overflows may end at the largest finite number: where infinities are permitted, finite values are too.
  [[nodiscard]] Enclosure saturated(Enclosure e) const {
    if (call.numbers.rounding == RoundingMode::directed && e.nonfinite_ok) e.undetermined = true;
    return e;
  }
  // Evaluates an element for the statistical tier: empty if that says nothing of it.
  std::optional<Spread> spread_at(const RowIndex& r, Index c, Enclosure& rigorous) {
    rigorous = out(r, c);
    if (row.kind != RowKind::ordinary || row.score_lost || rigorous.expect != Expect::number || rigorous.undetermined ||
        !has_statistics)
      return {};
    if (spread_of != row_of) spread.evaluate(call, row, r.b, r.h, r.i);
    spread_of = row_of;
    if (!spread.applies) return {};
    const Spread at = spread.of(call, row, column, rigorous.y);
    if (!std::isfinite(at.s + at.bias)) return {};  // a value that a narrower operand makes infinite
    return at;
  }
  // What AttentionOracle::lambda_needed says.
  double lambda_needed(const RowIndex& r, Index c, const Rounding& round, double got) {
    Enclosure rigorous;
    const std::optional<Spread> at = spread_at(r, c, rigorous);
    if (!at) return std::numeric_limits<double>::quiet_NaN();
    return spread.least_lambda(row, column, rigorous.y, *at, round, got);
  }
  // Whether the row's flags alone leave `got` undetermined, whatever its column.
  bool undetermined_by_row(const RowIndex& r, double got) {
    const Row& the_row = at(r);
    return the_row.kind == RowKind::ordinary && facts.v_finite &&
           (std::isfinite(got) ? the_row.finite_undetermined : the_row.nonfinite_ok);
  }
};

namespace {

// The tensors under judgement.
struct Results {
  Results(const Numbers& numbers, const Tensor& out_tensor, const Tensor& lse_tensor)
      : out(out_tensor.view()),
        lse(lse_tensor.view()),
        has_lse(lse_tensor.present()),
        out_round{numbers.output, format_of(out_tensor.dtype()), numbers.flush,
                  numbers.rounding == RoundingMode::directed},
        lse_round(out_round) {
    if (has_lse) lse_round.stage = lse_round.tensor = format_of(lse_tensor.dtype());
  }
  attest_tensor out, lse;
  bool has_lse;
  Rounding out_round, lse_round;
};

template <class State>
bool add_out(State& state, Tally& tally, const Results& results, const RowIndex& r, Index c) {
  return tally.add(state.out(r, c), results.out_round, attest_load(&results.out, r.b, r.h, r.i, c), "out",
                   {r.b, r.h, r.i, c});
}

template <class State>
bool add_lse(State& state, Tally& tally, const Results& results, const RowIndex& r) {
  return tally.add(state.lse(r), results.lse_round, attest_load(&results.lse, r.b, r.h, r.i, 0), "lse",
                   {r.b, r.h, r.i, 0});
}

// Rows from `next` on that read one key/value head, at most `most`.
std::size_t take_block(const Problem& problem, const std::vector<Index>& rows, std::size_t next, Index most,
                       std::vector<RowIndex>& block) {
  block.clear();
  for (; next < rows.size() && static_cast<Index>(block.size()) < most; ++next) {
    const RowIndex row = row_index(problem, rows[next]);
    const Index group = problem.group();
    if (!block.empty() && (row.b != block[0].b || row.h / group != block[0].h / group)) break;
    block.push_back(row);
  }
  return next;
}

// The n-th row of a block: what Quick accepts is counted, the rest is judged in full. False if an element lies outside.
template <class State>
bool judge_row(State& state, Tally& tally, const Results& results, const Quick& quick, Index n, const RowIndex& r) {
  const Index columns = state.call.dv;
  if (quick.accepts_row(n)) {
    tally.accept(columns);
  } else {
    for (Index c = 0; c < columns; ++c) {
      if (quick.accepts(n, c))
        tally.accept(1);
      else if (state.undetermined_by_row(r, attest_load(&results.out, r.b, r.h, r.i, c)))
        tally.undetermined();
      else if (!add_out(state, tally, results, r, c))
        return false;
    }
  }
  if (!results.has_lse) return true;
  if (!quick.accepts_lse(n)) return add_lse(state, tally, results, r);
  tally.accept(1);
  tally.not_wide();  // a log-sum-exp has no hull
  return true;
}

// Takes up what one row says: by Quick where it knows, by the full formulas where an element may need more than
// near_lambda.
template <class State>
void add_statistics(State& state, const Results& results, const Quick* quick, Index n, const RowIndex& r,
                    Statistics& statistics) {
  const bool known = quick != nullptr && quick->has_spread(n);
  if (known) {
    statistics.elements += static_cast<Index>(quick->spread(n).finite);
    statistics.squares += quick->spread(n).squares;
    statistics.largest_lambda =
        std::max(statistics.largest_lambda, quick->spread(n).largest / spread_margin * (1 + 1e-5));
    if (quick->spread(n).all_near) return;
  }
  for (Index c = 0; c < state.call.dv; ++c) {
    if (statistics.largest_lambda > Statistics::stop_lambda || (known && quick->is_near(n, c))) continue;
    const double got = attest_load(&results.out, r.b, r.h, r.i, c);
    if (!std::isfinite(got)) continue;
    const double lambda = state.lambda_needed(r, c, results.out_round, got);
    if (!(lambda > statistics.largest_lambda)) continue;
    statistics.largest_lambda = lambda;
    statistics.index = {r.b, r.h, r.i, c};
  }
}

}  // namespace

AttentionOracle::AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                                 RoundingMode rounding)
    : state_(std::make_unique<State>(contract, problem, inputs, rounding)) {}
AttentionOracle::~AttentionOracle() = default;

Enclosure AttentionOracle::out_enclosure(Index b, Index h, Index i, Index column) {
  return state_->out({b, h, i}, column);
}

Enclosure AttentionOracle::hull_enclosure(Index b, Index h, Index i, Index column) {
  return state_->column.hull(state_->call, state_->at({b, h, i}), b, h, column);
}

StatisticalEnclosure AttentionOracle::statistical_enclosure(Index b, Index h, Index i, Index column, double lambda) {
  State& at = *state_;
  Enclosure rigorous;
  const std::optional<Spread> spread = at.spread_at({b, h, i}, column, rigorous);
  if (!spread) return {};
  const RowSpread::Interval interval = at.spread.interval(at.row, at.column, rigorous.y, *spread, lambda);
  return {true,
          at.spread.by_box,
          spread->s,
          spread->bias,
          std::max(interval.lo, rigorous.lo),
          std::min(interval.hi, rigorous.hi)};
}

double AttentionOracle::slow_t(const Tensor& out, Index most) {
  State& at = *state_;
  const Format type = format_of(out.dtype());
  const std::vector<Index> rows = judged_rows(at.problem);
  const Index all = static_cast<Index>(rows.size()) * at.call.dv, step = std::max<Index>(1, (all + most - 1) / most);
  double squares = 0;
  Index elements = 0;
  for (Index n = 0; n < all; n += step) {
    const RowIndex r = row_index(at.problem, rows[static_cast<std::size_t>(n / at.call.dv)]);
    const Index c = n % at.call.dv;
    const double got = out.at(r.b, r.h, r.i, c);
    Enclosure rigorous;
    const std::optional<Spread> spread = std::isfinite(got) ? at.spread_at(r, c, rigorous) : std::nullopt;
    if (!spread || at.spread.by_box) continue;
    const double error = std::max(0.0, std::fabs(got - rigorous.y) - spread->bias);
    const double half_ulp = std::max(std::fabs(rigorous.y) * unit_roundoff(type), half_smallest_subnormal(type));
    const double ratio = error / std::hypot(spread->s, half_ulp / std::sqrt(3.0));
    squares += ratio * ratio;
    ++elements;
  }
  return elements > 0 ? std::sqrt(squares / static_cast<double>(elements)) : 0;
}

double AttentionOracle::lambda_needed(Index b, Index h, Index i, Index column, Format tensor, double got) {
  return state_->lambda_needed({b, h, i}, column, {state_->call.numbers.output, tensor, false}, got);
}

Enclosure AttentionOracle::lse_enclosure(Index b, Index h, Index i) { return state_->lse({b, h, i}); }

Verdict AttentionOracle::judge_slowly(const Tensor& out, const Tensor& lse) {
  const Call& call = state_->call;
  const Results results(call.numbers, out, lse);
  Tally tally;
  for (const Index flat : judged_rows(state_->problem)) {
    const RowIndex r = row_index(state_->problem, flat);
    for (Index c = 0; c < call.dv; ++c)
      if (!add_out(*state_, tally, results, r, c)) return tally.verdict();
    if (results.has_lse && !add_lse(*state_, tally, results, r)) return tally.verdict();
  }
  return tally.verdict();
}

Verdict AttentionOracle::judge(const Tensor& out, const Tensor& lse, Statistics* statistics) {
  const Call& call = state_->call;
  const Results results(call.numbers, out, lse);
  if (!state_->has_statistics) statistics = nullptr;
  Quick quick(call, format_of(out.dtype()), statistics != nullptr);
  if (quick.max_rows() == 0) {
    if (statistics != nullptr)
      for (const Index flat : judged_rows(state_->problem))
        add_statistics(*state_, results, nullptr, 0, row_index(state_->problem, flat), *statistics);
    return judge_slowly(out, lse);
  }
  Tally tally;
  std::vector<RowIndex> block;
  const std::vector<Index> rows = judged_rows(state_->problem);
  for (std::size_t next = 0; next < rows.size();) {
    next = take_block(state_->problem, rows, next, quick.max_rows(), block);
    quick.load(block, results.out, results.lse);
    if (quick.head_finite()) {
      state_->facts = {};
      state_->facts_of = state_->head_number(block[0].b, block[0].h);
    }
    for (std::size_t n = 0; n < block.size(); ++n) {
      const auto at = static_cast<Index>(n);
      if (statistics != nullptr) add_statistics(*state_, results, &quick, at, block[n], *statistics);
      if (!judge_row(*state_, tally, results, quick, at, block[n])) return tally.verdict();
      if (tally.all_wide() && quick.proves_not_wide(at)) tally.not_wide();
    }
  }
  return tally.open() ? judge_slowly(out, lse) : tally.verdict();
}

}  // namespace attest::oracle
