#include "oracle/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "oracle/calibration.hpp"
#include "oracle/call.hpp"
#include "oracle/full.hpp"
#include "oracle/judged_rows.hpp"
#include "oracle/outcome.hpp"
#include "oracle/quick.hpp"
#include "oracle/row.hpp"
#include "oracle/second_look.hpp"
#include "oracle/short_rows.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {
namespace {

// Gathers outcomes in the order of the elements, up to the first that lies outside.
class Tally {
 public:
  Tally() {}  // NOLINT: a default one clears the evidence that it does not have, which takes as long as a small row
  // Elements that add() would find inside one enclosure.
  void inside(Index elements, bool wide) {
    counts_.judged += elements;
    if (!wide) all_wide_ = false;
  }
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
    if (!all_wide_) {
      Verdict passed;
      passed.counts = counts_;
      return passed;
    }
    counts_.wide = counts_.judged;
    return Verdict::vacuous("wide", counts_);
  }

 private:
  Counts counts_;
  Index accepted_ = 0;
  bool all_wide_ = true;
  std::optional<Evidence> evidence_;
};

// The tensors under judgement.
struct Results {
  Results(const Numbers& numbers, const Tensor& out_tensor, const Tensor& lse_tensor)
      : out(out_tensor.view()),
        lse(lse_tensor.view()),
        has_lse(lse_tensor.present()),
        out_round(rounding(numbers, numbers.output, out_tensor)),
        lse_round(has_lse ? rounding(numbers, format_of(lse_tensor.dtype()), lse_tensor) : out_round) {}
  static Rounding rounding(const Numbers& numbers, Format stage, const Tensor& tensor) {
    return {stage, format_of(tensor.dtype()), numbers.flush, numbers.rounding == RoundingMode::directed};
  }
  attest_tensor out, lse;
  bool has_lse;
  Rounding out_round, lse_round;
};

template <class Full>
bool add_out(Full& full, Tally& tally, const Results& results, const RowIndex& r, Index c) {
  return tally.add(full.out(r, c), results.out_round, attest_load(&results.out, r.b, r.h, r.i, c), "out",
                   {r.b, r.h, r.i, c});
}

template <class Full>
bool add_lse(Full& full, Tally& tally, const Results& results, const RowIndex& r) {
  return tally.add(full.lse(r), results.lse_round, attest_load(&results.lse, r.b, r.h, r.i, 0), "lse",
                   {r.b, r.h, r.i, 0});
}

// What becomes of rows to which masks, or a bias of -inf, leave no key, where the contract alone says it: what full() finds of one whose query is
// finite, of a head that is.
class EmptyRows {
 public:
  explicit EmptyRows(const Call& call)
      : call_(call),
        fixed_(!call.contract->mask_added && !call.numbers.operand_rounds && !is_mean(call.contract->empty_row)) {}
  [[nodiscard]] bool settles() const noexcept { return fixed_; }
  // Of the rows that `quick` has just loaded.
  [[nodiscard]] bool settles(const Quick& quick, Index n) const {
    return fixed_ && quick.is_empty(n) && quick.head_finite();
  }
  // False if an element lies outside.
  bool judge(Tally& tally, const Results& results, const RowIndex& r, Index columns) {
    if (!known_) find(results);
    if (takes_zeros_ && results.out.strides[3] == 1 && all_zero(results.out, r, columns)) {
      tally.inside(columns, is_wide(out_));
      columns = 0;
    }
    for (Index c = 0; c < columns; ++c)
      if (!tally.add(out_, results.out_round, attest_load(&results.out, r.b, r.h, r.i, c), "out", {r.b, r.h, r.i, c}))
        return false;
    return !results.has_lse ||
           tally.add(lse_, results.lse_round, attest_load(&results.lse, r.b, r.h, r.i, 0), "lse", {r.b, r.h, r.i, 0});
  }

 private:
  void find(const Results& results) {
    Row row;
    row.kind = RowKind::empty;
    (void)fixed_by_row(call_, row, out_);
    lse_ = lse_enclosure_of(call_, row);
    takes_zeros_ = judge_element(out_, results.out_round, 0) == Outcome::inside;
    known_ = true;
  }
  // Whether all bits of a dense row are 0.
  static bool all_zero(const attest_tensor& out, const RowIndex& r, Index columns) {
    const auto* const bytes = static_cast<const unsigned char*>(attest_at(&out, r.b, r.h, r.i, 0));
    const auto count = static_cast<std::size_t>(columns * out.dtype.bits / 8);
    return count == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0);
  }

  const Call& call_;
  bool fixed_, known_ = false, takes_zeros_ = false;
  Enclosure out_, lse_;
};

// The n-th row of a block: what Quick accepts is counted, the rest is judged by `full()`. False if an element lies outside.
template <class GetFull>
bool judge_row(const GetFull& full, Tally& tally, const Results& results, Quick& quick, Index n, const RowIndex& r,
               Index columns) {
  if (quick.accepts_row(n)) {
    tally.accept(columns);
  } else {
    bool asked = false;
    for (Index c = 0; c < columns; ++c) {
      // Before it is known that not all is wide, every enclosure has to be looked at.
      if (!asked && !tally.all_wide()) {
        full().accept_means(quick, n, r);
        asked = true;
      }
      if (quick.accepts(n, c))
        tally.accept(1);
      else if (full().undetermined_by_row(r, attest_load(&results.out, r.b, r.h, r.i, c)))
        tally.undetermined();
      else if (!add_out(full(), tally, results, r, c))
        return false;
    }
  }
  if (!results.has_lse) return true;
  if (!quick.accepts_lse(n)) return add_lse(full(), tally, results, r);
  tally.accept(1);
  tally.not_wide();  // a log-sum-exp has no hull
  return true;
}

// The lambda, at most, of an element that a quick level found near, `largest` of its s away.
double lambda_of_near(double largest) {
  return std::min(Statistics::near_lambda, largest / spread_margin * (1 + 1e-5));
}

// Whether two rows that follow each other have the same weights within an eighth of their rounding, and so the same errors, by what these
// come to, N = (sum p)^2 / sum p^2. Differences of that size, one way or the other, move it by 2 c u/8 sqrt n where n weights vary by c of
// their mean, c^2 = n/N - 1, and by about 2 (N - 1) u/8 where one weight is nearly all: the lesser, of the whole numbers beside N.
bool same_weights(const Numbers& m, double weights, double last) {
  const double moved = std::fabs(weights - last), most = m.u_weights / 4;
  if (!(moved <= most)) return false;
  const double of_many = std::sqrt(std::ceil(weights) - weights), of_one = weights - std::floor(weights);
  return moved <= std::min(of_many, of_one) * most;
}

// Takes up a row's share of T, of which so many elements are finite and whose weights come to so many.
void add_to_t(const Numbers& m, double squares, double finite, double weights, Statistics& statistics) {
  statistics.elements += static_cast<Index>(finite);
  statistics.squares += squares;
  if (finite == 0) return;
  const double errors = std::max(1.0, weights - 1);
  statistics.weights += weights;
  statistics.row_errors += errors;
  if (!same_weights(m, weights, statistics.last_weights)) {
    statistics.own_row_errors += errors;
    statistics.own_elements += finite;
  }
  statistics.last_weights = weights;
  // Weights that all lie within a rounding of each other come to a whole number, but for its square.
  const double keys = std::round(weights);
  if (m.weights_round && keys > 1 && std::fabs(keys - weights) <= keys * m.u_weights * m.u_weights)
    statistics.alike += finite;
}

// What a row of `short_rows` says, which is proven inside, and near where that is asked.
void take_up(const Numbers& m, const ShortRows& short_rows, Index n, const Results& results, Index columns,
             Tally& tally, Statistics* statistics) {
  tally.accept(columns + (results.has_lse ? 1 : 0));
  if (statistics == nullptr) return;
  const ShortRows::Spread row = short_rows.spread(n);
  add_to_t(m, row.squares, row.finite, row.weights, *statistics);
  statistics->largest_lambda = std::max(statistics->largest_lambda, lambda_of_near(row.largest));
}

// From so many keys on, what sums meet on their way may weigh more than what moments say of them.
constexpr Index many_keys = 8;
// Elements that a second look at T is at, spread evenly.
constexpr Index most_looked_at = 4096;

// Takes up what one row says: by Quick where it knows, by `full()` where an element may need more than near_lambda.
template <class GetFull>
void add_statistics(const Numbers& m, const GetFull& full, const Results& results, Quick* quick, Index n,
                    const RowIndex& r, Index columns, Statistics& statistics) {
  bool known = quick != nullptr && quick->has_near(n);
  if (known && quick->has_spread(n)) {
    if (!quick->spread(n).all_near && quick->most(n).keys >= static_cast<double>(many_keys)) {
      quick->look_at_sums();
      quick->find_near_by_sums(n);
    }
    add_to_t(m, quick->spread(n).squares, quick->spread(n).finite, quick->weights(n), statistics);
    statistics.largest_lambda = std::max(statistics.largest_lambda, lambda_of_near(quick->spread(n).largest));
    if (quick->spread(n).all_near) return;
  }
  if (statistics.largest_lambda > Statistics::stop_lambda) return;
  // How little one needs is nothing that anybody asks.
  const auto enough_now = [&] { return std::max(statistics.largest_lambda, Statistics::near_lambda); };
  if (quick != nullptr && (quick->is_near_by_mean(n) || (known && !quick->has_spread(n)))) {
    statistics.largest_lambda = enough_now();
    if (!known || quick->spread(n).all_near) return;
  }
  if (full().has_no_spread(r)) return;
  if (quick != nullptr && full().find_near_by_means(*quick, n, r, enough_now())) {
    statistics.largest_lambda = enough_now();
    known = true;
  }
  for (Index c = 0; c < columns; ++c) {
    if (statistics.largest_lambda > Statistics::stop_lambda || (known && quick->is_near(n, c))) continue;
    const double got = attest_load(&results.out, r.b, r.h, r.i, c);
    if (!std::isfinite(got)) continue;
    const double enough = enough_now();
    if (full().needs_at_most(r, c, results.out_round, got, enough)) {
      statistics.largest_lambda = enough;
      continue;
    }
    statistics.largest_lambda = full().lambda_needed(r, c, results.out_round, got);
    statistics.index = {r.b, r.h, r.i, c};
  }
}

}  // namespace

AttentionOracle::AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                                 RoundingMode rounding)
    : problem_(problem),
      call_(contract, problem, inputs, rounding),
      has_statistics_(rounding == RoundingMode::nearest && statistical_refusal(contract).empty()) {}
AttentionOracle::AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                                 const Radii& radii)
    : problem_(problem),
      call_(contract, problem, inputs, RoundingMode::nearest, &radii),
      has_statistics_(!call_.has_radii && statistical_refusal(contract).empty()) {}
AttentionOracle::~AttentionOracle() = default;

AttentionOracle::Full& AttentionOracle::full() {
  if (!full_) full_ = std::make_unique<Full>(*this);
  return *full_;
}

Enclosure AttentionOracle::out_enclosure(Index b, Index h, Index i, Index column) {
  return full().out({b, h, i}, column);
}

Enclosure AttentionOracle::hull_enclosure(Index b, Index h, Index i, Index column) {
  return full().column.hull(call_, full().at({b, h, i}), b, h, column);
}

StatisticalEnclosure AttentionOracle::statistical_enclosure(Index b, Index h, Index i, Index column, double lambda) {
  Full& at = full();
  const Enclosure rigorous = at.out({b, h, i}, column);
  double y;
  const std::optional<Spread> spread = at.spread_at({b, h, i}, column, y);
  if (!spread) return {};
  const RowSpread::Interval interval = at.spread.interval(at.row, at.column, y, *spread, lambda);
  return {true,
          at.spread.by_box,
          spread->s,
          spread->bias,
          std::max(interval.lo, rigorous.lo),
          std::min(interval.hi, rigorous.hi)};
}

namespace {

// Calls square(row, columns, squares) for elements of a sample that follow each other, those of one row lane_count at a time;
// their squares go where they belong in `squares`.
template <class Square>
void by_row(const Sample& sample, std::span<const Index> elements, std::span<double> squares, const Square& square) {
  std::array<Index, lane_count> columns;
  std::array<double, lane_count> found;
  for (std::size_t next = 0; next < elements.size();) {
    const std::size_t row = sample.row(elements[next]);
    std::size_t count = 0;
    for (; next + count < elements.size() && count < columns.size() && sample.row(elements[next + count]) == row;
         ++count)
      columns[count] = sample.column(elements[next + count]);
    square(row, std::span<const Index>(columns).first(count), std::span(found).first(count));
    for (std::size_t n = 0; n < count; ++n) squares[static_cast<std::size_t>(elements[next + n])] = found[n];
    next += count;
  }
}

}  // namespace

double AttentionOracle::slow_t(const Tensor& out, Index most) {
  const Sample sample(problem_, call_.dv, most);
  std::vector<double> squares(static_cast<std::size_t>(sample.count));
  std::vector<Index> all(squares.size());
  std::iota(all.begin(), all.end(), Index{0});
  by_row(sample, all, squares, [&](std::size_t row, std::span<const Index> columns, std::span<double> to) {
    full().squares(out, row_index(problem_, sample.rows[row]), columns, to);
  });
  return rms(squares);
}

double AttentionOracle::second_look(const Tensor& out, double limit) {
  const Sample sample(problem_, call_.dv, most_looked_at);
  std::vector<double> squares(static_cast<std::size_t>(sample.count), infinity);
  // In f64 the references of both levels differ by as much as results do.
  if (call_.has_radii || !has_statistics_ || call_.keys < many_keys || call_.numbers.u_pv < 0x1p-40 ||
      !bound_squares(call_, problem_, sample, out, squares))
    return slow_t(out, most_looked_at);
  // The whole of s for those with the largest bounds first, until what the others may add does not matter.
  std::vector<Index> order(squares.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto bound = [&](Index n) { return squares[static_cast<std::size_t>(n)]; };
  const auto comes_first = [&](Index a, Index b) { return bound(a) != bound(b) ? bound(a) > bound(b) : a < b; };
  // Rows are kept from one round to the next where they are few and short: a round may ask for a few elements of each of them.
  constexpr std::size_t most_kept = 1024;
  constexpr double kept_numbers = 1 << 22;  // of all keys that are kept
  const double numbers_a_row = static_cast<double>(call_.keys) * static_cast<double>(call_.d + 16);
  const bool keeps =
      sample.rows.size() <= most_kept && static_cast<double>(sample.rows.size()) * numbers_a_row <= kept_numbers;
  std::vector<std::unique_ptr<Full>> kept(keeps ? sample.rows.size() : 0);
  const auto full_of = [&](std::size_t row) -> Full& {
    if (!keeps) return full();
    if (!kept[row]) kept[row] = std::make_unique<Full>(*this);
    return *kept[row];
  };
  auto next = order.begin();
  const auto last = std::partition(next, order.end(), [&](Index n) { return bound(n) != no_square; });
  for (Index some = std::max<Index>(1, sample.count / 32);; some *= 2) {
    const double t = rms(squares);
    if (t <= limit || next == last) return t;
    const auto end = next + std::min<std::ptrdiff_t>(some, last - next);
    if (end != last) std::nth_element(next, end, last, comes_first);
    std::sort(next, end);  // row by row
    by_row(sample, {next, end}, squares, [&](std::size_t row, std::span<const Index> columns, std::span<double> to) {
      full_of(row).squares(out, row_index(problem_, sample.rows[row]), columns, to);
    });
    next = end;
  }
}

double AttentionOracle::lambda_needed(Index b, Index h, Index i, Index column, Format tensor, double got) {
  return full().lambda_needed({b, h, i}, column, {call_.numbers.output, tensor, false}, got);
}

bool AttentionOracle::head_known_finite(Index head) const noexcept {
  return heads_finite_ || head == finite_head_ ||
         (!finite_heads_.empty() && finite_heads_[static_cast<std::size_t>(head)] != 0);
}

// Whether masks leave no key to a row whose query and head are finite, so that Row::evaluate() would find nothing but an empty row.
bool AttentionOracle::surely_empty(const RowIndex& r) {
  if (call_.has_radii || call_.contract->mask_added || is_mean(call_.contract->empty_row)) return false;
  const KeyRange range = call_.range(r.b, r.i);
  if (!call_.has_keep && range.first < range.last) return false;
  for (Index j = range.first; j < range.last; ++j)
    if (call_.kept(r.b, r.h, r.i, j)) return false;
  query_.resize(static_cast<std::size_t>(call_.d));
  read_row(call_.q, r.b, r.h, r.i, call_.d, query_.data());
  if (!std::ranges::all_of(query_, [](double x) { return std::isfinite(x); })) return false;
  if (heads_finite_) return true;
  const HeadFacts& facts = full().facts_for(r);
  return facts.k_finite && facts.v_finite;
}

Enclosure AttentionOracle::lse_enclosure(Index b, Index h, Index i) {
  const auto number = static_cast<std::size_t>(call_.row_number({b, h, i}));
  const bool known = number < known_empty_.size() && known_empty_[number] != 0;
  if (!known && !surely_empty({b, h, i})) return full().lse({b, h, i});
  if (!empty_lse_) {
    Row empty;
    empty.kind = RowKind::empty;
    empty_lse_ = lse_enclosure_of(call_, empty);
  }
  return *empty_lse_;
}

Verdict AttentionOracle::judge_slowly(const Tensor& out, const Tensor& lse) {
  const Results results(call_.numbers, out, lse);
  Tally tally;
  for (const Index flat : judged_rows(problem_)) {
    const RowIndex r = row_index(problem_, flat);
    for (Index c = 0; c < call_.dv; ++c)
      if (!add_out(full(), tally, results, r, c)) return tally.verdict();
    if (results.has_lse && !add_lse(full(), tally, results, r)) return tally.verdict();
  }
  return tally.verdict();
}

namespace {

// Leaves T out where the rows that differ have few weights, and counts the errors that make it: those of rows that differ as the problem
// has it, and as its numbers do, since a softcap, queries that are all the same or a bias may make one row of many.
void count_errors(const Problem& problem, std::size_t rows, Statistics& statistics) {
  const double differ = rows > 0 ? static_cast<double>(distinct_rows(problem)) / static_cast<double>(rows) : 0;
  if (statistics.weights * differ < least_weights) statistics.elements = 0;
  statistics.errors = std::min({statistics.row_errors * differ, statistics.own_row_errors, statistics.own_elements});
}

}  // namespace

Verdict AttentionOracle::judge(const Tensor& out, const Tensor& lse, Statistics* statistics) {
  return judge(out, lse, statistics, true);
}

Verdict AttentionOracle::judge_row_by_row(const Tensor& out, const Tensor& lse, Statistics* statistics) {
  return judge(out, lse, statistics, false);
}

Verdict AttentionOracle::judge(const Tensor& out, const Tensor& lse, Statistics* statistics, bool lanes) {
  const Results results(call_.numbers, out, lse);
  if (!has_statistics_ || call_.dv == 0) statistics = nullptr;  // there is nothing to say
  const auto full = [this]() -> Full& { return this->full(); };
  if (call_.has_radii) return judge_slowly(out, lse);  // the quick levels know of points alone
  const JudgedRows rows(problem_);
  const bool few = static_cast<Index>(rows.size()) * call_.dv < least_elements;
  const Quick::Spreads spreads = statistics == nullptr ? Quick::Spreads::none
                                 : few                 ? Quick::Spreads::near
                                                       : Quick::Spreads::near_and_t;
  Quick quick(call_, format_of(out.dtype()), spreads);
  if (quick.max_rows() == 0) {
    if (statistics != nullptr)
      for (const Index flat : judged_rows(problem_))
        add_statistics(call_.numbers, full, results, nullptr, 0, row_index(problem_, flat), call_.dv, *statistics);
    return judge_slowly(out, lse);
  }
  Tally tally;
  Block block;
  EmptyRows empty(call_);
  const auto judge_empty = [&](const RowIndex& row) {
    known_empty_.resize(static_cast<std::size_t>(problem_.b * problem_.hq * problem_.lq));
    known_empty_[static_cast<std::size_t>(call_.row_number(row))] = 1;
    return empty.judge(tally, results, row, call_.dv);
  };
  bool heads_finite = problem_.rows == 0 && rows.size() > 0;
  std::optional<ShortRows> short_rows;
  if (lanes && ShortRows::speaks_of(quick, call_, spreads, rows.size()))
    short_rows.emplace(quick, call_, spreads, format_of(out.dtype()), results.out, results.lse);
  for (std::size_t next = 0; next < rows.size();) {
    // Once it is known that not all is wide, whatever a row of few keys says is counted alike.
    if (short_rows && short_rows->speaks() && !tally.all_wide() &&
        short_rows->settles(problem_, rows, next, empty.settles())) {
      Index n = 0;
      for (const RowIndex& row : short_rows->rows()) {
        if (!short_rows->is_empty(n))
          take_up(call_.numbers, *short_rows, n, results, call_.dv, tally, statistics);
        else if (!judge_empty(row))
          return tally.verdict();
        ++n;
      }
      next += static_cast<std::size_t>(n);
      continue;
    }
    next = block.take(problem_, rows, next, quick.max_rows());
    quick.load(block.rows(), results.out, results.lse);
    if (quick.head_finite()) {
      finite_head_ = call_.head_number(block.rows()[0].b, block.rows()[0].h);
      if (problem_.rows != 0) {  // else all heads are asked
        finite_heads_.resize(static_cast<std::size_t>(call_.batch * call_.kv_heads));
        finite_heads_[static_cast<std::size_t>(finite_head_)] = 1;
      }
    } else {
      heads_finite = false;
    }
    Index n = 0;
    for (const RowIndex& row : block.rows()) {
      if (empty.settles(quick, n)) {  // the tiers say nothing of it
        if (!judge_empty(row)) return tally.verdict();
      } else {
        if (statistics != nullptr) add_statistics(call_.numbers, full, results, &quick, n, row, call_.dv, *statistics);
        if (!judge_row(full, tally, results, quick, n, row, call_.dv)) return tally.verdict();
      }
      if (tally.all_wide() && quick.proves_not_wide(n)) tally.not_wide();
      ++n;
    }
  }
  heads_finite_ = heads_finite_ || heads_finite;
  if (statistics != nullptr) count_errors(problem_, rows.size(), *statistics);
  return tally.open() ? judge_slowly(out, lse) : tally.verdict();
}

}  // namespace attest::oracle
