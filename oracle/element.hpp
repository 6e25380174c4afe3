#pragma once
#include <span>

#include "oracle/attention.hpp"
#include "oracle/lanes.hpp"
#include "oracle/row.hpp"

namespace attest::oracle {

// One output element of a row: its values, the reference and the interval of docs/bounds.md, sections 3 to 5.
class Column {
 public:
  // Keeps the values of a head, turned into columns, from now on, once a row's worth of them has been read. It serves a
  // caller that asks for many rows of one call.
  void keep_heads() noexcept { keeps_heads_ = true; }
  Enclosure evaluate(const Call& call, Row& row, Index b, Index h, Index column);
  // Returns what AttentionOracle::hull_enclosure() documents.
  Enclosure hull(const Call& call, Row& row, Index b, Index h, Index column);

  // The attended values of the element last evaluated, in units of 1/unit(), padded to whole lanes.
  [[nodiscard]] std::span<const double> values() const noexcept { return {v_, static_cast<std::size_t>(padded_)}; }
  [[nodiscard]] const std::vector<double>& radii() const noexcept { return radius_; }  // empty where all are 0
  [[nodiscard]] double unit() const noexcept { return of_.unit; }
  // Returns the largest (sign 1) or smallest (sign -1) mean of values() over a box of weights; y is the reference, in
  // the same unit.
  [[nodiscard]] double box_extreme(const Row::Box& box, double y, double sign) const;
  // The contribution of each permitted combination to the element last evaluated, in units of 1/unit(): the ends of the
  // box, the largest mean of |v|, what section 4 adds, and how much of it would be left if no weight were rounded.
  struct Part {
    Combination how;
    double below, above, mean_abs, x, x_unshared, g;
  };
  [[nodiscard]] std::span<const Part> parts(const Call& call, const Row& row);

 private:
  // sum p v, in units of 1/unit().
  [[nodiscard]] double sum_of_products(const Row& row) const;
  void read(const Call& call, const Row& row, Index b, Index h, Index column);
  bool keep_head(const Call& call, Index b, Index kv_head);
  // Tells whether values of masked keys may matter: one that is not finite, or that is not finite as an operand, gives
  // NaN times a weight of 0.
  static bool looks_at_masked(const Call& call, const Row& row) noexcept {
    return !row.facts.v_finite || call.numbers.operand_rounds;
  }
  [[nodiscard]] double least_top(const Row& row, const Row::Box& box) const;

  [[nodiscard]] Lanes magnitudes(std::size_t t) const {
    return radius_.empty() ? abs(load(&v_[t])) : abs(load(&v_[t])) + load(&radius_[t]);
  }

  // The facts that read() finds of the values.
  struct Facts {
    double unit = 1, sum_abs = 0, max_abs = 0, hull_lo = 0, hull_hi = 0;
    bool finite = true, unknown = false;
  };
  // The values of one head by columns, padded(keys) apart. `facts` holds those of the columns that were asked for by
  // rows that attend to all keys.
  struct Head {
    Index b = -1, kv_head = -1, reads = 0;
    bool kept = false;
    std::vector<double> values;
    std::vector<Facts> facts;
    std::vector<char> known;
  };

  std::vector<double> all_, own_, all_radius_, radius_;  // radii are empty where there are none
  const double* v_ = nullptr;                            // own_, or of head_
  Index padded_ = 0;
  bool keeps_heads_ = false;
  Head head_;
  Facts of_;
  mutable std::vector<double> ends_;
  Part parts_[4];
  int part_count_ = 0;
  bool masked_finite_ = true, beyond_operand_ = false;
};

// Returns the largest (sign 1) or smallest (sign -1) mean of `values`, padded to whole lanes, over a box of weights
// (section 3), by Dinkelbach's iteration from y, a mean or beyond the extreme. No mean lies past `hull`.
double extreme_mean(const Row::Box& box, std::span<const double> values, double y, double sign, double hull);

// Returns a box of weights every mean over which lies in the enclosure of its column, in a head whose finite values do
// not exceed max_abs, at most 1e200. Section 5 has then judged any finite result of such a column. Returns null where
// no such box is known.
const Row::Box* box_inside(const Call& call, Row& row, double max_abs);

// Returns at least what section 4 adds on either side of the box in a row with these numbers, for |v| <= max_abs.
double largest_reach(const Call& call, const RowNumbers& row, double max_abs);

// The row's log-sum-exp, section 4b.
Enclosure lse_enclosure_of(const Call& call, Row& row);

// The rule of the row alone, where no column matters: empty rows, NaN that must propagate, what nothing is known of.
// False if the row is ordinary or its empty row is a mean.
bool fixed_by_row(const Call& call, const Row& row, Enclosure& out);

}  // namespace attest::oracle
