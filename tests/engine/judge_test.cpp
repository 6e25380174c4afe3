// Saved tensors as a call, their judgement, and the tolerances of `attest bound`.
#include "engine/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "engine/saved_tensors.hpp"
#include "engine/tolerance.hpp"
#include "ops/attention/saved_call.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Policy;
using attest::Problem;
using ops::SavedCall;
using ops::of_attention::saved_call;
using ops::of_attention::saved_tensors;
using ops::of_attention::SavedCallOptions;
using ops::of_attention::SavedTensors;

NamedArray array_of(std::string name, const Tensor& tensor, NamedArray::Type type) {
  NamedArray array;
  array.name = std::move(name);
  array.type = type;
  array.shape.assign(tensor.shape().begin(), tensor.shape().end());
  const auto n = tensor.shape();
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < (n.size() > 3 ? n[3] : 1); ++c) {
          const auto put = [&](auto x) {
            const auto* const from = reinterpret_cast<const std::byte*>(&x);
            array.bytes.insert(array.bytes.end(), from, from + sizeof x);
          };
          const double x = tensor.at(b, h, i, c);
          if (type == NamedArray::Type::f16)
            put(encode_f16(x));
          else if (type == NamedArray::Type::boolean)
            put(static_cast<std::uint8_t>(x != 0));
          else
            put(static_cast<float>(x));
        }
  return array;
}

// A problem as a run elsewhere would have saved it: by a built-in subject.
struct Saved {
  std::vector<NamedArray> inputs, outputs;
  SavedCallOptions options;
};
Saved saved(const std::string& text, const std::string& subject) {
  const Problem problem = attest::problem_from_text(text);
  const Policy policy = policy_for(problem.dtype);
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  const attest_attention call = inputs.call(out, lse);
  const auto factory = builtin_subject(subject, to_text(policy));
  EXPECT_EQ(factory->open()->run_one(call).status, CallStatus::done);
  const auto type = problem.dtype == Format::f16 ? NamedArray::Type::f16 : NamedArray::Type::f32;
  Saved s;
  s.inputs = {array_of("q", inputs.q, type), array_of("k", inputs.k, type), array_of("v", inputs.v, type)};
  if (inputs.keep.present()) s.inputs.push_back(array_of("keep", inputs.keep, NamedArray::Type::boolean));
  s.outputs = {array_of("out", out, type)};
  if (lse.present()) s.outputs.push_back(array_of("lse", lse, NamedArray::Type::f32));
  s.options.policy = policy;
  s.options.scale = problem.scale;
  s.options.causal = problem.causal;
  s.options.align = problem.align;
  return s;
}

Judgement judged(const Saved& s) {
  const SavedCall call = saved_call(s.inputs, s.outputs, s.options);
  return judge(*call.exchange, contract_for(s.options.policy));
}

constexpr const char* texts[] = {
    "b=2 hq=4 hkv=2 lq=5 lk=9 d=8 dv=6 dtype=f16 causal=1 align=bottom_right lse=f32 values=normal:1 seed=3",
    "b=1 hq=1 hkv=1 lq=3 lk=40 d=16 dv=16 dtype=f32 scale=0x1p-1 keep=half values=normal:1 seed=4"};

TEST(Judge, SaysSoWhereOutWasSavedInLessThanThePolicyPromises) {
  Saved s = saved(texts[1], "builtin:fused");
  EXPECT_TRUE(saved_call(s.inputs, s.outputs, s.options).notes.empty());
  NamedArray& out = s.outputs[0];
  std::vector<std::byte> halves;
  for (Index n = 0; n < out.size(); ++n) {
    const std::uint16_t half = encode_f16(out.at(n));
    const auto* const from = reinterpret_cast<const std::byte*>(&half);
    halves.insert(halves.end(), from, from + sizeof half);
  }
  out.type = NamedArray::Type::f16;
  out.bytes = halves;
  const auto notes = saved_call(s.inputs, s.outputs, s.options).notes;
  ASSERT_EQ(notes.size(), 1);
  EXPECT_NE(notes[0].find("out is saved as f16, and the policy's output is f32"), std::string::npos);
}

TEST(Judge, TellsTheFirstElementOutsideThoughTheRowsSurveyedLackIt) {
  Saved s = saved("b=1 hq=1 hkv=1 lq=200 lk=2 d=1 dv=1 dtype=f32 values=normal:1 seed=3", "builtin:fused");
  const std::vector<std::byte> right = s.outputs[0].bytes;
  int missed = 0;
  for (std::size_t row = 0; row < 200; ++row) {
    s.outputs[0].bytes = right;
    const float wrong = 1000;
    std::memcpy(s.outputs[0].bytes.data() + row * sizeof wrong, &wrong, sizeof wrong);
    const Judgement j =
        judge(*saved_call(s.inputs, s.outputs, s.options).exchange, contract_for(s.options.policy), /*survey_work=*/1);
    ASSERT_EQ(j.verdict.kind, VerdictKind::fail);
    EXPECT_EQ(j.survey->rows, 64);
    EXPECT_EQ(j.survey->worst.index[2], static_cast<Index>(row));
    EXPECT_EQ(j.survey->worst.got, 1000);
    missed += j.survey->outside == 0;
  }
  EXPECT_EQ(missed, 200 - 64);
}

TEST(Judge, HoldsWhatConformingKernelsReturn) {
  for (const char* text : texts)
    for (const char* subject : {"builtin:fused", "builtin:explicit"}) {
      const Judgement judgement = judged(saved(text, subject));
      EXPECT_EQ(judgement.verdict.kind, VerdictKind::pass) << text;
      EXPECT_FALSE(judgement.survey);
    }
}

TEST(Judge, FailsAFaultAndCountsItsElements) {
  const Judgement judgement = judged(saved(texts[1], "fault:scale-twice"));
  ASSERT_EQ(judgement.verdict.kind, VerdictKind::fail);
  ASSERT_TRUE(judgement.survey);
  EXPECT_EQ(judgement.survey->rows, 3);
  EXPECT_EQ(judgement.survey->inside + judgement.survey->outside + judgement.survey->undetermined, 48);
  EXPECT_GT(judgement.survey->outside, 40);
  EXPECT_GE(judgement.survey->worst.ratio, judgement.verdict.evidence->ratio);
}

TEST(Judge, FailsASingleWrongElementAndAWrongLse) {
  Saved one = saved(texts[0], "builtin:fused");
  one.outputs[0].bytes[2 * 100 + 1] ^= std::byte{0x80};  // the sign of element 100
  const Judgement judgement = judged(one);
  ASSERT_EQ(judgement.verdict.kind, VerdictKind::fail);
  EXPECT_EQ(judgement.survey->outside, 1);
  EXPECT_EQ(judgement.survey->worst.index, judgement.verdict.evidence->index);
  Saved lse = saved(texts[0], "builtin:fused");
  lse.outputs[1].bytes[3] ^= std::byte{0x80};
  ASSERT_EQ(judged(lse).verdict.kind, VerdictKind::fail);
  EXPECT_EQ(judged(lse).verdict.evidence->tensor, "lse");
}

TEST(Judge, FailsTheWrongOptions) {
  Saved s = saved(texts[0], "builtin:fused");
  s.options.align = Align::top_left;
  EXPECT_EQ(judged(s).verdict.kind, VerdictKind::fail);
}

std::string refusal(const Saved& s) {
  try {
    saved_call(s.inputs, s.outputs, s.options);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "(taken)";
}

TEST(SavedCall, NamesWhatDoesNotFit) {
  const auto says = [](const std::function<void(Saved&)>& change, const std::string& word) {
    Saved s = saved(texts[1], "builtin:fused");
    change(s);
    EXPECT_NE(refusal(s).find(word), std::string::npos) << refusal(s);
  };
  says([](Saved&) {}, "(taken)");
  says([](Saved& s) { s.inputs[0].name = "query"; }, "no array q: they hold query");
  says([](Saved& s) { s.inputs.push_back(s.inputs[0]), s.inputs.back().name = "mask"; }, "mask that nothing asks for");
  says([](Saved& s) { s.options.names["bias"] = "m"; }, "no array m");
  says([](Saved& s) { s.inputs[0].shape = {3, 16}; }, "four axes");
  says([](Saved& s) { s.inputs[0].shape = {1, 3, 1, 16}; }, "k and v give");
  says([](Saved& s) { s.inputs[1].shape = {1, 1, 16, 40}; }, "do not fit each other");
  says([](Saved& s) { s.inputs[3].shape = {1, 1, 40, 3}; }, "broadcast");
  says([](Saved& s) { s.inputs[3].type = NamedArray::Type::f32; }, "must be bool");
  says([](Saved& s) { s.inputs[3].name = "m", s.options.names["bias"] = "m"; }, "--keep m");
  says([](Saved& s) { s.inputs[0].type = NamedArray::Type::i32; }, "must be f16, bf16, f32 or f64");
  says([](Saved& s) { s.options.policy = policy_for(Format::f16); }, "which is no f16");
  says(
      [](Saved& s) {
        s.options.heads_inside = {"q"}, s.options.heads = 3, s.inputs[0].shape = {1, 3, 16};
      },
      "no multiple");
}

TEST(SavedCall, TakesAHalfThatWasSavedAsFloat) {
  Saved s = saved(texts[0], "builtin:fused");
  const SavedTensors half = saved_tensors(s.inputs, s.outputs, s.options);
  s.inputs[0] = array_of("q", half.inputs.q, NamedArray::Type::f32);
  const SavedTensors call = saved_tensors(s.inputs, s.outputs, s.options);
  EXPECT_EQ(call.notes.size(), 1u);
  EXPECT_TRUE(std::ranges::equal(call.inputs.q.span_bytes(), half.inputs.q.span_bytes()));
}

TEST(Polygraphy, DamageIsOneSentence) {
  const std::string good =
      R"([{"q": {"array": "k05VTVBZAQA6AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfQoAAIA/AAAAQA==", "polygraphy_class": "ndarray"}}])";
  const auto arrays = read_polygraphy(good, "in.json");
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "q");
  EXPECT_EQ(arrays[0].at(1), 2);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(read_polygraphy(good.substr(0, size), "in.json"), Error) << size;
  for (const char* text : {"{}", "[]", "[1]", "7", R"({"lst": 3})", R"({"lst": [["a"]]})", R"({"lst": [["a", []]]})",
                           R"({"lst": [["a", [{}]], ["b", [{}]]]})", R"([{"q": {"array": "?"}}])",
                           R"([{"q": {"tensor": ""}}])", R"([{"q": {"array": "AAAA"}}])"})
    EXPECT_THROW(read_polygraphy(text, "in.json"), Error) << text;
  EXPECT_THROW(read_polygraphy(good, "in.json", {{}, 1}), Error);
}

// ---- tolerances -----------------------------------------------------------------------------------------------------

Spread spread_of(const char* text) {
  const Problem problem = attest::problem_from_text(text);
  return engine::spread_of(problem, contract_for(policy_for(problem.dtype)));
}

bool keeps(Rule rule, double got, double expected, double atol, double rtol) {
  const double apart = std::fabs(got - expected), relative = rtol * std::fabs(expected);
  return rule == Rule::sum ? apart <= atol + relative : apart <= atol || apart <= relative;
}

TEST(Tolerance, RejectsNoPairOfPermittedResultsAndLittleLessWould) {
  for (const char* text : texts) {
    const Spread spread = spread_of(text);
    ASSERT_GT(spread.ranges.size(), 40u);
    for (const Rule rule : {Rule::sum, Rule::either})
      for (const double rtol : {0.0, 1e-6, 1e-3, 0.1}) {
        const double atol = least_atol(spread, Reference::kernel, rule, rtol);
        const auto all_kept = [&](double a) {
          return std::ranges::all_of(spread.ranges, [&](const OutputRange& range) {
            return keeps(rule, range.lo, range.hi, a, rtol) && keeps(rule, range.hi, range.lo, a, rtol);
          });
        };
        EXPECT_TRUE(all_kept(atol)) << text << " " << rtol;
        EXPECT_TRUE(atol == 0 || rtol > 0.01 || !all_kept(atol * 0.99)) << text << " " << rtol;
        const double exact = least_atol(spread, Reference::exact, rule, rtol);
        EXPECT_LE(exact, atol * 1.001);
        for (const OutputRange& range : spread.ranges)
          EXPECT_TRUE(keeps(rule, range.lo, range.y, exact, rtol) && keeps(rule, range.hi, range.y, exact, rtol));
      }
  }
}

TEST(Tolerance, HoldsTheOutputsOfConformingKernels) {
  for (const char* text : texts) {
    const Spread spread = spread_of(text);
    const Saved a = saved(text, "builtin:fused"), b = saved(text, "builtin:explicit");
    const double rtol = 1e-3, atol = least_atol(spread, Reference::kernel, Rule::sum, rtol);
    for (Index i = 0; i < a.outputs[0].size(); ++i)
      EXPECT_TRUE(keeps(Rule::sum, a.outputs[0].at(i), b.outputs[0].at(i), atol, rtol));
  }
}

TEST(Tolerance, BlindnessIsMeasuredInRadii) {
  Spread spread;
  spread.output = Format::f64;
  spread.ranges = {{1, 0.75, 1.25}, {10, 9, 11}, {3, 3, 3}};
  EXPECT_NEAR(least_atol(spread, Reference::kernel, Rule::sum, 0), 2, 1e-12);
  EXPECT_NEAR(least_atol(spread, Reference::kernel, Rule::sum, 0.2), 2 - 0.2 * 9, 0.36);
  EXPECT_NEAR(least_atol(spread, Reference::exact, Rule::sum, 0), 1, 1e-12);
  EXPECT_NEAR(least_atol(spread, Reference::exact, Rule::either, 0.11), 0.25, 1e-12);
  const Blindness blind = blindness(spread, Rule::sum, 1, 0);
  EXPECT_DOUBLE_EQ(blind.largest, 4);
  EXPECT_DOUBLE_EQ(blind.median, 1);
}

TEST(Tolerance, RoundsUpInDecimal) {
  EXPECT_EQ(rounded_up(0.0012341, 3), 0.00124);
  EXPECT_EQ(rounded_up(0.00123, 3), 0.00123);
  EXPECT_EQ(rounded_up(9.999, 3), 10);
  EXPECT_EQ(rounded_up(0, 3), 0);
}

TEST(JudgedAgain, TheNumberOfAnEntryDecides) {
  Entry entry;
  entry.subject = "saved:out.npz";
  entry.property = "policy-bound";
  const Problem problem = attest::problem_from_text("lq=2 lk=3 d=2 dv=2 dtype=f32 values=normal seed=3");
  entry.problem = problem;
  entry.contract = contract_for(policy_for(Format::f32));
  const auto element = entry.problem.op().exchange(entry.problem)->element(entry.contract, "out", {0, 0, 1, 1});
  Evidence& witness = entry.evidence.emplace();
  witness.tensor = "out";
  witness.index = {0, 0, 1, 1};
  witness.got = element.lo;
  EXPECT_EQ(judged_again(entry).kind, VerdictKind::pass);
  witness.got = element.hi + 1;
  const Verdict verdict = judged_again(entry);
  EXPECT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence.value().index, witness.index);
  EXPECT_EQ(verdict.evidence.value().got, element.hi + 1);
  for (const auto& [tensor, row] : {std::pair{"out", 2}, {"out", -1}, {"lse", 0}, {"none", 0}}) {
    witness.tensor = tensor;
    witness.index = {0, 0, row, 0};
    EXPECT_THROW((void)judged_again(entry), Error) << tensor << row;
  }
}

}  // namespace
}  // namespace attest::engine
