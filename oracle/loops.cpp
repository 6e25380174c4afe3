#include "oracle/loops.hpp"

#include "oracle/decode.hpp"

namespace attest::oracle {
namespace products {

namespace {

#ifdef ATTEST_X86_LOOPS
enum class Isa : std::uint8_t { least, avx2, avx512 };
// Found out as the program starts; who calls before has the least, which says the same.
const Isa isa =
    __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
        ? Isa::avx512
    : __builtin_cpu_supports("avx2") ? Isa::avx2
                                     : Isa::least;
#endif

// Calls `work` with the loops for what the machine has.
template <class Work>
auto widest(const Work& work) {
#ifdef ATTEST_X86_LOOPS
  if (isa == Isa::avx512) return work(Loops<Pack<double, 8>>{});
  if (isa == Isa::avx2) return work(Loops<Pack<double, 4>>{});
#endif
  return work(Loops<Lanes>{});
}

}  // namespace

void scores(const double* q, Index q_stride, Index rows, const double* kt, Index kt_stride, Index d, Index keys,
            double* s, Index s_stride) {
  return widest([&](auto loops) { return loops.scores(q, q_stride, rows, kt, kt_stride, d, keys, s, s_stride); });
}
double largest_absolute_score(const double* q, const double* kt, Index kt_stride, Index d, Index keys) {
  return widest([&](auto loops) { return loops.largest_absolute_score(q, kt, kt_stride, d, keys); });
}
SquareExtent square_sums(const double* a, Index stride, Index rows, Index columns) {
  return widest([&](auto loops) { return loops.square_sums(a, stride, rows, columns); });
}
Extent magnitudes(const double* a, Index count) {
  return widest([&](auto loops) { return loops.magnitudes(a, count); });
}
Grid grid(const double* a, Index count) {
  return widest([&](auto loops) { return loops.grid(a, count); });
}
double largest_square_sum(const double* a, Index stride, Index rows, Index columns) {
  return widest([&](auto loops) { return loops.largest_square_sum(a, stride, rows, columns); });
}
void round_sums(const RoundRule& rule, const double* a, const double* b, double shift, Index count, double* to) {
  return widest([&](auto loops) { return loops.round_sums(rule, a, b, shift, count, to); });
}
ScoreSums finish_scores(const ScoreRule& rule, double* s, double* e, const double* bias, const double* open,
                        Index count, Index keys) {
  return widest([&](auto loops) { return loops.finish_scores(rule, s, e, bias, open, count, keys); });
}
double largest_bias_above(const double* z, const double* bias, double threshold, Index keys) {
  return widest([&](auto loops) { return loops.largest_bias_above(z, bias, threshold, keys); });
}
Index count_from(const double* z, double threshold, Index keys) {
  return widest([&](auto loops) { return loops.count_from(z, threshold, keys); });
}
WeightSums weigh(const WeightRule& rule, const double* z, double* p, double* e, double* m, Index keys) {
  return widest([&](auto loops) { return loops.weigh(rule, z, p, e, m, keys); });
}
void values(const double* p, const double* m, Index stride, Index rows, const double* v, Index keys, Index columns,
            double* y, double* reach, bool add) {
  return widest([&](auto loops) { return loops.values(p, m, stride, rows, v, keys, columns, y, reach, add); });
}
void accept(const AcceptRule& rule, double* y, const double* reach, const double* out, Index columns,
            std::uint8_t* accepted) {
  return widest([&](auto loops) { return loops.accept(rule, y, reach, out, columns, accepted); });
}
void box(const double* p, const double* d, double* lo, double* hi, Index keys) {
  return widest([&](auto loops) { return loops.box(p, d, lo, hi, keys); });
}
std::uint8_t inside_box(const AcceptRule& rule, const double* p, const double* lo, const double* hi, const double* v,
                        Index keys, Index stride, const double* y, const double* out) {
  return widest([&](auto loops) { return loops.inside_box(rule, p, lo, hi, v, keys, stride, y, out); });
}
std::uint8_t inside_means(const MeanRule& rule, const double* p, const double* lo, const double* hi, const double* v,
                          Index keys, Index stride, const double* out) {
  return widest([&](auto loops) { return loops.inside_means(rule, p, lo, hi, v, keys, stride, out); });
}
ShortTops short_scores(const ShortScoreRule& rule, const ShortLanes& rows) {
  return widest([&](auto loops) { return loops.short_scores(rule, rows); });
}
void judge_short(const ShortRule& rule, const ShortLanes& rows) {
  return widest([&](auto loops) { return loops.judge_short(rule, rows); });
}
double weights(const double* z, double z_max, double* p, Index keys) {
  return widest([&](auto loops) { return loops.weights(z, z_max, p, keys); });
}
EndSums ends(const EndRule& rule, const double* z, const double* widths, double* lo, double* hi, Index keys) {
  return widest([&](auto loops) { return loops.ends(rule, z, widths, lo, hi, keys); });
}
double extreme_mean(const double* lo, const double* hi, const double* values, Index keys, double y, double sign,
                    double hull) {
  return widest([&](auto loops) { return loops.extreme_mean(lo, hi, values, keys, y, sign, hull); });
}

}  // namespace products

void decode(DType type, const void* from, Index count, double* to) {
  products::widest([&](auto loops) { loops.decode(type, from, count, to); });
}
void decode_padded(const DenseRows& from, double* to, Index to_stride) {
  products::widest([&](auto loops) { loops.decode_padded(from, to, to_stride); });
}
void turn_eight(const double* rows, Index stride, Index columns, double* to, Index to_stride) {
  products::widest([&](auto loops) { loops.turn_eight(rows, stride, columns, to, to_stride); });
}
void decode_turned(const DenseRows& from, double* to, Index to_stride) {
  products::widest([&](auto loops) { loops.decode_turned(from, to, to_stride); });
}

}  // namespace attest::oracle
