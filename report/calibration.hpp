#pragma once
#include <string>

#include "oracle/calibration.hpp"

namespace attest::report {

// What `attest calibrate` says: a row per policy and class.
std::string calibration_text(const oracle::Calibration& calibration);

}  // namespace attest::report
