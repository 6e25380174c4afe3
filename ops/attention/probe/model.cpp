#include "ops/attention/probe/model.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/inputs.hpp"

namespace attest::ops::of_attention {
namespace {

using Row = std::vector<double>;

// Weights and values of keys [first, last), one product after the other; and their sum.
struct Piece {
  double numerator = 0, sum = 0;
};

Piece weighed(const Row& weights, const Row& rounded, const Row& values, std::size_t first, std::size_t last,
              const Policy& policy) {
  Piece piece;
  for (std::size_t j = first; j < last; ++j) {
    piece.sum = round_to(policy[Stage::softmax], piece.sum + weights[j]);
    piece.numerator = round_to(policy[Stage::pv], piece.numerator + rounded[j] * values[j]);
  }
  return piece;
}

}  // namespace

PlainRow plain_row(const attest::Problem& problem) {
  const Inputs inputs = materialise(problem);
  PlainRow row;
  row.scale = problem.effective_scale();
  row.softcap = problem.softcap;
  for (Index c = 0; c < problem.d; ++c) row.q.push_back(inputs.q.at(0, 0, 0, c));
  for (Index j = 0; j < problem.lk; ++j) {
    for (Index c = 0; c < problem.d; ++c) row.k.push_back(inputs.k.at(0, 0, j, c));
    row.v.push_back(inputs.v.at(0, 0, j, 0));
    if (inputs.bias.present()) row.bias.push_back(inputs.bias.at(0, 0, 0, j));
  }
  return row;
}

double modelled(const PlainRow& row, const attest::Policy& policy, const Scheme& scheme) {
  const auto in = [&](Stage stage, double x) { return round_to(policy[stage], x); };
  const double scale = in(Stage::scale, row.scale);
  Row scores, values;
  const std::size_t width = row.q.size();
  for (std::size_t j = 0; j < row.v.size(); ++j) {
    double dot = 0;
    for (std::size_t c = 0; c < width; ++c)
      dot = in(Stage::qk, dot + in(Stage::operand, row.q[c]) * in(Stage::operand, row.k[j * width + c]));
    double s = in(Stage::score, in(Stage::scale, dot * scale));
    if (row.softcap > 0) {
      const double c = row.softcap;
      s = in(Stage::score,
             in(Stage::softcap, c * in(Stage::softcap, std::tanh(in(Stage::softcap, in(Stage::softcap, s) / c)))));
    }
    if (!row.bias.empty()) s = in(Stage::score, s + row.bias[j]);
    scores.push_back(in(Stage::softmax, s));
    values.push_back(in(Stage::operand, row.v[j]));
  }
  const double most = *std::ranges::max_element(scores);
  Row weights, rounded;
  double whole = 0;
  for (const double s : scores) {
    weights.push_back(in(Stage::softmax, std::exp(in(Stage::softmax, s - most))));
    whole = in(Stage::softmax, whole + weights.back());
  }
  if (scheme.normalises_first)
    for (double& weight : weights) weight = in(Stage::softmax, weight / whole);
  for (const double weight : weights) rounded.push_back(in(Stage::operand, in(Stage::weights, weight)));
  if (scheme.normalises_first) {
    const Piece all = weighed(weights, rounded, values, 0, weights.size(), policy);
    return in(Stage::output, in(Stage::partial, all.numerator));
  }
  const std::size_t n = weights.size(), splits = static_cast<std::size_t>(scheme.splits);
  double numerator = 0, sum = 0;
  for (std::size_t split = 0; split < splits; ++split) {
    const Piece piece = weighed(weights, rounded, values, n * split / splits, n * (split + 1) / splits, policy);
    if (piece.sum > 0) numerator += in(Stage::partial, piece.numerator / piece.sum) * piece.sum;
    sum += piece.sum;
  }
  return in(Stage::output, numerator / sum);
}

}  // namespace attest::ops::of_attention
