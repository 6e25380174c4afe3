// Calls of mha apart from a campaign: they are saved, judged, bounded and compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/mha/problem.hpp"
#include "engine/judge.hpp"
#include "engine/tolerance.hpp"
#include "ops/mha.hpp"
#include "properties/trial.hpp"
#include "subjects/builtin.hpp"
#include "tests/engine/saved_arrays.hpp"

namespace attest {
namespace {

using ops::Exchange;
using Type = NamedArray::Type;

const ops::Op& op = ops::mha_op();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const char* const blocks[] = {"builtin:mha-explicit", "builtin:mha-separate", "builtin:mha-fused",
                              "builtin:mha-unrounded"};
const char* const faults[] = {"fault:mha-qkv-order", "fault:mha-bias-missing", "fault:mha-head-transpose",
                              "fault:mha-gemm-f16",  "fault:mha-softmax-f16",  "fault:mha-layout-misread"};

std::unique_ptr<SubjectFactory> factory_of(const std::string& subject, Format dtype) {
  return builtin_subject(subject, std::string(name(dtype)));
}
ops::Contract contract_of(const SubjectFactory& factory, Format dtype) { return op.contract(factory.info(), dtype); }
ops::Contract contract_of(const std::string& policy, const std::string& numbers = "{}") {
  return op.contract_from_json(nlohmann::json::parse(numbers), op.policy_from_text(policy));
}

// The call of a problem, answered.
std::unique_ptr<Exchange> answered(const ops::Problem& problem, const SubjectFactory& factory) {
  auto exchange = op.exchange(problem);
  EXPECT_EQ(factory.open()->run_one(exchange->call()).status, CallStatus::done);
  return exchange;
}
// An exchange with the stages that the subject gives.
std::unique_ptr<Exchange> answered_with_stages(const ops::Problem& problem, const SubjectFactory& factory) {
  auto exchange = op.exchange(problem);
  const ops::Law* law = ops::find_law("stage-bound", op);
  EXPECT_TRUE(exchange->ask_for(*law, op.contract(factory.info(), problem), factory.info()));
  EXPECT_EQ(factory.open()->run_one(exchange->call()).status, CallStatus::done);
  return exchange;
}

// A saved call as a user would write it.
Saved saved(const Exchange& exchange, Format dtype) {
  const auto& p = exchange.problem().as<mha::Problem>();
  Saved s;
  s.op = &op;
  s.policy = name(dtype);
  const auto put = [&](const ops::NamedTensor& tensor, std::vector<NamedArray>& to) {
    const DType type = tensor.tensor->dtype();
    to.push_back(array_of(tensor, type == DType::i32       ? Type::i32
                                  : type == DType::boolean ? Type::boolean
                                  : type == DType::f16     ? Type::f16
                                  : type == DType::f64     ? Type::f64
                                                           : Type::f32));
  };
  for (const ops::NamedTensor& input : exchange.inputs()) put(input, s.inputs);
  for (const ops::NamedTensor& output : exchange.outputs()) put(output, s.outputs);
  s.words["heads"] = std::to_string(p.heads);
  s.words["kv-heads"] = std::to_string(p.kv_heads);
  if (p.scale) s.words["scale"] = hex_float(*p.scale);
  if (p.causal) s.words["causal"] = "";
  s.words["align"] = p.align == Align::top_left ? "top_left" : "bottom_right";
  return s;
}

// The first problems of a campaign on a subject that are not large.
std::vector<ops::Problem> drawn(const SubjectFactory& factory, Format dtype, std::size_t count, std::uint64_t seed) {
  const auto domain = op.domain(ops::Supports(factory.info()), {dtype});
  std::vector<ops::Problem> all;
  for (std::uint64_t n = 0; all.size() < count; ++n)
    if (ops::Problem problem = domain->draw(seed, n, 1).problem; work_of(problem) < 1 << 15) all.push_back(problem);
  return all;
}

// ---- judge ----------------------------------------------------------------------------------------------------------

TEST(MhaJudge, HoldsWhatConformingBlocksReturn) {
  int passed = 0;
  for (const char* block : blocks)
    for (const Format dtype : {Format::f32, Format::f16, Format::bf16}) {
      const auto factory = factory_of(block, dtype);
      const ops::Contract contract = contract_of(*factory, dtype);
      for (const ops::Problem& problem : drawn(*factory, dtype, 12, 5)) {
        SCOPED_TRACE(std::string(block) + " " + to_text(problem));
        const auto exchange = answered(problem, *factory);
        const Verdict own = exchange->judge(contract);
        EXPECT_NE(own.kind, VerdictKind::fail);
        const engine::Judgement judgement = saved(*exchange, dtype).judged(contract);
        EXPECT_EQ(judgement.verdict.kind, own.kind);
        EXPECT_EQ(judgement.verdict.counts.judged, own.counts.judged);
        passed += own.kind == VerdictKind::pass;
      }
    }
  EXPECT_GT(passed, 100);
}

TEST(MhaJudge, FailsEveryFaultAsThePolicyBoundDoes) {
  for (const char* fault : faults) {
    const auto factory = factory_of(fault, Format::f16);
    const ops::Contract contract = contract_of(*factory, Format::f16);
    int failed = 0;
    for (const ops::Problem& problem : drawn(*factory, Format::f16, 120, 3)) {
      const auto exchange = answered(problem, *factory);
      const Verdict own = exchange->judge(contract);
      if (own.kind != VerdictKind::fail) continue;
      const engine::Judgement judgement = saved(*exchange, Format::f16).judged(contract);
      ASSERT_EQ(judgement.verdict.kind, VerdictKind::fail) << fault << " " << to_text(problem);
      EXPECT_EQ(judgement.verdict.evidence->index, own.evidence->index);
      EXPECT_EQ(judgement.verdict.evidence->lo, own.evidence->lo);
      EXPECT_GE(judgement.survey->outside, 1);
      if (++failed == 5) break;
    }
    EXPECT_GE(failed, 1) << fault;
  }
}

constexpr const char* whole =
    "op=mha b=2 l=3 m=5 e=6 heads=4 kv_heads=2 head_dim=2 dtype=f16 packed=1 causal=1 padding=scattered bias=normal "
    "biases=all "
    "weights=dense seed=3";
constexpr const char* plain =
    "op=mha b=2 l=40 m=40 e=8 heads=2 kv_heads=2 head_dim=4 dtype=f32 self=1 biases=all weights=dense seed=4";

TEST(MhaJudge, CountsWhatIsWrong) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f32);
  const auto exchange = answered(ops::problem_from_text(plain), *factory);
  Saved s = saved(*exchange, Format::f32);
  s.outputs[0].bytes[4 * 100 + 3] ^= std::byte{0x80};  // the sign of element 100
  const engine::Judgement one = s.judged(contract_of(*factory, Format::f32));
  ASSERT_EQ(one.verdict.kind, VerdictKind::fail);
  EXPECT_EQ(one.survey->outside, 1);
  EXPECT_EQ(one.survey->inside, 2 * 40 * 8 - 1);
  EXPECT_EQ(one.survey->worst.index, (std::array<std::int64_t, 4>{0, 100 / 8, 100 % 8, 0}));
  for (const char* word : {"causal", "scale"}) {
    Saved other = saved(*exchange, Format::f32);
    other.words[word] = "0.25";
    EXPECT_EQ(other.judged(contract_of(*factory, Format::f32)).verdict.kind, VerdictKind::fail) << word;
  }
  Saved lost = saved(*exchange, Format::f32);
  const float number = static_cast<float>(nan);
  std::memcpy(&lost.outputs[0].bytes[0], &number, sizeof number);
  EXPECT_EQ(lost.judged(contract_of(*factory, Format::f32)).verdict.evidence->wrong, Wrong::nan);
}

// The axes of saved arrays may lie otherwise; nothing else changes.
NamedArray transposed(NamedArray array, std::size_t axis) {
  const NamedArray from = array;
  std::array<Index, 4> n{1, 1, 1, 1};
  std::ranges::copy(from.shape, n.begin());
  std::swap(array.shape[axis], array.shape[axis + 1]);
  const std::size_t size = from.bytes.size() / static_cast<std::size_t>(from.size());
  std::size_t at = 0;
  std::array<Index, 4> m{1, 1, 1, 1}, i{};
  std::ranges::copy(array.shape, m.begin());
  for (i[0] = 0; i[0] < m[0]; ++i[0])
    for (i[1] = 0; i[1] < m[1]; ++i[1])
      for (i[2] = 0; i[2] < m[2]; ++i[2])
        for (i[3] = 0; i[3] < m[3]; ++i[3]) {
          std::array<Index, 4> old = i;
          std::swap(old[axis], old[axis + 1]);
          const auto flat = static_cast<std::size_t>(((old[0] * n[1] + old[1]) * n[2] + old[2]) * n[3] + old[3]);
          std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>(flat * size), size,
                      array.bytes.begin() + static_cast<std::ptrdiff_t>(at));
          at += size;
        }
  return array;
}
NamedArray& named(std::vector<NamedArray>& arrays, std::string_view name) {
  return *std::ranges::find(arrays, name, &NamedArray::name);
}
// Rows one below the other.
NamedArray joined(const NamedArray& a, const NamedArray& b, const NamedArray& c) {
  NamedArray all = a;
  for (const NamedArray* one : {&b, &c}) {
    all.shape[0] += one->shape[0];
    all.bytes.insert(all.bytes.end(), one->bytes.begin(), one->bytes.end());
  }
  return all;
}

TEST(MhaSaved, TakesOtherAxesPackedWeightsAndPaddingMasks) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f16);
  const ops::Contract contract = contract_of(*factory, Format::f16);
  const auto exchange = answered_with_stages(ops::problem_from_text(whole), *factory);
  const Saved original = saved(*exchange, Format::f16);
  const engine::Judgement right = original.judged(contract);
  ASSERT_EQ(right.verdict.kind, VerdictKind::pass);
  const auto same = [&](const std::function<void(Saved&)>& change) {
    Saved s = original;
    change(s);
    const engine::Judgement judgement = s.judged(contract);
    EXPECT_EQ(judgement.verdict.kind, VerdictKind::pass);
    EXPECT_EQ(judgement.verdict.counts.judged, right.verdict.counts.judged);
    // A wrong number is found there, too.
    std::ranges::find(s.outputs, "out", &NamedArray::name)->bytes[1] ^= std::byte{0x80};
    EXPECT_EQ(s.judged(contract).verdict.kind, VerdictKind::fail);
  };
  same([](Saved& s) {
    for (NamedArray* array :
         {&named(s.inputs, "x"), &named(s.inputs, "memory"), &named(s.outputs, "out"), &named(s.outputs, "heads")})
      *array = transposed(*array, 0);
    s.words["layout"] = "lbe";
  });
  same([](Saved& s) {
    named(s.inputs, "w_q") = transposed(named(s.inputs, "w_q"), 0);
    named(s.outputs, "k") = transposed(named(s.outputs, "k"), 1);
    s.words["layout"] = "w_q=io,k=blhd";
  });
  same([](Saved& s) {  // as a projection leaves it
    NamedArray& q = named(s.outputs, "q");
    q = transposed(q, 1);
    q.shape = {2, 3, 8};
  });
  same([](Saved& s) {
    const NamedArray w = joined(named(s.inputs, "w_q"), named(s.inputs, "w_k"), named(s.inputs, "w_v")),
                     b = joined(named(s.inputs, "b_q"), named(s.inputs, "b_k"), named(s.inputs, "b_v"));
    std::erase_if(s.inputs, [](const NamedArray& a) { return a.name[0] == 'w' && a.name != "w_out"; });
    std::erase_if(s.inputs, [](const NamedArray& a) { return a.name[0] == 'b' && a.name.size() == 3; });
    s.inputs.push_back(w);
    s.inputs.back().name = "in_proj_weight";
    s.inputs.push_back(b);
    s.words["w_q"] = "in_proj_weight";
  });
  same([](Saved& s) {  // drawn over [b,1,1,m]
    const NamedArray keep = named(s.inputs, "keep");
    std::erase_if(s.inputs, [](const NamedArray& a) { return a.name == "keep"; });
    NamedArray padding = keep;
    padding.name = "key_padding";
    padding.shape = {2, 5};
    padding.bytes.clear();
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t j = 0; j < 5; ++j) padding.bytes.push_back(keep.bytes[b * 4 * 3 * 5 + j] ^ std::byte{1});
    s.inputs.push_back(padding);
  });
  same([](Saved& s) {  // a half is a float, too
    const auto again = op.exchange(ops::problem_from_text(whole));
    for (const ops::NamedTensor& input : again->inputs())
      if (input.name == "x") named(s.inputs, "x") = array_of(input, Type::f32);
  });
}

// Inputs alone have a bound, the same as with outputs, which say nothing of it.
TEST(MhaSaved, InputsAloneAreBounded) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f16);
  const ops::Contract contract = contract_of(*factory, Format::f16);
  const Saved s = saved(*answered(ops::problem_from_text(whole), *factory), Format::f16);
  const ops::SavedCall with = s.call();
  ops::SavedWords words{[&](std::string_view key) {
                          const auto found = s.words.find(key);
                          return found == s.words.end() ? std::nullopt : std::optional(found->second);
                        },
                        [&](std::string_view key) { return s.words.contains(key); },
                        [](std::string_view key) { return std::string(key); },
                        [&](std::string_view key, std::uint64_t, std::uint64_t) {
                          const auto found = s.words.find(key);
                          return found == s.words.end() ? std::nullopt
                                                        : std::optional<std::uint64_t>(std::stoull(found->second));
                        },
                        false};
  const ops::SavedCall without = op.saved_call(s.inputs, {}, op.policy_from_text("f16"), words);
  const engine::Spread a = engine::spread_of(*with.exchange, contract),
                       b = engine::spread_of(*without.exchange, contract);
  ASSERT_EQ(a.ranges.size(), b.ranges.size());
  ASSERT_GT(a.ranges.size(), 0u);
  for (std::size_t i = 0; i < a.ranges.size(); ++i) {
    EXPECT_EQ(a.ranges[i].lo, b.ranges[i].lo);
    EXPECT_EQ(a.ranges[i].hi, b.ranges[i].hi);
  }
  words.answered = true;
  EXPECT_THROW((void)op.saved_call(s.inputs, {}, op.policy_from_text("f16"), words), Error);
}

TEST(MhaSaved, NamesWhatDoesNotFit) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f16);
  const auto exchange = answered_with_stages(ops::problem_from_text(whole), *factory);
  const auto says = [&](const std::function<void(Saved&)>& change, const std::string& words) {
    Saved s = saved(*exchange, Format::f16);
    change(s);
    const std::string said = s.refusal();
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  const auto drop = [](std::string_view name) {
    return [name](Saved& s) { std::erase_if(s.inputs, [&](const NamedArray& a) { return a.name == name; }); };
  };
  const auto shape = [](std::string_view name, std::vector<Index> shape) {
    return [=](Saved& s) {
      named(name == "out" || name == "q" || name == "heads" ? s.outputs : s.inputs, name).shape = shape;
    };
  };
  says([](Saved&) {}, "(taken)");
  says([](Saved& s) { s.words.erase("heads"); }, "mha needs --heads N");
  says([](Saved& s) { s.words["heads"] = "3"; }, "--kv-heads 2 does not divide --heads 3");
  says([](Saved& s) { s.words["heads"] = s.words["kv-heads"] = "3"; },
       "w_q is f16 [8, 6]: it must be [3 x head_dim, 6]");
  says(drop("x"), "the inputs hold no array x: they hold memory");
  says(drop("w_out"), "no array w_out");
  says(drop("w_k"), "the inputs hold no w_k");
  says([](Saved& s) { s.outputs.clear(); }, "the outputs hold no array out: they hold none");
  says(shape("x", {6, 6}), "x is f16 [6, 6]: it must have three axes");
  says(shape("memory", {5, 2, 6}), "memory is f16 [5, 2, 6]: it must be [2, 2, 6]");
  says(shape("w_v", {6, 4}), "w_v is f16 [6, 4]: it must be [4, 6], by --kv-heads 2");
  says(shape("w_out", {8, 6}), "w_out is f16 [8, 6]: it must be [6, 8]");
  says(shape("b_q", {4, 2}), "b_q is f16 [4, 2]: it must be [8], or [16] where it holds b_q, b_k and b_v");
  says(shape("out", {3, 2, 6}), "out is f16 [3, 2, 6]: it must be [2, 3, 6], as x is");
  says(shape("q", {2, 3, 2, 4}), "q is f16 [2, 3, 2, 4]: it must be [2, 4, 3, 2]");
  says(shape("heads", {2, 8, 3}), "heads is f16 [2, 8, 3]: it must be [2, 3, 8], the concatenated heads");
  says([](Saved& s) { s.words["layout"] = "bhld,bhld"; }, "--layout bhld,bhld: each item must be");
  says([](Saved& s) { s.words["layout"] = "x=io"; }, "--layout x=io: each item must be");
  says([](Saved& s) { s.words["layout"] = "lbe"; }, "memory is f16 [2, 5, 6], read as [5, 2, 6]: it must be [3, 2, 6]");
  says([](Saved& s) { s.words["align"] = "left"; }, "it must be top_left or bottom_right");
  says([](Saved& s) { s.words["b_out"] = "bias_of_out"; }, "no array bias_of_out");
  says([](Saved& s) { s.inputs.push_back(s.inputs[0]), s.inputs.back().name = "mask"; }, "mask that nothing asks for");
  says([](Saved& s) { named(s.inputs, "x").type = Type::i64; }, "must be f16, bf16, f32 or f64");
  says([](Saved& s) { named(s.inputs, "w_k").bytes[1] = std::byte{0x7e}; }, "w_k[0,0] is nan: nothing is known");
  says([](Saved& s) { named(s.inputs, "x").bytes[1] = std::byte{0x7c}, named(s.inputs, "x").bytes[0] = std::byte{0}; },
       "x[0,0,0] is inf");
  says([](Saved& s) { s.policy = "bf16"; }, "which is no bf16: the policy says storage=bf16");
  says([](Saved& s) { named(s.inputs, "keep").type = Type::f16, named(s.inputs, "keep").shape = {1}; },
       "keep must be bool");
  says([](Saved& s) { named(s.inputs, "bias").shape = {4}; },
       "it must broadcast to the scores, [B,H,L,S] = [2, 4, 3, 5]");
  says(
      [](Saved& s) {
        s.inputs.push_back(named(s.inputs, "keep"));
        s.inputs.back().name = "key_padding";
      },
      "key_padding must be bool [2, 5]");
}

// A bias that a model leaves out beside others counts as zeros, which is said.
TEST(MhaSaved, ABiasThatIsMissingIsZero) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f32);
  ops::Problem problem = ops::problem_from_text(plain);
  for (Index n = 0; n < 8; ++n) problem.as<mha::Problem>().edits.push_back({mha::Edit::Tensor::b_k, {n, 0, 0, 0}, 0});
  Saved s = saved(*answered(problem, *factory), Format::f32);
  std::erase_if(s.inputs, [](const NamedArray& a) { return a.name == "b_k"; });
  EXPECT_EQ(s.judged(contract_of(*factory, Format::f32)).verdict.kind, VerdictKind::pass);
  const ops::SavedCall call = s.call();
  ASSERT_EQ(call.notes.size(), 1u);
  EXPECT_EQ(call.notes[0], "there is no b_k beside the other biases: it is taken as zeros");
}

// ---- stages ---------------------------------------------------------------------------------------------------------

TEST(MhaStages, EachIsHeldToThoseBefore) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f16);
  const ops::Contract contract = contract_of(*factory, Format::f16);
  const auto exchange = answered_with_stages(ops::problem_from_text(whole), *factory);
  const std::vector<ops::NamedTensor> outputs = exchange->outputs();
  ASSERT_EQ(outputs.size(), 5u);
  const engine::Judgement right = saved(*exchange, Format::f16).judged(contract);
  EXPECT_EQ(right.verdict.kind, VerdictKind::pass);
  for (const ops::NamedTensor& stage : outputs) {
    const attest_tensor view = stage.tensor->view();
    const double was = load(view, 0, 0, 0, 0);
    store(view, 0, 0, 0, 0, -was + 1);
    const engine::Judgement wrong = saved(*exchange, Format::f16).judged(contract);
    ASSERT_EQ(wrong.verdict.kind, VerdictKind::fail) << stage.name;
    EXPECT_EQ(wrong.verdict.evidence->tensor, stage.name);
    EXPECT_EQ(wrong.verdict.evidence->index, (std::array<std::int64_t, 4>{}));
    EXPECT_GE(wrong.survey->outside, 1);
    store(view, 0, 0, 0, 0, was);
  }
}

// A wrong stage whose consequences are right for what it is: out alone does not tell where it went wrong.
TEST(MhaStages, AFaultIsNamedWhereItArises) {
  const auto factory = factory_of("fault:mha-head-transpose", Format::f32);
  if (!factory->info().mha->supports.stage_heads) GTEST_SKIP() << "the fault gives no stages";
  const auto exchange = answered_with_stages(ops::problem_from_text(plain), *factory);
  const Verdict verdict = exchange->judge(contract_of(*factory, Format::f32));
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->tensor, "heads");
}

// ---- what is permitted, element by element, is what the verdict says ------------------------------------------------

TEST(MhaWalk, AgreesWithTheVerdict) {
  int failed = 0, passed = 0;
  for (const char* subject :
       {"builtin:mha-explicit", "builtin:mha-unrounded", "fault:mha-gemm-f16", "fault:mha-bias-missing"})
    for (const Format dtype : {Format::f32, Format::f16}) {
      const auto factory = factory_of(subject, dtype);
      for (const char* numbers :
           {"{}", R"({"projections":["rounded","unrounded","separate"],"heads":["rounded","unrounded"]})"}) {
        const ops::Contract contract = contract_of(std::string(name(dtype)), numbers);
        for (const ops::Problem& problem : drawn(*factory, dtype, 15, 11)) {
          SCOPED_TRACE(std::string(subject) + " " + to_text(problem) + numbers);
          const auto exchange = answered(problem, *factory);
          const Verdict verdict = exchange->judge(contract);
          std::int64_t outside = 0, all = 0;
          exchange->walk(contract, Index{1} << 40, [&](const ops::Permitted& at) {
            outside += at.outcome == oracle::Outcome::outside;
            EXPECT_EQ(at.evidence.has_value(), at.outcome == oracle::Outcome::outside);
            if (at.outcome == oracle::Outcome::inside) {
              const double got = exchange->outputs()[0].tensor->at(at.index[0], at.index[1], at.index[2]);
              EXPECT_LE(at.lo, got);
              EXPECT_GE(at.hi, got);
            }
            if (all++ % 7 != 0) return;
            const ops::Permitted again = exchange->element(contract, at.tensor, at.index);
            EXPECT_EQ(again.lo, at.lo);
            EXPECT_EQ(again.hi, at.hi);
            EXPECT_EQ(again.outcome, at.outcome);
          });
          EXPECT_EQ(outside > 0, verdict.kind == VerdictKind::fail);
          EXPECT_EQ(all, exchange->outputs()[0].tensor->size());
          ++(outside > 0 ? failed : passed);
        }
      }
    }
  EXPECT_GT(failed, 20);
  EXPECT_GT(passed, 60);
}

// Whichever way a block goes that the contract permits.
TEST(MhaBound, HoldsEveryConformingResult) {
  const ops::Contract contract =
      contract_of("f16", R"({"projections":["rounded","unrounded","separate"],"heads":["rounded","unrounded"]})");
  const ops::Problem problem = ops::problem_from_text(whole);
  const engine::Spread spread = engine::spread_of(problem, contract);
  ASSERT_EQ(spread.ranges.size(), 2u * 3u * 6u);
  EXPECT_TRUE(spread.all);
  for (const char* block : blocks) {
    const auto exchange = answered(problem, *factory_of(block, Format::f16));
    for (std::size_t n = 0; n < spread.ranges.size(); ++n) {
      const auto at = static_cast<Index>(n);
      const double got = exchange->outputs()[0].tensor->at(at / 18, at / 6 % 3, at % 6);
      EXPECT_LE(spread.ranges[n].lo, got) << block;
      EXPECT_GE(spread.ranges[n].hi, got) << block;
    }
  }
  EXPECT_GT(engine::least_atol(spread, engine::Reference::kernel, engine::Rule::sum, 0), 0);
  // One way leaves less room than all of them.
  const engine::Spread narrow = engine::spread_of(problem, contract_of("f16"));
  double sum = 0, of_all = 0;
  for (std::size_t n = 0; n < spread.ranges.size(); ++n) {
    sum += narrow.ranges[n].hi - narrow.ranges[n].lo;
    of_all += spread.ranges[n].hi - spread.ranges[n].lo;
  }
  EXPECT_LT(sum, of_all);
}

TEST(MhaBound, HoldsEveryStage) {
  const auto factory = factory_of("builtin:mha-explicit", Format::f16);
  const ops::Contract contract = contract_of(*factory, Format::f16);
  const ops::Problem problem = ops::problem_from_text(whole);
  const auto stages = engine::stage_spreads_of(problem, contract);
  ASSERT_EQ(stages.size(), 4u);
  const auto exchange = answered_with_stages(problem, *factory);
  const std::vector<ops::NamedTensor> outputs = exchange->outputs();
  for (const engine::StageSpread& of : stages) {
    const Tensor& tensor = *std::ranges::find(outputs, of.stage, &ops::NamedTensor::name)->tensor;
    ASSERT_EQ(of.spread.elements, tensor.size()) << of.stage;
    // Rows of tokens, then heads and columns, with the heads as the tensor has them.
    std::vector<double> got;
    const auto n = tensor.shape();
    for (Index b = 0; b < n[0]; ++b)
      for (Index i = 0; i < (n.size() == 3 ? n[1] : n[2]); ++i)
        for (Index c = 0; c < (n.size() == 3 ? n[2] : n[1] * n[3]); ++c)
          got.push_back(n.size() == 3 ? tensor.at(b, i, c) : tensor.at(b, c / n[3], i, c % n[3]));
    ASSERT_EQ(of.spread.ranges.size(), got.size()) << of.stage;
    for (std::size_t at = 0; at < got.size(); ++at) {
      EXPECT_LE(of.spread.ranges[at].lo, got[at]) << of.stage;
      EXPECT_GE(of.spread.ranges[at].hi, got[at]) << of.stage;
    }
  }
}

// ---- two subjects ---------------------------------------------------------------------------------------------------

Verdict compared(const ops::Problem& problem, const SubjectFactory& a, const SubjectFactory& b, const char* law) {
  const auto one = a.open(), two = b.open();
  const auto trial = op.trial(problem, op.contract(a.info(), problem), *one, two.get());
  return trial->check(*ops::find_law(law, op));
}

TEST(MhaCompare, ConformingBlocksDifferWithinTheirBounds) {
  int compared_ones = 0, other_bits = 0;
  for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}, {3, 0}})
    for (const Format dtype : {Format::f32, Format::f16}) {
      const auto of_a = factory_of(blocks[a], dtype), of_b = factory_of(blocks[b], dtype);
      for (const ops::Problem& problem : drawn(*of_a, dtype, 40, 21)) {
        const Verdict verdict = compared(problem, *of_a, *of_b, "compare-bound");
        EXPECT_FALSE(is_finding(verdict.kind)) << blocks[a] << " " << blocks[b] << " " << to_text(problem);
        compared_ones += verdict.kind == VerdictKind::pass;
        const Verdict bits = compared(problem, *of_a, *of_b, "compare-bits");
        other_bits += bits.kind == VerdictKind::fail;
        if (bits.kind == VerdictKind::fail) {
          ASSERT_EQ(bits.evidence->sides.size(), 2u);
          EXPECT_FALSE(bits.evidence->sides[0].outside || bits.evidence->sides[1].outside);
        }
      }
    }
  EXPECT_GT(compared_ones, 250);
  EXPECT_GT(other_bits, 40);  // they are others, or this test says nothing
}

TEST(MhaCompare, TheSameBlockGivesTheSameBits) {
  const auto factory = factory_of("builtin:mha-fused", Format::f32);
  for (const ops::Problem& problem : drawn(*factory, Format::f32, 30, 2))
    EXPECT_NE(compared(problem, *factory, *factory, "compare-bits").kind, VerdictKind::fail) << to_text(problem);
}

TEST(MhaCompare, TellsWhichOfTheTwoIsWrong) {
  for (const char* fault : faults) {
    const auto good = factory_of("builtin:mha-fused", Format::f16), bad = factory_of(fault, Format::f16);
    int of_b = 0;
    for (const ops::Problem& problem : drawn(*bad, Format::f16, 120, 3)) {
      const Verdict second = compared(problem, *good, *bad, "compare-bound");
      if (second.kind != VerdictKind::fail) continue;
      ASSERT_EQ(second.evidence->sides.size(), 2u);
      EXPECT_FALSE(second.evidence->sides[0].outside) << to_text(problem);
      EXPECT_TRUE(second.evidence->sides[1].outside) << to_text(problem);
      const Verdict first = compared(problem, *bad, *good, "compare-bound");
      ASSERT_EQ(first.kind, VerdictKind::fail);
      EXPECT_TRUE(first.evidence->sides[0].outside && !first.evidence->sides[1].outside);
      if (++of_b == 3) break;
    }
    EXPECT_GE(of_b, 1) << fault;
  }
}

TEST(MhaCompare, WhatTwoSubjectsHaveInCommon) {
  const auto a = factory_of("builtin:mha-explicit", Format::f32);
  SubjectInfo one = a->info(), two = one;
  mha::Supports& takes = two.mha->supports;
  takes.cross = takes.keep = takes.stage_q = false;
  takes.heads_fill_e = true;
  takes.e = {4, 64, 4};
  takes.strides = Strides::contiguous;
  const auto [x, y] = op.narrowed_to_both(one, two, {Format::f32}, op.policy_from_text("f32,softmax=f16"));
  for (const SubjectInfo* info : {&x, &y}) {
    const mha::Supports& s = info->mha->supports;
    EXPECT_TRUE(!s.cross && s.self && !s.keep && !s.stage_q && s.stage_k && s.heads_fill_e);
    EXPECT_EQ(s.e.multiple, 4);
    EXPECT_EQ(s.strides, Strides::contiguous);
    EXPECT_EQ(to_text(policy_of(op.contract(*info, Format::f32))), "f32,softmax=f16");
  }
  takes.cross = true;
  takes.self = false;
  one.mha->supports.cross = false;
  try {
    (void)op.narrowed_to_both(one, two, {Format::f32}, std::nullopt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("take no problem in common"), std::string::npos);
  }
}

// ---- a saved call and a subject -------------------------------------------------------------------------------------

TEST(MhaAgainst, SavedOutputsAreHeldAgainstASubject) {
  const auto explicit_one = factory_of("builtin:mha-explicit", Format::f32),
             fused = factory_of("builtin:mha-fused", Format::f32);
  const Saved s = saved(*answered(ops::problem_from_text(plain), *explicit_one), Format::f32);
  const ops::Contract promised = contract_of(*explicit_one, Format::f32), its = contract_of(*fused, Format::f32);
  const auto subject = fused->open();
  EXPECT_EQ(s.call().exchange->against(promised, *subject, its, true, false).kind, VerdictKind::pass);
  const auto same = explicit_one->open();
  EXPECT_EQ(s.call().exchange->against(promised, *same, promised, true, true).kind, VerdictKind::pass);
  const Verdict bits = s.call().exchange->against(promised, *subject, its, true, true);
  ASSERT_EQ(bits.kind, VerdictKind::fail);
  EXPECT_FALSE(bits.evidence->sides[0].outside || bits.evidence->sides[1].outside);
  for (const bool saved_first : {true, false}) {
    const auto fault = factory_of("fault:mha-head-transpose", Format::f32);
    const auto bad = fault->open();
    const Verdict verdict =
        s.call().exchange->against(promised, *bad, contract_of(*fault, Format::f32), saved_first, false);
    ASSERT_EQ(verdict.kind, VerdictKind::fail);
    EXPECT_EQ(verdict.evidence->sides[saved_first ? 1 : 0].outside, true);
    EXPECT_EQ(verdict.evidence->sides[saved_first ? 0 : 1].outside, false);
  }
}

TEST(MhaAgainst, ASubjectThatDeclinesSaysSo) {
  const auto factory = factory_of("builtin:mha-fused", Format::f16);
  const Saved s =
      saved(*answered(ops::problem_from_text(plain), *factory_of("builtin:mha-fused", Format::f32)), Format::f32);
  const auto subject = factory->open();
  try {
    (void)s.call().exchange->against(contract_of("f32"), *subject, contract_of("f16"), true, false);
    FAIL();
  } catch (const properties::CallFailed& failed) {
    EXPECT_EQ(failed.result.status, CallStatus::unsupported);
  }
}

}  // namespace
}  // namespace attest
