#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "core/verdict.hpp"
#include "oracle/linear/error.hpp"
#include "oracle/mha/out_row.hpp"
#include "oracle/mha/way.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle {

// The stages of a block, in the order in which they are computed.
enum class BlockStage : std::uint8_t { q, k, v, heads, out };
inline constexpr std::array block_stages{BlockStage::q, BlockStage::k, BlockStage::v, BlockStage::heads,
                                         BlockStage::out};
std::string_view name(BlockStage stage) noexcept;

// The enclosures of each stage of one way, given the stages before that the call holds (docs/mha.md, section 10).
// Stages that it does not hold are intervals.
class BlockStages {
 public:
  // Keeps references to the first two and to `rows`, b * l + i: the rows of q, heads and out that walk() goes over,
  // ascending.
  BlockStages(const Way::Block& block, const Way& way, WayName name, const std::vector<Index>& rows);

  // Returns the enclosure of an element before it is rounded: q [b,heads,l,head_dim], k and v [b,kv_heads,m,head_dim],
  // heads [b,l,q_width], out [b,l,e].
  [[nodiscard]] Enclosure enclosure(BlockStage stage, const std::array<std::int64_t, 4>& index);
  // Returns how a stage is rounded on its way into a tensor.
  [[nodiscard]] Rounding rounding(BlockStage stage, DType tensor) const noexcept;
  // Returns the tensor that the call holds of a stage; absent for out.
  [[nodiscard]] const attest_tensor& given(BlockStage stage) const noexcept;
  struct Visited {
    BlockStage stage;
    std::array<std::int64_t, 4> index;
    const Enclosure& enclosure;
    const Rounding& round;
    double got;
    Outcome outcome;
  };
  using Visit = std::function<bool(const Visited&)>;  // false: no further one
  // Every element that the call gives of a stage, in the order of the stages, then those of out; all of k and v.
  void walk(const Tensor& out, const Visit& visit);
  // The first element outside, in the same order.
  std::optional<Evidence> first_outside(const Tensor& out, Counts& counts);

 private:
  [[nodiscard]] Enclosure of_projection(const Tensor& centre, const Tensor& radius,
                                        const std::array<std::int64_t, 4>& index) const;
  [[nodiscard]] Enclosure of_heads_given(const std::array<std::int64_t, 4>& index);
  bool walk(BlockStage stage, const attest_tensor& tensor, const Visit& visit);

  const Way::Block& block_;
  const Way& way_;
  const std::vector<Index>& rows_;
  WayName name_;
  Format wide_, left_;
  Way from_;  // the way of q, k and v as given
  bool heads_given_;
  std::optional<Projected> out_of_heads_;
  OutRow row_;
  Index row_b_ = -1, row_i_ = -1;
};

}  // namespace attest::oracle
