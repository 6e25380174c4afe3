// The law block-layout: blocks that read strides as they are hold, whatever loops they take for them, and one that does
// not fails.
#include <gtest/gtest.h>

#include <memory>

#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "engine/check.hpp"
#include "engine/stream.hpp"
#include "ops/mha.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

const Op& op = ops::mha_op();
const std::size_t layout = law_named("block-layout", op), bound = law_named("policy-bound", op);

struct Asked {
  int pass = 0, fail = 0, skip = 0, bound_failed = 0, other = 0;
};

Asked ask(Subject& subject, const SubjectInfo& info, std::uint64_t problems) {
  const auto domain = domain_for(info, op, std::nullopt, std::nullopt);
  domain->assume([](const Problem& problem) { return work_of(problem) <= 1 << 13; });
  Asked asked;
  for (std::uint64_t n = 0; n < problems; ++n) {
    const Problem problem = domain->draw(3, n, 1).problem;
    const Contract contract = contract_for_problem(info, std::nullopt, problem);
    const CaseOutcome outcome = check(problem, contract, {subject, nullptr}, std::vector{layout, bound});
    for (const LawVerdict& law : outcome.laws) {
      if (law.law == bound) {
        asked.bound_failed += law.verdict.kind == VerdictKind::fail;
        continue;
      }
      asked.pass += law.verdict.kind == VerdictKind::pass;
      asked.skip += law.verdict.kind == VerdictKind::skip;
      asked.fail += law.verdict.kind == VerdictKind::fail;
      asked.other += law.verdict.kind == VerdictKind::error || law.verdict.kind == VerdictKind::crash;
      if (law.verdict.kind == VerdictKind::fail) {
        const Evidence& evidence = law.verdict.evidence.value();
        EXPECT_EQ(evidence.tensor, "out");
        EXPECT_NE(evidence.note.find("the same values"), std::string::npos) << evidence.note;
      }
    }
  }
  return asked;
}

Asked ask(const char* name, std::uint64_t problems) {
  const auto factory = builtin_subject(name, "f32");
  const auto subject = factory->open();
  return ask(*subject, factory->info(), problems);
}

TEST(MhaLayout, OfConformingBlocksHolds) {
  for (const char* name : {"builtin:mha-explicit", "builtin:mha-fused", "builtin:mha-unrounded"}) {
    const Asked asked = ask(name, 150);
    EXPECT_EQ(asked.fail, 0) << name;
    EXPECT_EQ(asked.other, 0) << name;
    EXPECT_GT(asked.pass, 100) << name;
  }
}

// A block that reads memory by its shape alone: right where tokens are contiguous.
TEST(MhaLayout, OfAMisreadLayoutFails) {
  const Asked asked = ask("fault:mha-layout-misread", 400);
  EXPECT_GT(asked.fail, 3);
  EXPECT_GE(asked.bound_failed, 1);
}

// Wrong alike in every layout: a matter of the bound, not of this law.
TEST(MhaLayout, IsSilentOnWhatIsWrongInEveryLayout) {
  const Asked asked = ask("fault:mha-bias-missing", 150);
  EXPECT_EQ(asked.fail, 0);
  EXPECT_GT(asked.bound_failed, 50);
}

bool is_contiguous(const attest_tensor& tensor) {
  std::int64_t next = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; next *= tensor.shape[axis--])
    if (tensor.shape[axis] > 1 && tensor.strides[axis] != next) return false;
  return true;
}

// Other loops for other layouts, so that bits differ: conforming all the same.
class ByLayout final : public Subject {
 public:
  ByLayout(std::shared_ptr<Subject> one, std::shared_ptr<Subject> other)
      : one_(std::move(one)), other_(std::move(other)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return one_->info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    std::vector<CallResult> results;
    for (const Call& call : calls) {
      const auto& block = call.as<attest_mha>();
      results.push_back((is_contiguous(block.x) && is_contiguous(block.w_q) ? one_ : other_)->run_one(call));
    }
    return results;
  }

 private:
  std::shared_ptr<Subject> one_, other_;
};

TEST(MhaLayout, OfABlockWithOtherLoopsForOtherLayoutsHolds) {
  const auto one = builtin_subject("builtin:mha-explicit", "f32"), other = builtin_subject("builtin:mha-fused", "f32");
  ByLayout subject(one->open(), other->open());
  const Asked asked = ask(subject, one->info(), 150);
  EXPECT_EQ(asked.fail, 0);
  EXPECT_GT(asked.pass, 100);
}

// Tokens that all samples share are told apart from those that each has for itself.
TEST(MhaLayout, KeepsTheValuesOfSharedTokens) {
  const auto factory = builtin_subject("builtin:mha-explicit", "f32");
  const auto subject = factory->open();
  const Problem problem = problem_from_text(
      "op=mha b=3 l=4 m=5 e=8 heads=2 kv_heads=2 head_dim=4 x_layout=broadcast "
      "memory_layout=broadcast weights=dense seed=5");
  const Contract contract = contract_for_problem(factory->info(), std::nullopt, problem);
  EXPECT_EQ(check(problem, contract, {*subject, nullptr}, std::vector{layout}).laws.front().verdict.kind,
            VerdictKind::pass);
}

}  // namespace
}  // namespace attest::engine
