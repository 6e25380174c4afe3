#include "core/contract_numbers.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace attest {
namespace {

void check_ulps(const char* key, double ulps, const char* what, Stage stage, Format format) {
  const double limit = 1 / (2 * unit_roundoff(format));
  if (ulps < limit) return;
  throw usage_error(
      fmt::format("contract: {} {} lets {} err by all of its result where {} is {}: it must be less than {}", key, ulps,
                  what, name(stage), name(format), limit));
}

}  // namespace

void check_numbers(const Contract& contract) {
  const Arithmetic& how = contract.arithmetic;
  const Format softmax = contract.policy[Stage::softmax], pv = contract.policy[Stage::pv];
  if (!how.exp_rel) check_ulps("exp_ulp", how.exp_ulp, "an exp", Stage::softmax, softmax);
  check_ulps("div_ulp", how.div_ulp, "a division", Stage::softmax, softmax);
  check_ulps("div_ulp", how.div_ulp, "a division", Stage::pv, pv);
}

}  // namespace attest
