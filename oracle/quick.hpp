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
  Quick(const Call& call, Format out_format);

  // Takes in up to max_rows() rows that read one key/value head. The views are those of a Tensor, whose guards may be
  // read.
  void load(std::span<const RowIndex> rows, const attest_tensor& out, const attest_tensor& lse);
  [[nodiscard]] Index max_rows() const noexcept { return max_rows_; }  // 0: nothing can be judged quickly

  // Takes in rows without results: the bounds of an element whatever the results.
  void average(std::span<const RowIndex> rows);
  // The distance to which the enclosure surely reaches on either side of the mean, in a row that it `knows`, and to
  // which it would by the errors that each column has of its own.
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
  // Tells whether masks, or a bias of -inf, leave no key to the n-th row, whose query is finite and whose excluded
  // scores are. False proves nothing.
  [[nodiscard]] bool is_empty(Index n) const noexcept { return rows_[n].empty || rows_[n].closed_by_bias; }
  // A row given by known weights: p, whose sum is 1, of its attended `keys`, and the ends of a box around them, times a
  // constant.
  struct Weights {
    std::span<const Index> keys;
    std::span<const double> p, lo, hi;
  };
  // Tells whether the next may be asked of the rows of the last load(); and what no value of theirs exceeds.
  [[nodiscard]] bool holds_values() const noexcept { return tiles_ == 1 && v_finite_ && v_top_ < 1e200; }
  [[nodiscard]] double largest_value() const noexcept { return v_top_; }
  // Accepts elements that surely lie between means over the box once these are rounded. The caller guarantees that such
  // means are inside.
  void accept_means(Index n, const Weights& weights);
  static constexpr Index most_rows = 16;

  // Tells whether some accepted element of row n is proven to have an enclosure that leaves out part of its hull.
  [[nodiscard]] bool proves_not_wide(Index n) const;

 private:
  friend class ShortRows;  // it judges many rows by the formulas of one
  // The numbers that depend on the number of keys alone: mostly the same for all rows.
  struct ForCount {
    double n, r, r_most, blocks, a2, wrong_shift, ln_least, ln_most;  // R, least and most; least and most ln n
    double every_exp, every_exp_most;
    double t, g;       // t and g of section 4; t without the part of merges that depends on the scores
    double sums_most;  // ln of the largest loss of the sum of the weights, with r_most
    bool coarse;       // Numbers::sums_are_coarse()
  };
  // The state of one row. Members that are not set until it is `bounded` are left from a row of an earlier load().
  struct State {
    RowIndex at;
    bool bounded, all, lse, empty;
    bool by_top;  // bounded by top_
    bool closed_by_bias;
    double q_norm;                  // Euclidean norm of the query, at least
    double n, z_max, mass, gain;    // keys, zmax, sum p, sum p (1 - e^-d)
    double e_most, d_most, z_most;  // upper bounds of e, d, |z| + e
    const ForCount* f;              // the numbers for n keys
    products::AcceptRule accept;
  };
  State& row_at(Index n) { return rows_[n]; }
  void place_buffers();
  const ForCount& for_count(double n);
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
  // Tells whether a value of type `type` is accepted as lse of a row with largest score z_max, mass = sum p, and gain =
  // sum p (1 - e^-d) over that; g is that of products::AcceptRule.
  [[nodiscard]] bool accepts_lse(double z_max, double mass, double gain, double g, double value, Format type) const;
  void look_again(State& row, Index n, const double* got);
  [[nodiscard]] bool all_set(const std::uint8_t* bits) const;  // bits of every group of columns
  [[nodiscard]] bool leaves_out_value(Index n, double reach) const;
  [[nodiscard]] Index tile_size(Index tile) const noexcept {
    return std::min(tile_keys_, call_.keys - tile * tile_keys_);
  }

  const Call& call_;
  Format format_;
  bool after_, before_, sum_rounded_only_;
  double spared_;  // at most what section 4 takes from t for the largest weight, which may be 1 before it is rounded
  double root_d_;
  products::ScoreRule score_rule_;
  Index max_rows_ = 0, tile_keys_ = 0, tiles_ = 1, stride_ = 0, d_stride_ = 0, kt_stride_ = 0, columns_ = 0,
        groups_ = 0;
  Index b_ = -1, kv_ = -1, keys_tile_ = -1, values_tile_ = -1;
  bool k_finite_ = false, v_finite_ = false;
  double v_top_ = 0, top_norm_ = 0;
  double k_norm_ = 0;                    // the largest norm of a key, at least
  const ForCount* for_count_ = nullptr;  // the last one
  Score top_;                            // the largest score of the rows just loaded
  bool one_top_ = false;                 // whether it serves them all

  struct Scratch;
  Scratch& scratch_;
  State* rows_;
  // Rows of keys lie stride_ apart, rows of columns columns_: weights, d, weights of |v|; y and its reach.
  double *q_, *kt_, *v_, *p_, *d_, *m_, *y_, *reach_, *got_, *bias_, *open_, *lo_, *hi_, *together_;
  std::uint8_t* bits_;
};

}  // namespace attest::oracle
