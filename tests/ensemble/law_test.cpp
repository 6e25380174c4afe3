// Conforming kernels are never blamed, kernels with one step in too few bits are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ensemble/sample.hpp"
#include "tests/ensemble/cases.hpp"

namespace attest::testing {
namespace {

using Case = void (*)(std::uint64_t, std::uint64_t, Subjects, const EnsembleTold&);

struct Found {
  int of = 0, found = 0;
};

std::map<std::string, Found> hold(Case one, std::uint64_t cases, Subjects which) {
  std::map<std::string, Found> all;
  for (std::uint64_t n = 0; n < cases; ++n)
    one(7, n, which, [&](const EnsembleCase& told) {
      Found& found = all[told.subject];
      ++found.of;
      found.found += told.outcome.found;
      if (told.conforming) {
        EXPECT_FALSE(told.outcome.found) << told.subject << " of " << told.contract << " on " << told.problem << ": "
                                         << in_words(told.outcome);
      }
    });
  for (const auto& [subject, found] : all) fmt::print("{:36} {:4} of {:4}\n", subject, found.found, found.of);
  return all;
}

TEST(Ensemble, ConformingAttentionIsNotBlamed) { hold(attention_case, 150, Subjects::conforming); }
TEST(Ensemble, ConformingNormsAreNotBlamed) { hold(layer_norm_case, 200, Subjects::conforming); }
TEST(Ensemble, ConformingBlocksAreNotBlamed) { hold(mha_case, 150, Subjects::conforming); }

TEST(Ensemble, AttentionWithAStepInTooFewBitsIsFound) {
  const auto all = hold(attention_case, 60, Subjects::faulty);
  for (const char* fault : {"softmax in f16", "pv in f16", "scores in bf16", "softmax in f32",
                            "partial results in bf16", "exp off by 1e-3"})
    EXPECT_GE(all.at(fault).found, 1) << fault;
}
TEST(Ensemble, NormsWithAStepInTooFewBitsAreFound) {
  const auto all = hold(layer_norm_case, 40, Subjects::faulty);
  for (const char* fault : {"statistics in f16", "statistics in bf16", "root off by 1e-3"})
    EXPECT_GE(all.at(fault).found, 5) << fault;
}
TEST(Ensemble, BlocksWithAStepInTooFewBitsAreFound) {
  const auto all = hold(mha_case, 40, Subjects::faulty);
  for (const char* fault : {"projections in 16 bits", "output projection in 16 bits", "softmax in 16 bits"})
    EXPECT_GE(all.at(fault).found, 1) << fault;
}

// A kernel whose sums look at the numbers keeps its contract, and no member is one.
TEST(Ensemble, IsNotAskedWhereSumsMayLookAtTheNumbers) {
  Problem problem;
  Contract contract = contract_for(policy_from_text("f32"));
  EXPECT_FALSE(ensemble::refusal(problem, contract));
  contract.arithmetic.order_by_values = true;
  EXPECT_TRUE(ensemble::refusal(problem, contract));
}

// One draw of a problem blames conforming kernels.
TEST(Ensemble, IsNotAskedWhereValuesCannotBeDrawnAgain) {
  const Contract contract = contract_for(policy_from_text("f32"));
  Problem problem;
  problem.values = Values::constant;
  EXPECT_TRUE(ensemble::refusal(problem, contract));
  problem.values = Values::normal;
  problem.edits = {Edit{}};
  EXPECT_TRUE(ensemble::refusal(problem, contract));
}

}  // namespace
}  // namespace attest::testing
