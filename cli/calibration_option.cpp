#include "cli/calibration_option.hpp"

#include "engine/file.hpp"

namespace attest::cli {

Option calibration_option() {
  return {"calibration", "FILE", "thresholds of the statistical tiers, as `attest calibrate --out` writes them"};
}

std::shared_ptr<const oracle::Calibration> read_calibration(const Settings& settings) {
  constexpr std::uintmax_t largest_file = 1 << 26;
  const auto path = settings.text("calibration");
  if (!path) return nullptr;
  auto calibration = std::make_shared<oracle::Calibration>(oracle::shipped_calibration());
  for (auto& [policy, cells] : oracle::calibration_from_text(engine::read_file(*path, largest_file), *path).policies)
    calibration->policies[policy] = std::move(cells);
  return calibration;
}

}  // namespace attest::cli
