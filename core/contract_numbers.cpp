#include "core/contract_numbers.hpp"

#include <fmt/format.h>

#include <cmath>

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

// Accumulators of tensor cores round in their own way, to a format of their own.
void check_mma(const Contract& contract) {
  const Arithmetic& how = contract.arithmetic;
  if (!how.mma) return;
  if (how.kappa > 1)
    throw usage_error(
        fmt::format("contract: mma says how accumulators round, and kappa {} says it again: leave one out", how.kappa));
  const Format out = format_of(how.mma->out);
  for (const Stage stage : {Stage::qk, Stage::pv}) {
    const Format format = contract.policy[stage];
    if (format != Format::f64 && !adds_blocks_in(*how.mma, format))
      throw usage_error(
          fmt::format("contract: mma.out {} does not hold what {} keeps, which is {}: the policy must say {}={}",
                      name(out), name(stage), name(format), name(stage), name(out)));
  }
  const double cost = 3 * std::ldexp(1.0, -how.mma->frac);
  if (cost >= 1)
    throw usage_error(fmt::format("contract: mma.frac {} lets a block err by all of its result: it must be at least 2",
                                  how.mma->frac));
}

}  // namespace

void check_numbers(const Contract& contract) {
  const Arithmetic& how = contract.arithmetic;
  const Format softmax = contract.policy[Stage::softmax], pv = contract.policy[Stage::pv];
  if (!how.exp_rel) check_ulps("exp_ulp", how.exp_ulp, "an exp", Stage::softmax, softmax);
  check_ulps("div_ulp", how.div_ulp, "a division", Stage::softmax, softmax);
  check_ulps("div_ulp", how.div_ulp, "a division", Stage::pv, pv);
  check_mma(contract);
  if (how.order_by_values && contract.deterministic.value_or(Deterministic::no) != Deterministic::no)
    throw usage_error(
        "contract: order says that sums look at values, deterministic that they look at scores alone: declare one of "
        "the "
        "two");
  if (contract.empty_row == EmptyRow::mean_all && contract.masked_unread != MaskedUnread::no)
    throw usage_error(
        "contract: empty_row mean_all reads masked values, masked_unread says that they are not: declare one of the "
        "two");
  if (contract.mask_added && contract.masked_unread != MaskedUnread::no)
    throw usage_error(
        "contract: mask_added says that masked keys have scores, masked_unread that they are not read: declare one of "
        "the two");
}

}  // namespace attest
