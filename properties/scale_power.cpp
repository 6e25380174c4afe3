// scale-power: f(q, sigma) = f(q 2^k, sigma 2^-k), exactly, wherever the factor 2^k goes.
//
// Multiplying by a power of two commutes with every rounding, so it does not matter whether a kernel applies the scale
// to q, to k, to the scores or half to each, nor in which format, as long as nothing over- or underflows.
//
// Preconditions, with lo and hi the smaller and the larger of 1 and 2^k:
// - the subject claims `deterministic` and takes a scale; sigma is given and not 0;
// - k is even where sqrt(sigma) may be folded;
// - q and q 2^k are normal in storage and operand;
// - sigma and sigma 2^-k are normal in scale and softmax, divided by the softcap too;
// - k sigma, and q and k times sqrt(sigma), stay normal where the contract lets the scale be folded there;
// - raw scores do not overflow: D max|q| max|k| hi in qk, scale, score and softmax;
// - every product is a multiple of the smallest number that these formats hold: with g the product of the lowest set
//   bits of q and of k, g lo >= 2 eta. Sums of such multiples round to such multiples: nothing rounds among the
//   subnormals.
// Where |sigma| is a power of two, sigma 2^-k = +-1 is tried first: all of the scale in q.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason scale_power_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (info.supports.scale == Supports::Scale::only_default) return "the subject takes the default scale alone";
  if (!p.scale) return "the scale is left at its default";
  if (*p.scale == 0) return "the scale is 0";
  return needs_deterministic(p, contract, info);
}

// The magnitudes of a tensor's non-zero elements.
struct Magnitudes {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  double lowest_bit = std::numeric_limits<double>::infinity();  // every element is a multiple of it
  bool finite = true;

  explicit Magnitudes(const Tensor& tensor) {
    const attest_tensor view = tensor.view();
    for_each_stored(tensor, [&](Index b, Index h, Index i, Index c) {
      const double x = std::fabs(load(view, b, h, i, c));
      if (!std::isfinite(x)) finite = false;
      if (!std::isfinite(x) || x == 0) return;
      least = std::min(least, x);
      most = std::max(most, x);
      lowest_bit = std::min(lowest_bit, lowest_set_bit(x));
    });
  }

 private:
  static double lowest_set_bit(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const bool is_power = (bits & ((std::uint64_t{1} << 52) - 1)) == 0;
    return is_power ? x : x - std::bit_cast<double>(bits & (bits - 1));
  }
};

class Preconditions {
 public:
  explicit Preconditions(const Trial& trial)
      : contract_(trial.contract()),
        q_(trial.inputs().q),
        k_(trial.inputs().k),
        scale_(std::fabs(trial.inputs().scale)),
        softcap_(trial.inputs().softcap),
        width_(static_cast<double>(trial.problem().d)) {}

  [[nodiscard]] bool hold(int k) const {
    const Arithmetic& arithmetic = contract_.arithmetic;
    if (!q_.finite || !k_.finite) return false;
    if (k % 2 != 0 && arithmetic.fold_sqrt) return false;
    const double factor = std::ldexp(1.0, k), lo = std::min(1.0, factor), hi = std::max(1.0, factor);
    const double scale_lo = scale_ * std::min(1.0, 1 / factor), scale_hi = scale_ * std::max(1.0, 1 / factor);
    for (const Stage stage : {Stage::storage, Stage::operand})
      if (!normal(stage, q_.least * lo, q_.most * hi)) return false;
    const double capped = softcap_ > 0 ? std::max(softcap_, 1 / softcap_) : 1;
    for (const Stage stage : {Stage::scale, Stage::softmax})
      if (!normal(stage, scale_lo / capped, scale_hi * capped)) return false;
    for (const Stage stage : {Stage::scale, Stage::operand}) {
      if (arithmetic.fold_k && !normal(stage, k_.least * scale_lo, k_.most * scale_hi)) return false;
      if (arithmetic.fold_sqrt &&
          (!normal(stage, k_.least * std::sqrt(scale_lo), k_.most * std::sqrt(scale_hi)) ||
           !normal(stage, q_.least * lo * std::sqrt(scale_lo), q_.most * hi * std::sqrt(scale_hi))))
        return false;
    }
    const double product = q_.lowest_bit * k_.lowest_bit * lo;
    const double sum = width_ * q_.most * k_.most * hi * std::max(1.0, scale_hi);
    for (const Stage stage : {Stage::qk, Stage::scale, Stage::score, Stage::softmax}) {
      const Format format = contract_.policy[stage];
      const bool normal_only = arithmetic.flush_to_zero || arithmetic.mma;  // below, blocks are cut at a fixed place
      const double least = normal_only ? smallest_normal(format) : 2 * half_smallest_subnormal(format);
      if (product < least || !(sum < overflow_threshold(format) / 4)) return false;
    }
    return true;
  }

 private:
  // Zeros are normal: then least is infinite and most 0.
  [[nodiscard]] bool normal(Stage stage, double least, double most) const {
    const Format format = contract_.policy[stage];
    return least >= 4 * smallest_normal(format) && most < overflow_threshold(format) / 4;
  }

  const Contract& contract_;
  Magnitudes q_, k_;
  double scale_, softcap_, width_;
};

// Exponents to try, the best first.
std::vector<int> exponents(const Problem& p) {
  std::vector<int> result;
  int exponent = 0;
  if (std::fabs(std::frexp(*p.scale, &exponent)) == 0.5 && exponent != 1) result.push_back(exponent - 1);
  constexpr int some[] = {2, -2, 4, -4, 6, -6};
  const std::size_t first = below(draw(p, 61), std::size(some));
  for (std::size_t n = 0; n < std::size(some); ++n) result.push_back(some[(first + n) % std::size(some)]);
  return result;
}

Verdict check_scale_power(Trial& trial) {
  const Problem& p = trial.problem();
  const Preconditions preconditions(trial);
  const std::vector<int> candidates = exponents(p);
  const auto k = std::ranges::find_if(candidates, [&](int candidate) { return preconditions.hold(candidate); });
  if (k == candidates.end()) return Verdict::skip("a power of two in q might over- or underflow");

  Problem moved = p;
  moved.scale = std::ldexp(*p.scale, -*k);
  Inputs inputs = trial.inputs().clone();
  inputs.scale = *moved.scale;
  const double power = std::ldexp(1.0, *k);
  for_each_stored(
      inputs.q, [&](Index b, Index h, Index i, Index c) { inputs.q.set(b, h, i, c, inputs.q.at(b, h, i, c) * power); });
  const Result& base = trial.base();
  Counts counts;
  if (auto evidence = difference(base, trial.run(inputs, moved), Equality::numbers,
                                 fmt::format("q times 2^{} with scale {:.9g}", *k, *moved.scale), counts))
    return Verdict::fail(std::move(*evidence), counts);
  return Verdict::pass(counts);
}

}  // namespace

Property scale_power() {
  return {"scale-power",
          "f(q, sigma) = f(q 2^k, sigma 2^-k)",
          "a power of two may move between q and the scale without changing a number",
          Kind::exact,
          scale_power_not_applicable,
          check_scale_power};
}

}  // namespace attest::properties
