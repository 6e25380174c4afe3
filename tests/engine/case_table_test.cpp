#include "engine/case_table.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "generators/draw.hpp"

namespace attest::engine {
namespace {

// Traits that are asked for late, by several threads and of copies, are those of the problem as it was.
TEST(LateRow, HasTheTraitsOfItsProblemWhoeverAsksFirst) {
  const Supports everything = attest::Supports::everything();
  const attest::Domain domain(attest::Supports::everything(), {Format::f32, Format::f16});
  for (std::uint64_t n = 0; n < 200; ++n) {
    LateRow late, copy;
    Row at_once;
    {
      Problem problem = draw_problem(domain, 7, n, 1);
      at_once = row_of(problem, everything);
      late = LateRow(problem, everything);
      copy = late;
      problem = problem_from_text("lq=1");
    }
    const Row* seen[2] = {};
    std::thread other([&] { seen[0] = &copy.row(); });
    seen[1] = &late.row();
    other.join();
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(*seen[0], at_once);
  }
}

TEST(LateRow, OfARowIsThatRowAndOfNothingIsEmpty) {
  EXPECT_EQ(LateRow(Row{1, 2}).row(), (Row{1, 2}));
  EXPECT_TRUE(LateRow().row().empty());
}

}  // namespace
}  // namespace attest::engine
