#pragma once
#include <memory>
#include <vector>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "core/verdict.hpp"
#include "oracle/attention.hpp"
#include "oracle/mha/out_row.hpp"
#include "oracle/mha/quick_block.hpp"
#include "oracle/mha/stages.hpp"
#include "oracle/mha/way.hpp"

namespace attest::oracle {

// The judge of a block under its contract (docs/mha.md). Where the contract permits several ways, a call goes one of
// them, and an output is at fault only if every way has an element outside.
class MhaOracle {
 public:
  // Keeps references to both. `judged` is the number of rows of out, [b, token], that are judged, spread evenly, and of
  // q and heads where they are given; 0 judges all.
  MhaOracle(const mha::Contract& contract, const mha::Call& call, Index judged = 0);

  // Judges every element in the order of their indices [b, token, element]. Fails with the first element outside of the
  // first way if every way has one. Otherwise the verdict is that of the first way that has none: pass, or vacuous as
  // AttentionOracle::judge() says.
  Verdict judge(const Tensor& out);
  // Judges every element by the full formulas.
  Verdict judge_slowly(const Tensor& out);

  // Judges each stage that the call asked for and `out` by its own bound, given the block's own results of the stages
  // before (docs/mha.md, section 10). Fails with the first element of the first stage outside, of the first way, if
  // every way has one.
  Verdict judge_stages(const Tensor& out);
  // Every element that judge_stages() judges, in that order, of the first way that has none outside, else of the first.
  void walk_stages(const Tensor& out, const BlockStages::Visit& visit);

  [[nodiscard]] std::size_t ways() const noexcept { return names_.size(); }
  const Way& way(std::size_t n);
  // The way of the last judgement's verdict: the first if every way has an element outside.
  [[nodiscard]] std::size_t judged_way() const noexcept { return judged_way_; }
  // Returns the judge of the call's stages under way n; it must not outlive this object.
  std::unique_ptr<BlockStages> stages(std::size_t n);
  Enclosure enclosure(std::size_t n, Index b, Index i, Index e);

 private:
  Verdict judge_way(std::size_t n, const Tensor& out, QuickBlock* quick);
  Verdict judge_ways(const Tensor& out, bool quickly);
  Verdict judge_way_quickly(std::size_t n, const Tensor& out);

  Way::Block block_;
  std::vector<WayName> names_;
  std::vector<Index> rows_;                 // b * l + i of those that are judged
  std::vector<std::unique_ptr<Way>> ways_;  // made where the full formulas are needed
  OutRow row_;
  std::size_t row_way_ = 0, judged_way_ = 0;
  Index row_b_ = -1, row_i_ = -1;
};

}  // namespace attest::oracle
