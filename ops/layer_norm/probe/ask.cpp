#include "ops/layer_norm/probe/ask.hpp"

#include <algorithm>
#include <utility>

#include "core/supports.hpp"

namespace attest::ops::of_layer_norm {

Index Maker::width(Index least) const {
  if (drawn_ != nullptr) return drawn_->hidden;
  const Index step = row_step(supports_.alignment, dtype_);
  return supports_.hidden.nearest((least + step - 1) / step * step);
}

Problem Maker::blank(Index hidden) const {
  Problem p;
  if (drawn_ != nullptr) {
    p.rows = drawn_->rows;
    p.param_type = drawn_->param_type;
    p.sum_out = drawn_->sum_out;
    p.threads = drawn_->threads;
    p.judged = drawn_->judged;
    for (const auto member :
         {&Problem::x_layout, &Problem::residual_layout, &Problem::param_layout, &Problem::out_layout})
      if (drawn_->*member != attest::layer_norm::Layout::broadcast &&
          drawn_->*member != attest::layer_norm::Layout::far)
        p.*member = drawn_->*member;
    if (drawn_->residual != Residual::none) p.residual = Residual::zero;
  } else {
    p.rows = supports_.rows.nearest(rows_);
  }
  p.dtype = dtype_;
  p.hidden = hidden;
  p.norm = layer() ? Norm::layer : Norm::rms;
  p.values = Values::constant;
  p.epsilon = two_to(dtype_ == Format::f64 ? -120 : dtype_ == Format::f16 ? -24 : -40);  // a number of the dtype
  p.gamma = supports_.no_gamma ? Weights::none : Weights::one;
  p.beta = supports_.no_beta ? Weights::none : Weights::zero;
  if (!supports_.param_same && dtype_ != Format::f32) p.param_type = ParamType::f32;
  if (residual_) p.residual = Residual::zero;
  return p;
}

Problem Maker::of_row(const Row& x) const {
  Problem p = blank(static_cast<Index>(x.size()));
  set_row(p, x);
  return p;
}

void set_x(Problem& problem, Index column, double value) {
  problem.edits.push_back({Edit::Tensor::x, 0, column, value});
}
void set_residual(Problem& problem, Index column, double value) {
  if (problem.residual == Residual::none) problem.residual = Residual::zero;
  problem.edits.push_back({Edit::Tensor::residual, 0, column, value});
}
void set_gamma(Problem& problem, Index column, double value) {
  problem.gamma = Weights::one;
  problem.edits.push_back({Edit::Tensor::gamma, 0, column, value});
}
void set_beta(Problem& problem, Index column, double value) {
  problem.beta = Weights::zero;
  problem.edits.push_back({Edit::Tensor::beta, 0, column, value});
}

// Sets the elements that differ from most of the row: that is one number, or one with changing signs.
void set_row(Problem& problem, const Row& x) {
  const auto alternating = [](double size, std::size_t i) { return i % 2 == 0 ? size : -size; };
  std::size_t most = 0;
  double usual = 0;
  bool alternates = false;
  std::vector<std::pair<double, bool>> seen;  // a row holds few numbers
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::pair here{x[i], i % 2 == 0};
    if (std::ranges::count(seen, here) != 0) continue;
    seen.push_back(here);
    std::size_t alike = 0, opposite = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      alike += x[j] == x[i];
      opposite += x[j] == alternating(alternating(x[i], i), j);
    }
    if (std::max(alike, opposite) <= most) continue;
    most = std::max(alike, opposite);
    alternates = opposite > alike;
    usual = alternates ? alternating(x[i], i) : x[i];
  }
  problem.values = alternates ? Values::alternating : Values::constant;
  if (alternates)
    problem.amplitude = usual;
  else
    problem.offset = usual;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != (alternates ? alternating(usual, i) : usual)) set_x(problem, static_cast<Index>(i), x[i]);
}

probing::Read out_at(Index column) { return probing::element({0, column, 0, 0}); }

Row normalised(const Row& x, Norm norm, double epsilon) {
  const auto n = static_cast<long double>(x.size());
  long double mean = 0, variance = 0;
  if (norm == Norm::layer)
    for (const double each : x) mean += static_cast<long double>(each) / n;
  for (const double each : x) variance += (each - mean) * (each - mean) / n;
  Row t;
  for (const double each : x)
    t.push_back(static_cast<double>((each - mean) / std::sqrt(variance + static_cast<long double>(epsilon))));
  return t;
}

double spacing(double t, int bits) { return two_to(std::ilogb(t) + 1 - bits); }
double off_grid(double t, int bits) {
  const double units = t / spacing(t, bits);
  return std::fabs(units - std::nearbyint(units));
}

FineCall fine_call(const Maker& maker, const Row& x, Index column) {
  FineCall call{maker.of_row(x), 0, 1, 0};
  Problem& p = call.problem;
  call.t = normalised(x, p.norm, p.epsilon)[static_cast<std::size_t>(column)];
  if (!maker.has_params()) return call;
  const double gain = two_to(std::min(12, 14 - std::ilogb(call.t)));  // beta fits f16
  call.factor = gain + maker.gamma_offset();
  call.beta = -round_to(Format::bf16, call.factor * round_to(Format::bf16, call.t));  // every format holds it
  set_gamma(p, column, gain);
  set_beta(p, column, call.beta);
  return call;
}

probing::Shot fine_shot(const Maker& maker, const Row& x, Index column, double slack) {
  FineCall call = fine_call(maker, x, column);
  const double lo = call.factor * (call.t - slack) + call.beta, hi = call.factor * (call.t + slack) + call.beta;
  return {std::move(call.problem), lo, hi, out_at(column)};
}

}  // namespace attest::ops::of_layer_norm
