#include "properties/layer_norm/law.hpp"

#include <cmath>
#include <limits>

namespace attest::properties::layer_norm {

bool Open::operator()(Index row, Index column) {
  const oracle::layer_norm::Interval interval = oracle_.interval(row, column);
  return interval.enclosure.nonfinite_ok || interval.enclosure.undetermined || interval.beta_ok ||
         interval.enclosure.expect != oracle::Expect::number;
}

bool Open::scale_may_be_subnormal(Index row, Index column, bool products) {
  return oracle_.least_scale_of(row, column, products) < smallest_normal(affine_);
}

Verdict compare_exactly(const Tensor& out, Index rows, Index hidden, const Expected& expected, std::string note) {
  Counts counts;
  for (Index row = 0; row < rows; ++row)
    for (Index column = 0; column < hidden; ++column) {
      const std::optional<double> right = expected(row, column);
      if (!right) {
        ++counts.undetermined;
        continue;
      }
      ++counts.judged;
      const double got = out.at(row, column);
      if (got == *right || (std::isnan(got) && std::isnan(*right))) continue;
      Evidence evidence;
      evidence.tensor = "out";
      evidence.index = {row, column, 0, 0};
      evidence.got = got;
      evidence.expected = evidence.lo = evidence.hi = *right;
      evidence.ratio = std::numeric_limits<double>::infinity();
      evidence.wrong = std::isnan(got) ? Wrong::nan : std::isinf(got) ? Wrong::infinity : Wrong::finite;
      evidence.note = std::move(note);
      return Verdict::fail(std::move(evidence), counts);
    }
  return counts.judged > 0 ? Verdict::pass(counts) : Verdict::vacuous("undetermined", counts);
}

void change(Tensor& matrix, const std::function<double(Index, Index, double)>& f) {
  if (!matrix.present()) return;
  for (Index row = 0; row < matrix.shape()[0]; ++row)
    for (Index column = 0; column < matrix.shape()[1]; ++column)
      matrix.set(row, column, 0, 0, f(row, column, matrix.at(row, column)));
}

void change_weights(Tensor& row, const std::function<double(Index, double)>& f) {
  if (!row.present()) return;
  for (Index column = 0; column < row.shape()[0]; ++column) row.set(column, 0, 0, 0, f(column, row.at(column)));
}

bool broadcasts(const Problem& problem) noexcept {
  using attest::layer_norm::Layout;
  return problem.x_layout == Layout::broadcast || problem.residual_layout == Layout::broadcast ||
         problem.param_layout == Layout::broadcast;
}

}  // namespace attest::properties::layer_norm
