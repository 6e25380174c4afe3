#include "bench/plain_attention.hpp"

#include <cmath>

namespace attest::bench {
namespace {

std::vector<float> some_values(Index count) {
  std::vector<float> values;
  for (Index n = 0; n < count; ++n) values.push_back(static_cast<float>(n * 37 % 101) / 50 - 1);
  return values;
}

}  // namespace

PlainAttention::PlainAttention(const Problem& p)
    : b_(p.b),
      heads_(p.hq),
      lq_(p.lq),
      lk_(p.lk),
      d_(p.d),
      dv_(p.dv),
      scale_(p.effective_scale()),
      q_(some_values(p.b * p.hq * p.lq * p.d)),
      k_(some_values(p.b * p.hq * p.lk * p.d)),
      v_(some_values(p.b * p.hq * p.lk * p.dv)) {}

double PlainAttention::operator()() {
  using Floats = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  double total = 0;
  for (Index h = 0; h < b_ * heads_; ++h) {
    q64_ = Floats(q_.data() + h * lq_ * d_, lq_, d_).cast<double>();
    k64_ = Floats(k_.data() + h * lk_ * d_, lk_, d_).cast<double>();
    v64_ = Floats(v_.data() + h * lk_ * dv_, lk_, dv_).cast<double>();
    s_.noalias() = q64_ * k64_.transpose();
    s_ *= scale_;
    for (Index i = 0; i < lq_; ++i) {
      const double top = s_.row(i).maxCoeff();
      s_.row(i) = s_.row(i).unaryExpr([top](double x) { return std::exp(x - top); });
      s_.row(i) /= s_.row(i).sum();
    }
    y_.noalias() = s_ * v64_;
    total += y_(0, 0);
  }
  return total;
}

}  // namespace attest::bench
