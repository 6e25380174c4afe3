#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/policy.hpp"
#include "core/problem.hpp"

namespace attest::oracle {

struct Statistics;

// T (tier three) is asked of results that have at least so many elements.
inline constexpr Index least_elements = 48;
// And so of rows whose weights lie on few keys: the error of one score is that of all columns.
inline constexpr double least_weights = 16;

// What conforming kernels were seen to give on one class of problems under one policy. A result is one kernel on one
// problem, with least_elements or more that do not err alike.
struct CalibrationCell {
  std::int64_t kernels = 0, results = 0, elements = 0;
  // The largest lambda that an element needs, and how many were asked: those of small results.
  double lambda = 0;
  std::int64_t lambda_elements = 0;
  // Quantiles of T; those of 99 % and 99.9 %, and the largest, after a second look (AttentionOracle::slow_t).
  double t50 = 0, t90 = 0, t99 = 0, t999 = 0, t = 0;
  std::string worst;  // the problem of the largest T

  friend bool operator==(const CalibrationCell&, const CalibrationCell&) = default;
};

// The largest T that a result of the class may have: 1.3 times the largest seen, 1 at least. nullopt where too few were seen.
std::optional<double> largest_t(const CalibrationCell& cell);

struct PolicyCalibration {
  // Of the results of one kernel, or of those with about as many keys, the largest share above t99 of their class.
  double share = 0;
  std::map<std::string, CalibrationCell> classes;

  friend bool operator==(const PolicyCalibration&, const PolicyCalibration&) = default;
};

// Where the statistical tiers object (docs/bounds.md, "Tiers two and three").
struct Thresholds {
  double warn = 4, fail = 5;              // of lambda
  const CalibrationCell* cell = nullptr;  // of the policy and class, if there is any
  std::optional<double> t;                // of one result
  double share = 1;                       // of a campaign's results that lie above t99 of their class
};

// How many of the judged rows have weights whose errors are their own, by the problem alone: where q, keys and bias are the same for all
// samples, heads or queries, so are the scores and what a kernel makes of them, whichever of the keys a mask leaves to a row.
Index distinct_rows(const Problem& problem);

// The largest T that a result may have: `t` of its class (Thresholds), but no less than what T, of so many independent errors, passes
// once in 10^6 results of which every error is as large as s says. By Wilson and Hilferty's approximation of chi-squared (1931). Elements
// whose weights round alike may share the two errors that these and out's own rounding are, each as large as it may be: (a + b)^2 is
// up to 6 times (a^2 + b^2)/3.
double largest_t(double t, const Statistics& statistics);

// The class of a problem: its distribution of values, and how few distinct rows it has, whose columns share errors: "normal",
// "normal+rows4" (fewer than 32), "normal+rows1" (fewer than 4).
std::string calibration_class(const Problem& problem);

// Whether the errors of a result are few: many elements of out may be equal, or there are fewer than 64 weights. T would then
// be the error of one element or weight, and says nothing.
bool outputs_alike(const Problem& problem);
// The same but for equal values, a class of its own: its lambda is calibrated, though every element of a row is the same number.
bool outputs_alike_by_form(const Problem& problem);

// Calibration data by policy (as to_text() writes it) and class.
class Calibration {
 public:
  std::map<std::string, PolicyCalibration, std::less<>> policies;
  std::string op{};          // whose; empty: of attention
  std::uint64_t seed = 0;    // of the problems and kernels
  bool interrupted = false;  // policies that were asked for are missing

  [[nodiscard]] Thresholds thresholds(const Policy& policy, const Problem& problem) const;
  // For tensors whose class nobody knows: of lambda the largest over the policy's classes, with its cell; no t, no share.
  [[nodiscard]] Thresholds thresholds_of_any_class(const Policy& policy) const;
  // Of any operation, whose policies and classes these are by name.
  [[nodiscard]] Thresholds thresholds_of(std::string_view policy, std::string_view calibrated_class) const;

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// The file that `attest calibrate` writes: a JSON object, a class a line.
std::string to_file_text(const Calibration& calibration);
nlohmann::ordered_json to_json(const Calibration& calibration);
// Reading throws Error(usage) that names what is wrong in `origin`.
Calibration calibration_from_text(std::string_view text, std::string_view origin);
// Of any operation: `policy_name` gives a policy of `op` (Calibration::op) as it is written, or throws Error(usage).
Calibration calibration_from_text(std::string_view text, std::string_view origin,
                                  std::string (*policy_name)(std::string_view op, std::string_view policy));

// The data that this version of attest was shipped with.
const Calibration& shipped_calibration();

}  // namespace attest::oracle
