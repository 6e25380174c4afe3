// The laws on the built-in kernels under RapidCheck, with the engine's shrinking candidates: it is like a user's own
// CTest suite, and the one test that drives RapidCheck. RC_PARAMS works as in any RapidCheck suite, but a key that
// RapidCheck would ignore is refused, and without it the seed is fixed: a test of a build must not depend on the day.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <stdlib.h>

#include <cstdlib>

#include "core/error.hpp"
#include "engine/check.hpp"
#include "engine/rc_params.hpp"
#include "engine/shrink/candidates.hpp"
#include "engine/stream.hpp"
#include "generators/problem_gen.hpp"
#include "ops/attention.hpp"
#include "properties/property.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Contract;
using attest::Domain;
using attest::Problem;
using attest::problem_from_text;

class PropertySuite : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ::setenv("RC_PARAMS", "seed=1 max_success=300", 0);
    ASSERT_NO_THROW(check_rc_params(std::getenv("RC_PARAMS")));
  }

  // The problem RapidCheck ends at if some law fails; empty if all hold.
  static std::string counterexample(const std::string& name) {
    const auto factory = builtin_subject(name, {});
    const auto peer_factory = builtin_subject("builtin:explicit", {});
    const auto subject = factory->open(), peer = peer_factory->open();
    const SubjectInfo& info = factory->info();
    const auto made = domain_for(info, ops::attention_op(), std::nullopt, std::nullopt);
    const Domain& domain = ops::attention_domain(*made);
    const ShrinkLimits limits{info.supports, domain.dtypes(), {}};
    const auto shrinks = [&limits](const Problem& problem) {
      std::vector<Problem> problems;
      for (Candidate& candidate : neighbours(problem, limits))
        problems.push_back(std::move(candidate.problem.as<Problem>()));
      return problems;
    };
    std::string last;
    const bool held = rc::check(name + " keeps its laws", [&] {
      const Problem problem = *problem_gen(domain, shrinks).as("problem");
      const Contract contract = info.contract(problem.dtype);
      const auto laws = choose_laws({}, problem, contract, info, problem.seed, 0);
      const CaseOutcome outcome = check(problem, contract, {*subject, peer.get()}, laws);
      if (!outcome.finding()) return;
      last = to_text(problem);
      RC_FAIL(to_text(outcome.key()) + " on " + last);
    });
    return held ? "" : last;
  }
};

TEST_P(PropertySuite, Holds) { EXPECT_EQ(counterexample(GetParam()), ""); }
INSTANTIATE_TEST_SUITE_P(Builtin, PropertySuite, testing::Values("builtin:explicit", "builtin:fused"));

class PropertySuiteOnFaults : public PropertySuite {};
TEST_P(PropertySuiteOnFaults, FindsAndShrinks) {
  const std::string problem = counterexample(GetParam());
  ASSERT_NE(problem, "");
  EXPECT_LE(problem_from_text(problem).multiply_adds(), 64) << problem;
}
INSTANTIATE_TEST_SUITE_P(Faults, PropertySuiteOnFaults, testing::Values("fault:scale-twice", "fault:tail-included"));

TEST(RcParams, UnknownKeysAndBadValuesAreRefused) {
  EXPECT_NO_THROW(check_rc_params(""));
  EXPECT_NO_THROW(check_rc_params("seed=17 max_success=20 max_size=50 noshrink=1"));
  EXPECT_NO_THROW(check_rc_params("reproduce=BAEdlJ3 verbose_progress=1 verbose_shrinking=0 max_discard_ratio=3"));
  EXPECT_THROW(check_rc_params("max_succes=20"), Error);
  EXPECT_THROW(check_rc_params("seed"), Error);
  EXPECT_THROW(check_rc_params("max_success=many"), Error);
  EXPECT_THROW(check_rc_params("max_size=-1"), Error);
}

}  // namespace
}  // namespace attest::engine
