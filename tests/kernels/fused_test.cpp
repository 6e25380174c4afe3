#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/kernels/support.hpp"

namespace attest::kernels::test {
namespace {

struct Precision {
  const char* policy;
  double noise;  // a generous multiple of the policy's coarsest roundoff; judging closely is the oracle's work
};

TEST(Fused, EveryVariantIsCloseToExplicitOnEveryOption) {
  for (const auto& [text, noise] : {Precision{"f64", 1e-9}, {"f32", 2e-2}, {"f16", 6e-2}, {"bf16", 0.3}}) {
    const Policy policy = policy_from_text(text);
    const bool exact = policy == Policy(Format::f64);
    for (std::uint64_t seed = 0; seed < 80; ++seed) {
      Problem problem = random_problem(seed, policy[Stage::storage]);
      // Large finite masks and scores swallow the last bits of scores and of their log-sum-exp, rightly.
      if (problem.bias == Bias::lowest || problem.bias == Bias::empty_lowest || (!exact && problem.bias > Bias::lowest))
        problem.bias = Bias::normal;
      if (!exact && (problem.values == Values::outlier || problem.values == Values::offset))
        problem.values = Values::uniform;
      const Result expected = run(builtin("explicit"), problem, policy);
      for (const KernelEntry& kernel : builtin_kernels()) {
        const Result got = run(kernel, problem, policy);
        ASSERT_TRUE(got.intact) << kernel.name << ' ' << to_text(problem);
        ASSERT_LE(distance(got.out, expected.out), noise) << kernel.name << ' ' << text << ' ' << to_text(problem);
        ASSERT_LE(distance(got.lse, expected.lse), noise) << kernel.name << ' ' << text << ' ' << to_text(problem);
      }
    }
  }
}

// Every policy runs, also where intermediate formats overflow: every output is written, and finite or not by IEEE
// rules.
TEST(Fused, EveryNamedPolicyRuns) {
  for (const NamedPolicy& named : named_policies())
    for (const KernelEntry& kernel : builtin_kernels())
      for (std::uint64_t seed = 1000; seed < 1012; ++seed)
        ASSERT_TRUE(run(kernel, random_problem(seed, named.policy[Stage::storage]), named.policy).intact)
            << kernel.name << ' ' << named.name;
}

// Variants are kernels of their own: their bits differ from each other's on a long row, with rounded weights, or on a
// subnormal value.
TEST(Fused, VariantsDiffer) {
  const Problem row = problem_from_text("b=2 lq=8 lk=300 d=16 dv=16 scale=0.3 seed=5");
  const Problem subnormal = problem_from_text("lk=1 d=1 dv=1 edit=v[0,0,0,0]:0x1p-140");
  const Policy exact(Format::f32), rounded = policy_from_text("f32,weights=bf16");
  std::map<std::array<std::vector<double>, 3>, std::string_view> outputs;
  for (const KernelEntry& kernel : builtin_kernels()) {
    if (kernel.name == "fused-tile64" || kernel.forms != nullptr) continue;  // a form decides whose bits these have
    const auto [same, differs] = outputs.try_emplace(
        {run(kernel, row, exact).out, run(kernel, row, rounded).out, run(kernel, subnormal, exact).out}, kernel.name);
    EXPECT_TRUE(differs) << kernel.name << " is " << same->second;
  }
}

TEST(Fused, ThreadsDoNotChangeABit) {
  // Large enough for a team: about a million multiply-adds in 12 heads.
  Problem problem =
      problem_from_text("b=3 hq=4 hkv=2 lq=70 lk=90 d=8 dv=8 keep=half causal=1 dtype=f16 lse=f32 seed=4");
  ASSERT_GT(problem.multiply_adds(), 1 << 20);
  for (const KernelEntry& kernel : builtin_kernels()) {
    problem.threads = 1;
    const Result one = run(kernel, problem, policy_for(Format::f16));
    for (const Index threads : {0, 2, 8}) {
      problem.threads = threads;
      EXPECT_TRUE(same(run(kernel, problem, policy_for(Format::f16)), one)) << kernel.name << ' ' << threads;
    }
  }
}

TEST(Fused, ASampleAloneHasTheBitsItHasInTheBatchIfThatIsPromised) {
  const Problem batch = problem_from_text("b=3 hq=2 lq=40 lk=150 d=8 dv=8 keep=half seed=9");
  Problem alone = batch;
  alone.b = 1;
  alone.b0 = 2;
  for (const KernelEntry& kernel : builtin_kernels()) {
    const std::vector<double> all = run(kernel, batch, Policy(Format::f32)).out;
    const std::vector<double> one = run(kernel, alone, Policy(Format::f32)).out;
    const bool promised = kernel.contract(Policy(Format::f32)).batch_invariant == BatchInvariance::bitwise;
    EXPECT_EQ(std::equal(one.begin(), one.end(), all.end() - std::ssize(one)), promised) << kernel.name;
  }
}

// masked_unread: NaN and infinities at keys that do not take part leave no trace.
TEST(Fused, MaskedKeysAreUnread) {
  const Problem clean = problem_from_text("lq=2 lk=70 d=2 dv=2 causal=1 bias=minus_inf lengths=ragged seed=2");
  Inputs probe = materialise(clean);
  const auto length = static_cast<Index>(probe.kv_lengths.at(0));
  Problem dirty = clean;
  for (Index j = 0; j < clean.lk; ++j) {
    if (j >= length || j > 1 || probe.bias.at(0, 0, 0, j) < 0) {
      if (j <= 1 && !(probe.bias.at(0, 0, 0, j) < 0 && probe.bias.at(0, 0, 1, j) < 0)) continue;
      dirty.edits.push_back({Edit::Tensor::v, {0, 0, j, 1}, std::nan("")});
      dirty.edits.push_back({Edit::Tensor::k, {0, 0, j, 0}, INFINITY});
    }
  }
  ASSERT_GT(dirty.edits.size(), 100u);
  for (const KernelEntry& kernel : builtin_kernels()) {
    EXPECT_TRUE(same(run(kernel, dirty, Policy(Format::f32)), run(kernel, clean, Policy(Format::f32)))) << kernel.name;
  }
}

TEST(Fused, NanInAnAttendedKeySpoilsTheRow) {
  const Problem problem = problem_from_text("lq=3 lk=70 d=2 dv=2 causal=1 seed=2 edit=k[0,0,2,1]:nan");
  for (const KernelEntry& kernel : builtin_kernels()) {
    const std::vector<double> out = run(kernel, problem, Policy(Format::f32)).out;
    for (std::size_t e = 0; e < out.size(); ++e) EXPECT_EQ(std::isnan(out[e]), e >= 4) << kernel.name;
  }
}

// A mean of ones is one, but for a million roundings in a row; memory stays bounded.
TEST(Fused, AMillionKeys) {
  const Problem problem = problem_from_text("lq=2 lk=1000000 values=flat v_form=one");
  for (const KernelEntry& kernel : builtin_kernels()) {
    // Tensor cores cut every product, all to one side: 2^-23 a key on Volta (docs/bounds.md, section 4c).
    const bool cuts = kernel.contract(Policy(Format::f32)).arithmetic.mma.has_value();
    for (const double y : run(kernel, problem, Policy(Format::f32)).out)
      EXPECT_NEAR(y, 1, cuts ? 1e6 * 0x1p-23 : 1e-2) << kernel.name;
  }
}

TEST(Fused, EmptyDimensionsAreNoAccident) {
  for (const KernelEntry& kernel : builtin_kernels()) {
    Tensor q(DType::f32, std::array<Index, 4>{1, 2, 3, 4}), k(DType::f32, std::array<Index, 4>{1, 2, 0, 4});
    Tensor out(DType::f32, std::array<Index, 4>{1, 2, 3, 4}), lse(DType::f32, std::array<Index, 3>{1, 2, 3});
    attest_attention call{};
    call.struct_size = sizeof call;
    call.q = q.view();
    call.k = call.v = k.view();
    call.out = out.view();
    call.lse = lse.view();
    call.scale = 1;
    call.window_left = call.window_right = -1;
    kernel.run(call, kernel.contract(Policy(Format::f32)));
    EXPECT_EQ(out.at(0, 1, 2, 3), 0) << kernel.name;
    EXPECT_EQ(lse.at(0, 1, 2), -INFINITY) << kernel.name;

    Tensor none(DType::f32, std::array<Index, 4>{1, 2, 0, 4});
    call.q = call.out = none.view();
    call.lse = {};
    call.k = call.v = q.view();
    EXPECT_NO_THROW(kernel.run(call, kernel.contract(Policy(Format::f32))));
  }
}

TEST(Fused, PromisesAreNarrow) {
  const auto arithmetic = [](const char* name) { return builtin(name).contract(Policy(Format::f32)).arithmetic; };
  EXPECT_EQ(arithmetic("fused").kv_tile_min, 64);
  EXPECT_EQ(arithmetic("fused-tile1").kv_tile_min, 1);
  EXPECT_FALSE(arithmetic("fused").exp2);
  EXPECT_TRUE(arithmetic("fused-exp2").exp2);
  EXPECT_EQ(arithmetic("fused-reversed").key_order, KeyOrder::descending);
  EXPECT_TRUE(arithmetic("fused-scale-q").fold_q);
  EXPECT_FALSE(arithmetic("fused").fold_q);
  EXPECT_EQ(arithmetic("fused-split").lse_merge, LseMerge::flat);
  EXPECT_EQ(arithmetic("fused").lse_merge, LseMerge::none);
  EXPECT_TRUE(arithmetic("explicit").normalise_before);
  EXPECT_FALSE(arithmetic("explicit").normalise_after);
}

}  // namespace
}  // namespace attest::kernels::test
