#pragma once
#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"

namespace attest::kernels {

// The steps of a block. A fault derives from this and replaces a step.
struct BlockSteps {
  // A row of one of the three input projections, which are numbered as q, k, v.
  struct Source {
    int projection;
    Index row;
  };
  // Where row `row` of w_q (0), w_k (1) or w_v (2) lies.
  static Source source(const mha::Call&, int projection, Index row) { return {projection, row}; }
  static bool adds_bias(int) { return true; }
  // Tells whether a product is rounded to storage before its bias is added, and rounded again.
  static constexpr bool separate_bias = false;
  // Tells whether q, k, v and the concatenated heads stay in the accumulator's format.
  static constexpr bool unrounded = false;
  static Format gemm(const mha::Contract& contract) { return contract.gemm; }
  static Format out_gemm(const mha::Contract& contract) { return contract.gemm; }
  static Format softmax(const mha::Call&, const mha::Contract& contract) {
    return contract.attention.policy[Stage::softmax];
  }
  // The format that a head's output is rounded to before it is stored.
  static Format heads(const mha::Contract& contract) { return contract.attention.policy[Stage::storage]; }
  // The key/value head that a query head reads, of blocks in tiles.
  static Index kv_head(const mha::Call& call, Index h) { return h / call.group(); }
  // The column of the concatenated heads, and the token, that element c of head h of token i becomes.
  struct Place {
    Index token, column;
  };
  static Place concatenated(const mha::Call& call, Index h, Index i, Index c) { return {i, h * call.head_dim + c}; }
};

}  // namespace attest::kernels
