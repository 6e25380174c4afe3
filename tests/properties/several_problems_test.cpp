// The laws over several problems: each must fail on a fake that is wrong in its way, and not on conforming fakes whose
// bits differ from problem to problem, nor on one that is wrong alike in all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "core/tensor.hpp"
#include "properties/compare.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

const std::string plain = "b=2 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 values=normal:1 seed=";

Contract no_claims(Format dtype) {
  Contract contract = contract_for(policy_for(dtype));
  contract.empty_row = EmptyRow::zero;
  return contract;
}

Verdict run(std::string_view law, const std::string& problem, test::Kernel kernel) {
  test::Fake subject(std::move(kernel));
  return verdict_of(law, problem, subject, no_claims(Format::f32));
}

Index diagonal(const attest_attention& a, Index i) {
  return a.align == ATTEST_BOTTOM_RIGHT ? i + a.k.shape[2] - a.q.shape[2] : i;
}

void with_scale(const attest_attention& call, double factor) {
  attest_attention other = call;
  other.scale *= factor;
  test::attend(other);
}

test::Kernel opening(std::function<bool(const attest_attention&, bool open, Index i, Index j)> open) {
  return [=](const attest_attention& call) {
    test::Steps steps;
    steps.open = [=](const attest_attention& a, bool is_open, Index, Index, Index i, Index j) {
      return open(a, is_open, i, j);
    };
    test::attend(call, steps);
  };
}
test::Kernel writing(std::function<double(double y, Index c)> output) {
  return [=](const attest_attention& call) {
    test::Steps steps;
    steps.output = [=](const attest_attention&, double y, Index, Index, Index, Index c) { return output(y, c); };
    test::attend(call, steps);
  };
}

struct Wrong {
  const char* law;
  const char* options;  // options of a problem to which it applies
  test::Kernel kernel;
};

std::vector<Wrong> wrongs() {
  return {
      {"hull", "", writing([](double y, Index) { return y + 10; })},
      {"constant-value", "", writing([](double y, Index) { return y * 1.01; })},
      {"window-mask", " window_left=2", opening([](const attest_attention& a, bool open, Index i, Index j) {
         return open && (a.window_left < 0 || j != diagonal(a, i) - a.window_left);
       })},
      {"window-mask", " causal=1 align=bottom_right",
       opening([](const attest_attention& a, bool open, Index i, Index j) {
         return open && (!a.causal || j <= i);  // the other corner
       })},
      {"length-mask", " lengths=ragged",
       [](const attest_attention& call) {
         attest_attention whole = call;
         whole.kv_lengths = {};
         test::attend(whole);
       }},
      {"causal-truncated", " causal=1", opening([](const attest_attention&, bool open, Index i, Index j) {
         return open || j == i + 1;  // one key of the future
       })},
      {"causal-truncated", " causal=1 align=bottom_right",
       opening([](const attest_attention& a, bool open, Index i, Index j) { return open || j == diagonal(a, i) + 1; })},
      {"last-query", " keep=dense",
       [](const attest_attention& call) { with_scale(call, call.q.shape[2] == 1 ? 1.1 : 1); }},
      {"heads-expanded", "",
       [](const attest_attention& call) {  // all query heads read the first of several key heads
         attest_attention wrong = call;
         std::int64_t strides[] = {call.k.strides[0], 0, call.k.strides[2], call.k.strides[3]};
         if (call.q.shape[1] != call.k.shape[1]) wrong.k.strides = strides;
         test::attend(wrong);
       }},
      {"duplicated-columns", "", writing([](double y, Index c) { return c == 2 ? y + 1 : y; })},
      {"pad-width", "",
       [](const attest_attention& call) {
         attest_attention usual = call;
         usual.scale = 1 / std::sqrt(static_cast<double>(call.q.shape[3]));
         test::attend(usual);
       }},
      {"pad-keys", "", opening([](const attest_attention& a, bool open, Index, Index j) {
         return open || j == a.k.shape[2] - 1;  // masks end before the last key
       })},
      {"key-permutation", "",
       opening([](const attest_attention&, bool open, Index, Index j) { return open && j > 0; })},
      {"key-permutation", " lengths=ragged causal=1",
       opening([](const attest_attention&, bool open, Index, Index j) { return open && j > 0; })},
      {"score-shift", "",
       [](const attest_attention& call) {
         test::Steps steps;
         steps.score = [](const attest_attention&, double z, Index, Index, Index, Index j) {
           return j % 2 ? std::max(z, -20.0) : std::min(z, 20.0);
         };
         test::attend(call, steps);
       }},
      {"score-shift", " bias=zero",
       [](const attest_attention& call) {
         test::Steps steps;
         steps.score = [](const attest_attention&, double z, Index, Index, Index, Index j) {
           return j % 2 ? std::max(z, -20.0) : std::min(z, 20.0);
         };
         test::attend(call, steps);
       }},
      {"value-linearity", "", writing([](double y, Index) { return std::fabs(y) < 0.25 ? 0 : y; })},
      {"lse", "",
       [](const attest_attention& call) {
         test::attend(call);
         if (attest_present(&call.lse)) store(call.lse, 0, 1, 2, 0, load(call.lse, 0, 1, 2) / std::numbers::ln2);
       }},
      {"lse", " lse=f32", [](const attest_attention& call) { with_scale(call, attest_present(&call.lse) ? 1 : 1.1); }},
      {"split-merge", "", [](const attest_attention& call) { with_scale(call, call.k.shape[2] == 7 ? 1.5 : 1); }},
      {"split-merge", " causal=1",
       [](const attest_attention& call) { with_scale(call, call.k.shape[2] == 7 ? 1 : 1.5); }},
  };
}

TEST(SeveralProblems, EachLawFailsOnAKernelThatIsWrongInItsWay) {
  for (const Wrong& wrong : wrongs()) {
    int failed = 0;
    for (int seed = 1; seed <= 20; ++seed) {
      const std::string problem = plain + std::to_string(seed) + " dtype=f32 scale=0x1.8p-1" + wrong.options;
      const Verdict verdict = run(wrong.law, problem, wrong.kernel);
      if (verdict.kind != VerdictKind::fail) continue;
      ++failed;
      ASSERT_TRUE(verdict.evidence);
      EXPECT_GT(verdict.evidence->ratio, 1) << wrong.law << " " << problem;
      EXPECT_NE(verdict.evidence->wrong, attest::Wrong::none);
    }
    EXPECT_GT(failed, 0) << wrong.law << wrong.options;
  }
}

const char* const laws[] = {"hull",        "constant-value",  "window-mask", "length-mask", "causal-truncated",
                            "last-query",  "heads-expanded",  "pad-width",   "pad-keys",    "duplicated-columns",
                            "score-shift", "value-linearity", "lse",         "split-merge", "key-permutation"};

TEST(SeveralProblems, NoLawBlamesKernelsWhoseBitsDiffer) {
  // Another tiling for every shape, scale and set of options: each result conforms, no two are equal.
  const test::Kernel moody = [](const attest_attention& call) {
    const Index key = call.q.shape[2] + call.q.shape[3] + call.k.shape[1] + call.k.shape[2] + call.v.shape[3] +
                      call.causal + attest_present(&call.keep) + attest_present(&call.bias) + attest_present(&call.lse);
    if (key % 3 == 0) return test::attend(call);
    test::attend_tiled(call, 1 + key % 5, key % 3 == 1);
  };
  for (const char* law : laws) {
    int passed = 0;
    for (const char* dtype : {"f32", "f16", "bf16"})
      for (const char* options :
           {"", " causal=1 k_layout=bshd", " keep=dense out_layout=spaced causal=1 align=bottom_right lengths=ragged",
            " q_layout=broadcast_heads v_layout=transposed window_left=1 window_right=0",
            " bias=alibi lengths=ragged mask_layout=odd_base lse=f32", " softcap=0x1p+3 keep=some_empty",
            " k_layout=broadcast_rows v_layout=broadcast_batch causal=1 lengths=some_zero",
            " bias=minus_inf bias_axes=8 keep=half keep_axes=9 window_left=2 align=bottom_right"})
        for (int seed = 1; seed <= 4; ++seed) {
          const std::string problem = plain + std::to_string(seed) + " dtype=" + dtype + options;
          test::Fake subject(moody);
          const Verdict verdict = verdict_of(law, problem, subject, no_claims(*format_from_name(dtype)));
          passed += verdict.kind == VerdictKind::pass && verdict.counts.judged > 0;
          EXPECT_FALSE(is_finding(verdict.kind)) << law << " " << problem << ": " << verdict.evidence->note << ", got "
                                                 << verdict.evidence->got << " for " << verdict.evidence->expected;
        }
    EXPECT_GT(passed, 5) << law << " had next to nothing to judge";
  }
}

TEST(SeveralProblems, AKernelThatIsWrongAlikeIsForThePolicyBound) {
  const test::Kernel one_percent = [](const attest_attention& call) { with_scale(call, 1.01); };
  const std::string problem = plain + "3 dtype=f32 causal=1 lengths=ragged keep=dense";
  EXPECT_EQ(run("policy-bound", problem, one_percent).kind, VerdictKind::fail);
  for (const char* law : {"window-mask", "length-mask", "causal-truncated", "last-query", "heads-expanded",
                          "duplicated-columns", "pad-width", "pad-keys", "key-permutation"})
    EXPECT_EQ(run(law, problem, one_percent).kind, VerdictKind::pass) << law;
}

// Scores of -6000: under f16 the exponent of 2^x may be so far off that the sum of the weights is infinite.
TEST(Hull, HoldsWhereNoEnclosureJudges) {
  Problem lost = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f16 bias=zero values=uniform:1 seed=1");
  for (const Index j : {0, 1}) lost.edits.push_back({Edit::Tensor::bias, {0, 0, 0, j}, -6000});
  Contract contract = contract_for(policy_from_text("f16-all"));
  contract.empty_row = EmptyRow::zero;
  const auto verdict = [&](const char* law, double y) {
    test::Fake subject(writing([=](double, Index) { return y; }));
    return verdict_of(law, lost, subject, contract);
  };
  EXPECT_EQ(verdict("policy-bound", 3e4).kind, VerdictKind::vacuous);
  EXPECT_EQ(verdict("hull", 3e4).kind, VerdictKind::fail);
  EXPECT_EQ(verdict("hull", 0).kind, VerdictKind::pass);  // the result of an infinite sum
  contract.empty_row = EmptyRow::unspecified;             // a row that lost every key may hold anything
  EXPECT_EQ(verdict("hull", 3e4).kind, VerdictKind::vacuous);
}

TEST(SeveralProblems, SkipWithAReason) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  Supports& supports = subject.edit().supports;
  const auto reason = [&](
                          const char* law, void (*change)(Problem&) = [](Problem&) {}) {
    Problem problem = problem_from_text(plain + "1 dtype=f32");
    change(problem);
    return verdict_of(law, problem, subject, no_claims(Format::f32)).reason;
  };
  EXPECT_EQ(reason("causal-truncated"), "not causal");
  EXPECT_EQ(reason("window-mask"), "neither causal nor a window");
  EXPECT_EQ(reason("length-mask"), "no key lengths");
  EXPECT_EQ(reason("heads-expanded", [](Problem& p) { p.hkv = 4; }), "heads are not grouped");
  EXPECT_EQ(reason("last-query", [](Problem& p) { p.lq = 1; }), "no fewer queries to ask for");
  EXPECT_EQ(reason("key-permutation", [](Problem& p) { p.lk = 1; }), "a single key");
  supports.keep = supports.lse = supports.bias = supports.kv_lengths = false;
  for (const char* law : {"window-mask", "key-permutation", "last-query"})
    EXPECT_EQ(reason(law, [](Problem& p) { p.causal = true; }), "the subject takes no keep mask") << law;
  for (const char* law : {"lse", "split-merge"}) EXPECT_EQ(reason(law), "the subject gives no log-sum-exp") << law;
  EXPECT_EQ(reason("score-shift"), "the subject takes no bias");
  EXPECT_EQ(reason("pad-keys"), "no mask that the subject takes closes more keys");
  supports.hkv.max = 3;
  EXPECT_EQ(reason("heads-expanded"), "the subject takes no such number of heads");
  supports.d.max = supports.dv.max = 4;
  EXPECT_EQ(reason("pad-width"), "no wider shape that the subject takes");
  supports.scale = Supports::Scale::only_default;
  EXPECT_EQ(reason("pad-width"), "the subject takes the default scale alone");
  supports.dv_equals_d = true;
  EXPECT_EQ(reason("duplicated-columns", [](Problem& p) { p.d = p.dv = 1; }), "the subject takes a single column");
}

// A law asks a subject only for calls that it says it takes.
TEST(SeveralProblems, AskOnlyForWhatTheSubjectTakes) {
  test::Fake subject([](const attest_attention& call) {
    const auto contiguous = [](const attest_tensor& t) {
      Index elements = 1;
      for (int axis = t.ndim; axis-- > 0; elements *= t.shape[axis])
        if (t.shape[axis] > 1 && t.strides[axis] != elements) return false;
      return true;
    };
    for (const attest_tensor* t : {&call.q, &call.k, &call.v, &call.bias, &call.keep, &call.out})
      if (!contiguous(*t)) throw std::logic_error("not contiguous");
    if (call.q.shape[3] != call.v.shape[3]) throw std::logic_error("dv is not d");
    if (call.k.shape[2] % 2 != 0 || call.q.shape[3] % 4 != 0) throw std::logic_error("not a multiple");
    test::attend(call);
  });
  Supports& supports = subject.edit().supports;
  supports.strides = Supports::Strides::contiguous;
  supports.dv_equals_d = true;
  supports.lk = {2, 1024, 2};
  supports.d = supports.dv = {4, 1024, 4};
  for (const char* law : laws)
    for (const char* options : {"", " causal=1", " lengths=ragged keep=half", " window_left=1 bias=normal",
                                " causal=1 align=bottom_right lengths=ragged"})
      for (int seed = 1; seed <= 5; ++seed) {
        const std::string problem =
            "b=2 hq=4 hkv=2 lq=5 lk=8 d=4 dv=4 dtype=f32 values=normal:1 seed=" + std::to_string(seed) + options;
        EXPECT_NO_THROW({
          const Verdict verdict = verdict_of(law, problem, subject, no_claims(Format::f32));
          EXPECT_FALSE(is_finding(verdict.kind)) << law << " " << problem;
        }) << law
           << " " << problem;
      }
}

TEST(Departure, NeedsAnElementThatIsOutAndAGapThatNobodyAllows) {
  using properties::departure;
  using properties::Sighting;
  const oracle::Rounding exact{Format::f64, Format::f64, false};
  const auto at = [&](double value, double lo, double hi) {
    Sighting sighting{value, {}, exact};
    sighting.enclosure.y = (lo + hi) / 2;
    sighting.enclosure.lo = lo;
    sighting.enclosure.hi = hi;
    return sighting;
  };
  const auto departs = [&](const Sighting& a, const Sighting& b) {
    return departure(a, b, "out", {}, "b").has_value();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(departs(at(0.9, 0, 1), at(0.1, 0, 1)));
  EXPECT_FALSE(departs(at(1.5, 0, 1), at(1.4, 0, 1)));  // wrong alike
  EXPECT_FALSE(departs(at(1.5, 0, 1), at(0.9, 0, 1)));  // too near to tell them apart
  EXPECT_TRUE(departs(at(2.5, 0, 1), at(0.9, 0, 1)));
  EXPECT_TRUE(departs(at(0.9, 0, 1), at(-2.5, 0, 1)));
  EXPECT_FALSE(departs(at(10.5, 10, 11), at(1.2, 0, 1)));  // numbers of their own: 9 to 11 apart
  EXPECT_TRUE(departs(at(10.5, 10, 11), at(3, 0, 1)));
  EXPECT_TRUE(departs(at(nan, 0, 1), at(0.5, 0, 1)));
  EXPECT_TRUE(departs(at(0.5, 0, 1), at(nan, 0, 1)));
  EXPECT_FALSE(departs(at(nan, 0, 1), at(nan, 0, 1)));
  Sighting unjudged = at(nan, 0, 1);
  unjudged.enclosure.nonfinite_ok = true;
  EXPECT_FALSE(departs(unjudged, at(0.5, 0, 1)));
}

}  // namespace
}  // namespace attest
