#pragma once
#include "attest/plugin.h"
#include "oracle/decode.hpp"
#include "oracle/lanes.hpp"
#include "oracle/products.hpp"
#include "oracle/short_rule.hpp"

namespace attest::oracle::products {

// The loops of products.hpp and decode.hpp over lanes L (lanes.hpp), one instance per instruction set. Each is made in
// a file that is compiled for that set. A target attribute on each function would not do, since the compiler splits the
// vectors of inlined functions into those of the least machine.
template <class L>
struct Loops {
  static void scores(const double* q, Index q_stride, Index rows, const double* kt, Index kt_stride, Index d,
                     Index keys, double* s, Index s_stride);
  static double largest_absolute_score(const double* q, const double* kt, Index kt_stride, Index d, Index keys);
  static SquareExtent square_sums(const double* a, Index stride, Index rows, Index columns);
  static Extent magnitudes(const double* a, Index count);
  static Grid grid(const double* a, Index count);
  static double largest_square_sum(const double* a, Index stride, Index rows, Index columns);
  static void round_sums(const RoundRule& rule, const double* a, const double* b, double shift, Index count,
                         double* to);
  static ScoreSums finish_scores(const ScoreRule& rule, double* s, double* e, const double* bias, const double* open,
                                 Index count, Index keys);
  static double largest_bias_above(const double* z, const double* bias, double threshold, Index keys);
  static Index count_from(const double* z, double threshold, Index keys);
  static WeightSums weigh(const WeightRule& rule, const double* z, double* p, double* e, double* m, Index keys);
  static void values(const double* p, const double* m, Index stride, Index rows, const double* v, Index keys,
                     Index columns, double* y, double* reach, bool add);
  static void accept(const AcceptRule& rule, double* y, const double* reach, const double* out, Index columns,
                     std::uint8_t* accepted);
  static void box(const double* p, const double* d, double* lo, double* hi, Index keys);
  static std::uint8_t inside_box(const AcceptRule& rule, const double* p, const double* lo, const double* hi,
                                 const double* v, Index keys, Index stride, const double* y, const double* out);
  static std::uint8_t inside_means(const MeanRule& rule, const double* p, const double* lo, const double* hi,
                                   const double* v, Index keys, Index stride, const double* out);
  static ShortTops short_scores(const ShortScoreRule& rule, const ShortLanes& rows);
  static void judge_short(const ShortRule& rule, const ShortLanes& rows);
  static double weights(const double* z, double z_max, double* p, Index keys);
  static EndSums ends(const EndRule& rule, const double* z, const double* widths, double* lo, double* hi, Index keys);
  static double extreme_mean(const double* lo, const double* hi, const double* values, Index keys, double y,
                             double sign, double hull);
  static void decode(DType type, const void* from, Index count, double* to);
  static void decode_padded(const DenseRows& from, double* to, Index to_stride);
  static void turn_eight(const double* rows, Index stride, Index columns, double* to, Index to_stride);
  static void decode_turned(const DenseRows& from, double* to, Index to_stride);
};
extern template struct Loops<Lanes>;
extern template struct Loops<Pack<double, 4>>;
extern template struct Loops<Pack<double, 8>>;

}  // namespace attest::oracle::products
