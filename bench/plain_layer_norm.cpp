#include "bench/plain_layer_norm.hpp"

#include <cmath>

namespace attest::bench {

using layer_norm::Norm;
using layer_norm::Residual;
using layer_norm::Weights;

PlainLayerNorm::PlainLayerNorm(const layer_norm::Problem& p) : problem_(p) {
  if (p.dtype == Format::f64)
    fill(doubles_);
  else
    fill(floats_);
  if (p.gamma != Weights::none) gamma_ = Eigen::ArrayXd::LinSpaced(p.hidden, 0.5, 1.5);
  if (p.beta != Weights::none) beta_ = Eigen::ArrayXd::LinSpaced(p.hidden, -0.5, 0.5);
}

template <class T>
void PlainLayerNorm::fill(Tensors<T>& tensors) const {
  const auto count = static_cast<std::size_t>(problem_.elements());
  tensors.x.resize(count);
  tensors.out.resize(count);
  for (std::size_t i = 0; i < count; ++i) tensors.x[i] = static_cast<T>(i * 37 % 101) / 50 - 1;
  if (problem_.residual == Residual::none) return;
  tensors.residual = tensors.x;
  if (problem_.sum_out) tensors.sum.resize(count);
}

template <class T>
double PlainLayerNorm::run(Tensors<T>& tensors) {
  using Row = Eigen::Array<T, Eigen::Dynamic, 1>;
  const Index n = problem_.hidden;
  for (Index r = 0; r < problem_.rows; ++r) {
    d_ = Eigen::Map<const Row>(tensors.x.data() + r * n, n).template cast<double>();
    if (!tensors.residual.empty())
      d_ += Eigen::Map<const Row>(tensors.residual.data() + r * n, n).template cast<double>();
    if (!tensors.sum.empty()) Eigen::Map<Row>(tensors.sum.data() + r * n, n) = d_.template cast<T>();
    if (problem_.norm == Norm::layer) d_ -= d_.mean();
    const double scale = 1 / std::sqrt(d_.square().mean() + problem_.epsilon);
    Eigen::Map<Row> out(tensors.out.data() + r * n, n);
    if (gamma_.size() > 0 && beta_.size() > 0)
      out = (d_ * scale * gamma_ + beta_).template cast<T>();
    else if (gamma_.size() > 0)
      out = (d_ * scale * gamma_).template cast<T>();
    else if (beta_.size() > 0)
      out = (d_ * scale + beta_).template cast<T>();
    else
      out = (d_ * scale).template cast<T>();
  }
  return static_cast<double>(tensors.out.back());
}

double PlainLayerNorm::operator()() { return problem_.dtype == Format::f64 ? run(doubles_) : run(floats_); }

}  // namespace attest::bench
