#include "kernels/layer_norm/emulated/emulator.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/rng.hpp"

namespace attest::emulator::layer_norm {
namespace {

using attest::layer_norm::Arithmetic;
using attest::layer_norm::FlushToZero;
using attest::layer_norm::Merge;
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
    statistics();
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

  // ---- sums
  double joined(Numbers parts) const {
    if (scheme_.chain_of_lanes) {
      double sum = parts[0];
      for (std::size_t i = 1; i < parts.size(); ++i) sum = s_.add(sum, parts[i]);
      return sum;
    }
    while (parts.size() > 1) {
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i + half < parts.size(); ++i) parts[i] = s_.add(parts[i], parts[i + half]);
      parts.resize(half);
    }
    return parts[0];
  }

  template <class Add>
  double halves(std::size_t begin, std::size_t end, const Add& add) const {
    if (end - begin <= static_cast<std::size_t>(scheme_.block)) {
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum = add(sum, i);
      return sum;
    }
    const std::size_t middle = begin + (end - begin + 1) / 2;
    return s_.add(halves(begin, middle, add), halves(middle, end, add));
  }

  // The lane of element i of n.
  std::size_t lane_of(std::size_t i, std::size_t n, std::size_t lanes) const {
    return scheme_.shape == Shape::dealt ? i % lanes : i / ((n + lanes - 1) / lanes);
  }
  std::size_t lane_count(std::size_t n) const {
    return std::clamp<std::size_t>(static_cast<std::size_t>(scheme_.lanes), 1, std::max<std::size_t>(n, 1));
  }

  // add(sum, i) joins term i to a sum.
  template <class Add>
  double total(std::size_t n, const Add& add) const {
    if (scheme_.shape == Shape::halves) return halves(0, n, add);
    if (scheme_.shape == Shape::chain) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum = add(sum, i);
      return sum;
    }
    Numbers lanes(lane_count(n), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      double& lane = lanes[lane_of(i, n, lanes.size())];
      lane = add(lane, i);
    }
    return joined(std::move(lanes));
  }

  double sum(const Numbers& terms) const {
    return total(terms.size(), [&](double so_far, std::size_t i) { return s_.add(so_far, terms[i]); });
  }
  double sum_of_squares(const Numbers& terms) const {
    return total(terms.size(), [&](double so_far, std::size_t i) {
      return scheme_.fma ? s_.add_product(terms[i], terms[i], so_far) : s_.add(so_far, s_.times(terms[i], terms[i]));
    });
  }
  double divided(double sum, double count) const {
    const double n = s_.nearest(count);
    return scheme_.reciprocal_count ? s_.times(sum, s_.over(1, n)) : s_.over(sum, n);
  }
  double count() const { return static_cast<double>(x_.size()); }

  // ---- statistics
  Numbers differences(double from) const {
    Numbers d;
    for (const double x : seen_) d.push_back(s_.add(x, -from));
    return d;
  }

  void statistics() {
    if (call_.rms) {
      variance_ = divided(sum_of_squares(seen_), count());
      return;
    }
    switch (how_.variance) {
      case Variance::two_pass:
      case Variance::two_pass_corrected:
        return two_passes();
      case Variance::welford:
        return welford();
      case Variance::shifted:
        return about(pivot_);
      case Variance::one_pass:
        return about(0);
    }
  }

  void two_passes() {
    mean_ = divided(sum(seen_), count());
    const Numbers d = scheme_.defect == Defect::mean_kept ? seen_ : differences(mean_);
    const bool less_one = scheme_.defect == Defect::count_less_one && x_.size() > 1;
    variance_ = divided(sum_of_squares(d), count() - (less_one ? 1 : 0));
    if (how_.variance != Variance::two_pass_corrected) return;
    const double left = divided(sum(d), count());
    variance_ = scheme_.fma ? s_.add_product(-left, left, variance_) : s_.add(variance_, -s_.times(left, left));
  }

  void about(double pivot) {
    const Numbers z = pivot == 0 ? seen_ : differences(pivot);
    const double mean = divided(sum(z), count()), square = divided(sum_of_squares(z), count());
    variance_ = scheme_.fma ? s_.add_product(-mean, mean, square) : s_.add(square, -s_.times(mean, mean));
    if (how_.clamp) variance_ = variance_ > 0 ? variance_ : 0;
    mean_ = pivot == 0 ? mean : s_.add(pivot, mean);
  }

  struct Part {
    double count = 0, mean = 0, squares = 0;
  };
  void take(Part& part, double x) const {
    part.count += 1;
    if (part.count == 1) {
      part.mean = x;
      return;
    }
    const double k = s_.nearest(part.count), before = s_.add(x, -part.mean);
    const double mean = scheme_.reciprocal_count ? (scheme_.fma ? s_.add_product(before, s_.over(1, k), part.mean)
                                                                : s_.add(part.mean, s_.times(before, s_.over(1, k))))
                                                 : s_.add(part.mean, s_.over(before, k));
    const double after = s_.add(x, -mean);
    part.mean = mean;
    part.squares =
        scheme_.fma ? s_.add_product(before, after, part.squares) : s_.add(part.squares, s_.times(before, after));
  }

  Part merged(const Part& a, const Part& b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double count = a.count + b.count, n = s_.nearest(count), na = s_.nearest(a.count), nb = s_.nearest(b.count);
    const double delta = s_.add(b.mean, -a.mean), square = s_.times(delta, delta);
    double mean = 0;
    if (how_.merge == Merge::weighted && scheme_.merge_form % 2 == 0) {
      mean = s_.over(s_.add(s_.times(na, a.mean), s_.times(nb, b.mean)), n);
    } else if (how_.merge == Merge::weighted) {
      const double share = s_.over(1, n), of_a = s_.times(na, share), of_b = s_.times(nb, share);
      mean = scheme_.fma ? s_.add_product(of_b, b.mean, s_.times(of_a, a.mean))
                         : s_.add(s_.times(of_a, a.mean), s_.times(of_b, b.mean));
    } else {
      const double share = scheme_.reciprocal_count ? s_.times(nb, s_.over(1, n)) : s_.over(nb, n);
      mean = scheme_.fma ? s_.add_product(delta, share, a.mean) : s_.add(a.mean, s_.times(delta, share));
    }
    double between = 0;
    switch (scheme_.merge_form % 3) {
      case 0:
        between = s_.times(square, s_.over(s_.times(na, nb), n));
        break;
      case 1:
        between = s_.times(s_.times(square, na), s_.over(nb, n));
        break;
      default:
        between = s_.over(s_.times(s_.times(square, na), nb), n);
    }
    return {count, mean, s_.add(s_.add(a.squares, b.squares), between)};
  }

  void welford() {
    std::vector<Part> parts(scheme_.shape == Shape::chain ? 1 : lane_count(seen_.size()));
    for (std::size_t i = 0; i < seen_.size(); ++i)
      take(parts[parts.size() == 1 ? 0 : lane_of(i, seen_.size(), parts.size())], seen_[i]);
    while (parts.size() > 1) {
      if (scheme_.chain_of_lanes) {
        parts[0] = merged(parts[0], parts[1]);
        parts.erase(parts.begin() + 1);
        continue;
      }
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i + half < parts.size(); ++i) parts[i] = merged(parts[i], parts[i + half]);
      parts.resize(half);
    }
    mean_ = parts[0].mean;
    variance_ = divided(parts[0].squares, count());
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
    if (scheme_.root != RootError::exact && std::isfinite(scale_) && scale_ != 0) scale_ = off(a);
    if (scheme_.defect == Defect::root_off) scale_ = s_.nearest(scale_ * 1.001);
  }

  // As far from 1/sqrt(a) as the contract lets it be.
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
  // With its offset, where it is needed before t.
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

double depth_of_halves(double n, double block) {
  double depth = 0;
  while (n > block) n = std::ceil(n / 2), ++depth;
  return depth + n - 1;
}

}  // namespace

double additions_of(const Scheme& scheme, Index n) {
  const double count = static_cast<double>(n), lanes = std::clamp(static_cast<double>(scheme.lanes), 1.0, count);
  if (scheme.shape == Shape::chain || (scheme.shape != Shape::halves && lanes == 1)) return std::max(count - 1, 1.0);
  if (scheme.shape == Shape::halves) return std::max(depth_of_halves(count, static_cast<double>(scheme.block)), 1.0);
  return std::max(1.0,
                  std::ceil(count / lanes) - 1 + (scheme.chain_of_lanes ? lanes - 1 : std::ceil(std::log2(lanes))));
}

Scheme draw_scheme(const Contract& contract, Index n, bool rms, std::uint64_t seed) {
  std::uint64_t key = mix(seed ^ 0x9d5c);
  const auto one_of = [&](std::uint64_t choices) {
    key = mix(key);
    return below(key, choices);
  };
  const auto& how = contract.arithmetic;
  const bool welford = !rms && how.variance == attest::layer_norm::Variance::welford;
  Scheme s;
  s.seed = mix(key);
  s.order = static_cast<Order>(one_of(6));
  const double most = how.additions(n);
  for (int attempt = 0;; ++attempt) {
    s.shape = static_cast<Shape>(one_of(4));
    s.lanes = one_of(3) == 0 ? 1 + static_cast<Index>(one_of(13)) : Index{1} << one_of(11);
    s.block = Index{1} << one_of(6);
    s.chain_of_lanes = one_of(3) == 0;
    if (attempt > 60) s.shape = Shape::halves, s.block = 1;
    if (welford) {  // its lanes are chains: as many of them as its merges can join
      if (s.shape == Shape::halves) s.shape = Shape::chunked;
      if (attempt > 30) s.lanes = Index{1} << std::min<Index>(how.merge_depth, 16), s.chain_of_lanes = false;
      const Index lanes = std::min(s.lanes, n);
      if (how.merge_depth == 0 || lanes == 1) s.shape = Shape::chain;
      const Index merges = s.chain_of_lanes ? lanes - 1 : static_cast<Index>(std::ceil(std::log2(lanes)));
      if (s.shape != Shape::chain && merges > how.merge_depth) continue;
    }
    if (additions_of(s, n) <= most || attempt > 60) break;
  }
  s.reciprocal_count = one_of(2);
  s.fma = one_of(2);
  s.divide_by_root = one_of(2);
  s.root = static_cast<RootError>(one_of(4));
  s.root_share = one_of(4) ? 1 : static_cast<double>(one_of(1000)) / 1000;
  if (how.rsqrt_ulp <= 0.5 && !how.rsqrt_rel) s.root = RootError::exact;
  if (how.kappa >= 3) s.sums = static_cast<Direction>(one_of(4));
  s.flush_results = how.flushes() && one_of(4) != 0;
  s.flush_params = how.flushes() && one_of(2);
  s.flush_x = how.flush_to_zero == FlushToZero::inputs && one_of(2);
  s.flush_every_other_input = one_of(2);
  s.seen_as_statistics = one_of(2);
  s.gamma_added_late = one_of(2);
  s.merge_form = static_cast<int>(one_of(6));
  return s;
}

void run_row(const RowCall& call, const Contract& contract, const Scheme& scheme, std::span<double> out) {
  Row(call, contract, scheme)(out);
}

void run(const Inputs& inputs, const Contract& contract, const Scheme& scheme, Tensor& out, Tensor& sum_out) {
  const Index rows = out.shape()[0], hidden = out.shape()[1];
  const auto filled = [&](const Tensor& tensor, auto at) {
    Numbers numbers(tensor.present() ? static_cast<std::size_t>(hidden) : 0);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = at(static_cast<Index>(i));
    return numbers;
  };
  const Numbers gamma = filled(inputs.gamma, [&](Index i) { return inputs.gamma.at(i); });
  const Numbers beta = filled(inputs.beta, [&](Index i) { return inputs.beta.at(i); });
  const Tensor& param = inputs.gamma.present() ? inputs.gamma : inputs.beta;
  const Format params = param.present() ? format_of(param.dtype()) : contract.policy[Stage::storage];
  Numbers y(static_cast<std::size_t>(hidden));
  const Format sum = contract.policy[Stage::sum], storage = contract.policy[Stage::storage];
  for (Index row = 0; row < rows; ++row) {
    const Numbers x = filled(inputs.x, [&](Index i) { return inputs.x.at(row, i); });
    const Numbers residual = filled(inputs.residual, [&](Index i) { return inputs.residual.at(row, i); });
    run_row({x, residual, gamma, beta, params, inputs.epsilon, inputs.norm == attest::layer_norm::Norm::rms}, contract,
            scheme, y);
    for (Index i = 0; i < hidden; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.set(row, i, 0, 0, y[at]);
      if (sum_out.present()) sum_out.set(row, i, 0, 0, round_to(storage, round_to(sum, x[at] + residual[at])));
    }
  }
}

}  // namespace attest::emulator::layer_norm
