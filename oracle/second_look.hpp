#pragma once
#include <span>
#include <vector>

#include "core/problem.hpp"
#include "core/tensor.hpp"
#include "oracle/call.hpp"
#include "oracle/judged_rows.hpp"

// What a second look at T is at (docs/bounds.md, section 7): some elements, and upper bounds of what each may add.
namespace attest::oracle {

// The elements of the judged rows, `most` of them spread evenly at most.
struct Sample {
  Sample(const Problem& problem, Index columns, Index most);
  [[nodiscard]] std::size_t row(Index n) const { return static_cast<std::size_t>(n * step / dv); }
  [[nodiscard]] Index column(Index n) const { return n * step % dv; }

  JudgedRows rows;
  Index all, step, count, dv;
};

// Of the square of error / s: of an element that T leaves out.
inline constexpr double no_square = -1;

// The root of the mean of those that are squares; 0 where none is.
double rms(std::span<const double> squares);

// Upper bounds of the squares of the sample; what is known of an element is not touched where none is. False if they are not worth having.
bool bound_squares(const Call& call, const Problem& problem, const Sample& sample, const Tensor& out,
                   std::span<double> bounds);

}  // namespace attest::oracle
