// A recorded call shows the problem that it was made of.
#include "engine/recorder.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/inputs.hpp"
#include "engine/traits.hpp"
#include "generators/draw.hpp"
#include "ops/attention/parts.hpp"

namespace attest::engine {
namespace {

using attest::Domain;
using attest::Problem;
using attest::problem_from_text;
using attest::Supports;

// The fields of the tensors, not of the names under which they were drawn or laid out.
constexpr std::string_view told[] = {"b",
                                     "hq",
                                     "hkv",
                                     "lq",
                                     "lk",
                                     "d",
                                     "dv",
                                     "dtype",
                                     "scale_given",
                                     "softcap",
                                     "causal",
                                     "window_left",
                                     "window_right",
                                     "masked",
                                     "diagonal",
                                     "interleaved",
                                     "past_32_bits",
                                     "open_keys",
                                     "least_row_bias",
                                     "mask_closes",
                                     "biased",
                                     "last_key",
                                     "least_row_max",
                                     "largest_row_max",
                                     "largest_spread",
                                     "largest_product",
                                     "closed_lead",
                                     "least_value",
                                     "largest_value",
                                     "zero_value"};

std::optional<Problem> recorded(const Problem& problem) {
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  return ops::of_attention::recorded(inputs.call(out, lse));
}

TEST(RecordedCalls, HaveTheTraitsOfTheirProblem) {
  Domain domain(Supports{}, {Format::f64});
  domain.assume(
      [](const Problem& p) { return p.rows == 0 && p.b * (p.hq * p.lq * p.lk + p.hkv * p.lk * (p.d + p.dv)) <= 512; });
  int seen = 0;
  for (std::uint64_t number = 0; number < 600; ++number) {
    const Problem problem = draw_problem(domain, 7, number, 1);
    const std::optional<Problem> call = recorded(problem);
    if (!call) continue;  // q is large
    ++seen;
    const Row expected = row_of(problem, Supports{}), row = row_of(*call, Supports{});
    for (const std::string_view name : told) {
      const std::size_t trait = trait_named(name);
      ASSERT_LT(trait, expected.size()) << name;
      const double off = std::fabs(row[trait] - expected[trait]);  // a bias of f32 is told as it was rounded
      EXPECT_TRUE(row[trait] == expected[trait] || off <= 1e-6 * std::fabs(expected[trait]))
          << name << " of " << to_text(problem);
    }
  }
  EXPECT_GE(seen, 500);
}

TEST(RecordedCalls, AreNotToldWhereTheyHaveManyNumbers) {
  EXPECT_TRUE(recorded(problem_from_text("lq=1 lk=2048 d=256 dv=256")));
  EXPECT_FALSE(recorded(problem_from_text("lq=1 lk=4096 d=256 dv=256")));
}

}  // namespace
}  // namespace attest::engine
