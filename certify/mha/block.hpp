#pragma once
#include <array>
#include <vector>

#include "certify/enclosure.hpp"
#include "certify/mha/sums.hpp"
#include "core/mha/inputs.hpp"

namespace attest::certify::mha {

// One of the ways that a contract permits a block: how projections leave their products, and whether the concatenated
// heads are rounded.
struct Going {
  attest::mha::Projected projected;
  bool heads_rounded;
};
std::vector<Going> goings_of(const Contract& contract);

// The enclosures of docs/mha.md for the elements of out under one way. It computes one formula after the other, without
// regard to speed.
class Block {
 public:
  // Keeps references to both.
  Block(const Contract& contract, const attest::mha::Inputs& inputs, Going going, double float64_errors);
  // Element [b, i, e] before it is rounded to the tensor's type.
  [[nodiscard]] Enclosure element(Index b, Index i, Index e);
  // Element [b, head, token, column] of a projection, as section 1 says it: rounded where this way rounds it.
  enum class Projection : std::uint8_t { q, k, v };
  [[nodiscard]] Enclosure projected(Projection of, const std::array<Index, 4>& index) const;
  // Element [b, i, column] of the concatenated heads before it is rounded, for all projections that the contract
  // permits.
  [[nodiscard]] Enclosure head(Index b, Index i, Index column);
  // The format that heads are left in.
  [[nodiscard]] Format heads_left() const noexcept { return heads_; }
  // The format that projections are left in.
  [[nodiscard]] Format left() const noexcept { return left_; }
  // Tells whether an end was too near to where its rounding changes: more bits may tell.
  [[nodiscard]] bool uncertain() const noexcept { return uncertain_; }

 private:
  struct Range {
    Ball lo, hi;
  };
  void describe();
  [[nodiscard]] Range rounded_to(Format format, const Range& range);
  [[nodiscard]] Intervals::Element stored(const Rule& rule, const Factor& x, const Factor& w, double bias);
  [[nodiscard]] Range as_it_enters(const Enclosure& of);
  [[nodiscard]] Ball half_step(const Ball& magnitude) const;
  [[nodiscard]] Range joint(const Row& row, Index b, Index h, const Factor& weights, Index first,
                            const std::vector<Enclosure>& columns, const std::vector<Range>& ends) const;
  [[nodiscard]] bool values_are_known(Index b, Index h) const;

  const Contract& contract_;
  const attest::mha::Inputs& inputs_;
  Going going_;
  double float64_errors_;
  Format storage_, heads_ = Format::f32, left_ = Format::f32;
  bool flush_, uncertain_ = false, scores_are_known_ = false;
  attest::Contract of_heads_;
  attest::Inputs call_;  // the call of attention: q, k and v are the centres
  Operands operands_;
  Ball unit_of_last_;  // u_f
};

}  // namespace attest::certify::mha
