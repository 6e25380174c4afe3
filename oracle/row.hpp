#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "oracle/call.hpp"
#include "oracle/score.hpp"

namespace attest::oracle {

// One way in which a kernel may turn the weights into an output, as section 4 of docs/bounds.md lists them.
struct Combination {
  int box;       // 0: weights as in section 2; 1: the sum is taken over the rounded weights
  double t = 0;  // relative errors that numerator and denominator do not share
  bool sum_of_rounded;
  bool normalised_first;  // the weights are divided by the sum before they are rounded
  double t_top = t;       // t of the key with the largest score
  double shared = 0;      // the part of t of the one rounding of a weight for all columns
};

// The rule by which an element of a row is judged.
enum class RowKind : std::uint8_t {
  ordinary,
  empty,         // no key takes part: the contract's rule, exactly
  must_be_nan,   // NaN in q or in an attended k, and the contract says that it propagates
  undetermined,  // infinities in the inputs, or a reference that overflows
};

// Tells whether a key/value head holds finite values only.
struct HeadFacts {
  bool k_finite = true, v_finite = true;
};
HeadFacts head_facts(const Call& call, Index b, Index kv_head);

// The loss of a sum over the keys of a row where an addition loses no more than the lesser of its terms (section 4): a
// rounding for each of `keys`, and at most `rest` of the whole for the others, whose shares are less than a rounding.
struct Additions {
  double keys = std::numeric_limits<double>::infinity(), rest = 0;  // nothing is known
};

// The numbers of one query row that section 4 reads, or upper bounds of them.
struct RowNumbers {
  Index n = 0;                                    // attended keys
  double z_max = 0, g = 0, z_top = 0, z_all = 0;  // zmax, G, Zm, max(|z| + e)
  double ln_n = 0, r = 0, a2 = 0;                 // R; a2 with the merges of a chain
  double blocks = 0;                              // in which they may lie
  double wrong_shift = 0;                         // Numbers::wrong_shift()
  double every_exp = 0;                           // largest error of exp, on ln of a weight and of its rescalings
  double rescaled = 0;                            // largest part of a weight that a rescaling wrongly takes or leaves
  double mass = 0;                                // sum exp(z - zmax)
  double mass_most = 0;                           // that of any inputs that are intervals
  double rho = 0, rho_lost = 0;                   // rho_lost is infinite where the weights may lose every bit
  Additions of_values, of_weights;
  double top_off =
      std::numeric_limits<double>::infinity();  // |ln| of the largest weight, at most, before it is rounded

  // The largest sum of the weights that a kernel may compute.
  [[nodiscard]] double largest_sum(const Numbers& m) const;
  // The exponent of the relative error of the denominator alone (aL of section 4), but for what `rho` adds.
  // `largest` is largest_sum().
  [[nodiscard]] double denominator_error(const Numbers& m, double largest, double rho_used, bool sum_of_rounded) const;
  // The same exponent for a row whose weights lie in their box, given denominator_error().
  [[nodiscard]] double denominator_error_in_box(const Numbers& m, double error, double rho_used,
                                                bool sum_of_rounded) const;
  // Permitted combinations, at most four.
  int combinations(const Call& call, Combination out[4]) const;
};

// Everything about one query row that its columns share: scores, weights and the flags of sections 1, 2 and 5.
class Row : public RowNumbers {
 public:
  // The full formulas, summed in fixed order.
  void evaluate(const Call& call, const HeadFacts& head, Index b, Index h, Index i);

  RowKind kind = RowKind::ordinary;
  std::vector<Index> keys;            // attended, ascending
  std::vector<Index> closed_by_bias;  // only a bias of -inf excludes them: ascending
  // Tells whether the kernel may look at key j, be it masked: a bias of -inf is added to a score.
  [[nodiscard]] bool may_read(const Call& call, Index b, Index j) const;
  Index n_padded = 0;
  std::vector<double> z, e, d, p;    // per attended key, padded to whole lanes with weight 0; p is normalised
  std::vector<std::size_t> tops;     // where top_off is finite: the keys whose computed score may be the largest
  bool nonfinite_ok = false;         // NaN or Inf is permitted in any column
  bool score_lost = false;           // a score that matters may have become infinite: the hull decides
  bool finite_undetermined = false;  // a finite value is not judged (section 5)
  bool zero_ok = false;              // 0 is permitted: every score, or the sum of the weights, may be infinite
  HeadFacts facts;                   // facts of the head that this row reads

  // The box of section 3 for a combination's box index: weights between lo and hi, over e^(zmax + log_unit). It is made
  // on first use.
  struct Box {
    std::vector<double> lo, hi;
    double lo_sum = 0, hi_sum = 0, log_unit = 0;
    bool made = false;
  };
  const Box& box(const Call& call, int index);
  // Weights e^(z - zmax -+ (width + extra)), one width per key.
  void fill_box(Box& box, const std::vector<double>& width, double extra) const;

  // The part of section 4 that all columns share, made by the first that asks.
  struct OfColumns {
    Combination ways[4];
    // Numbers of a combination: growth() of t and of t_top; the same where additions of keys that count for less than a
    // rounding are spared; and the error of the denominator.
    struct Grown {
      double all, top, spared_all, spared_top, denominator;
    } grown[4];
    double kept[4];  // the least that sums leave of a mean of values of one sign, where sums are coarse
    int count;
    bool coarse;
    double weight_sum, lost;  // largest_sum(), and growth() of the loss of values
    double each;              // the largest weight that meets a value
    double all;               // the largest sum of these weights; infinity where `each` alone bounds it
  };
  std::optional<OfColumns> of_columns;

  struct Lse {
    double y, lo, hi;
  };
  Lse lse(const Call& call);

 private:
  void collect(const Call& call, Index b, Index h, Index i);
  bool masked_nonfinite(const Call& call, Index b, Index h);
  void collect_mean(const Call& call, Index b);
  void weigh(const Call& call, double records);
  void find_tops(const Numbers& m);
  [[nodiscard]] Additions additions(const Numbers& m, const Box& weights, double u) const;
  void check_overflow(const Call& call);
  bool gap_overflows(const Numbers& m, std::size_t t, std::size_t top) const;
  double count_records(const Call& call) const;
  double log_sum(double sign) const;

  void read_query(const Call& call, Index b, Index h, Index i);
  void read_key(const Call& call, Index b, Index kv_head, Index j);

  std::vector<double> query_, key_;
  std::vector<double> query_radius_, key_radius_;      // zeros where there are none
  enum class Lost : std::uint8_t { no, early, late };  // where the score may have overflowed: see Score
  std::vector<Lost> lost_;
  std::vector<double> raw_, raw_error_;
  bool all_lost_ = false;
  Box boxes_[2];
};

}  // namespace attest::oracle
