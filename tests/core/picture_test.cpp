#include "core/picture.hpp"

#include <gtest/gtest.h>

#include <set>

namespace attest {
namespace {

TEST(PictureGrid, HasACellForEachElementOfASmallTensor) {
  const PictureGrid grid(4, {2, 3, 4, 5});
  std::set<PictureGrid::Cell> seen;
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index i = 0; i < 4; ++i)
        for (Index d = 0; d < 5; ++d) seen.insert(grid.cell({b, h, i, d}));
  EXPECT_EQ(seen.size(), 120u);
  EXPECT_EQ(grid.panels(), 6);
  EXPECT_EQ(grid.cell({1, 2, 3, 4}), (PictureGrid::Cell{5, 3, 4}));
}

// A map of 18,710 columns shows its last one, and every panel of 128 is in one of the 12.
TEST(PictureGrid, BinsWhatIsLarge) {
  const PictureGrid grid(4, {4, 32, 1, 18'710});
  EXPECT_EQ(grid.columns(), 32);
  EXPECT_EQ(grid.cell({0, 0, 0, 18'709}).column, 31);
  EXPECT_LE(grid.panels(), PictureGrid::most_panels);
  EXPECT_EQ(grid.cell({3, 31, 0, 0}).panel, grid.panels() - 1);
  std::set<Index> columns;
  for (Index d = 0; d < 18'710; ++d) columns.insert(grid.cell({0, 0, 0, d}).column);
  EXPECT_EQ(columns.size(), 32u);
}

TEST(PictureGrid, TakesTheLastAxesForRowsAndColumns) {
  EXPECT_EQ(PictureGrid(1, {7, 1, 1, 1}).cell({6, 0, 0, 0}), (PictureGrid::Cell{0, 0, 6}));
  EXPECT_EQ(PictureGrid(2, {7, 3, 1, 1}).cell({6, 2, 0, 0}), (PictureGrid::Cell{0, 6, 2}));
  EXPECT_EQ(PictureGrid(2, {7, 3, 1, 1}).cell({99, -5, 0, 0}), (PictureGrid::Cell{0, 6, 0}));  // of a stranger's record
}

}  // namespace
}  // namespace attest
