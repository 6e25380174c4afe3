#pragma once
#include <array>
#include <cstdint>

#include "core/tensor.hpp"

// The inner loops of kernels that compute in f32, once for each instruction set (loops_body.hpp) and chosen as the
// program starts. All instances give the same bits: an element is one chain of rounded products and sums in ascending
// order, whatever the number of lanes beside it, and a row's sum is eight interleaved ones.
// Arrays are padded as in arithmetic.hpp: n means padded(n) elements.
namespace attest::kernels {

enum class Isa : std::uint8_t { least, avx2, avx512 };

// A function for each format that has one.
template <class Function>
using ByFormat = std::array<Function, formats.size()>;

struct Loops {
  // dots[r * dots_step + j] = factor * (sum over e of q[r * q_step + e] keys[e * stride + j]), in ascending e.
  void (*dots)(const float* q, Index q_step, Index rows, const float* keys, Index stride, Index d, Index n,
               float factor, float* dots, Index dots_step);
  // The same of one row, for keys that lie row by row, `stride` apart, and n of them, not padded(n).
  void (*dot_row)(const float* q, const float* keys, Index stride, Index d, Index n, float factor, float* dots);
  // sum[r * sum_step + c] += weights[r * weights_step + j] values[j * stride + c] for j in [0, keys), in ascending j.
  void (*weigh)(const float* weights, Index weights_step, Index rows, Index keys, const float* values, Index stride,
                Index dv, float* sum, Index sum_step);
  // The same of one row and the `count` keys that `keys` lists, in its order.
  void (*weigh_listed)(const float* weights, const std::int32_t* keys, Index count, const float* values, Index stride,
                       Index dv, float* sum);
  // powers[j] = e^(x[j] - shift), at most 0.8 ulp off, subnormal ones too; exactly 1 at 0. Returns their sum.
  float (*powers)(const float* x, float shift, Index n, float* powers);
  // NaN is passed over. Says, too, whether no element is -inf, of padded(n).
  float (*largest)(const float* x, Index n, bool* above_minus_infinity);
  float (*sum)(const float* x, Index n);  // in eight interleaved sums
  // Weighs a tile of n scores of rows [first, last) in an online softmax, s and weights `step` apart: the rows' running
  // maxima rise; factor[r] = e^(old - new), 1 where there was none or it stays; total[r] = factor total + the sum of
  // the weights e^(s - maximum), which powers() makes. Returns whether no score is -inf. The three arrays have whole 16
  // rows; in rows outside [first, last) only the factor changes.
  bool (*soften_rows)(const float* s, Index step, Index first, Index last, Index n, float* largest, float* total,
                      float* factor, float* weights);
  // Weighs rows of at most 16 keys, a row in a lane: s[j * step + r] becomes e^(s - shift), with the largest of row r,
  // or 0 where all are -inf, for a shift; their sums are those of sum(); then, if `divide`, it becomes the quotient.
  // Returns whether no score is -inf.
  bool (*soften_columns)(float* s, Index step, Index keys, Index rows, bool divide, float* shift, float* sum);
  void (*scale)(float factor, float* x, Index n);
  void (*divide)(float divisor, float* x, Index n);
  // Tells whether each of n elements, not of padded(n), is finite.
  bool (*finite)(const float* x, Index n);

  // Rounded to a format narrower than f32.
  ByFormat<void (*)(float* x, Index n)> round;

  // out[c * step + r] = from[r * row_stride + c].
  void (*columns)(const float* from, Index row_stride, Index rows, Index columns, Index step, float* out);
  // n elements, not padded(n), from the codes of a format that is_short(), or rounded to them.
  ByFormat<void (*)(const std::uint16_t* from, Index n, float* to)> widen;
  ByFormat<void (*)(const float* from, Index n, std::uint16_t* to)> narrow;
};

// Returns the loops of the widest instruction set that the machine has, or those that use_loops() was given.
const Loops& loops() noexcept;
// Returns the loops of one instruction set; nullptr where this machine or this build lacks it.
const Loops* loops_of(Isa isa) noexcept;
// Sets the result of loops() for every thread from now on. It is for tests. Not while kernels run.
void use_loops(const Loops& chosen) noexcept;

}  // namespace attest::kernels
