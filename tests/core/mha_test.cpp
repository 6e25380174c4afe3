// The problem, the contract and the tensors of an attention block.
#include "core/mha/call.hpp"
#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "core/mha/offer.hpp"
#include "core/mha/weights.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
  p.bias = Bias::minus_inf;
  p.x_layout = Layout::tokens_first;
  p.weight_layout = Layout::transposed;
  p.out_layout = Layout::far;
  p.l0 = 7;
  p.edits = {{Edit::Tensor::w_k, {11, 23, 0, 0}, -0.5}, {Edit::Tensor::b_out, {23, 0, 0, 0}, 0}};
  p.biases = Biases::in;
  p.weights = Weights::cancelling;
  p.amplitude = 2;
  p.seed = ~std::uint64_t{0};
  p.biases = Biases::all;
  EXPECT_EQ(problem_from_text(to_text(p)), p);
  EXPECT_EQ(problem_from_json(nlohmann::json::parse(to_json(p).dump())), p);
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
  EXPECT_EQ(refusal("l=2 l=3"), "problem: l is given twice");
  EXPECT_EQ(refusal("l"), "problem: 'l' is not key=value");
  EXPECT_EQ(refusal("amplitude=0x0p+0"), "problem: amplitude must be above 0");
  EXPECT_EQ(refusal("op=attention"), "problem: op=attention is another operation: here it must be mha");
  EXPECT_NE(refusal("out_layout=broadcast"), "nothing thrown");
  EXPECT_NE(refusal("weight_layout=tokens_first"), "nothing thrown");
  EXPECT_EQ(refusal("edits=w_q[0]:0x1p+0").substr(0, 24), "problem: edit 'w_q[0]:0x");
  EXPECT_EQ(refusal("edits=w_q[0,1]:0x1p+0"), "problem: edit w_q[0,1]:0x1p+0 lies outside its tensor");
  EXPECT_EQ(refusal("self=1 edits=memory[0,0,0]:0x1p+0"),
            "problem: edit memory[0,0,0]:0x1p+0 is of a tensor that is not there");
  EXPECT_EQ(refusal("padding=ragged edits=kv_lengths[0]:0x1p+1"),
            "problem: edit kv_lengths[0]:0x1p+1: a length is an integer in 0..1");
  EXPECT_EQ(refusal("width=3").substr(0, 46), "problem: mha has no field 'width': it has b, l");
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
  const std::string refused = message([] { (void)policy_from_text("f16,gemms=f16"); });
  EXPECT_NE(refused.find("'gemms' matches no stage of mha: the stages are storage"), std::string::npos) << refused;
  EXPECT_NE(refused.find(", gemm"), std::string::npos) << refused;
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

// An element that is not set by hand is 0, in self- and in cross-attention.
TEST(MhaValues, ZeroLeavesEverythingToEdits) {
  for (const bool self : {false, true}) {
    Problem p = some_problem(Weights::zero);
    p.self = self;
    if (self) p.m = p.l;
    p.edits = {{Edit::Tensor::w_v, {0, 0, 0, 0}, 2}};
    const Problem again = problem_from_text(to_text(p));
    EXPECT_EQ(again, p);
    const Inputs inputs = materialise(again);
    for (const auto& [name, tensor] : inputs.named()) {
      if (name == "keep" || name == "kv_lengths" || name == "bias") continue;
      double sum = 0;
      for (Index a = 0; a < tensor.shape()[0]; ++a)
        for (Index b = 0; b < (tensor.shape().size() > 1 ? tensor.shape()[1] : 1); ++b)
          for (Index c = 0; c < (tensor.shape().size() > 2 ? tensor.shape()[2] : 1); ++c)
            sum += std::fabs(tensor.at(a, b, c));
      EXPECT_EQ(sum, name == "w_v" || (p.packed && name == "w_q") ? 2 : 0) << name;
    }
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

// ---- layouts, origins and edits -------------------------------------------------------------------------------------

// Every element of the call's inputs, in the order of their indices.
std::vector<double> elements(const Inputs& inputs) {
  const Tensor none;
  const Call call = inputs.call(none);
  std::vector<double> all;
  for (const attest_tensor* t : {&call.x, &call.memory, &call.w_q, &call.w_k, &call.w_v, &call.w_out, &call.b_q,
                                 &call.b_k, &call.b_v, &call.b_out}) {
    if (!attest_present(t)) continue;
    const Index n1 = t->ndim > 1 ? t->shape[1] : 1, n2 = t->ndim > 2 ? t->shape[2] : 1;
    for (Index i = 0; i < t->shape[0]; ++i)
      for (Index j = 0; j < n1; ++j)
        for (Index c = 0; c < n2; ++c) all.push_back(load(*t, i, j, c));
  }
  return all;
}

TEST(MhaInputs, LieAsTheirLayoutSaysAndHoldTheSame) {
  for (const bool packed : {false, true}) {
    Problem p = some_problem(Weights::dense);
    p.packed = packed;
    const std::vector<double> plain = elements(materialise(p));
    for (int layout = 0; layout < static_cast<int>(Layout::broadcast); ++layout) {
      p.x_layout = p.memory_layout = p.out_layout = static_cast<Layout>(layout);
      p.weight_layout = layout < static_cast<int>(matrix_layout_count) ? p.x_layout : Layout::contiguous;
      EXPECT_EQ(elements(materialise(p)), plain) << layout;
    }
    p.x_layout = Layout::tokens_first;
    const Inputs inputs = materialise(p);
    EXPECT_EQ(inputs.x.strides()[0], p.e);
    EXPECT_EQ(inputs.x.strides()[1], p.b * p.e);
    p.x_layout = Layout::broadcast;
    const Inputs shared = materialise(p);
    EXPECT_EQ(shared.x.at(0, 2, 5), shared.x.at(1, 2, 5));
  }
}

TEST(MhaInputs, OfACutAreThoseOfTheWhole) {
  Problem whole = some_problem(Weights::cancelling);
  whole.padding = Padding::rows;
  whole.bias = Bias::normal;
  Problem cut = whole;
  cut.b0 = 1;
  cut.b = 1;
  cut.l0 = 1;
  cut.l = 2;
  cut.m0 = 2;
  cut.m = 3;
  const Inputs all = materialise(whole), part = materialise(cut);
  for (Index c = 0; c < whole.e; ++c) {
    for (Index i = 0; i < 2; ++i) EXPECT_EQ(part.x.at(0, i, c), all.x.at(1, 1 + i, c));
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(part.memory.at(0, j, c), all.memory.at(1, 2 + j, c));
  }
  for (Index h = 0; h < whole.heads; ++h)
    for (Index i = 0; i < 2; ++i)
      for (Index j = 0; j < 3; ++j) {
        EXPECT_EQ(part.keep.at(0, h, i, j), all.keep.at(1, h, 1 + i, 2 + j));
        EXPECT_EQ(part.bias.at(0, h, i, j), all.bias.at(1, h, 1 + i, 2 + j));
      }
}

TEST(MhaInputs, TakeEdits) {
  for (const bool packed : {false, true}) {
    Problem p = some_problem(Weights::dense);
    p.packed = packed;
    const std::vector<double> plain = elements(materialise(p));
    p.edits = {{Edit::Tensor::w_v, {11, 3, 0, 0}, 5},
               {Edit::Tensor::b_k, {2, 0, 0, 0}, 7},
               {Edit::Tensor::x, {1, 2, 4, 0}, 9}};
    const Inputs inputs = materialise(p);
    const Tensor none;
    const Call call = inputs.call(none);
    EXPECT_EQ(load(call.w_v, 11, 3), 5);
    EXPECT_EQ(load(call.b_k, 2), 7);
    EXPECT_EQ(load(call.x, 1, 2, 4), 9);
    const std::vector<double> edited = elements(inputs);
    int changed = 0;
    for (std::size_t n = 0; n < plain.size(); ++n) changed += plain[n] != edited[n];
    EXPECT_EQ(changed, 3);
  }
}

TEST(MhaInputs, BiasesComeInEveryForm) {
  Problem p = some_problem(Weights::dense);
  p.bias = Bias::normal;
  EXPECT_EQ(materialise(p).bias.strides()[1], 15);
  p.bias = Bias::minus_inf;
  const Inputs inputs = materialise(p);
  EXPECT_EQ(inputs.bias.strides()[0], 0);
  int closed = 0;
  for (Index i = 0; i < p.l; ++i)
    for (Index j = 0; j < p.m; ++j) {
      const double value = inputs.bias.at(1, 3, i, j);
      EXPECT_TRUE(value == 0 || value == -std::numeric_limits<double>::infinity());
      closed += value != 0;
    }
  EXPECT_GT(closed, 0);
}

// ---- calls, and what a subject takes --------------------------------------------------------------------------------

TEST(MhaCall, IsTheSameThroughThePlugInsStruct) {
  for (const bool self : {false, true}) {
    Problem p = some_problem(Weights::dense);
    p.self = self;
    if (self) p.m = p.l;
    p.causal = true;
    p.align = Align::bottom_right;
    p.padding = Padding::rows;
    p.bias = Bias::shared;
    p.threads = 3;
    const Inputs inputs = materialise(p);
    const Tensor out = make_out(p);
    const StageOutputs stages = make_stages(p, DType::f32);
    Call call = inputs.call(out);
    call.stages = stages.views();
    const attest_mha abi = as_plugin(call, self);
    EXPECT_EQ(attest_present(&abi.memory) != 0, !self);
    EXPECT_EQ(abi.flags, ATTEST_SCALE_IS_DEFAULT);
    EXPECT_EQ(abi.struct_size, sizeof abi);
    const Call back = from_plugin(abi);
    EXPECT_EQ(back.memory.data, call.memory.data);
    EXPECT_EQ(back.m(), call.m());
    EXPECT_EQ(back.w_v.byte_offset, call.w_v.byte_offset);
    EXPECT_EQ(back.bias.data, call.bias.data);
    EXPECT_EQ(back.keep.data, call.keep.data);
    EXPECT_EQ(back.stages.heads.data, call.stages.heads.data);
    EXPECT_EQ(back.stages.q.data, call.stages.q.data);
    EXPECT_EQ(back.heads, 4);
    EXPECT_EQ(back.kv_heads, 2);
    EXPECT_EQ(back.head_dim, 6);
    EXPECT_EQ(back.scale, call.scale);
    EXPECT_TRUE(back.causal && back.scale_is_default);
    EXPECT_EQ(back.align, Align::bottom_right);
    EXPECT_EQ(back.threads, 3);
    const attest::Call any(abi);
    EXPECT_EQ(any.shape().op, "mha");
    EXPECT_EQ(any.first().data, call.x.data);
  }
}

TEST(MhaSupports, SayWhyAProblemIsNotAsked) {
  const Format f32 = Format::f32;
  const auto why = [&](const std::string& line, auto change) {
    Supports s;
    change(s);
    return declined(problem_from_text(line), s, {&f32, 1}).value_or("asked");
  };
  const auto nothing = [](Supports&) {};
  EXPECT_EQ(why("", nothing), "asked");
  EXPECT_EQ(why("dtype=f16", nothing), "the subject does not offer dtype f16");
  EXPECT_EQ(why("x_layout=far", nothing), "the subject takes offsets of 32 bits alone, also in x");
  EXPECT_EQ(why("e=12", [](Supports& s) { s.e.multiple = 8; }), "the subject takes e from 1 in multiples of 8");
  EXPECT_EQ(why("e=12", [](Supports& s) { s.heads_fill_e = true; }), "the subject takes heads * head_dim = e alone");
  EXPECT_EQ(why("heads=2", [](Supports& s) { s.gqa = false; }),
            "the subject takes as many key/value heads as query heads alone");
  EXPECT_EQ(why("", [](Supports& s) { s.cross = false; }), "the subject does self-attention alone");
  EXPECT_EQ(why("self=1", [](Supports& s) { s.self = false; }), "the subject takes a memory other than x alone");
  EXPECT_EQ(why("biases=out", [](Supports& s) { s.no_in_biases = false; }), "the subject needs b_q, b_k and b_v");
  EXPECT_EQ(why("biases=out", [](Supports& s) { s.out_bias = false; }), "the subject takes no b_out");
  EXPECT_EQ(why("causal=1", [](Supports& s) { s.top_left = false; }),
            "the subject takes no diagonal from the top left corner");
  EXPECT_EQ(why("bias=normal", [](Supports& s) { s.bias = false; }), "the subject takes no bias of scores");
  EXPECT_EQ(why("padding=rows", [](Supports& s) { s.keep = false; }), "the subject takes no keep mask");
  EXPECT_EQ(why("padding=ragged", [](Supports& s) { s.kv_lengths = false; }), "the subject takes no key lengths");
  EXPECT_EQ(why("scale=0x1p+0", [](Supports& s) { s.scale = Supports::Scale::only_default; }),
            "the subject takes the default scale alone");
  const auto contiguous = [](Supports& s) { s.strides = Strides::contiguous; };
  EXPECT_EQ(why("x_layout=odd_base", contiguous), "asked");
  EXPECT_EQ(why("out_layout=tokens_first", contiguous), "the subject takes contiguous tensors alone, also as out");
  EXPECT_EQ(why("padding=scattered", contiguous), "the subject takes contiguous tensors alone, also as keep");
  const auto rows = [](Supports& s) { s.strides = Strides::last_dim_contiguous; };
  EXPECT_EQ(why("x_layout=tokens_first", rows), "asked");
  EXPECT_EQ(why("weight_layout=transposed", rows),
            "the subject takes tensors with a contiguous last axis alone, also as w_q, w_k and w_v");
}

}  // namespace
}  // namespace attest::mha
