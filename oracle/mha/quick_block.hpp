#pragma once
#include <optional>
#include <span>
#include <vector>

#include "oracle/mha/out_row.hpp"
#include "oracle/mha/points.hpp"
#include "oracle/mha/way.hpp"
#include "oracle/outcome.hpp"
#include "oracle/quick.hpp"

namespace attest::oracle {

// Accepts elements that lie in a smaller and cheaper interval inside the enclosure of one way: that of one choice of q,
// k and v among those that projections may give (docs/mha.md, "Levels"). It never rejects.
class QuickBlock {
 public:
  QuickBlock(const Way::Block& block, mha::Projected projected, bool heads_rounded);

  // False if nothing can be said of this contract or of these sizes of numbers.
  [[nodiscard]] bool usable() const noexcept { return usable_; }
  // Judges all of `out`.
  void judge(const Tensor& out);
  [[nodiscard]] bool accepts(Index row, Index e) const noexcept {
    return accepted_[static_cast<std::size_t>(row * width_ + e)] != 0;
  }
  // Tells whether an element that was not accepted lies in the interval of the full formulas at those points.
  bool accepts_closely(Index b, Index i, Index e, const Rounding& round, double got);
  // Tells whether some accepted element is proven to have an enclosure that leaves out part of its hull.
  [[nodiscard]] bool proves_not_wide() const noexcept { return not_wide_; }

 private:
  [[nodiscard]] bool sums_are_small() const;
  void average_heads();
  void accept_row(Index row, const attest_tensor& out);
  // Lower bounds of how far a head's enclosures reach beside the means of its points: `relative`, times the distance of
  // a column's values from its mean, plus `absolute`.
  struct HeadReach {
    double relative, absolute;
  };
  [[nodiscard]] HeadReach head_reach(Index row, Index h) const;
  [[nodiscard]] bool leaves_out(Index row, Index e) const;
  [[nodiscard]] bool surely_leaves_out(Index row, Index e);
  void prove_not_wide();
  [[nodiscard]] bool proves_not_wide_by(bool surely, bool first);
  [[nodiscard]] Enclosure enclosure_of_points(Index b, Index i, Index e);

  const Way::Block& block_;
  mha::Projected projected_;
  bool heads_rounded_;
  Index width_;
  std::optional<Points> points_;
  std::optional<Way> way_;      // the way at these points
  const Call* call_ = nullptr;  // the heads' attention at these points
  Format heads_format_;
  bool usable_ = false, not_wide_ = false;
  std::vector<Quick::Most> most_;  // per row and head

  Matrix heads_, margin_, low_,
      high_;                                // [row][column]: o, the least margin of its enclosure, and the ends of that
  std::vector<char> known_;                 // per row and head
  std::vector<std::vector<Index>> sparse_;  // columns of a row of w_out that are not 0, where they are few
  Matrix sums_, margins_;                   // rows of w_out times heads_ and margin_
  std::vector<char> accepted_;
  OutRow row_;
  Index row_of_ = -1;
};

}  // namespace attest::oracle
