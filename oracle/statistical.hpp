#pragma once
#include <cmath>
#include <span>
#include <vector>

#include "oracle/element.hpp"
#include "oracle/outcome.hpp"
#include "oracle/row.hpp"
#include "oracle/series.hpp"

namespace attest::oracle {

// Room in lambda s for what the terms leave out.
inline constexpr double spread_margin = 1.05;
inline constexpr double unit64 = 0x1p-53;  // unit roundoff of the reference itself
// Rows whose weights may be off by more than this, relatively, are judged by a box.
inline constexpr double linear_limit = 0.05;
// Errors that all weights share, and no division takes back, are not added up beyond this.
inline constexpr double largest_undivided = 0.05;

// How far from the reference a conforming kernel's element tends to lie: within lambda s of it, and `bias` more for
// errors that all point one way. Both before output rounding, in the units of v.
struct Spread {
  double s = 0, bias = 0;
};

// Whether a rounded argument of 2^x may leave even the largest weight of a row other than 1 once it is rounded: rows with the
// same maximum, as a bias makes them, then share one error. a2 is the row's own.
inline bool shares_largest_weight(const Numbers& m, double a2, double z_max) {
  return m.u_weights > 0 && m.u_softmax * (m.a1 + a2) * std::fabs(z_max) > 0.5 * m.u_weights;
}

// What docs/bounds.md, section 7, says of one row, for an ordinary row whose scores did not overflow.
class RowSpread {
 public:
  void evaluate(const Call& call, const Row& row, Index b, Index h, Index i);
  // The same in two steps. What the weights are off by is enough for box(), and for the fields below; all else asks of the sums, too,
  // which are evaluated once.
  void evaluate_weights(const Call& call, const Row& row, Index b, Index h, Index i);
  void evaluate_sums(const Call& call, const Row& row);

  // One element, by keys.
  struct Element {
    std::vector<double> v;
    double y = 0, unit = 1;              // v and y are in units of 1/unit
    std::vector<double> moved, carried;  // p (v - y), p v
    double carried_total = 0;            // sum |p v|
  };
  // That which `column` last evaluated; y is its reference.
  static Element element(const Row& row, const Column& column, double y);
  // The same in place of what `to` held, whose memory serves again.
  static void element(const Row& row, const Column& column, double y, Element& to);
  // Of one element, or of some of one row, at most lane_count: what takes longest then takes eight of them at a time.
  [[nodiscard]] Spread of(const Call& call, const Row& row, const Element& e) const;
  void of(const Call& call, const Row& row, std::span<const Element> elements, std::span<Spread> spreads);
  // Of any mean over the row's keys, by their values, which are no smaller than 2^-500 at most; y is its reference.
  [[nodiscard]] Spread of(const Call& call, const Row& row, std::span<const double> values, double y) const;
  // What such a mean's own sums and quotient are off by, which another mean of the same weights is not: a variance, and a bias.
  struct Own {
    double variance = 0, bias = 0;
  };
  [[nodiscard]] Own own_sums(const Call& call, const Row& row, std::span<const double> values, double y) const;
  // The interval at `lambda`, before output rounding.
  struct Interval {
    double lo, hi;
  };
  Interval interval(const Row& row, const Column& column, double y, Spread spread, double lambda);
  // Whether interval() at `lambda`, its ends rounded, surely holds `got`, whatever of s takes more than a look at the values of
  // `column`. False proves nothing.
  bool surely_holds(const Call& call, const Row& row, const Column& column, double lambda, const Rounding& round,
                    double got);
  // Weights every mean over which lies in interval() at `lambda`: where the row is judged by_box.
  const Row::Box& box(const Row& row, double lambda) {
    widen(row, lambda);
    return box_;
  }
  // Whether interval() at `lambda`, its ends rounded, holds `got`.
  bool holds(const Row& row, const Column& column, double y, Spread spread, double lambda, const Rounding& round,
             double got);
  // The least lambda whose interval holds `got` once its ends are rounded; infinite above 2^20.
  double least_lambda(const Row& row, const Column& column, double y, Spread spread, const Rounding& round, double got);

  bool applies = false;  // false: errors that all weights share are too large to be added up
  // Errors of the weights so large that they do not act linearly: the interval is a box of section 3, widened.
  bool by_box = false;
  std::vector<double> tau, tau1;  // of ln of each key's weight: one's own, and what keys share; padded with 0

 private:
  static Element element(const Row& row, std::span<const double> values, double unit, double y);
  static void element(const Row& row, std::span<const double> values, double unit, double y, Element& to);
  // An element's terms key by key, or those of eight elements beside each other: Number is double, or Lanes.
  template <class Number>
  struct Terms {
    const double *v, *moved, *carried;
    Number y;
    static Number at(const double* terms, std::size_t t);
  };
  // What is added up over the keys: each element's numbers have the same bits alone and in lanes.
  template <class Number>
  struct KeySums {
    Number covariance;              // of what is moved and how far its key is below the largest
    Number scaled, capped, biased;  // of what is moved and the score before softcap and bias, the score, the bias
    Number variance;                // of_scores_and_weights()
    Number stagnation;
  };
  template <class Number>
  [[nodiscard]] KeySums<Number> over_keys(const Numbers& m, const Row& row, const Terms<Number>& e,
                                          const Number& largest) const;
  [[nodiscard]] Spread of(const Call& call, const Row& row, const Element& e, const Prefixes& values,
                          const KeySums<double>& sums) const;
  static Terms<double> terms_of(const Element& e);
  template <class Number>
  [[nodiscard]] Number of_scores_and_weights(const Numbers& m, const Row& row, const Terms<Number>& e) const;
  [[nodiscard]] double of_shared_factors(const Numbers& m, const Row& row, const Element& e,
                                         const KeySums<double>& sums) const;
  [[nodiscard]] double of_sums(const Numbers& m, const Row& row, const Element& e, const Prefixes& values) const;
  template <class Number>
  [[nodiscard]] Number stagnation(const Numbers& m, const Row& row, const Terms<Number>& e,
                                  const Number& largest) const;
  [[nodiscard]] bool may_underflow(const Numbers& m, const Row& row, std::size_t t) const;
  [[nodiscard]] double of_one_sided_functions(const Numbers& m, const Row& row, const Element& e) const;
  struct KeyScore {
    double z, s;      // the score, and as it was before softcap and bias
    double norm;      // the square root of the sum of the squares of its scaled products
    double prefixes;  // and of their running sums
    double bias;
  };
  [[nodiscard]] double own_variance(const Call& call, const Row& row, const KeyScore& key) const;
  // What no division takes back, relatively: roundings at their largest, and functions that may be off one way.
  struct Undivided {
    double roundings = 0, one_sided = 0;
  };
  [[nodiscard]] Undivided undivided_error(const Numbers& m, const Row& row) const;
  [[nodiscard]] double lost_operands(const Call& call, const Row& row, const Element& e) const;
  // Keys that err alike, in the order of their scores: where each bin ends, and what its variance is more; of each 1 where `more` is
  // empty.
  struct Bins {
    std::vector<Index> ends;
    std::vector<double> more;
  };
  template <class Number, class Term>
  Number binned(std::span<const Index> ends, std::span<const double> more, Term&& term) const;
  struct Grid {
    double unit, tiny;  // unit roundoff of a format, and half its smallest subnormal
    double size;        // of what is rounded, in units of the row's p
  };
  void find_midpoints(const Row& row, const Grid& grid, double weight_noise, Bins& bins) const;
  template <class Width>
  void sort_into(Bins& bins, const Row& row, const Width& width) const;
  void sort_into_bins(const Numbers& m, const Row& row, double weight_noise);
  void find_weight_roundings(const Numbers& m, const Row& row);
  void widen(const Row& row, double lambda);

  double rescales_ = 0;       // Rs
  double sum_coherence_ = 1;  // of the row sum
  double sum_drift_ = 0;      // likewise: see drift_of_sum()
  bool normalises_first_ = false;
  double query_norm_ = 0, shortfall_ = 1;
  Undivided undivided_;
  double relative_rounding_ = 0;  // of a mean, wherever in the box it lies: at most
  double smallest_weight_ = 0;    // below it a weight may be lost
  bool some_underflow_ = false;   // may_underflow() of some key, where exp may make a number of nothing
  double weight_unit_ = 1;        // of a weight as it is rounded, over that of p
  double weight_squares_ = 0, weight_prefixes_ = 0;
  std::vector<double> query_, products_;  // products_ of eight keys
  std::vector<double> keys_;              // row by row, padded(d) apart: all, where they are asked for later, or eight
  std::vector<double> raw_, bias_,
      capped_;                // of each key: the score before softcap and bias, the bias, what tanh is asked of
  std::vector<Index> order_;  // keys by score
  Bins of_scores_, of_exps_, of_weights_,
      of_quotients_;              // by what is alike: scores, results of exp, weights as rounded, and quotients
  std::vector<Index> by_capped_;  // keys by capped_
  std::vector<double> weight_rounding_,
      weight_step_;  // of each weight, relatively: its rounding, and what neighbours share of it
  std::vector<double> width_, together_;
  Row::Box box_;
  bool knows_sums_ = false;
  double widened_by_ = -1;  // the lambda of box_; negative: it is another row's
};

}  // namespace attest::oracle
