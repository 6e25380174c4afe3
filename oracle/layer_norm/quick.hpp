#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "oracle/layer_norm/element.hpp"
#include "oracle/layer_norm/quick_loops.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

struct Params;

// Accepts elements that lie well inside their intervals, by a part of the interval that needs no sort and no long
// double. interval_of() holds every element that this class accepts; the rest is left undecided (docs/layer-norm.md,
// section 7).
class QuickRow {
 public:
  // Keeps references to all but `epsilon`.
  QuickRow(const QuickNumbers& numbers, const Params& params, double epsilon, const Rounding& round);
  ~QuickRow();
  QuickRow(const QuickRow&) = delete;
  QuickRow& operator=(const QuickRow&) = delete;

  // Facts that hold for certain of a row and of whatever finite numbers a kernel makes of it. Nothing is known where
  // all are false.
  struct Known {
    bool determined = false;    // no element is undetermined
    bool narrow = false;        // no element is wide, either
    bool undetermined = false;  // every element is, but for those that gamma takes away whole
    bool lost = false;          // the variance may overflow: NaN, infinities and exactly beta are undetermined
    bool lost_mean = false;     // the mean may overflow: NaN and infinities are undetermined
  };
  // Makes `row` the entered row.
  Known enter(const SourceRow& row);

  // Accepts elements of a determined row: bit i mod 8 of accepted[i / 8] is set for elements i that are inside. Returns
  // whether all are. `got` holds whole lanes.
  bool accept(std::span<const double> got, std::uint8_t* accepted);
  // Tells whether an element that accept() left in such a row lies in a part of its interval, computed as interval_of()
  // does.
  [[nodiscard]] bool surely_inside(const Element& element, double got) const;
  // Tells whether an interval that holds the element's interval is not wide.
  [[nodiscard]] bool surely_not_wide(const Element& element) const;
  // Tells whether parts of the intervals of a determined row show every element to be wide. out is not float64.
  [[nodiscard]] bool surely_wide() const;

  // Returns the rule of accept_short() for rows of this many elements, or nothing for contracts that it does not cover.
  [[nodiscard]] std::optional<ShortRule> short_rule() const;
  // Accepts rows of one element each under LayerNorm, the entered one being the largest of them and determined: bit i
  // mod 8 of accepted[i / 8] is set where got[i] is inside. Returns whether all are.
  bool accept_singles(std::span<const double> got, Index rows, std::uint8_t* accepted) const;

  // Tells whether an element may surely overflow.
  [[nodiscard]] bool surely_overflows(Index column) const;
  // Tells whether both ends of an element's interval are the infinity `got`, in a narrow row with out in float64.
  [[nodiscard]] bool surely_infinite(Index column, double got) const;

  // The entered row's x - mean.
  [[nodiscard]] Wide difference(Index column) const;

 private:
  static constexpr double bit = 0x1p-53;
  static constexpr double up = 1 + 1e-6;  // as `slack`, for upper bounds
  // The reference of a row and its error, in double, or in two doubles where out is float64.
  struct Reference {
    double magnitudes, largest, x0;
    double mean, mean_rest, mean_error;  // error of mean + mean_rest
    double variance, variance_rest, variance_error;
    double z_mean, z_mean_error;  // mean of x less the first element
  };
  // Lower or upper bounds of the terms of section 3.
  struct Bounds {
    double dm = 0, ed = 0, cv = 0, av = 0;
    double below = 0, above = 0;  // distance of the variance from its bounds, whatever the mean
    double lost = 0;              // the largest number that must stay below the threshold of overflow, for the variance
    double lost_mean = 0;         // at least the largest such number for the mean; set in least_ alone
    bool joint = false;
  };

  [[nodiscard]] bool surely_lost(const SourceRow& row) const;
  bool refer(const SourceRow& row);
  void refer_mean(const PreciseSums& sums);
  void refer_variance(const double* x);
  void refer_nearly(const double* x);
  void raise(const SourceRow& row);
  bool accept_by_rule(std::span<const double> got, std::uint8_t* accepted) const;
  [[nodiscard]] const std::vector<double>& entered() const { return is_raised_ ? raised_ : row_->x; }
  [[nodiscard]] Bounds bounds(bool most) const;
  [[nodiscard]] double sum_off(double total, double largest, double grid, bool most) const;
  [[nodiscard]] Bounds welford(Bounds b, bool most, double v) const;
  [[nodiscard]] Bounds one_pass(Bounds b, bool most, double v, double dz) const;
  [[nodiscard]] double narrow_steps() const;
  [[nodiscard]] bool is_narrow() const;
  [[nodiscard]] Known bounded_by_most() const;
  void make_rule();
  void bound_infinities();
  [[nodiscard]] double relative_error() const;
  void take_nothing_of_t();
  bool row_bounds(const Bounds& b, bool most, RowBounds& row) const;

  const QuickNumbers& m_;
  const double epsilon_;
  const Rounding& round_;
  bool speaks_, narrow_, narrow_if_mean_is_ = false;
  bool precise_;          // out is float64, and so is its reference
  double of_params_ = 0;  // relative error of t by the rounding of gamma before the product
  // The reference's own errors for an element, beside its statistics: in units of the last place, and relative, where
  // it is two doubles.
  double own_roundings_ = 0, own_in_two_ = 0;
  const double *gamma_ = nullptr, *beta_ = nullptr;  // in whole lanes, gamma with its offset; 1 and 0 where absent
  std::vector<double> own_gamma_, own_beta_;         // set where they differ from those of `params`
  double largest_beta_ = 0, largest_gamma_ = 0, largest_of_narrow_ = 0;

  const SourceRow* row_ = nullptr;
  std::vector<double> raised_;  // the row, if its numbers are tiny doubles, times AcceptRowRule::raise
  bool is_raised_ = false;      // the reference and the bounds of the mean are then multiplied by it, and v is 0
  Reference r_{};
  double whole_ = 0;  // variance plus epsilon of the reference
  // In a narrow row of doubles the variance is off by some roundings, which mostly suffices. near_suffices_: it did for
  // the rows before.
  bool is_near_ = false, near_suffices_ = true;
  Bounds least_{}, most_{};           // most_ is set for rows that are not narrow
  double bottom_ = 0, mean_off_ = 0;  // for surely_infinite(); nothing is known of infinities where bottom_ is 0
  AcceptRowRule rule_;                // make_rule() fills in what depends on the row
};

}  // namespace attest::oracle::layer_norm
