// The problem, the contract and the tensors of an attention block.
#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "core/mha/weights.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"

namespace attest::mha {
namespace {

template <class Act>
std::string message(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "nothing thrown";
}
std::string refusal(const std::string& line) {
  return message([&] { (void)problem_from_text(line); });
}

TEST(MhaProblem, IsReadBackFromItsText) {
  Problem p;
  p.b = 2;
  p.l = p.m = 5;
  p.e = 24;
  p.heads = 6;
  p.kv_heads = 3;
  p.head_dim = 4;
  p.dtype = Format::bf16;
  p.self = p.packed = p.causal = true;
  p.scale = 0x1.8p-3;
  p.align = Align::bottom_right;
  p.padding = Padding::scattered;
  p.biases = Biases::in;
  p.weights = Weights::cancelling;
  p.amplitude = 2;
  p.seed = ~std::uint64_t{0};
  EXPECT_EQ(problem_from_text(to_text(p)), p);
  EXPECT_EQ(to_text(Problem{}),
            "op=mha b=1 l=1 m=1 e=1 heads=1 kv_heads=1 head_dim=1 dtype=f32 biases=all weights=dense seed=0");
  EXPECT_EQ(problem_from_text(""), Problem{});
  for (const Field& field : fields()) EXPECT_EQ(find_field(field.name), &field);
}

TEST(MhaProblem, RefusesWhatIsNone) {
  EXPECT_EQ(refusal("heads=4 kv_heads=3"), "problem: heads=4 must be a multiple of kv_heads=3");
  EXPECT_EQ(refusal("self=1 l=2 m=3"), "problem: self=1 makes memory x: m=3 must be l=2");
  EXPECT_EQ(refusal("dtype=tf32"), "problem: dtype=tf32 never lies in memory: use f16, bf16, f32 or f64");
  EXPECT_EQ(refusal("l=0"), "problem: l=0 must be an integer in 1..65536");
  EXPECT_EQ(refusal("weights=odd").substr(0, 41), "problem: weights=odd must be one of dense");
  EXPECT_EQ(refusal("l=2 l=3"), "problem: l stands there twice");
  EXPECT_EQ(refusal("l"), "problem: 'l' is no key=value");
  EXPECT_EQ(refusal("amplitude=0x0p+0"), "problem: amplitude must be above 0");
  EXPECT_EQ(refusal("op=attention"), "problem: op=attention is another operation: here it must be mha");
  EXPECT_EQ(refusal("width=3").substr(0, 27), "problem: unknown key width:");
  EXPECT_NE(refusal("l=65536 m=65536 head_dim=64"), "nothing thrown");
}

TEST(MhaPolicy, HasAStageForItsProducts) {
  EXPECT_EQ(policy_from_text("f16").gemm, Format::f32);
  EXPECT_EQ(policy_from_text("f16-all").gemm, Format::f16);
  EXPECT_EQ(policy_from_text("f16,gemm=f16").gemm, Format::f16);
  EXPECT_EQ(policy_from_text("f16,gemm=f16").attention, attest::policy_from_text("f16"));
  EXPECT_EQ(policy_from_text("f16,*=f32").gemm, Format::f32);
  EXPECT_EQ(policy_from_text("gemm=f64").attention, attest::Policy(Format::f32));
  for (const char* text : {"f32", "f16,gemm=f16", "bf16-all", "f16-all,gemm=f32", "f16,softmax=f16"})
    EXPECT_EQ(policy_from_text(to_text(policy_from_text(text))), policy_from_text(text)) << text;
  EXPECT_NE(message([] { (void)policy_from_text("f16,gemms=f16"); }), "nothing thrown");
  EXPECT_NE(message([] { (void)policy_from_text("f16,gemm=f17"); }), "nothing thrown");
  EXPECT_NE(message([] { (void)policy_from_text("f16,gemm=tf32"); }), "nothing thrown");
}

TEST(MhaContract, IsReadBackFromItsObject) {
  const Policy policy = policy_from_text("f16,gemm=f16");
  for (const char* text :
       {R"({})", R"({"gemm_chain":12})", R"({"gemm_chain":{"lanes":8,"block":4},"heads":["rounded","unrounded"]})",
        R"({"projections":["unrounded","separate"],"drops_b_k":true,"exp2":false,"empty_row":"zero"})"}) {
    const Contract contract = contract_from_json(nlohmann::json::parse(text), policy);
    const nlohmann::ordered_json written = to_json(contract);
    EXPECT_EQ(contract_from_json(nlohmann::json::parse(written.dump()), policy), contract) << written.dump();
  }
  const auto refused = [&](const char* text) {
    return message([&] { (void)contract_from_json(nlohmann::json::parse(text), policy); });
  };
  EXPECT_EQ(refused(R"({"projections":[]})"),
            "contract: projections must be one or more of unrounded, rounded, separate");
  EXPECT_EQ(refused(R"({"heads":"separate"})"), "contract: heads must be one or more of rounded, unrounded");
  EXPECT_EQ(refused(R"({"gemm_chain":{"rows":2}})"), "contract: gemm_chain has lanes and block, no rows");
  EXPECT_EQ(refused(R"({"gemm_chain":-1})"), "contract: gemm_chain must be an integer in 0..1048576");
  EXPECT_EQ(refused(R"({"flush_to_zero":true,"mma":"ampere"})"), "nothing thrown");
  EXPECT_NE(refused(R"({"unheard_of":1})"), "nothing thrown");
}

TEST(MhaContract, ChainsGrowWithTheSum) {
  EXPECT_EQ((Chain{7, 0, 1}.depth(1000)), 7);
  EXPECT_EQ((Chain{0, 8, 1}.depth(64)), 8 + 3);
  EXPECT_EQ((Chain{0, 8, 1}.depth(65)), 9 + 3);
  EXPECT_EQ((Chain{0, 4, 8}.depth(512)), 16 + 2 + 3);
  EXPECT_EQ((Chain{0, 1, 1}.depth(5)), 5);
}

Problem some_problem(Weights weights) {
  Problem p = problem_from_text("b=2 l=3 m=5 e=24 heads=4 kv_heads=2 head_dim=6 dtype=f16 seed=9");
  p.weights = weights;
  return p;
}

TEST(MhaInputs, HoldNumbersOfTheirTypeInEveryRegime) {
  for (int n = 0; n <= static_cast<int>(Weights::selection); ++n) {
    const Problem p = some_problem(static_cast<Weights>(n));
    const Values v = draw_values(p);
    for (const auto* values : {&v.x, &v.memory, &v.w_q, &v.w_k, &v.w_v, &v.w_out, &v.b_q, &v.b_k, &v.b_v, &v.b_out})
      for (const double value : *values) ASSERT_EQ(value, round_to(p.dtype, value)) << n;
    ASSERT_EQ(v.x.size(), 2u * 3 * 24);
    ASSERT_EQ(v.memory.size(), 2u * 5 * 24);
    ASSERT_EQ(v.w_q.size(), 24u * 24);
    ASSERT_EQ(v.w_v.size(), 12u * 24);
    ASSERT_EQ(v.w_out.size(), 24u * 24);
    ASSERT_EQ(v.b_out.size(), 24u);
  }
}

TEST(MhaInputs, OneHotRowsPickOneElementEach) {
  const Values v = draw_values(some_problem(Weights::one_hot));
  for (std::size_t row = 0; row < 24; ++row) {
    int picked = 0;
    for (std::size_t c = 0; c < 24; ++c) picked += v.w_q[row * 24 + c] != 0;
    EXPECT_EQ(picked, 1);
  }
}

TEST(MhaInputs, PairsCancelAtTheTwoEnds) {
  const Problem p = some_problem(Weights::cancelling);
  const Values v = draw_values(p);
  EXPECT_GE(std::fabs(v.x[0]), 64);
  EXPECT_EQ(v.x[0], v.x[23]);
  EXPECT_NE(v.w_q[0], 0);
  EXPECT_EQ(v.w_q[0], -v.w_q[23]);
}

TEST(MhaInputs, PackedWeightsAreViewsOfOneBuffer) {
  Problem p = some_problem(Weights::dense);
  const Inputs apart = materialise(p);
  p.packed = true;
  const Inputs packed = materialise(p).clone();
  const Tensor out = mha::make_out(p);
  const Call one = apart.call(out), other = packed.call(out);
  EXPECT_FALSE(packed.w_k.present());
  for (const auto& [a, b] : {std::pair{one.w_q, other.w_q}, {one.w_k, other.w_k}, {one.w_v, other.w_v}}) {
    ASSERT_EQ(a.shape[0], b.shape[0]);
    for (Index i = 0; i < a.shape[0]; ++i)
      for (Index j = 0; j < a.shape[1]; ++j) EXPECT_EQ(load(a, i, j), load(b, i, j));
  }
  for (Index i = 0; i < one.b_v.shape[0]; ++i) EXPECT_EQ(load(one.b_v, i), load(other.b_v, i));
  EXPECT_EQ(static_cast<std::byte*>(other.w_k.data), static_cast<std::byte*>(other.w_q.data));
}

TEST(MhaInputs, MasksComeInEveryForm) {
  Problem p = some_problem(Weights::dense);
  p.padding = Padding::rows;
  EXPECT_EQ(materialise(p).keep.strides()[1], 15);
  p.padding = Padding::scattered;
  EXPECT_EQ(materialise(p).keep.strides()[1], 0);
  p.padding = Padding::some_zero;
  bool zero = false;
  for (p.seed = 1; p.seed < 20; ++p.seed) zero = zero || materialise(p).kv_lengths.at(0) == 0;
  EXPECT_TRUE(zero);
  p.self = true;
  p.m = p.l;
  const Inputs inputs = materialise(p);
  const Tensor out = mha::make_out(p);
  EXPECT_FALSE(inputs.memory.present());
  EXPECT_EQ(inputs.call(out).memory.data, inputs.call(out).x.data);
}

}  // namespace
}  // namespace attest::mha
