#include "certify/exact.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace attest::certify {
namespace {

constexpr int no_step = std::numeric_limits<int>::max();

// The largest n such that x is a multiple of 2^n.
int step_of(double x) {
  int exponent = 0;
  double odd = std::ldexp(std::frexp(x, &exponent), 53);
  for (exponent -= 53; std::fmod(odd, 2) == 0; odd /= 2) ++exponent;
  return exponent;
}

// Numbers that are multiples of 2^step, none larger than `top`.
struct Grid {
  int step = no_step;
  double top = 0;
};

Grid scaled(const Grid& grid, double power) {
  return grid.top == 0 ? grid : Grid{grid.step + step_of(power), grid.top * power};
}
Grid sum(const Grid& a, const Grid& b) { return {std::min(a.step, b.step), a.top + b.top}; }

bool fits(const Grid& grid, Format format) {
  if (grid.top == 0) return true;
  const double most =
      std::min(std::ldexp(1.0, grid.step + precision(format)), std::nextafter(largest_finite(format), INFINITY));
  return grid.step >= min_exponent(format) && grid.top < most;
}

// All elements of a tensor of four axes, and the largest sum of magnitudes along the last.
struct Contents {
  explicit Contents(const Tensor& tensor, bool infinity_excludes = false) {
    const auto& n = tensor.shape();
    for (Index row = 0; row < n[0] * n[1] * n[2]; ++row) {
      double row_sum = 0;
      for (Index c = 0; c < n[3]; ++c) {
        const double x = tensor.at(row / (n[1] * n[2]), row / n[2] % n[1], row % n[2], c);
        if (x == 0 || (infinity_excludes && x == -INFINITY)) continue;
        if (!std::isfinite(x)) {
          finite = false;
          return;
        }
        all = {std::min(all.step, step_of(x)), std::max(all.top, std::fabs(x))};
        row_sum += std::fabs(x);
      }
      largest_sum = std::max(largest_sum, row_sum);
    }
  }
  Grid all;
  double largest_sum = 0;
  bool finite = true;
};

bool exact_factor(double factor, Format format) {
  const auto is = [format](double x) {
    return std::isfinite(x) && std::ldexp(1.0, step_of(x)) == x && fits({step_of(x), x}, format);
  };
  return is(factor) && is(1 / factor);
}

// Tells whether q or k enters a product as it is, also `folded` with each of these factors. Where `flushed`, subnormal
// inputs may be 0.
bool enters(const Contents& contents, const std::vector<double>& folded, const Policy& policy, bool flushed) {
  if (!contents.finite || !fits(contents.all, policy[Stage::operand])) return false;
  if (flushed && !fits(contents.all, policy[Stage::storage])) return false;
  return std::ranges::all_of(folded, [&](double factor) {
    const Grid carries = scaled(contents.all, factor);
    return fits(contents.all, policy[Stage::scale]) && fits(carries, policy[Stage::scale]) &&
           fits(carries, policy[Stage::operand]);
  });
}

// Then every score is 0, however it is computed.
bool is_zero(const Tensor& tensor) {
  const Contents contents(tensor);
  return contents.finite && contents.all.top == 0;
}

bool products_fit(const Grid& sums, const Policy& policy) {
  return fits(sums, policy[Stage::qk]) && fits(sums, policy[Stage::scale]) && fits(sums, policy[Stage::score]) &&
         fits(sums, policy[Stage::softmax]);
}

}  // namespace

Exact what_is_exact(const Contract& contract, const Inputs& inputs) {
  const Arithmetic& how = contract.arithmetic;
  const Policy& policy = contract.policy;
  const double sigma = std::fabs(inputs.scale);
  if (inputs.softcap > 0) return {};
  if (!inputs.bias.present() && (sigma == 0 || is_zero(inputs.q) || is_zero(inputs.k)))
    return {true, contract.lazy_nats() == 0 && how.lse_merge == LseMerge::none && !how.normalise_lse};
  if (how.exp2 || !how.sums_to_nearest()) return {};
  Grid raw, z;
  if (sigma != 0) {
    const double root = how.fold_sqrt && inputs.scale > 0 ? std::sqrt(sigma) : 1;
    if (!exact_factor(sigma, policy[Stage::scale]) || !exact_factor(root, policy[Stage::scale])) return {};
    const Contents q(inputs.q), k(inputs.k);
    std::vector<double> into_q, into_k;
    if (how.fold_q) into_q.push_back(sigma);
    if (how.fold_k) into_k.push_back(sigma);
    if (how.fold_sqrt && inputs.scale > 0)
      for (std::vector<double>* into : {&into_q, &into_k}) into->push_back(root);
    if (!enters(q, into_q, policy, how.flush_to_zero) || !enters(k, into_k, policy, how.flush_to_zero)) return {};
    if (q.all.top > 0 && k.all.top > 0)
      raw = {q.all.step + k.all.step, std::min(q.largest_sum * k.all.top, q.all.top * k.largest_sum)};
    z = scaled(raw, sigma);
    if (!products_fit(raw, policy) || !products_fit(z, policy)) return {};
  }
  if (inputs.bias.present()) {
    const Contents bias(inputs.bias, true);
    if (!bias.finite || !fits(bias.all, format_of(inputs.bias.dtype())) || !fits(bias.all, policy[Stage::score]))
      return {};
    z = sum(z, bias.all);
  }
  if (!fits(z, policy[Stage::qk]) || !fits(z, policy[Stage::score]) || !fits(z, policy[Stage::softmax])) return {};
  const bool shifts_are_scores = contract.lazy_nats() == 0 && how.lse_merge == LseMerge::none && !how.normalise_lse;
  const auto differences_fit = [&](const Grid& grid) {
    return fits({grid.step, 2 * grid.top}, policy[Stage::softmax]);
  };
  return {true, shifts_are_scores && differences_fit(raw) && differences_fit(z)};
}

}  // namespace attest::certify
