#include "kernels/promise.hpp"

namespace attest::kernels {

Contract common_promise(const Policy& policy) {
  Contract contract = contract_for(policy);
  Arithmetic& arithmetic = contract.arithmetic;
  // Computed in double and rounded once or twice; in double itself the C library's word is taken.
  arithmetic.exp_ulp = policy[Stage::softmax] == Format::f64 ? 1 : 0.51;
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
