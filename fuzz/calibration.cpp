// The file behind --calibration.
#include "oracle/calibration.hpp"

#include <nlohmann/json.hpp>

#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  oracle::Calibration calibration;
  if (!fuzz::accepts([&] { calibration = oracle::calibration_from_text(fuzz::as_text(data, size), "c.json"); }))
    return 0;
  const std::string written = oracle::to_json(calibration).dump();
  fuzz::require(oracle::calibration_from_text(written, "c.json") == calibration,
                "the calibration does not come back: " + written);
  return 0;
}
