// One row of attention in the arithmetic of a scheme.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "scheme.hpp"
#include "summation.hpp"

namespace hostile {

inline constexpr double log2_e = std::numbers::log2e, infinity = INFINITY;

/// Options of a call that scores depend on.
struct Options {
  double scale = 1, softcap = 0;
  bool has_bias = false;
  bool rounds_output = true;  // to the output stage
};

/// Keys and values of one head, in the formats in which they enter products.
struct Head {
  std::size_t keys = 0, depth = 0, width = 0;
  std::vector<double> k;  // [depth][keys]
  std::vector<double> v;  // [keys][width]
};

struct Row {
  std::vector<double> q;     // as it enters products
  std::vector<double> bias;  // one per key, as stored; empty if there is none
  std::vector<char> open;    // per key: not closed by a mask, a window or a length
  std::size_t length = 0;    // keys of the sample
  std::uint64_t number = 0;  // varies the liberties that differ from row to row
  // Sides that the goal asks for: one for each key's weight, for each column, and for the sum of weights. Empty: up.
  std::vector<int> key_sides, column_sides;
  int sum_side = 1;
};

class Attention {
 public:
  Attention(const Scheme& scheme, const Options& options);

  /// q or k, rounded to the operand's format and multiplied by what of the scale is folded into it.
  double query(double stored) const;
  double key(double stored) const;
  double value(double stored) const;

  /// Writes `width` numbers, rounded to the output stage, and returns the log-sum-exp in the format of the softmax.
  double attend(const Head& head, const Row& row, double* out) const;

 private:
  struct Part;  // maximum, sum and values of a split
  struct Work;  // the data of one row

  double operand(double stored) const;
  double folded(double operand, bool here) const;
  double to_softmax(double x) const;
  double difference(double z, double shift) const;
  double power_of(double x, int side, const Format& format) const;
  double weight(double z, double shift, int side) const;
  double merged_weight(double lse, double shift, int side) const;
  double logarithm(double sum) const;
  double divide(double a, double b, int side, const Format& format) const;
  double quotient(double values, double sum, int side) const;
  double score(double dot, double bias, std::size_t key) const;
  double cap(double s, int side) const;
  double multiplied_shift(double z) const;
  double entering(double w) const;
  int side(Side which, const Work& work, std::size_t key) const;
  int side_of_value(Side which, double value, std::size_t column, std::span<const int> goals = {}) const;
  bool before(double a, double b) const;
  double lag(double now, double shift) const;

  std::vector<std::vector<std::size_t>> tiles(const Work& work) const;
  Part part(Work& work, std::span<const std::vector<std::size_t>> tiles) const;
  void take_tile(Work& work, const std::vector<std::size_t>& tile, Part& part) const;
  void sum_up(Work& work, std::span<const std::size_t> keys, std::span<const double> weights, const double* start,
              double* out) const;
  double sum_weights(std::span<const double> weights, const double* start, int goal = 1) const;
  void divide_first(Work& work, std::span<const std::vector<std::size_t>> tiles, Part& part) const;
  Part merge_flat(const Work& work, std::vector<Part>& parts) const;
  Part merge_chain(const Work& work, std::vector<Part>& parts) const;
  double finish(const Work& work, Part& part, double* out) const;
  double empty_row(const Head& head, const Row& row, double* out) const;

  Scheme s_;
  Options options_;
  Power power_;
  Fold fold_;
  double scale_ = 1;  // as multiplied by, log2 e included where it is folded in
  double log2e_ = 1;  // in the softmax format
  double unit_ = 1;   // factor of a shift before the exponential: log2 e, the scale too, or 1
  Summer dot_, sum_, product_;
};

}  // namespace hostile
