#include "oracle/layer_norm/calibration.hpp"

#include <limits>

namespace attest::oracle::layer_norm {

// oracle/layer_norm/calibration.json, made by the build.
extern const std::string_view shipped_calibration_text;

using attest::layer_norm::Problem;
using attest::layer_norm::Values;

std::string calibration_class(const Problem& p) {
  const auto label = attest::layer_norm::find_field("values")->labels[static_cast<std::size_t>(p.values)];
  return std::string(label) + (p.offset != 0 ? "+offset" : "");
}

bool outputs_alike(const Problem& p) {
  switch (p.values) {
    case Values::uniform:
    case Values::normal:
    case Values::outlier:
    case Values::heavy:
    case Values::roots_large:
    case Values::roots_small:
    case Values::huge:
      return p.x_layout == attest::layer_norm::Layout::broadcast || !p.edits.empty();
    default:
      return true;
  }
}

Thresholds thresholds(const Calibration& calibration, const attest::layer_norm::Policy& policy,
                      const Problem& problem) {
  Thresholds found = calibration.thresholds_of(to_text(policy), calibration_class(problem));
  if (!outputs_alike(problem)) return found;
  found.warn = found.fail = std::numeric_limits<double>::infinity();
  found.t = std::nullopt;
  return found;
}

const Calibration& shipped_calibration() {
  static const Calibration shipped =
      calibration_from_text(shipped_calibration_text, "the shipped calibration of layer_norm",
                            [](std::string_view name) { return to_text(attest::layer_norm::policy_from_text(name)); });
  return shipped;
}

}  // namespace attest::oracle::layer_norm
