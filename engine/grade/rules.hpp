#pragma once
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "core/format.hpp"

namespace attest::engine {

// The data that the users of a tolerance rule have: the elements of out, in one order, of one type.
struct Sight {
  Format type;                       // the type of out
  std::span<const double> got;       // from the kernel under test
  std::span<const double> exact;     // from the plain kernel in float64, inputs taken as they are
  std::span<const double> expected;  // the same, rounded to `type`
  std::span<const double> low;       // from the plain kernel as a framework computes it in `type`
};

// A rule that others accept a kernel by.
struct ToleranceRule {
  std::string_view name;
  std::string_view doc;  // the formula, and whose it is; {} stands for the plain kernel
  // The least multiple of its tolerance at which it accepts: it objects as published if !(multiple <= 1). Infinite
  // where it objects at any, as to a NaN; never NaN.
  double (*least_multiple)(const Sight& sight);
};

std::span<const ToleranceRule> tolerance_rules();
// `plain`: the kernel that it compares with, "explicit attention".
std::string doc_of(const ToleranceRule& rule, std::string_view plain);

inline constexpr double any_multiple = std::numeric_limits<double>::infinity();

}  // namespace attest::engine
