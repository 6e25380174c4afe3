#include "ops/calibrating.hpp"

#include "core/error.hpp"
#include "ops/op.hpp"

namespace attest::ops {
namespace {

const Op* calibrated_op(std::string_view name) { return name.empty() ? all_ops().front() : find_op(name); }

}  // namespace

oracle::Calibration calibration_from_text(std::string_view text, std::string_view origin) {
  return oracle::calibration_from_text(text, origin, [](std::string_view op, std::string_view policy) {
    const Op* of = calibrated_op(op);
    if (of == nullptr || of->calibrating() == nullptr)
      throw usage_error("it is of '" + std::string(op) + "', which has no statistical tiers in this version");
    return of->to_text(of->policy_from_text(policy));
  });
}

const Op& op_of(const oracle::Calibration& calibration) {
  const Op* op = calibrated_op(calibration.op);
  if (op == nullptr) throw internal_error("there are calibration data of an operation that there is not");
  return *op;
}

}  // namespace attest::ops
