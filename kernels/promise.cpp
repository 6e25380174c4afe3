#include "kernels/promise.hpp"

namespace attest::kernels {

Contract common_promise(const Policy& policy) {
  Contract contract = contract_for(policy);
  Arithmetic& arithmetic = contract.arithmetic;
  // exp in f32 is exp_lanes.hpp's. The rest is computed with more bits and rounded; the C library's bounds hold in
  // double.
  const Format softmax = policy[Stage::softmax];
  arithmetic.exp_ulp = softmax == Format::f64 ? 1 : softmax == Format::f32 ? 0.8 : 0.51;
  arithmetic.tanh_ulp = policy[Stage::softcap] == Format::f64 ? 4 : 0.51;
  arithmetic.lazy = 0;
  arithmetic.fold_q = arithmetic.fold_k = arithmetic.fold_sqrt = false;
  arithmetic.exp2 = false;
  arithmetic.lse_merge = LseMerge::none;
  arithmetic.normalise_before = false;
  arithmetic.sum_of_rounded = false;
  arithmetic.key_order = KeyOrder::ascending;
  contract.empty_row = EmptyRow::zero;
  contract.nan = NanRule::propagates;
  contract.masked_unread = MaskedUnread::yes;
  contract.batch_invariant = BatchInvariance::bitwise;
  contract.deterministic = Deterministic::threads;
  return contract;
}

}  // namespace attest::kernels
