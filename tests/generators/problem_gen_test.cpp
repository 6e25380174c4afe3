// The RapidCheck generator draws the same problems and shrinks by the caller's candidates.
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include <sstream>

#include "generators/draw.hpp"
#include "generators/problem_gen.hpp"
#include "tests/shrunk.hpp"

namespace attest {
namespace {

const Domain domain(Supports{}, {Format::f32, Format::f16});

std::vector<Problem> fewer_keys(const Problem& problem) {
  std::vector<Problem> simpler;
  for (const Index lk : {problem.lk / 2, problem.lk - 1})
    if (lk >= 1) {
      simpler.push_back(problem);
      simpler.back().lk = lk;
    }
  return simpler;
}

TEST(ProblemGen, DrawsFromTheDomainByRandomAndSize) {
  const auto gen = problem_gen(domain);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    rc::Random stream(seed);
    const std::uint64_t shape = stream.next(), rest = stream.next();
    EXPECT_EQ(gen(rc::Random(seed), 40).value(), draw_from_keys(domain, shape, rest, 40));
  }
  EXPECT_FALSE(gen(rc::Random(1), 100).shrinks().next());
}

TEST(ProblemGen, ShrinksByTheCandidates) {
  const auto gen = problem_gen(domain, fewer_keys);
  auto shrinkable = gen(rc::Random(0), 100);
  for (std::uint64_t seed = 1; shrinkable.value().lk <= 10; ++seed) shrinkable = gen(rc::Random(seed), 100);
  const auto fails = [](const Problem& problem) { return problem.lk >= 10; };
  shrinkable = attest::test::shrunk(shrinkable, fails);
  EXPECT_EQ(shrinkable.value().lk, 10);
}

TEST(ProblemGen, CounterexamplesAreShownAsProblemText) {
  std::ostringstream shown;
  const Problem problem = draw_problem(domain, 1, 1, 1);
  rc::show(problem, shown);
  EXPECT_EQ(shown.str(), to_text(problem));
}

TEST(ProblemGen, ServesAsThePropertyInputOfRapidCheck) {
  EXPECT_TRUE(rc::check("drawn problems are valid", [] { validate(*problem_gen(domain)); }));
}

}  // namespace
}  // namespace attest
