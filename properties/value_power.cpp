// value-power: f(V 2^k) = f(V) 2^k.
//
// Multiplying by a power of two commutes with every rounding of normal numbers, and weights do not depend on V. The law
// takes values of one sign, so that no sum cancels: every number made of V then lies between the smallest and the
// largest contribution of a key, and neither may leave the normal numbers. V is made of the problem's values: their
// magnitudes, moved by a power of two so that the largest lies in [1, 2), raised to 2^-4 where they are less, and times
// 2^a, which some formats need.
//
// Exact, for subjects that claim `deterministic` and divide with half an ulp, if with lo, hi the ends of V and V 2^k
// and n = Lk keys:
// - lo and hi are normal in storage, operand, partial, softmax and output, with room for the errors of a mean;
// - the smallest contribution, lo e^-S / (4 n), is normal in pv: S bounds the spread of a row's scores and what a
//   lagging maximum adds, so that e^-S bounds weights and rescalings from below. By Cauchy and Schwarz
//   sum|q k| <= |q| |k|, rounding included. Merged splits normalise twice: n^2;
// - sums, n hi e^lazy, stay finite in pv.
// `growth` bounds the relative errors of 6 n + 32 roundings and 2 n + 8 exponentials. Catches accumulators, conversions
// and clamps with less range than declared, and anything absolute that is added to a value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason value_power_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.lk == 0) return "no keys";
  return needs_rounded_division(p, contract, info);
}

constexpr int least_exponent = -4;  // V 2^-a lies in [2^-4, 2)

// The largest Euclidean norm of a row and the largest element; infinite if an element is not finite.
struct Norms {
  double row = 0, element = 0;
  explicit Norms(const Tensor& tensor) {
    double square = 0, largest = 0;
    for_each_stored(tensor, [&](Index b, Index h, Index i, Index c) {
      const double x = std::fabs(tensor.at(b, h, i, c));
      square = (c == 0 ? 0 : square) + x * x;
      if (!(x <= std::numeric_limits<double>::max())) square = std::numeric_limits<double>::infinity();
      largest = std::max(largest, square);
      element = std::max(element, x);
    });
    row = std::sqrt(largest);
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
  u *= contract.arithmetic.units_of_sums(contract.policy[Stage::qk]);
  const double scale = std::fabs(inputs.scale), width = static_cast<double>(trial.problem().d);
  const double underflow = width * eta * (std::max(1.0, scale) * 4 + q.element + k.element);
  double score = scale * q.row * k.row * std::exp((width + 16) * u) + underflow;
  if (inputs.softcap > 0) score = std::min(score, 1.1 * inputs.softcap);
  const double bias = largest_finite_bias(inputs.bias);
  const bool chain = contract.arithmetic.lse_merge == LseMerge::chain;  // each merge rounds its argument of exp
  const double roundings = 32 + (chain ? 3 * static_cast<double>(trial.problem().lk) : 0);
  return 2 * (score + bias) * (1 + roundings * u) + 2 * contract.lazy_nats() + 1;
}

// Tells whether V in [2^(a - 4), 2^(a + 1)) and V 2^k meet the preconditions.
class Room {
 public:
  explicit Room(const Trial& trial) : contract_(trial.contract()), storage_(trial.problem().dtype) {
    const double keys = static_cast<double>(trial.problem().lk);
    const Policy& policy = contract_.policy;
    const double u = std::max({unit_roundoff(policy[Stage::pv]), unit_roundoff(policy[Stage::softmax]),
                               unit_roundoff(policy[Stage::partial]), unit_roundoff(policy[Stage::operand])});
    const Arithmetic& how = contract_.arithmetic;
    const double exp_error = how.exp_rel.value_or(2 * how.exp_ulp * unit_roundoff(policy[Stage::softmax]));
    const double units = std::max(how.units_of_sums(policy[Stage::pv]), how.units_of_sums(policy[Stage::softmax]));
    growth_ = std::exp((6 * keys + 32) * u * units + (2 * keys + 8) * exp_error);
    contribution_ = std::exp(-spread(trial)) / (4 * keys * growth_);
    if (how.lse_merge != LseMerge::none) contribution_ /= keys;
    sum_ = 4 * keys * std::exp(contract_.lazy_nats()) * growth_;
  }

  [[nodiscard]] bool holds(int a, int k) const {
    const double lo = std::ldexp(1.0, a + least_exponent + std::min(k, 0)),
                 hi = std::ldexp(1.0, a + 1 + std::max(k, 0));
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

// The values of the law in [2^-4, 2), times 2^exponent.
void make_values(const Tensor& original, int exponent, Tensor& v) {
  double most = 0;
  for_each_stored(original, [&](Index b, Index h, Index j, Index c) {
    const double x = std::fabs(original.at(b, h, j, c));
    if (std::isfinite(x)) most = std::max(most, x);
  });
  // `most` moves to [1, 2), in two steps since 2^shift may be past a double. Products round only below `least`.
  const int shift = most > 0 ? -exponent_of(most) : 0;
  const double half = std::ldexp(1.0, shift / 2), other_half = std::ldexp(1.0, shift - shift / 2);
  const double least = std::ldexp(1.0, least_exponent), power = std::ldexp(1.0, exponent);
  for_each_stored(v, [&](Index b, Index h, Index j, Index c) {
    const double x = std::fabs(original.at(b, h, j, c));
    const double moved = std::isfinite(x) ? std::max(x * half * other_half, least) : 1;
    v.set(b, h, j, c, moved * power);
  });
}

// Exponents a and k: a random k first, and the least a that it permits.
struct Exponents {
  int a, k;
};
std::optional<Exponents> choose_exponents(const Trial& trial) {
  const Room room(trial);
  constexpr int some[] = {3, -3, 12, -12, 1, -1, 24, -24, 6, -6, 4, -4, 40, -40, 2, -2};
  const std::size_t first = below(draw(trial.problem(), 121), std::size(some));
  for (std::size_t n = 0; n < std::size(some); ++n) {
    const int k = some[(first + n) % std::size(some)];
    for (const int a : {0, 2, 4, 6, 8})
      if (room.holds(a, k)) return Exponents{a, k};
  }
  return std::nullopt;
}

Verdict check_value_power(Trial& trial) {
  const Problem& p = trial.problem();
  const std::optional<Exponents> chosen = choose_exponents(trial);
  if (!chosen) return Verdict::skip("a contribution of some key might over- or underflow");
  const auto [a, k] = *chosen;

  Inputs inputs[] = {trial.inputs().clone(), trial.inputs().clone()};
  make_values(trial.inputs().v, a, inputs[0].v);
  make_values(trial.inputs().v, a + k, inputs[1].v);
  const Request calls[] = {{&inputs[0], &p}, {&inputs[1], &p}};
  std::vector<Result> results = trial.run_many(calls);
  if (results[0].violation) return Verdict::fail(*results[0].violation);
  Tensor& out = results[1].out;
  const double back = std::ldexp(1.0, -k);
  for_each_stored(out, [&](Index b, Index h, Index i, Index c) { out.set(b, h, i, c, out.at(b, h, i, c) * back); });
  Counts counts;
  const std::string note = fmt::format("2^{} times the result for the values times 2^{}", -k, k);
  if (auto evidence = difference_with_keys(trial, results[0], results[1], note, counts))
    return Verdict::fail(std::move(*evidence), counts);
  return held(counts);
}

}  // namespace

Property value_power() {
  return {"value-power",
          "f(q, k, v 2^e) = f(q, k, v) 2^e, v > 0",
          "values times a power of two give the result times it, where nothing over- or underflows",
          Kind::exact,
          value_power_not_applicable,
          check_value_power,
          Asks::base_plan};
}

}  // namespace attest::properties
