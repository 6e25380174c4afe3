#include "cli/calibration_option.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "engine/file.hpp"

namespace attest::cli {

Option calibration_option() {
  return {"calibration", "FILE", "thresholds of the statistical tiers, as `attest calibrate --out` writes them"};
}

std::shared_ptr<const oracle::Calibration> read_calibration(const Settings& settings) {
  constexpr std::uintmax_t largest_file = 1 << 26;
  const auto path = settings.text("calibration");
  if (!path) return nullptr;
  oracle::Calibration read = ops::calibration_from_text(engine::read_file(*path, largest_file), *path);
  auto calibration = std::make_shared<oracle::Calibration>(ops::op_of(read).calibrating()->shipped());
  calibration->op = read.op;
  for (auto& [policy, cells] : read.policies) calibration->policies[policy] = std::move(cells);
  return calibration;
}

void require_calibration_of(const ops::Op& op, const oracle::Calibration* calibration) {
  if (calibration == nullptr) return;
  if (const ops::Op& of = ops::op_of(*calibration); &of != &op)
    throw usage_error(
        fmt::format("--calibration is of {}, and the problems are of {}: leave it out, or give the file of "
                    "`attest calibrate --op {}`",
                    of.name(), op.name(), op.name()));
}

}  // namespace attest::cli
