// value-power: f(V 2^k) = f(V) 2^k.
//
// Multiplying by a power of two commutes with every rounding of normal numbers, and weights do not depend on V. The law
// takes values of one sign, so that no sum cancels: every number made of V then lies between the smallest and the
// largest contribution of a key, and neither may leave the normal numbers. V is made of the problem's values: their
// magnitudes, moved by a power of two to [1, 2) for the largest and raised to 2^-8 where they are less.
//
// Exact, for subjects that claim `deterministic`, if with lo, hi the ends of V and V 2^k and n = Lk keys:
// - lo and hi are normal in storage, operand, partial and output, with room for the errors of a mean;
// - the smallest contribution, lo e^-S / (8 n), is normal in pv: S bounds the spread of a row's scores and what a lagging
//   maximum adds, so that e^-S bounds weights and rescalings from below. By Cauchy and Schwarz sum|q k| <= |q| |k|,
//   rounding included. Merged splits normalise twice: n^2;
// - sums, n hi e^lazy, stay finite in pv.
// `growth` bounds the relative errors of 6 n + 32 operations. Catches accumulators, conversions and clamps with less
// range than declared, and anything absolute that is added to a value.
#include <algorithm>
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

Reason not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.lk == 0) return "no keys";
  return needs_deterministic(p, contract, info);
}

constexpr int least_exponent = -8;  // V lies in [2^-8, 2)

// The largest Euclidean norm of a row and the largest element; infinite if an element is not finite.
struct Norms {
  double row = 0, element = 0;
  explicit Norms(const Tensor& tensor) {
    double square = 0;
    for_each_stored(tensor, [&](Index b, Index h, Index i, Index c) {
      const double x = std::fabs(tensor.at(b, h, i, c));
      square = (c == 0 ? 0 : square) + x * x;
      if (!(x <= std::numeric_limits<double>::max())) square = std::numeric_limits<double>::infinity();
      row = std::max(row, std::sqrt(square));
      element = std::max(element, x);
    });
  }
};

double largest_finite_bias(const Tensor& bias) {
  double most = 0;
  for_each_stored(bias, [&](Index b, Index h, Index i, Index j) {
    const double x = std::fabs(bias.at(b, h, i, j));
    if (std::isfinite(x)) most = std::max(most, x);
  });
  return most;
}

// S: by how many nats two keys of a row may differ in any conforming kernel, with a lagging maximum on both sides.
double spread(const Trial& trial) {
  const Inputs& inputs = trial.inputs();
  const Contract& contract = trial.contract();
  const Norms q(inputs.q), k(inputs.k);
  double u = 0, eta = 0;
  for (const Stage stage : {Stage::operand, Stage::scale, Stage::qk, Stage::score, Stage::softcap, Stage::softmax}) {
    u = std::max(u, unit_roundoff(contract.policy[stage]));
    eta = std::max(eta, half_smallest_subnormal(contract.policy[stage]));
    if (contract.arithmetic.flush_to_zero) eta = std::max(eta, smallest_normal(contract.policy[stage]));
  }
  u *= contract.arithmetic.kappa;
  const double scale = std::fabs(inputs.scale), width = static_cast<double>(trial.problem().d);
  const double underflow = width * eta * (std::max(1.0, scale) * 4 + q.element + k.element);
  double score = scale * q.row * k.row * std::exp((width + 16) * u) + underflow;
  if (inputs.softcap > 0) score = std::min(score, 1.1 * inputs.softcap);
  const double bias = largest_finite_bias(inputs.bias);
  return 2 * (score + bias) * (1 + 32 * u) + 2 * contract.lazy_nats() + 4;
}

// Whether V in [2^-8, 2) and V 2^k meet the preconditions.
class Room {
 public:
  explicit Room(const Trial& trial) : contract_(trial.contract()), storage_(trial.problem().dtype) {
    const double keys = static_cast<double>(trial.problem().lk);
    const Policy& policy = contract_.policy;
    const double u = std::max({unit_roundoff(policy[Stage::pv]), unit_roundoff(policy[Stage::softmax]),
                               unit_roundoff(policy[Stage::partial]), unit_roundoff(policy[Stage::operand])});
    growth_ = std::exp((6 * keys + 32) * u * contract_.arithmetic.kappa);
    contribution_ = std::exp(-spread(trial)) / (8 * keys * growth_);
    if (contract_.arithmetic.lse_merge != LseMerge::none) contribution_ /= keys;
    sum_ = 4 * keys * std::exp(contract_.lazy_nats()) * growth_;
  }

  [[nodiscard]] bool hold(int k) const {
    const double lo = std::ldexp(1.0, least_exponent + std::min(k, 0)), hi = std::ldexp(1.0, 1 + std::max(k, 0));
    const Policy& policy = contract_.policy;
    for (const Format format : {storage_, policy[Stage::storage], policy[Stage::operand], policy[Stage::partial],
                                policy[Stage::output], policy[Stage::softmax]})
      if (!(lo / growth_ >= 4 * smallest_normal(format)) || !(hi * growth_ < overflow_threshold(format) / 4))
        return false;
    const Format pv = policy[Stage::pv];
    return lo * contribution_ >= smallest_normal(pv) && hi * sum_ < overflow_threshold(pv);
  }

 private:
  const Contract& contract_;
  Format storage_;
  double growth_, contribution_, sum_;
};

int exponent_of(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent - 1;
}

// The values of the law, times 2^k.
void make_values(const Tensor& original, int k, Tensor& v) {
  double most = 0;
  for_each_stored(original, [&](Index b, Index h, Index j, Index c) {
    const double x = std::fabs(original.at(b, h, j, c));
    if (std::isfinite(x)) most = std::max(most, x);
  });
  const int shift = most > 0 ? -exponent_of(most) : 0;
  const double least = std::ldexp(1.0, least_exponent);
  for_each_stored(v, [&](Index b, Index h, Index j, Index c) {
    const double x = std::fabs(original.at(b, h, j, c));
    const double moved = std::isfinite(x) ? std::max(std::ldexp(x, shift), least) : 1;
    v.set(b, h, j, c, std::ldexp(moved, k));
  });
}

std::vector<int> exponents(const Problem& p) {
  constexpr int some[] = {3, -3, 12, -12, 1, -1, 24, -24, 6, -6, 4, -4, 40, -40, 2, -2};
  const std::size_t first = below(draw(p, 121), std::size(some));
  std::vector<int> result;
  for (std::size_t n = 0; n < std::size(some); ++n) result.push_back(some[(first + n) % std::size(some)]);
  return result;
}

Verdict check(Trial& trial) {
  const Problem& p = trial.problem();
  const Room room(trial);
  const std::vector<int> candidates = exponents(p);
  const auto k = std::ranges::find_if(candidates, [&](int candidate) { return room.hold(candidate); });
  if (k == candidates.end()) return Verdict::skip("a contribution of some key might over- or underflow");

  Inputs inputs[] = {trial.inputs().clone(), trial.inputs().clone()};
  make_values(trial.inputs().v, 0, inputs[0].v);
  make_values(trial.inputs().v, *k, inputs[1].v);
  const Call calls[] = {{&inputs[0], &p}, {&inputs[1], &p}};
  std::vector<Result> results = trial.run_many(calls);
  if (results[0].violation) return Verdict::fail(*results[0].violation);
  for_each_stored(results[1].out, [&](Index b, Index h, Index i, Index c) {
    results[1].out.set(b, h, i, c, std::ldexp(results[1].out.at(b, h, i, c), -*k));
  });
  Counts counts;
  const std::string note = fmt::format("2^{} times the result for the values times 2^{}", -*k, *k);
  if (auto evidence = difference_with_keys(trial, results[0], results[1], note, counts))
    return Verdict::fail(std::move(*evidence), counts);
  return Verdict::pass(counts);
}

}  // namespace

Property value_power() {
  return {"value-power",
          "f(q, k, v 2^e) = f(q, k, v) 2^e, v > 0",
          "values times a power of two give the result times it, where nothing over- or underflows",
          Kind::exact,
          not_applicable,
          check};
}

}  // namespace attest::properties
