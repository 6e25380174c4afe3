// Means, variances and roots that are taken of something else, or in less than was promised.
#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct CountLessOne : TwoPass {
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    const Moments<Real> right = TwoPass::moments<Steps>(round, x, n);
    if (n < 2) return right;
    return {right.mean, Real{round(right.variance * static_cast<Real>(n) / static_cast<Real>(n - 1))}};
  }
};

// A row is filled up with zeros to whole vectors of 8, which the mean counts and the variance does not.
struct CountPadded : TwoPass {
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    const Real sum = Steps::template sum<Real>(round, n, [&](Index i) { return x[i]; });
    const Real mean = round(sum / static_cast<Real>((n + 7) / 8 * 8));
    const Real squares =
        Steps::template sum<Real>(round, n, [&](Index i) { return Steps::square(round, Real{round(x[i] - mean)}); });
    return {mean, Real{round(squares / static_cast<Real>(n))}};
  }
};

struct MeanBf16 : TwoPass {
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    const Moments<Real> right = TwoPass::moments<Steps>(round, x, n);
    return {static_cast<Real>(round_to(Format::bf16, right.mean)), right.variance};
  }
};

// The result of an instruction for reciprocal roots before it is improved.
struct RsqrtPoor : TwoPass {
  template <class Real, class Round>
  static Real inverse_root(Round round, Real variance, Real epsilon) {
    return round(TwoPass::inverse_root(round, variance, epsilon) * Real{1 + 0x1p-12});
  }
};

struct BatchPath : TwoPass {
  static Policy computes_in(const Call& call) {
    Policy policy = call.contract.policy;
    return call.rows > 1 ? policy.set(Stage::statistics, Format::bf16) : policy;
  }
};

}  // namespace

extern constexpr KernelEntry count_less_one = fault<TwoPass, CountLessOne>(
    "ln-count-less-one", "the variance is divided by n - 1", "common slip", "fused", "count", "statistics");
extern constexpr KernelEntry count_padded =
    fault<TwoPass, CountPadded>("ln-count-padded", "the mean counts the padding of the last vector of 8", "common slip",
                                "fused", "count", "statistics");
extern constexpr KernelEntry mean_bf16 = fault<TwoPass, MeanBf16>(
    "ln-mean-bf16", "the mean is stored in bf16 before it is taken off", "common slip", "fused", "mean", "normalise");
extern constexpr KernelEntry rsqrt_poor = fault<TwoPass, RsqrtPoor>(
    "ln-rsqrt-poor", "the reciprocal root is right to 12 bits", "common slip", "fused", "root", "statistics");
extern constexpr KernelEntry batch_path =
    fault<TwoPass, BatchPath>("ln-batch-path", "more than one row takes another path, with statistics in bf16",
                              "TRT#3730, #3744", "fused", "narrow sums", "statistics");

}  // namespace attest::kernels::layer_norm::faults
