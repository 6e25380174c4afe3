#include "oracle/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "oracle/call.hpp"
#include "oracle/full.hpp"
#include "oracle/judged_rows.hpp"
#include "oracle/outcome.hpp"
#include "oracle/quick.hpp"
#include "oracle/row.hpp"
#include "oracle/short_rows.hpp"

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
  // Tells whether a verdict waits on enclosures that nobody computed: those of accepted elements may be wide or not.
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

// Judges rows to which masks, or a bias of -inf, leave no key, where the contract alone fixes their result. It says
// what full() finds for such a row of a finite query in a finite head.
class EmptyRows {
 public:
  explicit EmptyRows(const Call& call)
      : call_(call),
        fixed_(!call.contract->mask_added && !call.numbers.operand_rounds && !is_mean(call.contract->empty_row)) {}
  [[nodiscard]] bool settles() const noexcept { return fixed_; }
  // Says the same for row n of those that `quick` has just loaded.
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
  // Tells whether all bits of a dense row are 0.
  static bool all_zero(const attest_tensor& out, const RowIndex& r, Index columns) {
    const auto* const bytes = static_cast<const unsigned char*>(attest_at(&out, r.b, r.h, r.i, 0));
    const auto count = static_cast<std::size_t>(columns * out.dtype.bits / 8);
    return count == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0);
  }

  const Call& call_;
  bool fixed_, known_ = false, takes_zeros_ = false;
  Enclosure out_, lse_;
};

// Judges the n-th row of a block: counts the elements that Quick accepts and judges the rest by `full()`. Returns false
// if an element lies outside.
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

}  // namespace

AttentionOracle::AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                                 RoundingMode rounding)
    : problem_(problem), call_(contract, problem, inputs, rounding) {}
AttentionOracle::AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                                 const Radii& radii)
    : problem_(problem), call_(contract, problem, inputs, RoundingMode::nearest, &radii) {}
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

bool AttentionOracle::head_known_finite(Index head) const noexcept {
  return heads_finite_ || head == finite_head_ ||
         (!finite_heads_.empty() && finite_heads_[static_cast<std::size_t>(head)] != 0);
}

// Tells whether masks leave no key to a row whose query and head are finite, so that Row::evaluate() would find an
// empty row.
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

Verdict AttentionOracle::judge(const Tensor& out, const Tensor& lse) { return judge(out, lse, true); }

Verdict AttentionOracle::judge_row_by_row(const Tensor& out, const Tensor& lse) { return judge(out, lse, false); }

Verdict AttentionOracle::judge(const Tensor& out, const Tensor& lse, bool lanes) {
  const Results results(call_.numbers, out, lse);
  const auto full = [this]() -> Full& { return this->full(); };
  if (call_.has_radii) return judge_slowly(out, lse);  // the quick levels know of points alone
  const JudgedRows rows(problem_);
  Quick quick(call_, format_of(out.dtype()));
  if (quick.max_rows() == 0) return judge_slowly(out, lse);
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
  if (lanes && ShortRows::speaks_of(quick, call_, rows.size()))
    short_rows.emplace(quick, call_, format_of(out.dtype()), results.out, results.lse);
  for (std::size_t next = 0; next < rows.size();) {
    // Once it is known that not all is wide, whatever a row of few keys says is counted alike.
    if (short_rows && short_rows->speaks() && !tally.all_wide() &&
        short_rows->settles(problem_, rows, next, empty.settles())) {
      Index n = 0;
      for (const RowIndex& row : short_rows->rows()) {
        if (!short_rows->is_empty(n))
          tally.accept(call_.dv + (results.has_lse ? 1 : 0));
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
      const bool inside =
          empty.settles(quick, n) ? judge_empty(row) : judge_row(full, tally, results, quick, n, row, call_.dv);
      if (!inside) return tally.verdict();
      if (tally.all_wide() && quick.proves_not_wide(n)) tally.not_wide();
      ++n;
    }
  }
  heads_finite_ = heads_finite_ || heads_finite;
  return tally.open() ? judge_slowly(out, lse) : tally.verdict();
}

}  // namespace attest::oracle
