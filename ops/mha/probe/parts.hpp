#pragma once
#include <span>
#include <vector>

#include "ops/attention/probe/parts.hpp"
#include "ops/mha/probe/ask.hpp"
#include "ops/probe/narrow.hpp"

namespace attest::ops::of_mha {

inline constexpr std::size_t gemm_stage = stage_count;  // behind those of attention

// A question: the subject that is asked, and the contract that its answers are held to.
struct BlockAsking {
  const probing::Asked& asked;
  const Contract& contract;
  const BlockMaker& maker;
};

// questions.cpp: the questions that the law narrow-stage may ask of a block that promises `contract`, both of which
// must outlive them: about each product, and about attention in its middle, in the least sizes that show it.
std::vector<probing::NarrowQuestion> narrow_questions(const BlockMaker& maker, const Contract& contract);
// Accumulation of each of the four products.
std::vector<probing::StageQuestions> gemm_questions(const BlockMaker& maker);
// meaning.cpp: biases, heads, packed projections; and stages that are given, each by its bound given those before it.
std::vector<ProbeRow> block_rows(const BlockAsking& asking);
std::vector<ProbeRow> given_rows(const BlockAsking& asking);

// model.cpp: plain blocks that leave q, k, v and heads rounded to storage, or not.
class PlainBlock final : public probing::Model {
 public:
  explicit PlainBlock(bool rounds) : rounds_(rounds) {}
  [[nodiscard]] std::size_t schemes() const noexcept override;
  [[nodiscard]] probing::Elements run(const ops::Problem& problem, const ops::Policy& policy,
                                      std::size_t scheme) const override;
  [[nodiscard]] std::span<const Format> formats(std::size_t stage) const noexcept override;

 private:
  bool rounds_;
};

}  // namespace attest::ops::of_mha
