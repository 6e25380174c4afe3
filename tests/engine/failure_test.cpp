#include "engine/failure.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/stream.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Problem;
using attest::problem_from_text;

const std::string subject_name = "fault:alignment-assumed";
const Problem misaligned = problem_from_text(
    "b=1 hq=2 hkv=1 lq=1 lk=2 d=8 dv=2 dtype=f16 scale=0x1p+0 k_layout=odd_base values=peaked:1 seed=864822994");

class Reproduce : public testing::Test {
 protected:
  CaseOutcome ask(const Problem& problem, const std::vector<std::size_t>& laws) {
    return check(problem, contract_for_problem(factory->info(), std::nullopt, problem), {*subject}, laws);
  }
  Entry reproduced(const Problem& problem, const CaseOutcome& outcome) {
    const SubjectInfo& info = factory->info();
    return reproduce({problem, outcome, {}, {}}, {*subject}, subject_name, std::nullopt,
                     {info.supports, info.dtypes, {}}, {}, {});
  }

  std::unique_ptr<SubjectFactory> factory = builtin_subject(subject_name, {});
  std::unique_ptr<Subject> subject = factory->open();
  const std::size_t result_class = law_named("result-class"), pad_width = law_named("pad-width");
};

// Rows of 16 bytes are at fault: four coordinates of f32. pad-width makes such a row of a single one, on which the call
// itself is right. It fails on the very reproducer of result-class, and still is another failure.
TEST_F(Reproduce, ALawKeepsItsFailureWhereAnotherReachesASmallerProblem) {
  CaseOutcome outcome = ask(misaligned, {result_class, pad_width});
  ASSERT_NE(outcome.finding(), nullptr);
  ASSERT_EQ(outcome.finding()->law, result_class);
  outcome.needed = {result_class, pad_width};  // both are asked on every candidate
  const Entry entry = reproduced(misaligned, outcome);
  EXPECT_EQ(entry.property, "result-class");
  EXPECT_TRUE(entry.minimal);
  EXPECT_EQ(entry.problem.as<Problem>().multiply_adds(), 5) << to_text(entry.problem);
  EXPECT_NE(ask(entry.problem.as<Problem>(), {result_class}).finding(), nullptr);

  const CaseOutcome other = ask(entry.problem.as<Problem>(), {pad_width});
  ASSERT_NE(other.finding(), nullptr);
  const Entry smaller = reproduced(entry.problem.as<Problem>(), other);
  EXPECT_EQ(smaller.property, "pad-width");
  EXPECT_EQ(smaller.problem.as<Problem>().multiply_adds(), 2) << to_text(smaller.problem);
  EXPECT_EQ(ask(smaller.problem.as<Problem>(), {result_class}).finding(), nullptr);
}

}  // namespace
}  // namespace attest::engine
