#pragma once
#include <span>
#include <vector>

#include "oracle/attention.hpp"
#include "oracle/call.hpp"
#include "oracle/products.hpp"
#include "oracle/score.hpp"

namespace attest::oracle {

// Levels 1 and 2 of docs/bounds.md: accept what a smaller and cheaper interval inside the exact one already holds. They
// never reject; what is not accepted goes to the full formulas, so that their own rounding cannot change a verdict.
class Quick {
 public:
  // With `spreads`, also what a row's elements say to the statistical tiers, if the contract has any.
  Quick(const Call& call, Format out_format, bool spreads = false);

  // Takes in up to max_rows() rows that read one key/value head.
  void load(std::span<const RowIndex> rows, const attest_tensor& out, const attest_tensor& lse);
  [[nodiscard]] Index max_rows() const noexcept { return max_rows_; }  // 0: nothing can be judged quickly
  // Every k and v of the head just loaded is finite.
  [[nodiscard]] bool head_finite() const noexcept { return k_finite_ && v_finite_; }

  // About the n-th row of the last load(): proven to be judged, and inside. False proves nothing.
  [[nodiscard]] bool accepts(Index n, Index column) const noexcept {
    return (bits_[static_cast<std::size_t>(n * groups_ + column / 8)] >> (column % 8) & 1) != 0;
  }
  [[nodiscard]] bool accepts_row(Index n) const noexcept { return rows_[static_cast<std::size_t>(n)].all; }
  [[nodiscard]] bool accepts_lse(Index n) const noexcept { return rows_[static_cast<std::size_t>(n)].lse; }
  // Of the n-th row, if it `has_spread`: its share of T, and bits of the elements that need a lambda of at most
  // near_lambda, with the largest that one of these may need.
  [[nodiscard]] bool has_spread(Index n) const noexcept { return rows_[static_cast<std::size_t>(n)].has_spread; }
  [[nodiscard]] const products::SpreadSums& spread(Index n) const noexcept {
    return rows_[static_cast<std::size_t>(n)].sums;
  }
  [[nodiscard]] bool is_near(Index n, Index column) const noexcept {
    return (near_[static_cast<std::size_t>(n * groups_ + column / 8)] >> (column % 8) & 1) != 0;
  }
  static constexpr double near_lambda = Statistics::near_lambda;
  static constexpr Index most_rows = 16;

  // Whether some accepted element of row n is proven to have an enclosure that leaves out part of its hull.
  [[nodiscard]] bool proves_not_wide(Index n) const;

 private:
  // What depends on the number of keys alone: mostly the same for all rows.
  struct ForCount {
    double n = -1, r = 0, r_most = 0, a2 = 0, ln_least = 0, ln_most = 0;  // R, least and most; of ln n
    double every_exp = 0, every_exp_most = 0, root_n = 0;
  };
  // One row. What is not said until it is `bounded`, or `has_spread`, is left from a row of another load() before that.
  struct State {
    RowIndex at{};
    bool bounded = false, all = false, lse = false, has_spread = false;
    double q_norm = 0, q_top = 0;  // of the query: its Euclidean norm, at least, and its largest magnitude
    double n = 0, z_max = 0, mass = 0, gain = 0;  // keys, zmax, sum p, sum p (1 - e^-d)
    double e_most = 0, d_most = 0, z_most = 0;    // upper bounds of e, d, |z| + e
    ForCount f;                                   // of n
    products::AcceptRule accept{};
    products::SpreadRule spread{};
    products::SpreadSums sums{};
  };
  State& row_at(Index n) { return rows_[static_cast<std::size_t>(n)]; }
  const ForCount& for_count(double n);
  // Lower bounds of section 7, per row and per problem.
  void prepare_spreads();
  void vary(State& row, Index n, const double* bias);
  [[nodiscard]] double largest_tau(const State& row, double variance) const;
  void square_row(Index n);
  void clear_spread(Index n);
  void scale_values(Index tile);
  void add_moments(Index rows, Index tile);
  void load_keys(Index tile);
  void load_values(Index tile);
  void score(Index n);
  [[nodiscard]] Score largest_score(double absolute_score, double query_norm, double top_bias) const;
  bool bound(State& row, const Score& top);
  void weigh(Index n);
  void accept(Index n, const attest_tensor& out);
  void accept_lse(Index n, const attest_tensor& lse);
  void look_again(State& row, Index n, const double* got);
  [[nodiscard]] Index tile_size(Index tile) const noexcept;

  const Call& call_;
  Format format_;
  bool after_, before_, sum_rounded_only_;
  double log_overflow_softmax_;
  products::ScoreRule score_rule_;
  Index max_rows_ = 0, tile_keys_ = 0, tiles_ = 1, stride_ = 0, kt_stride_ = 0, columns_ = 0, groups_ = 0;
  Index b_ = -1, kv_ = -1, keys_tile_ = -1, values_tile_ = -1;
  bool k_finite_ = false, v_finite_ = false;
  double k_norm_ = 0, k_top_ = 0, v_top_ = 0;
  ForCount for_count_;
  Score top_{};           // of the rows just loaded
  bool one_top_ = false;  // whether it serves them all

  struct Scratch;
  Scratch& scratch_;
  std::vector<State>& rows_;
  std::vector<std::uint8_t>&bits_, &near_;

  bool spreads_;
  products::VarianceRule variance_rule_{};  // but for what depends on the row
  double value_scale_ = 1;                  // of v in the moments: a power of two
};

}  // namespace attest::oracle
