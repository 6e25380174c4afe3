#include "oracle/mha/calibration.hpp"

#include <algorithm>
#include <limits>

namespace attest::oracle {

// oracle/mha/calibration.json, made by the build.
extern const std::string_view shipped_block_calibration_text;

namespace {

constexpr Index most_work = Index{1} << 19;  // of the tier on one result, in operations or so
constexpr Index most_elements = 1024;

std::vector<Index> rows_of(Index rows, Index e, Index heads, Index m, Index d) {
  // An element takes some sums over the keys of each head, a row some for each column of these.
  const Index of_head = m * (2 * d + 64), of_row = heads * of_head * (e + d);
  const Index most =
      std::max<Index>(1, std::min(most_work / std::max<Index>(1, of_row), most_elements / std::max<Index>(1, e)));
  std::vector<Index> chosen(static_cast<std::size_t>(std::min(rows, most)));
  for (std::size_t n = 0; n < chosen.size(); ++n)
    chosen[n] = static_cast<Index>(n) * rows / static_cast<Index>(chosen.size());
  return chosen;
}

}  // namespace

std::vector<Index> statistical_rows(const mha::Call& call) {
  return rows_of(call.b() * call.l(), call.e(), call.heads, call.m(), call.head_dim);
}
std::vector<Index> statistical_rows(const mha::Problem& p) { return rows_of(p.b * p.l, p.e, p.heads, p.m, p.head_dim); }

std::string calibration_class(const mha::Problem& p) {
  const auto label = mha::find_field("weights")->labels[static_cast<std::size_t>(p.weights)];
  return std::string(label) + (statistical_rows(p).size() < 4 ? "+rows1" : "");
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
