#include "oracle/second_look.hpp"

#include <algorithm>
#include <cmath>

#include "core/format.hpp"
#include "oracle/quick.hpp"

namespace attest::oracle {

Sample::Sample(const Problem& problem, Index columns, Index most)
    : rows(problem),
      all(static_cast<Index>(rows.size()) * columns),
      step(std::max<Index>(1, (all + most - 1) / most)),
      count((all + step - 1) / step),
      dv(columns) {}

double rms(std::span<const double> squares) {
  double sum = 0;
  Index elements = 0;
  for (const double x : squares) {
    if (!(x >= 0)) continue;
    sum += x;
    ++elements;
  }
  return elements == 0 ? 0 : std::sqrt(sum / static_cast<double>(elements));
}

bool bound_squares(const Call& call, const Problem& problem, const Sample& sample, const Tensor& out,
                   std::span<double> bounds) {
  const Format type = format_of(out.dtype());
  Quick quick(call, type, Quick::Spreads::near_and_t);
  if (quick.max_rows() == 0) return false;
  Block block;
  Index n = 0;
  for (std::size_t next = 0; next < sample.rows.size();) {
    const std::size_t first = next;
    next = block.take(problem, sample.rows, next, quick.max_rows());
    if (n == sample.count || sample.row(n) >= next) continue;
    quick.average(block.rows());
    quick.look_at_sums();
    for (; n < sample.count && sample.row(n) < next; ++n) {
      const auto at = static_cast<Index>(sample.row(n) - first);
      const RowIndex& r = block.rows()[static_cast<std::size_t>(at)];
      const double got = out.at(r.b, r.h, r.i, sample.column(n));
      double& square = bounds[static_cast<std::size_t>(n)];
      // Rows that a bias closes are left to the first round: what it takes up with them decides where T comes to lie.
      if (!std::isfinite(got) || quick.is_masked(at)) square = no_square;
      if (square == no_square || !quick.knows(at) || !quick.takes_part(at)) continue;
      const double scale = quick.sums_scale(), mean = quick.reach(at, sample.column(n)).mean;
      const double error = std::fabs(got - mean) * scale;
      const double half_ulp = std::max(std::fabs(mean) * unit_roundoff(type), half_smallest_subnormal(type)) * scale;
      const double ratio = error * error / (quick.sums_variance(at, sample.column(n)) + half_ulp * half_ulp / 3);
      if (ratio >= 0) square = ratio * (1 + 1e-6);
    }
  }
  return true;
}

}  // namespace attest::oracle
