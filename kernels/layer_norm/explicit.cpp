#include "kernels/layer_norm/explicit.hpp"

#include <cmath>

#include "kernels/layer_norm/promise.hpp"

namespace attest::kernels::layer_norm {
namespace {

using Row = std::vector<double>;

// Double holds sums, products, quotients and roots of the narrower formats finely enough that rounding twice gives
// the same number.
double sum_one_by_one(Format format, const Row& terms) {
  double sum = 0;
  for (const double term : terms) sum = round_to(format, sum + term);
  return sum;
}

double mean_of(Format format, const Row& terms) {
  return round_to(format, sum_one_by_one(format, terms) / round_to(format, static_cast<double>(terms.size())));
}

}  // namespace

void explicit_layer_norm(const attest_layer_norm& tensors, const Contract& contract) {
  const Call call(tensors, contract);
  const Format statistics = call[Stage::statistics], normalise = call[Stage::normalise], affine = call[Stage::affine];
  const Row gamma = call.gamma(), beta = call.beta();
  const double epsilon = round_to(statistics, tensors.epsilon);
  Row x(gamma.size()), seen(gamma.size()), squares(gamma.size()), y(gamma.size());
  for (Index row = 0; row < call.rows; ++row) {
    call.load_row(row, x);
    for (std::size_t i = 0; i < x.size(); ++i) seen[i] = round_to(statistics, x[i]);
    const double mean = call.rms ? 0 : mean_of(statistics, seen);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double d = round_to(statistics, seen[i] - mean);
      squares[i] = round_to(statistics, d * d);
    }
    const double variance = mean_of(statistics, squares);
    const double deviation = round_to(statistics, std::sqrt(round_to(statistics, variance + epsilon)));
    const double scale = round_to(normalise, round_to(statistics, 1 / deviation));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double d = round_to(normalise, round_to(normalise, x[i]) - round_to(normalise, mean));
      const double t = round_to(affine, round_to(normalise, d * scale));
      y[i] = round_to(affine, round_to(affine, t * gamma[i]) + beta[i]);
    }
    call.store_row(row, y);
  }
}

Contract explicit_contract(const Policy& policy) { return common_promise(policy); }

}  // namespace attest::kernels::layer_norm
