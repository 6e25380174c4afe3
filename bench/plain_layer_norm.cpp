#include "bench/plain_layer_norm.hpp"

#include <cmath>

namespace attest::bench {

PlainLayerNorm::PlainLayerNorm(const layer_norm::Problem& p)
    : rows_(p.rows),
      hidden_(p.hidden),
      epsilon_(p.epsilon),
      x_(static_cast<std::size_t>(p.elements())),
      out_(x_.size()),
      gamma_(Eigen::ArrayXd::LinSpaced(p.hidden, 0.5, 1.5)),
      beta_(Eigen::ArrayXd::LinSpaced(p.hidden, -0.5, 0.5)) {
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
}

double PlainLayerNorm::operator()() {
  using Row = Eigen::Map<const Eigen::ArrayXf>;
  for (Index r = 0; r < rows_; ++r) {
    d_ = Row(x_.data() + r * hidden_, hidden_).cast<double>();
    d_ -= d_.mean();
    const double scale = 1 / std::sqrt(d_.square().mean() + epsilon_);
    Eigen::Map<Eigen::ArrayXf>(out_.data() + r * hidden_, hidden_) = (d_ * scale * gamma_ + beta_).cast<float>();
  }
  return static_cast<double>(out_.back());
}

}  // namespace attest::bench
