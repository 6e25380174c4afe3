#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>

#include "core/problem.hpp"

namespace attest {

// The cells in which a report shows the wrong elements of a tensor of up to four axes: the last axis lies from left to
// right and the one before it downwards, in at most 32 by 32 cells; the axes before these make at most 12 panels. A
// cell and a panel of a larger tensor stand for several neighbours.
class PictureGrid {
 public:
  using At = std::array<Index, 4>;
  struct Cell {
    Index panel = 0, row = 0, column = 0;
    auto operator<=>(const Cell&) const = default;
  };
  static constexpr Index most_panels = 12, most_cells = 32;

  // `extents`: lengths of the first `axes` axes, of at least 1 each; the others do not count.
  PictureGrid(int axes, const At& extents)
      : axes_(std::clamp(axes, 0, 4)),
        extents_(moved(extents, 1)),
        panel_step_(parts(extents_[0] * extents_[1], most_panels)),
        row_step_(parts(extents_[2], most_cells)),
        column_step_(parts(extents_[3], most_cells)) {}

  // The cell of an element. Indices that the tensor does not have count as the nearest.
  [[nodiscard]] Cell cell(const At& index) const {
    At at = moved(index, 0);
    for (std::size_t k = 0; k < at.size(); ++k) at[k] = std::clamp<Index>(at[k], 0, extents_[k] - 1);
    return {(at[0] * extents_[1] + at[1]) / panel_step_, at[2] / row_step_, at[3] / column_step_};
  }

  [[nodiscard]] int axes() const noexcept { return axes_; }
  // Lengths of the four axes of the picture, 1 for those that the tensor does not have.
  [[nodiscard]] const At& extents() const noexcept { return extents_; }
  // Numbers of neighbours that share a panel, a row of cells and a column of cells; and of what there is of each.
  [[nodiscard]] Index panel_step() const noexcept { return panel_step_; }
  [[nodiscard]] Index row_step() const noexcept { return row_step_; }
  [[nodiscard]] Index column_step() const noexcept { return column_step_; }
  [[nodiscard]] Index panels() const noexcept { return parts(extents_[0] * extents_[1], panel_step_); }
  [[nodiscard]] Index rows() const noexcept { return parts(extents_[2], row_step_); }
  [[nodiscard]] Index columns() const noexcept { return parts(extents_[3], column_step_); }

 private:
  static Index parts(Index all, Index size) { return (all + size - 1) / size; }
  // Moves the tensor's axes to the last of four.
  [[nodiscard]] At moved(const At& of_axes, Index missing) const {
    At all{missing, missing, missing, missing};
    for (int k = 0; k < axes_; ++k)
      all[static_cast<std::size_t>(4 - axes_ + k)] = std::max(missing, of_axes[static_cast<std::size_t>(k)]);
    return all;
  }

  int axes_;
  At extents_;
  Index panel_step_, row_step_, column_step_;
};

}  // namespace attest
