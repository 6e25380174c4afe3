// Tier two against an independent implementation of the same page (tests/data/statistical_golden.sh), and its rules.
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/inputs.hpp"
#include "oracle/attention.hpp"
#include "oracle/call.hpp"
#include "oracle/quick.hpp"
#include "tests/oracle/same_verdict.hpp"
#include "tests/oracle/trial.hpp"

namespace attest {
namespace {

// The numbers of a line after its first word.
std::vector<double> numbers_of(std::ifstream& file) {
  std::string line, word;
  std::getline(file, line);
  std::istringstream in(line);
  in >> word;
  std::vector<double> numbers;
  while (in >> word) numbers.push_back(parse_double(word).value());
  return numbers;
}

void fill(Tensor& tensor, const std::vector<double>& values, Index columns) {
  for (std::size_t n = 0; n < values.size(); ++n)
    tensor.set(0, 0, static_cast<Index>(n) / columns, static_cast<Index>(n) % columns, values[n]);
}

void expect_near(double got, double expected, double scale) {
  EXPECT_LE(std::fabs(got - expected), 1e-9 * scale) << "got " << got << ", expected " << expected;
}

struct Checked {
  int elements = 0, boxes = 0;
};

// Reads and checks one case; false at the end of the file.
bool check_next(std::ifstream& file, Checked& checked) {
  std::string line;
  if (!std::getline(file, line)) return false;
  SCOPED_TRACE(line);
  char policy[32];
  long lk = 0, d = 0, dv = 0;
  int biased = 0;
  double scale = 0;
  EXPECT_EQ(std::sscanf(line.c_str(), "case %31s lk=%ld d=%ld dv=%ld bias=%d scale=%la", policy, &lk, &d, &dv, &biased,
                        &scale),
            6);
  const Policy parsed = policy_from_text(policy);
  const Contract contract = contract_from_text(line.substr(line.find('{')), parsed);
  Problem problem;
  problem.lq = 1;
  problem.lk = lk;
  problem.d = d;
  problem.dv = dv;
  problem.dtype = parsed[Stage::storage];
  problem.scale = scale;
  problem.values = Values::constant;
  if (biased != 0) problem.bias = Bias::zero;
  Inputs inputs = materialise(problem);
  fill(inputs.q, numbers_of(file), d);
  fill(inputs.k, numbers_of(file), d);
  fill(inputs.v, numbers_of(file), dv);
  const std::vector<double> bias = numbers_of(file);
  if (biased != 0) fill(inputs.bias, bias, lk);

  oracle::AttentionOracle oracle(contract, problem, inputs);
  for (Index c = 0; c < dv; ++c) {
    const std::vector<double> expected = numbers_of(file);
    const oracle::Enclosure rigorous = oracle.out_enclosure(0, 0, 0, c);
    const oracle::StatisticalEnclosure e = oracle.statistical_enclosure(0, 0, 0, c, 5);
    if (!e.applies) continue;
    expect_near(e.s, expected[0], expected[0]);
    expect_near(e.bias, expected[1], expected[0]);
    const double size = std::fabs(rigorous.y) * 1e-6 + 5 * expected[0];
    expect_near(e.lo, std::max(expected[2], rigorous.lo), size);
    expect_near(e.hi, std::min(expected[3], rigorous.hi), size);
    ++checked.elements;
    checked.boxes += e.by_box;
  }
  return true;
}

TEST(StatisticalGolden, SpreadsAgreeWithAnIndependentImplementation) {
  std::ifstream file(ATTEST_SOURCE_DIR "/tests/data/statistical_golden.txt");
  ASSERT_TRUE(file);
  Checked checked;
  while (check_next(file, checked)) {
  }
  EXPECT_GE(checked.elements, 400);
  EXPECT_GE(checked.boxes, 10);
}

Problem short_rows() {
  Problem p;
  p.b = p.hq = p.hkv = 1;
  p.lq = 2;
  p.lk = 12;
  p.d = 8;
  p.dv = 4;
  p.dtype = Format::f16;
  p.seed = 5;
  return p;
}

TEST(Statistical, ErrorsThatPointOneWayAreLeftToTheRigorousTier) {
  const Problem problem = short_rows();
  const Inputs inputs = materialise(problem);
  const Policy policy = policy_for(Format::f16);
  const auto contract = [&](const char* text) { return contract_from_text(text, policy); };
  for (const auto& [text, applies] :
       {std::pair{"{}", true}, std::pair{R"({"kappa":3})", false}, std::pair{R"({"flush_to_zero":true})", false},
        std::pair{R"({"order":"values"})", false}, std::pair{R"({"order":"scores"})", true}}) {
    const Contract promised = contract(text);
    EXPECT_EQ(oracle::statistical_refusal(promised).empty(), applies) << text;
    oracle::AttentionOracle oracle(promised, problem, inputs);
    EXPECT_EQ(oracle.statistical_enclosure(0, 0, 1, 2, 4).applies, applies) << text;
    EXPECT_EQ(std::isnan(oracle.lambda_needed(0, 0, 1, 2, Format::f16, 0)), !applies) << text;
  }
}

// A score below half the smallest subnormal of its format is stored as 0, be everything else exact.
TEST(Statistical, AScoreMayBeStoredAsZero) {
  Problem problem;
  problem.b = problem.hq = problem.hkv = problem.lq = problem.d = problem.dv = 1;
  problem.lk = 2;
  problem.dtype = Format::f64;
  problem.scale = 1;
  problem.values = Values::constant;
  Inputs inputs = materialise(problem);
  fill(inputs.q, {1}, 1);
  fill(inputs.k, {0x1.fp-26, 0}, 1);
  fill(inputs.v, {1, 0}, 1);
  const Contract contract = contract_for(policy_from_text("f64,score=f16"));
  oracle::AttentionOracle oracle(contract, problem, inputs);
  const double stored_as_zero = 0.5;
  const oracle::StatisticalEnclosure e = oracle.statistical_enclosure(0, 0, 0, 0, 3);
  ASSERT_TRUE(e.applies);
  EXPECT_GT(e.hi, stored_as_zero);
  EXPECT_LT(e.lo, stored_as_zero);
}

// The lambda that a value needs is the least whose rounded interval holds it.
TEST(Statistical, LambdaNeededIsWhereTheRoundedIntervalEnds) {
  Problem problem = short_rows();
  int checked = 0;
  for (const char* policy : {"f16", "f16-softmax16", "f32"})
    for (const double amplitude : {1.0, 8.0}) {
      const Policy parsed = policy_from_text(policy);
      const Format type = problem.dtype = parsed[Stage::storage];
      problem.amplitude = amplitude;
      const Contract contract = contract_for(parsed);
      const Inputs inputs = materialise(problem);
      oracle::AttentionOracle oracle(contract, problem, inputs);
      const oracle::Enclosure rigorous = oracle.out_enclosure(0, 0, 1, 2);
      const auto needed = [&](double got) { return oracle.lambda_needed(0, 0, 1, 2, type, got); };
      EXPECT_EQ(needed(round_to(type, rigorous.y)), 0);
      EXPECT_GT(needed(6e4), 1000);
      for (const double lambda : {1.0, 4.0}) {
        const oracle::StatisticalEnclosure e = oracle.statistical_enclosure(0, 0, 1, 2, lambda);
        ASSERT_TRUE(e.applies);
        if (e.hi == rigorous.hi) continue;  // cut to the rigorous enclosure
        const double edge = round_to(type, e.hi), ulp = 2 * unit_roundoff(type) * std::fabs(edge);
        EXPECT_LE(needed(edge), lambda * (1 + 1e-6)) << policy;
        EXPECT_GT(needed(round_to(type, edge + ulp)), lambda * (1 - 1e-6)) << policy;
        ++checked;
      }
    }
  EXPECT_GE(checked, 8);
}

// The last 33 of 27,681 keys left out. Weights in bf16 round the same in every order and the f32 sums lose too little: no conforming
// kernel returns this, and the rigorous interval, which knows neither, holds it.
TEST(Statistical, RoundingsOfManyKeysAreNotCountedTwice) {
  const Contract contract = contract_from_text(
      R"({"exp_ulp":0.51,"lazy":0,"fold":"none","exp2":false,"lse_merge":"none","normalise":"after",)"
      R"("sum_of":"unrounded","kv_tile_min":64,"key_order":"ascending"})",
      policy_for(Format::bf16));
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=27681 d=1 dv=1 dtype=bf16 values=normal:1 seed=2347593997");
  const Inputs inputs = materialise(problem);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  const auto needs = [&](double got) { return oracle.lambda_needed(0, 0, 0, 0, Format::bf16, got); };
  EXPECT_GT(needs(-0x1.b4p-6), oracle::Statistics::stop_lambda);
  EXPECT_LT(needs(-0x1.bcp-6), 1);  // all keys
}

// A bias that closes a key by a finite number leaves it no weight, of which nobody knows how far it is off: a box judges the row, and T
// leaves it out. What the other keys lose tells which elements are near all the same, without the full formulas.
TEST(Statistical, KeysOfNoWeightHideNoElementThatIsNear) {
  const Problem problem =
      problem_from_text("op=attention b=1 hq=1 hkv=1 lq=8 lk=64 d=8 dv=16 dtype=f32 bias=alibi values=normal:1 seed=5");
  testing::Trial run(problem, contract_for(policy_for(Format::f32)), [](Inputs& inputs) {
    for (Index j = 0; j < 64; ++j)
      for (Index i = 0; i < 8; ++i) inputs.bias.set(0, 0, i, j, j == 5 ? -largest_finite(Format::f32) : 0);
  });
  const auto ask = [&] {
    oracle::Statistics statistics;
    const Verdict verdict =
        oracle::AttentionOracle(run.contract, run.problem, run.inputs).judge(run.out, run.lse, &statistics);
    EXPECT_EQ(verdict.kind, VerdictKind::pass);
    EXPECT_EQ(statistics.elements, 0);
    return statistics.largest_lambda;
  };
  EXPECT_LE(ask(), oracle::Statistics::near_lambda);
  const oracle::Call call(run.contract, run.problem, run.inputs);
  oracle::Quick quick(call, Format::f32, oracle::Quick::Spreads::near_and_t);
  for (Index i = 0; i < 8; ++i) {
    const RowIndex row{0, 0, i};
    quick.load({&row, 1}, run.out.view(), run.lse.view());
    EXPECT_TRUE(quick.has_near(0) && !quick.has_spread(0) && quick.spread(0).all_near) << i;
  }

  oracle::AttentionOracle oracle(run.contract, run.problem, run.inputs);
  const oracle::StatisticalEnclosure e = oracle.statistical_enclosure(0, 0, 3, 7, oracle::Statistics::near_lambda);
  ASSERT_TRUE(e.applies && e.by_box);
  const double edge = round_to(Format::f32, e.hi);
  run.out.set(0, 0, 3, 7, edge);
  EXPECT_LE(ask(), oracle::Statistics::near_lambda);
  run.out.set(0, 0, 3, 7, testing::neighbour(Format::f32, edge, true));
  EXPECT_GT(ask(), oracle::Statistics::near_lambda);
}

}  // namespace
}  // namespace attest
