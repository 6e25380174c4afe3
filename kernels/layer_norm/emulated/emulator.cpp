#include "kernels/layer_norm/emulated/emulator.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/moments.hpp"

namespace attest::emulator::layer_norm {
namespace {

using attest::layer_norm::Arithmetic;
using attest::layer_norm::FlushToZero;
using attest::layer_norm::NormForm;
using attest::layer_norm::Policy;
using attest::layer_norm::SumOf;
using attest::layer_norm::Variance;

using Numbers = std::vector<double>;

// The contract as the defect leaves it.
Contract with_defect(Contract contract, Defect defect) {
  Policy& policy = contract.policy;
  const auto all = [&](Format format) {
    policy.set(Stage::statistics, format).set(Stage::normalise, format).set(Stage::affine, format);
  };
  if (defect == Defect::one_pass) contract.arithmetic.variance = Variance::one_pass;
  if (defect == Defect::statistics_f16) policy.set(Stage::statistics, Format::f16);
  if (defect == Defect::statistics_bf16) policy.set(Stage::statistics, Format::bf16);
  if (defect == Defect::all_f16) all(Format::f16);
  if (defect == Defect::all_bf16) all(Format::bf16);
  return contract;
}

class Row {
 public:
  Row(const RowCall& call, const Contract& contract, const Scheme& scheme)
      : call_(call),
        scheme_(scheme),
        contract_(with_defect(contract, scheme.defect)),
        how_(contract_.arithmetic),
        s_{contract_.policy[Stage::statistics], scheme.flush_results, scheme.sums},
        n_{contract_.policy[Stage::normalise], scheme.flush_results},
        a_{contract_.policy[Stage::affine], scheme.flush_results},
        storage_{contract_.policy[Stage::storage], scheme.flush_results} {
    read();
    arrange();
  }

  void operator()(std::span<double> out) {
    const Moments moments = moments_of({seen_, pivot_, static_cast<double>(x_.size()), call_.rms}, how_, scheme_, s_);
    mean_ = moments.mean;
    variance_ = moments.variance;
    invert();
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const double y = affine(i);
      out[i] = Machine{contract_.policy[Stage::output], scheme_.flush_results}.nearest(y);
    }
  }

 private:
  // ---- what comes in
  double input(double x, std::size_t i, bool flushes) const {
    const bool now = flushes && !(scheme_.flush_every_other_input && i % 2 == 0);
    return now ? Machine{contract_.policy[Stage::storage], true}.flushed(x) : x;
  }

  void read() {
    const Machine sum{contract_.policy[Stage::sum], scheme_.flush_results};
    for (std::size_t i = 0; i < call_.x.size(); ++i) {
      double x = input(call_.x[i], i, scheme_.flush_x);
      if (!call_.residual.empty()) {
        x = sum.plus(x, input(call_.residual[i], i, scheme_.flush_x));
        if (how_.sum_of == SumOf::rounded) x = round_to(storage_.format, x);
      }
      x_.push_back(x);
    }
  }

  // The elements that statistics see, in the order in which they come together.
  void arrange() {
    std::vector<std::size_t> order(x_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto sort_by = [&](auto key) {
      std::ranges::stable_sort(order, [&](std::size_t i, std::size_t j) { return key(x_[i]) < key(x_[j]); });
    };
    switch (scheme_.order) {
      case Order::forward:
        break;
      case Order::backward:
        std::ranges::reverse(order);
        break;
      case Order::shuffled: {
        std::uint64_t key = mix(scheme_.seed);
        for (std::size_t i = order.size(); i > 1; --i) {
          key = mix(key);
          std::swap(order[i - 1], order[static_cast<std::size_t>(below(key, i))]);
        }
        break;
      }
      case Order::by_magnitude:
        sort_by([](double x) { return std::fabs(x); });
        break;
      case Order::by_magnitude_down:
        sort_by([](double x) { return -std::fabs(x); });
        break;
      case Order::by_value:
        sort_by([](double x) { return x; });
        break;
    }
    for (const std::size_t i : order)
      if (scheme_.defect != Defect::last_element_missed || i + 1 < x_.size() || x_.size() == 1)
        seen_.push_back(s_.nearest(x_[i]));
    pivot_ = s_.nearest(x_[0]);  // the first in memory, whatever the order
  }

  // ---- the reciprocal root
  void invert() {
    double epsilon = s_.nearest(call_.epsilon);
    if (scheme_.defect == Defect::no_epsilon) epsilon = 0;
    if (scheme_.defect == Defect::epsilon_outside) {
      root_ = s_.add(s_.root(variance_), epsilon);
      scale_ = s_.over(1, root_);
      return;
    }
    const double a = s_.add(variance_, epsilon);
    root_ = s_.root(a);
    scale_ = s_.over(1, root_);
    if (scheme_.root == RootError::nearest)
      scale_ = s_.nearest(static_cast<double>(1 / std::sqrt(static_cast<long double>(a))));
    else if (scheme_.root != RootError::exact && std::isfinite(scale_) && scale_ != 0)
      scale_ = off(a);
    if (scheme_.defect == Defect::root_off) scale_ = s_.nearest(scale_ * 1.001);
  }

  // Returns a number as far from 1/sqrt(a) as the contract permits.
  double off(double a) const {
    const long double exact = 1 / std::sqrt(static_cast<long double>(a));
    const double side = scheme_.root == RootError::up     ? 1
                        : scheme_.root == RootError::down ? -1
                                                          : symmetric_uniform(mix(scheme_.seed ^ 77));
    if (how_.rsqrt_rel) {
      const auto moved =
          static_cast<double>(exact * (1 + static_cast<long double>(side * scheme_.root_share * *how_.rsqrt_rel)));
      return s_.nearest(moved);
    }
    // The last number of the format that is no more than so many ulps away.
    const double near = static_cast<double>(exact);
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(near), min_exponent(s_.format)) - precision(s_.format) + 1);
    const double limit = near + side * scheme_.root_share * how_.rsqrt_ulp * ulp;
    const double moved = round_toward(s_.format, limit, side < 0);
    const bool holds =
        std::fabs(static_cast<long double>(moved) - exact) <= static_cast<long double>(how_.rsqrt_ulp) * ulp;
    return holds ? moved : round_to(s_.format, near);
  }

  // ---- element by element
  double gamma_of(std::size_t i) const {
    if (call_.gamma.empty()) return 1;
    if (scheme_.defect == Defect::gamma_shifted) i = (i + 1) % x_.size();
    double g = call_.gamma[i];
    if (scheme_.flush_params && std::fabs(g) < smallest_normal(call_.params)) g = 0;
    g = a_.nearest(g);
    return contract_.gamma_offset != 0 && !scheme_.gamma_added_late ? a_.plus(contract_.gamma_offset, g) : g;
  }
  bool gamma_comes_late() const {
    return contract_.gamma_offset != 0 && scheme_.gamma_added_late && !call_.gamma.empty();
  }
  double beta_of(std::size_t i) const {
    if (call_.beta.empty()) return 0;
    double b = call_.beta[i];
    if (scheme_.flush_params && how_.flush_to_zero == FlushToZero::inputs &&
        std::fabs(b) < smallest_normal(call_.params))
      b = 0;
    return a_.nearest(b);
  }

  double centred(std::size_t i) const {
    const double x = n_.nearest(scheme_.seen_as_statistics ? s_.nearest(x_[i]) : x_[i]);
    return call_.rms ? x : n_.plus(x, -n_.nearest(mean_));
  }

  double normalised(std::size_t i) const {
    double t = 0;
    if (how_.form == NormForm::scale_bias) {
      const double x = n_.nearest(x_[i]), r = n_.nearest(scale_), shift = n_.times(-n_.nearest(mean_), r);
      t = scheme_.fma ? n_.fused(x, r, shift) : n_.plus(n_.times(x, r), shift);
    } else {
      const double d = centred(i);
      const bool divides =
          scheme_.divide_by_root && scheme_.root == RootError::exact && scheme_.defect != Defect::root_off;
      t = divides ? n_.over(d, n_.nearest(root_)) : n_.times(d, n_.nearest(scale_));
    }
    return how_.norm_rounded ? storage_.nearest(t) : t;
  }

  double plus_beta(double t, double g, double b) const {
    return scheme_.fma ? a_.fused(t, g, b) : a_.plus(a_.times(t, g), b);
  }

  double affine(std::size_t i) const {
    const double b = beta_of(i);
    if (how_.form == NormForm::folded) {
      const double g = full_gamma(i), gr = a_.times(a_.nearest(scale_), g), mean = a_.nearest(mean_);
      const double shift = scheme_.fma ? a_.fused(-mean, gr, b) : a_.plus(b, -a_.times(mean, gr));
      return plus_beta(a_.nearest(x_[i]), gr, shift);
    }
    if (how_.form == NormForm::weighted_scale)
      return plus_beta(a_.nearest(centred(i)), a_.times(a_.nearest(scale_), full_gamma(i)), b);
    const double t = a_.nearest(normalised(i));
    if (gamma_comes_late()) return a_.plus(plus_beta(t, gamma_of(i), t), b);
    return plus_beta(t, gamma_of(i), b);
  }
  // Returns gamma, with its offset where it is needed before t.
  double full_gamma(std::size_t i) const {
    const double g = gamma_of(i);
    return gamma_comes_late() ? a_.plus(contract_.gamma_offset, g) : g;
  }

  const RowCall& call_;
  const Scheme& scheme_;
  const Contract contract_;
  const Arithmetic& how_;
  const Machine s_, n_, a_, storage_;
  Numbers x_, seen_;
  double pivot_ = 0, mean_ = 0, variance_ = 0, root_ = 0, scale_ = 0;
};

}  // namespace

void run_row(const RowCall& call, const Contract& contract, const Scheme& scheme, std::span<double> out) {
  Row(call, contract, scheme)(out);
}

namespace {

// Rows of one call: gamma and beta are read once.
class Rows {
 public:
  Rows(const Inputs& inputs, const Contract& contract, const Scheme& scheme)
      : inputs_(inputs),
        contract_(contract),
        scheme_(scheme),
        gamma_(filled(inputs.gamma, [&](Index i) { return inputs.gamma.at(i); })),
        beta_(filled(inputs.beta, [&](Index i) { return inputs.beta.at(i); })) {
    const Tensor& param = inputs.gamma.present() ? inputs.gamma : inputs.beta;
    params_ = param.present() ? format_of(param.dtype()) : contract.policy[Stage::storage];
  }

  void operator()(Index row, std::span<double> out) {
    x = filled(inputs_.x, [&](Index i) { return inputs_.x.at(row, i); });
    residual = filled(inputs_.residual, [&](Index i) { return inputs_.residual.at(row, i); });
    run_row({x, residual, gamma_, beta_, params_, inputs_.epsilon, inputs_.norm == attest::layer_norm::Norm::rms},
            contract_, scheme_, out);
  }

  Numbers x, residual;  // numbers of the latest row

 private:
  template <class At>
  [[nodiscard]] Numbers filled(const Tensor& tensor, At at) const {
    Numbers numbers(tensor.present() ? static_cast<std::size_t>(inputs_.x.shape()[1]) : 0);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = at(static_cast<Index>(i));
    return numbers;
  }

  const Inputs& inputs_;
  const Contract& contract_;
  const Scheme& scheme_;
  const Numbers gamma_, beta_;
  Format params_;
};

}  // namespace

void run(const Inputs& inputs, const Contract& contract, const Scheme& scheme, Tensor& out, Tensor& sum_out) {
  const Index rows = out.shape()[0], hidden = out.shape()[1];
  const Format sum = contract.policy[Stage::sum], storage = contract.policy[Stage::storage];
  Rows of(inputs, contract, scheme);
  Numbers y(static_cast<std::size_t>(hidden));
  for (Index row = 0; row < rows; ++row) {
    of(row, y);
    for (Index i = 0; i < hidden; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.set(row, i, 0, 0, y[at]);
      if (sum_out.present()) sum_out.set(row, i, 0, 0, round_to(storage, round_to(sum, of.x[at] + of.residual[at])));
    }
  }
}

std::vector<double> run_rows(const Inputs& inputs, const Contract& contract, const Scheme& scheme,
                             std::span<const Index> rows) {
  const auto hidden = static_cast<std::size_t>(inputs.x.shape()[1]);
  Rows of(inputs, contract, scheme);
  std::vector<double> out(rows.size() * hidden);
  for (std::size_t n = 0; n < rows.size(); ++n) of(rows[n], std::span(out).subspan(n * hidden, hidden));
  return out;
}

}  // namespace attest::emulator::layer_norm
