#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "oracle/attention.hpp"
#include "oracle/call.hpp"
#include "oracle/products.hpp"
#include "oracle/score.hpp"

namespace attest::oracle {

// Levels 1 and 2 of docs/bounds.md: accept what a smaller and cheaper interval inside the exact one already holds. They
// never reject; what is not accepted goes to the full formulas, so that their own rounding cannot change a verdict.
class Quick {
 public:
  // What is asked about the statistical tiers, if the contract has any: nothing; which elements are near; and T.
  enum class Spreads : std::uint8_t { none, near, near_and_t };
  Quick(const Call& call, Format out_format, Spreads spreads = Spreads::none);

  // Takes in up to max_rows() rows that read one key/value head. The views are those of a Tensor, whose guards may be read.
  void load(std::span<const RowIndex> rows, const attest_tensor& out, const attest_tensor& lse);
  [[nodiscard]] Index max_rows() const noexcept { return max_rows_; }  // 0: nothing can be judged quickly

  // The same without results: what is known of an element whatever they are.
  void average(std::span<const RowIndex> rows);
  // Of a row that it `knows`: how far on either side of the mean the enclosure surely reaches, and how far it would by errors
  // that each column has of its own.
  struct Reach {
    double mean, radius, apart;
  };
  [[nodiscard]] bool knows(Index n) const noexcept { return rows_[n].bounded && v_finite_ && v_top_ < 1e200; }
  [[nodiscard]] Reach reach(Index n, Index column) const noexcept;
  // Upper bounds, of a row that it `knows`: of its errors e and d, and of |z| + e.
  struct Most {
    double keys, e, d, z;
  };
  [[nodiscard]] Most most(Index n) const noexcept {
    return {rows_[n].n, rows_[n].e_most, rows_[n].d_most, rows_[n].z_most};
  }
  // Every k and v of the head just loaded is finite.
  [[nodiscard]] bool head_finite() const noexcept { return k_finite_ && v_finite_; }

  // About the n-th row of the last load(): proven to be judged, and inside. False proves nothing.
  [[nodiscard]] bool accepts(Index n, Index column) const noexcept {
    return (bits_[n * groups_ + column / 8] >> (column % 8) & 1) != 0;
  }
  [[nodiscard]] bool accepts_row(Index n) const noexcept { return rows_[n].all; }
  [[nodiscard]] bool accepts_lse(Index n) const noexcept { return rows_[n].lse; }
  // That masks, or a bias of -inf, leave no key to the n-th row, whose query is finite and whose excluded scores are. False proves
  // nothing.
  [[nodiscard]] bool is_empty(Index n) const noexcept { return rows_[n].empty || rows_[n].closed_by_bias; }
  // That masks alone do.
  [[nodiscard]] bool is_masked(Index n) const noexcept { return rows_[n].empty; }
  // Of the n-th row, if it `has_near`: bits of the elements that need a lambda of at most near_lambda. If it `has_spread`, which T
  // takes up, its share of T too, and the largest lambda that a near element may need.
  [[nodiscard]] bool has_near(Index n) const noexcept { return rows_[n].has_near; }
  [[nodiscard]] bool has_spread(Index n) const noexcept { return rows_[n].has_spread; }
  // Of any other row: that no element needs more than near_lambda, by its mean alone. False proves nothing.
  [[nodiscard]] bool is_near_by_mean(Index n) const noexcept { return rows_[n].near_by_mean; }
  // What its row adds to Statistics::weights.
  [[nodiscard]] double weights(Index n) const noexcept { return rows_[n].weights; }
  [[nodiscard]] const products::SpreadSums& spread(Index n) const noexcept { return rows_[n].sums; }
  [[nodiscard]] bool is_near(Index n, Index column) const noexcept {
    return (near_[n * groups_ + column / 8] >> (column % 8) & 1) != 0;
  }
  // A closer look at the rows of the last load(), or average(): what the sums of weighted values surely meet in their order of
  // keys, which no moment says, for rows that have_spread. After a load(), elements found near by it are near from then on.
  void look_at_sums();
  // What it found: a lower bound of s^2, in units of 1/sums_scale()^2. Infinite or NaN where a sum is.
  [[nodiscard]] double sums_variance(Index n, Index column) const noexcept;
  [[nodiscard]] double sums_scale() const noexcept { return value_scale_; }
  void find_near_by_sums(Index n);
  // Whether T by the whole of s surely counts the elements of row n that are finite.
  [[nodiscard]] bool takes_part(Index n) const noexcept { return rows_[n].has_spread && rows_[n].takes_part; }
  // A row by weights that somebody else knows: p, whose sum is 1, of its attended `keys`, and the ends of a box around them, times a
  // constant.
  struct Weights {
    std::span<const Index> keys;
    std::span<const double> p, lo, hi;
  };
  // Whether the next two may be asked of the rows of the last load(); and what no value of theirs exceeds.
  [[nodiscard]] bool holds_values() const noexcept { return tiles_ == 1 && v_finite_ && v_top_ < 1e200; }
  [[nodiscard]] double largest_value() const noexcept { return v_top_; }
  // Accepts elements that surely lie between means over the box once these are rounded: that such means are inside is the caller's word.
  void accept_means(Index n, const Weights& weights);
  // Likewise makes elements near, beside those that are where the row `has_near`. Whether any but those are.
  bool find_near_by_means(Index n, const Weights& weights);
  static constexpr double near_lambda = Statistics::near_lambda;
  static constexpr Index most_rows = 16;

  // Whether some accepted element of row n is proven to have an enclosure that leaves out part of its hull.
  [[nodiscard]] bool proves_not_wide(Index n) const;

 private:
  friend class ShortRows;  // which knows many rows by the formulas of one
  // What depends on the number of keys alone: mostly the same for all rows.
  struct ForCount {
    double n, r, r_most, blocks, a2, wrong_shift, ln_least, ln_most;  // R, least and most; of ln n
    double every_exp, every_exp_most, root_n;
    double t, g;       // of section 4; t but for what merges add that depends on the scores
    double sums_most;  // ln of what the sum of the weights may lose, with r_most
    bool coarse;       // Numbers::sums_are_coarse()
    // Of section 7: what each term of a sum adds, with its weight and v of 1, as it is and with the weight rounded; what y^2
    // scales, whatever the weights.
    double every, rounded, per_mean2;
  };
  // One row. What is not said until it is `bounded`, or `has_near`, is left from a row of another load() before that.
  struct State {
    RowIndex at;
    bool bounded, all, lse, has_near, has_spread, empty;
    bool by_top;  // bounded by top_
    bool near_by_mean, closed_by_bias;
    bool takes_part;              // see takes_part(), once look_at_sums() was asked
    double q_norm, q_top;         // of the query: its Euclidean norm, at least, and its largest magnitude
    double n, z_max, mass, gain;  // keys, zmax, sum p, sum p (1 - e^-d)
    double weights;               // that count, as Statistics has them
    double added, weights_alike;  // keys whose p is not 0, and the least coherence of p: once look_at_sums() was asked
    double e_most, d_most, z_most;  // upper bounds of e, d, |z| + e
    const ForCount* f;              // of n
    products::AcceptRule accept;
    products::SpreadRule spread;
    products::SpreadSums sums;
  };
  State& row_at(Index n) { return rows_[n]; }
  // The largest norm of a key, at least, and the largest square of an element.
  struct KeyExtent {
    double norm, top2;
  };
  void place_buffers();
  const ForCount& for_count(double n);
  // Lower bounds of section 7, per row and per problem.
  void prepare_spreads();
  void prepare_spreads(ForCount& f) const;
  void vary(State& row, Index n, const double* z, const double* bias);
  [[nodiscard]] double largest_tau(const State& row, double variance, const KeyExtent& k) const;
  // Of s^2, less than what y^2 scales, and the root of less than what remains for y = 0, whatever the moments.
  struct MeanPart {
    double per_mean2, absolute;
  };
  [[nodiscard]] MeanPart mean_part(const State& row, double p2, double undivided) const;
  [[nodiscard]] products::RunningSums running_of(Index n) const noexcept;
  void look_at_weights(Index n);
  [[nodiscard]] bool surely_linear(const State& row, double least_weight) const;
  [[nodiscard]] double moments_variance(Index n, Index column) const noexcept;
  void square_row(Index n);
  void clear_spread(Index n);
  void choose_value_scale();
  void scale_values(Index tile);
  void add_moments(Index rows, Index tile);
  void measure(Index n, const double* got);
  // Where T is not asked: whether the term of s that y alone decides proves every element of the rows to be near; and what
  // the other terms say, where it does not.
  bool near_by_mean(Index rows);
  bool near_by_mean_of(Index n);
  void look_closer(Index rows);
  static void read_rows(const attest_tensor& tensor, Index b, Index h, Index first, Index rows, Index count, double* to,
                        Index stride);
  static void read_rows(const attest_tensor& tensor, std::span<const RowIndex> rows, Index count, double* to,
                        Index stride);
  void load_queries(std::span<const RowIndex> rows);
  void load_keys(Index tile);
  void load_values(Index tile);
  void score(Index n);
  [[nodiscard]] Score largest_score(double absolute_score, double query_norm, double top_bias, double k_norm) const;
  bool bound(State& row, const Score& top);
  bool bound_by_top(State& row, Index n);
  void weigh(Index n);
  void accept(Index n, const double* got);
  void accept_lse(Index n, const attest_tensor& lse);
  // Of a row: its largest score, sum p, and sum p (1 - e^-d) over that; g as products::AcceptRule has it.
  [[nodiscard]] bool accepts_lse(double z_max, double mass, double gain, double g, double value, Format type) const;
  void look_again(State& row, Index n, const double* got);
  void inside_means(Index n, const Weights& weights, std::uint8_t* bits);
  [[nodiscard]] bool all_set(const std::uint8_t* bits) const;  // of every group of columns
  [[nodiscard]] bool leaves_out_value(Index n, double reach) const;
  [[nodiscard]] Index tile_size(Index tile) const noexcept {
    return std::min(tile_keys_, call_.keys - tile * tile_keys_);
  }

  const Call& call_;
  Format format_;
  Spreads spreads_;
  bool near_first_ = false;  // near_by_mean() before anything else
  bool at_once_ = false;     // spreads of every row; of rows of no products there are none
  bool after_, before_, sum_rounded_only_;
  double spared_;  // at most what section 4 takes from t for the largest weight, which may be 1 before it is rounded
  double root_d_;
  products::ScoreRule score_rule_;
  Index max_rows_ = 0, tile_keys_ = 0, tiles_ = 1, stride_ = 0, d_stride_ = 0, kt_stride_ = 0, columns_ = 0,
        groups_ = 0;
  Index b_ = -1, kv_ = -1, keys_tile_ = -1, values_tile_ = -1;
  bool k_finite_ = false, v_finite_ = false;
  double v_top_ = 0, top_norm_ = 0;
  KeyExtent k_{};
  const ForCount* for_count_ = nullptr;  // the last one
  Score top_;                            // of the rows just loaded
  bool one_top_ = false;                 // whether it serves them all

  struct Scratch;
  Scratch& scratch_;
  State* rows_;
  // Rows of keys lie stride_ apart, rows of columns columns_: weights, d, weights of |v|; y and its reach.
  double *q_, *kt_, *v_, *p_, *d_, *m_, *y_, *reach_, *got_, *bias_, *open_, *lo_, *hi_, *together_;
  double* z_;  // scores: where the weights come to lie, but for look_closer()
  float *w_, *w2_, *scaled_, *squared_, *first_, *second_;  // of the moments
  std::uint8_t *bits_, *near_;

  products::VarianceRule variance_rule_;  // but for what depends on the row
  double value_scale_ = 1;                // of v in the moments: a power of two
  bool value_scale_known_ = false;        // of the head
  Index rows_loaded_ = 0;
  bool looked_ = false;  // look_at_sums() has seen these rows
};

}  // namespace attest::oracle
