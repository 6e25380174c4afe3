#include "oracle/mha/calibration.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace attest::oracle {

// oracle/mha/calibration.json, made by the build.
extern const std::string_view shipped_block_calibration_text;

namespace {

// Of the tier on one result, in operations or so: for what its rows have in common, and for one element after another.
constexpr Index most_work_of_rows = Index{1} << 22, most_work_of_elements = Index{1} << 20;
constexpr Index most_elements = 4096;
constexpr Index few_elements = 128;  // of T

StatisticalSample sample_of(Index rows, Index e, Index heads, Index m, Index d) {
  // An element takes some sums over the keys of each head, a row such sums for each column of these.
  const Index of_element = std::max<Index>(1, heads * m * (2 * d + 64)), width = std::max<Index>(1, e);
  const Index most = std::max<Index>(1, std::min(most_work_of_rows / (of_element * d), most_elements / width));
  StatisticalSample sample;
  sample.rows.resize(static_cast<std::size_t>(std::min(rows, most)));
  const auto count = static_cast<Index>(sample.rows.size());
  for (Index n = 0; n < count; ++n) sample.rows[static_cast<std::size_t>(n)] = (2 * n + 1) * rows / (2 * count);
  const Index asked = std::max<Index>(least_elements, most_work_of_elements / of_element);
  sample.step = std::max<Index>(1, count * width / asked);
  while (std::gcd(sample.step, width) > 1) ++sample.step;  // so that every column has its turn
  if (count * width / sample.step < least_elements) sample.step = 1;
  return sample;
}

}  // namespace

StatisticalSample statistical_sample(const mha::Call& call) {
  return sample_of(call.b() * call.l(), call.e(), call.heads, call.m(), call.head_dim);
}
StatisticalSample statistical_sample(const mha::Problem& p) {
  return sample_of(p.b * p.l, p.e, p.heads, p.m, p.head_dim);
}

std::string calibration_class(const mha::Problem& p) {
  const auto label = mha::find_field("weights")->labels[static_cast<std::size_t>(p.weights)];
  const StatisticalSample sample = statistical_sample(p);
  const auto rows = static_cast<Index>(sample.rows.size());
  return std::string(label) + (rows < 4 ? "+rows1" : rows * p.e / sample.step < few_elements ? "+few" : "");
}

bool outputs_alike(const mha::Problem& p) {
  constexpr Index few_columns = 4, few_weights = 64;
  constexpr double smallest = 0x1p-8, largest = 16;  // of x
  if (p.weights != mha::Weights::dense && p.weights != mha::Weights::dense_in && p.weights != mha::Weights::dense_out)
    return true;
  return p.x_layout == mha::Layout::broadcast || p.memory_layout == mha::Layout::broadcast ||
         p.effective_scale() == 0 || p.head_dim < few_columns || p.e < few_columns ||
         p.b * p.l * p.heads * p.m < few_weights || !(p.amplitude >= smallest && p.amplitude <= largest) ||
         !p.edits.empty();
}

Thresholds thresholds(const Calibration& calibration, const mha::Policy& policy, const mha::Problem& problem) {
  Thresholds found = calibration.thresholds_of(mha::to_text(policy), calibration_class(problem));
  if (!outputs_alike(problem) && found.cell != nullptr && found.cell->lambda_elements > 0) return found;
  found.cell = nullptr;
  found.warn = found.fail = std::numeric_limits<double>::infinity();
  found.t = std::nullopt;
  return found;
}

const Calibration& shipped_block_calibration() {
  static const Calibration shipped = calibration_from_text(
      shipped_block_calibration_text, "the shipped calibration of mha",
      [](std::string_view, std::string_view name) { return mha::to_text(mha::policy_from_text(name)); });
  return shipped;
}

}  // namespace attest::oracle
