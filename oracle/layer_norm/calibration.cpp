#include "oracle/layer_norm/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/layer_norm/inputs.hpp"

namespace attest::oracle::layer_norm {

// oracle/layer_norm/calibration.json, made by the build.
extern const std::string_view shipped_calibration_text;

using attest::layer_norm::Problem;
using attest::layer_norm::Values;

namespace {
constexpr Index most_elements = Index{1} << 14;
constexpr double few_rows = 2;  // of the mean of n squares, beside its root, times the root of n
}  // namespace

std::vector<Index> statistical_rows(const Problem& p) {
  std::vector<Index> rows = attest::layer_norm::judged_rows(p);
  const auto most = static_cast<std::size_t>(std::max<Index>(1, most_elements / std::max<Index>(1, p.hidden)));
  if (rows.size() <= most) return rows;
  std::vector<Index> spread(most);
  for (std::size_t n = 0; n < most; ++n) spread[n] = rows[n * rows.size() / most];
  return spread;
}

std::string calibration_class(const Problem& p) {
  const auto label = attest::layer_norm::find_field("values")->labels[static_cast<std::size_t>(p.values)];
  const std::size_t rows = statistical_rows(p).size();
  return std::string(label) + (p.offset != 0 ? "+offset" : "") + (rows < 4 ? "+rows1" : rows < 32 ? "+rows4" : "");
}

bool outputs_alike(const Problem& p) {
  // Moved so far that fewer than 4,096 numbers of the format lie within a deviation.
  if (std::fabs(p.offset) >= std::ldexp(1.0, precision(p.dtype) - 12)) return true;
  switch (p.values) {
    case Values::uniform:
    case Values::normal:
    case Values::roots_large:
    case Values::roots_small:
    case Values::huge:
      return p.x_layout == attest::layer_norm::Layout::broadcast ||
             (p.norm == attest::layer_norm::Norm::rms && p.offset != 0) ||
             p.residual == attest::layer_norm::Residual::cancelling || !p.edits.empty();
    default:
      return true;
  }
}

bool has_aggregate(Format out) noexcept { return precision(out) >= precision(Format::f32); }

Thresholds thresholds(const Calibration& calibration, const attest::layer_norm::Policy& policy,
                      const Problem& problem) {
  Thresholds found = calibration.thresholds_of(to_text(policy), calibration_class(problem));
  if (found.t) {
    // Of few rows T is as large as chance has it, whatever looser contracts than this one needed.
    const auto squares =
        static_cast<double>(statistical_rows(problem).size()) * (problem.norm == attest::layer_norm::Norm::rms ? 1 : 2);
    found.t = std::max(*found.t, 1 + few_rows / std::sqrt(std::max(1.0, squares)));
  }
  if (!outputs_alike(problem) && found.cell != nullptr && found.cell->lambda_elements > 0) return found;
  found.cell = nullptr;
  found.warn = found.fail = std::numeric_limits<double>::infinity();
  found.t = std::nullopt;
  return found;
}

const Calibration& shipped_calibration() {
  static const Calibration shipped = calibration_from_text(
      shipped_calibration_text, "the shipped calibration of layer_norm",
      [](std::string_view, std::string_view name) { return to_text(attest::layer_norm::policy_from_text(name)); });
  return shipped;
}

}  // namespace attest::oracle::layer_norm
