#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "core/call.hpp"
#include "ops/problem.hpp"
#include "oracle/calibration.hpp"

// What `attest calibrate` asks of an operation whose results have statistical tiers.
namespace attest::ops {

class Calibrating {
 public:
  Calibrating() = default;
  Calibrating(const Calibrating&) = delete;
  Calibrating& operator=(const Calibrating&) = delete;
  virtual ~Calibrating() = default;

  // Distributions of values, each measured by itself.
  [[nodiscard]] virtual std::size_t distributions() const noexcept = 0;
  // Problem n of one of them, for kernels that compute in `policy`; empty where the tiers say nothing of any.
  using Problems = std::function<Problem(std::uint64_t n)>;
  [[nodiscard]] virtual Problems problems(const Policy& policy, std::size_t distribution, std::uint64_t seed) const = 0;
  // The class whose thresholds a problem has.
  [[nodiscard]] virtual std::string class_of(const Problem& problem) const = 0;
  // Problems that are alike in what classes do not tell, such as their length: of their results together a share may be large, too.
  [[nodiscard]] virtual std::uint64_t kin(const Problem& problem) const = 0;
  // Why the tiers do not speak of a contract; empty if they do.
  [[nodiscard]] virtual std::string_view refusal(const Contract& contract) const = 0;

  // What the tiers see of a result.
  struct Measured {
    double t = 0, lambda = 0;
    Index elements = 0, lambda_elements = 0;
  };
  // Of the kernel that promises `contract` and answers the problem's call by `run`. Throws Error(internal) if it left its proven
  // interval.
  using Run = std::function<void(const Call&)>;
  [[nodiscard]] virtual Measured measure(const Problem& problem, const Contract& contract, const Run& run) const = 0;
  // T after a second look, which can only lower it; infinite where there is none.
  [[nodiscard]] virtual double slow_t(const Problem&, const Contract&, const Run&) const {
    return std::numeric_limits<double>::infinity();
  }

  // The data that this version of attest was shipped with.
  [[nodiscard]] virtual const oracle::Calibration& shipped() const = 0;
};

// A file that `attest calibrate` wrote, of whichever operation. Throws Error(usage) that names what is wrong in `origin`.
oracle::Calibration calibration_from_text(std::string_view text, std::string_view origin);
// The operation that data are of. Throws Error(internal) if there is none of that name.
const Op& op_of(const oracle::Calibration& calibration);

}  // namespace attest::ops
