// A call of a block and what it gave, as explain reads it: conforming blocks are inside, and what another call would
// have given fits that other call alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "generators/mha/domain.hpp"
#include "ops/mha.hpp"
#include "ops/mha/parts.hpp"
#include "subjects/builtin.hpp"

namespace attest::ops {
namespace {

using attest::mha::Inputs;
using Own = attest::mha::Problem;

// A block's answer to `asked`, read as the answer to `told`.
struct Answered {
  Answered(const std::string& subject, const Inputs& told, const Inputs& asked)
      : factory(builtin_subject(subject, {})), out(make_out(told.problem)) {
    status = factory->open()->run_one(as_plugin(asked.call(out), asked.problem.self)).status;
    reading = mha_op().reading(as_plugin(told.call(out), told.problem.self));
    contract = mha_op().contract(factory->info(), told.problem.dtype);
  }
  [[nodiscard]] VerdictKind judged(std::size_t variant = 0) const {
    return reading->judge(contract, variant, Index{1} << 30);
  }
  // The words of what fits, of one kind.
  [[nodiscard]] std::vector<std::string> fits(Departure::Kind kind) const {
    std::vector<std::string> words;
    for (const Departure& departure : reading->departures(contract))
      if (departure.kind == kind &&
          reading->judge(departure.contract, departure.variant, Index{1} << 30) == VerdictKind::pass)
        words.push_back(departure.words);
    return words;
  }
  std::unique_ptr<SubjectFactory> factory;
  Tensor out;
  CallStatus status;
  std::unique_ptr<Reading> reading;
  Contract contract;
};

TEST(MhaReading, ConformingBlocksAreInside) {
  for (const char* subject : {"builtin:mha-explicit", "builtin:mha-fused", "builtin:mha-unrounded"}) {
    const auto factory = builtin_subject(subject, {});
    const attest::mha::Domain domain(factory->info().mha->supports, {Format::f32, Format::f16});
    for (std::uint64_t n = 0, asked = 0; asked < 40; ++n) {
      const Own p = draw_counted(domain, 3, n, 1).problem;
      if (p.multiply_adds() > 4096) continue;
      ++asked;
      const Inputs inputs = materialise(p);
      const Answered answered(subject, inputs, inputs);
      ASSERT_EQ(answered.status, CallStatus::done);
      EXPECT_NE(answered.judged(), VerdictKind::fail) << to_text(p);
      const auto elements = answered.reading->elements(answered.contract, 0, Index{1} << 30);
      EXPECT_EQ(static_cast<Index>(elements.size()), answered.out.size());
      for (const Element& e : elements) EXPECT_NE(e.outcome, oracle::Outcome::outside) << to_text(p);
    }
  }
}

TEST(MhaReading, WhatAnotherCallWouldHaveGivenFitsThatCall) {
  struct Case {
    const char* problem;
    std::function<void(Inputs&)> change;
    const char* words;
  };
  const Case cases[] = {
      {"l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 weights=dense seed=4", [](Inputs& in) { in.b_v = Tensor(); },
       "b_v ignored"},
      {"l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 weights=dense seed=4",
       [](Inputs& in) { std::swap(in.w_q, in.w_v), std::swap(in.b_q, in.b_v); }, "q and v taken for each other"},
      {"l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 causal=1 weights=dense seed=4",
       [](Inputs& in) { in.problem.causal = false; }, "causality ignored"},
      {"l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 scale=0x1p-2 weights=dense amplitude=0x1p+2 seed=4",
       [](Inputs& in) { in.problem.scale = 1; }, "the scale ignored"},
      {"b=2 l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 weights=dense seed=4",
       [](Inputs& in) {
         for (Index i = 0; i < 3; ++i)
           for (Index c = 0; c < 4; ++c) in.x.set(1, i, c, 0, in.x.at(0, i, c));
       },
       "the tokens of sample 0 for every sample"},
  };
  for (const Case& one : cases) {
    const Own p = attest::mha::problem_from_text(one.problem);
    const Inputs told = materialise(p);
    Inputs asked = materialise(p);
    one.change(asked);
    const Answered answered("builtin:mha-explicit", told, asked);
    ASSERT_EQ(answered.status, CallStatus::done);
    EXPECT_EQ(answered.judged(), VerdictKind::fail) << one.words;
    const auto fits = answered.fits(Departure::Kind::semantics);
    EXPECT_NE(std::ranges::find(fits, one.words), fits.end()) << one.words;
    EXPECT_LE(fits.size(), 2u) << one.words;
  }
}

TEST(MhaReading, ANarrowSumFitsNarrowSums) {
  const Own p = attest::mha::problem_from_text("l=2 m=2 e=8 heads=1 kv_heads=1 head_dim=4 self=1 weights=dense seed=4");
  const Inputs inputs = materialise(p);
  const Answered answered("fault:mha-gemm-f16", inputs, inputs);
  EXPECT_EQ(answered.judged(), VerdictKind::fail);
  const auto fits = answered.fits(Departure::Kind::format);
  EXPECT_NE(std::ranges::find(fits, "the sums of the projections in f16 (gemm=f16)"), fits.end());
  EXPECT_EQ(std::ranges::find(fits, "the scale in f16 (scale=f16)"), fits.end());
}

TEST(MhaReading, StagesAreJudgedEachGivenThoseBefore) {
  const Own p = attest::mha::problem_from_text("l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 weights=dense seed=4");
  const Inputs inputs = materialise(p);
  for (const auto& [subject, wrong] : {std::pair{"builtin:mha-explicit", ""},
                                       {"fault:mha-head-transpose", "heads"},
                                       {"fault:mha-qkv-order", "q"},
                                       {"fault:mha-softmax-f16", "heads"}}) {
    const Answered answered(subject, inputs, inputs);
    const auto names = answered.reading->stages(ops::Supports(answered.factory->info()));
    ASSERT_EQ(names.size(), 4u) << subject;
    attest::mha::StageOutputs stages = make_stages(p, DType::f32);
    attest::mha::Call call = inputs.call(answered.out);
    call.stages = stages.views();
    ASSERT_EQ(answered.factory->open()->run_one(as_plugin(call, true)).status, CallStatus::done);
    const Tensor* const given[] = {&stages.q, &stages.k, &stages.v, &stages.heads};
    std::string first;
    for (std::size_t n = 0; n < names.size(); ++n) {
      const auto elements = answered.reading->stage_elements(names[n], *given[n], answered.contract);
      EXPECT_EQ(static_cast<Index>(elements.size()), given[n]->size());
      const bool outside =
          std::ranges::any_of(elements, [](const Element& e) { return e.outcome == oracle::Outcome::outside; });
      if (outside && first.empty()) first = answered.reading->stage_name(names[n]);
    }
    EXPECT_EQ(first, wrong) << subject;
  }
  const Answered answered("builtin:mha-explicit", inputs, inputs);
  EXPECT_TRUE(answered.reading->lies_within("softmax", "heads"));
  EXPECT_FALSE(answered.reading->lies_within("gemm", "heads"));
  EXPECT_TRUE(answered.reading->lies_within("gemm", "q"));
  EXPECT_FALSE(answered.reading->lies_within("v", "q"));
}

}  // namespace
}  // namespace attest::ops
