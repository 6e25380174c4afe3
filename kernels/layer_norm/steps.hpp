#pragma once
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/layer_norm/call.hpp"

// The steps of fused layer_norm. `Round` rounds a Real to the statistics format after each operation
// (kernels/rounding.hpp).
namespace attest::kernels::layer_norm {

template <class Real>
struct Moments {
  Real mean, variance;
};

// term(0) + term(1) + ... in `lanes` interleaved partial sums, which are then added in pairs.
template <int lanes, class Real, class Round, class Term>
Real sum_in_lanes(Round round, Index n, Term term) {
  std::array<Real, lanes> partial{};
  Index i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      partial[static_cast<std::size_t>(lane)] = round(partial[static_cast<std::size_t>(lane)] + term(i + lane));
  for (std::size_t lane = 0; i < n; ++i, ++lane) partial[lane] = round(partial[lane] + term(i));
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] = round(partial[lane] + partial[lane + half]);
  return partial[0];
}

// The same in halves of halves, down to `block` terms one by one.
template <Index block, class Real, class Round, class Term>
Real sum_in_pairs(Round round, Index begin, Index end, Term term) {
  if (end - begin > block) {
    const Index middle = begin + (end - begin + 1) / 2;
    return round(sum_in_pairs<block, Real>(round, begin, middle, term) +
                 sum_in_pairs<block, Real>(round, middle, end, term));
  }
  Real sum = 0;
  for (Index i = begin; i < end; ++i) sum = round(sum + term(i));
  return sum;
}

// The steps of every kernel, which faults replace.
struct CommonSteps {
  static constexpr int lanes = 8;
  static void declare(attest::layer_norm::Arithmetic& a) { a.depth = attest::layer_norm::Lanes{lanes, 1}; }
  // The formats in which a kernel computes.
  static Policy computes_in(const Call& call) { return call.contract.policy; }
  // Loads the numbers that are normalised, and stores the results.
  static void load(const Call& call, Index row, std::span<double> x) { call.load_row(row, x); }
  static void store(const Call& call, Index row, std::span<double> y) { call.store_row(row, y); }
  // Returns how many elements of a row the statistics see.
  static Index seen(Index n) { return n; }

  template <class Real, class Round, class Term>
  static Real sum(Round round, Index n, Term term) {
    return sum_in_lanes<lanes, Real>(round, n, term);
  }
  template <class Real, class Round>
  static Real square(Round round, Real x) {
    return round(x * x);
  }
  template <class Real, class Round>
  static Real inverse_root(Round round, Real variance, Real epsilon) {
    return round(Real{1} / round(std::sqrt(round(variance + epsilon))));
  }
  template <class Real, class Round>
  static Real affine(const Policy&, Round round, Real y, Real gamma, Real beta) {
    return round(round(round(y) * gamma) + beta);
  }
};

// The mean of squares, of RMSNorm.
template <class Steps, class Real, class Round>
Real mean_square(Round round, const Real* x, Index n) {
  const Index seen = Steps::seen(n);
  const Real sum = Steps::template sum<Real>(round, seen, [&](Index i) { return Steps::square(round, x[i]); });
  return round(sum / round(static_cast<Real>(n)));
}

struct TwoPass : CommonSteps {
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    const Index seen = Steps::seen(n);
    const Real count = round(static_cast<Real>(n));
    const Real mean = round(Steps::template sum<Real>(round, seen, [&](Index i) { return x[i]; }) / count);
    const Real sum =
        Steps::template sum<Real>(round, seen, [&](Index i) { return Steps::square(round, Real{round(x[i] - mean)}); });
    return {mean, Real{round(sum / count)}};
  }
};

// The same with sums in halves of halves.
struct PairwiseSteps : TwoPass {
  static constexpr Index block = 16;
  static void declare(attest::layer_norm::Arithmetic& a) { a.depth = attest::layer_norm::Pairwise{block}; }
  template <class Real, class Round, class Term>
  static Real sum(Round round, Index n, Term term) {
    return sum_in_pairs<block, Real>(round, 0, n, term);
  }
};

// Less the square of the mean difference, which is what rounding of the mean has left.
struct TwoPassCorrected : CommonSteps {
  static void declare(attest::layer_norm::Arithmetic& a) {
    CommonSteps::declare(a);
    a.variance = attest::layer_norm::Variance::two_pass_corrected;
  }
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    const Moments<Real> first = TwoPass::moments<Steps>(round, x, n);
    const Real count = round(static_cast<Real>(n));
    const Real left = round(
        Steps::template sum<Real>(round, Steps::seen(n), [&](Index i) { return Real{round(x[i] - first.mean)}; }) /
        count);
    return {first.mean, Real{round(first.variance - round(left * left))}};
  }
};

// Four lanes, each with a mean and a sum of squares of its own, merged in pairs by the difference of their means.
struct Welford : CommonSteps {
  static constexpr int lanes = 4;
  static void declare(attest::layer_norm::Arithmetic& a) {
    a.variance = attest::layer_norm::Variance::welford;
    a.depth = attest::layer_norm::Lanes{lanes, 1};
    a.merge = attest::layer_norm::Merge::delta;
    a.merge_depth = 2;
  }
  template <class Real, class Round, class Term>
  static Real sum(Round round, Index n, Term term) {
    return sum_in_lanes<lanes, Real>(round, n, term);
  }
  template <class Real>
  struct Part {
    Real count = 0, mean = 0, squares = 0;
  };
  template <class Real, class Round>
  static Part<Real> merged(Round round, Part<Real> a, Part<Real> b) {
    if (b.count == 0) return a;
    const Real count = round(a.count + b.count), difference = round(b.mean - a.mean);
    const Real share = round(b.count / count);
    const Real between = round(round(round(difference * difference) * a.count) * share);
    return {count, Real{round(a.mean + round(difference * share))},
            Real{round(round(a.squares + b.squares) + between)}};
  }
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    std::array<Part<Real>, lanes> parts{};
    const Index seen = Steps::seen(n);
    for (Index i = 0; i < seen; ++i) {
      Part<Real>& part = parts[static_cast<std::size_t>(i % lanes)];
      part.count = round(part.count + Real{1});
      if (part.count == 1) {
        part.mean = x[i];
        continue;
      }
      const Real before = round(x[i] - part.mean);
      part.mean = round(part.mean + round(before / part.count));
      part.squares = round(part.squares + round(before * Real{round(x[i] - part.mean)}));
    }
    const Part<Real> whole = merged(round, merged(round, parts[0], parts[2]), merged(round, parts[1], parts[3]));
    return {whole.mean, Real{round(whole.squares / round(static_cast<Real>(n)))}};
  }
};

// E[z^2] - E[z]^2 of z = x - pivot.
template <class Steps, class Real, class Round>
Moments<Real> moments_about(Round round, const Real* x, Index n, Real pivot) {
  const Index seen = Steps::seen(n);
  const Real count = round(static_cast<Real>(n));
  const auto z = [&](Index i) { return Real{round(x[i] - pivot)}; };
  const Real mean = round(Steps::template sum<Real>(round, seen, z) / count);
  const Real sum = Steps::template sum<Real>(round, seen, [&](Index i) { return Steps::square(round, z(i)); });
  const Real variance = round(round(sum / count) - round(mean * mean));
  return {Real{round(mean + pivot)}, std::max(Real{0}, variance)};
}

struct Shifted : CommonSteps {
  static void declare(attest::layer_norm::Arithmetic& a) {
    CommonSteps::declare(a);
    a.variance = attest::layer_norm::Variance::shifted;
    a.clamp = true;
  }
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    return moments_about<Steps>(round, x, n, x[0]);
  }
};

struct OnePass : CommonSteps {
  static void declare(attest::layer_norm::Arithmetic& a) {
    CommonSteps::declare(a);
    a.variance = attest::layer_norm::Variance::one_pass;
    a.clamp = true;
  }
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    return moments_about<Steps>(round, x, n, Real{0});
  }
};

}  // namespace attest::kernels::layer_norm
