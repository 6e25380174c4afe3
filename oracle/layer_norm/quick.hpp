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

// Elements that lie well inside their intervals, by a part of these that needs no sort and no long double. What it accepts,
// interval_of() calls inside; of what it leaves, it knows nothing (docs/layer-norm.md, section 7).
class QuickRow {
 public:
  // Keeps a hold of all but `epsilon`.
  QuickRow(const QuickNumbers& numbers, const Params& params, double epsilon, const Rounding& round);
  ~QuickRow();
  QuickRow(const QuickRow&) = delete;
  QuickRow& operator=(const QuickRow&) = delete;

  // What is known for certain of a row and of whatever finite numbers a kernel makes of it; all false: nothing.
  struct Known {
    bool determined = false;    // no element is undetermined
    bool narrow = false;        // nor wide
    bool undetermined = false;  // every element is, but for those that gamma takes away whole
    bool lost = false;          // the variance may overflow: NaN, infinities and exactly beta are undetermined
    bool lost_mean = false;     // the mean may: NaN and infinities are
  };
  // Makes `row` the one that is spoken of.
  Known enter(const SourceRow& row);

  // Of a row that is determined: bit i mod 8 of accepted[i / 8] is set for elements i that are inside; whether all are. `got`
  // holds whole lanes.
  bool accept(std::span<const double> got, std::uint8_t* accepted);
  // By a part of its interval as interval_of() makes one, of what accept() leaves of such a row.
  [[nodiscard]] bool surely_inside(const Element& element, double got) const;
  // By an interval that holds it.
  [[nodiscard]] bool surely_not_wide(const Element& element) const;
  // Whether parts of the intervals of a row that is determined say of every element that it is wide; out not in f64.
  [[nodiscard]] bool surely_wide() const;

  // What accept_short() may be asked of rows of this many elements; nothing of contracts of which it says nothing.
  [[nodiscard]] std::optional<ShortRule> short_rule() const;
  // Of rows of one element each under LayerNorm, the entered one being the largest of them and determined: bit i mod 8 of
  // accepted[i / 8] is set where got[i] is inside; whether all are.
  bool accept_singles(std::span<const double> got, Index rows, std::uint8_t* accepted) const;

  // Whether an element may surely overflow.
  [[nodiscard]] bool surely_overflows(Index column) const;
  // Of a row that is narrow, out in f64: whether both ends are the infinity `got`.
  [[nodiscard]] bool surely_infinite(Index column, double got) const;

  // The entered row's x - mean.
  [[nodiscard]] Wide difference(Index column) const;

 private:
  static constexpr double bit = 0x1p-53;
  static constexpr double up = 1 + 1e-6;  // as `slack`, of what must not be too small
  // The reference of a row, in double, or in two where out is: and how far off it may be.
  struct Reference {
    double magnitudes, largest, x0;
    double mean, mean_rest, mean_error;  // mean + mean_rest
    double variance, variance_rest, variance_error;
    double z_mean, z_mean_error;  // of x less the first
  };
  // What bounds the statistics: at least, or at most, what section 3 has.
  struct Bounds {
    double dm = 0, ed = 0, cv = 0, av = 0;
    double below = 0, above = 0;  // of the variance, whatever the mean
    double lost = 0;              // the largest number that must stay below the threshold of overflow, for the variance
    double lost_mean = 0;         // at least the largest one for the mean; of `least` alone
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
  bool precise_;  // out is in f64, and so is what it is compared with
  double of_params_ = 0;  // of t: what gamma is rounded by on its way
  // Of the reference of an element, beside its statistics: in units of the last place; and relative, where it is one of two doubles.
  double own_roundings_ = 0, own_in_two_ = 0;
  const double *gamma_ = nullptr, *beta_ = nullptr;  // in whole lanes, gamma with its offset; 1 and 0 where absent
  std::vector<double> own_gamma_, own_beta_;         // where they are not those of `params`
  double largest_beta_ = 0, largest_gamma_ = 0, largest_of_narrow_ = 0;

  const SourceRow* row_ = nullptr;
  std::vector<double> raised_;  // the row, if its numbers are tiny doubles, times AcceptRowRule::raise
  bool is_raised_ = false;  // then the reference and the bounds of the mean are so many times what they are, and v is 0
  Reference r_{};
  double whole_ = 0;  // its variance and epsilon
  // Of a row that is narrow and of doubles: the variance is off by some roundings, which mostly is enough; whether it was of the
  // rows before.
  bool is_near_ = false, near_suffices_ = true;
  Bounds least_{}, most_{};  // the latter of rows that are not narrow
  double bottom_ = 0, mean_off_ = 0;  // of surely_infinite(); nothing is known of infinities where the former is 0
  AcceptRowRule rule_;                // what is not of the contract and the columns alone is put in by make_rule()
};

}  // namespace attest::oracle::layer_norm
