// Every number and choice of docs/bounds.md, section 0: a kernel that uses all the room that it gives, which is never
// found wrong where its contract says so, and is where its contract does not.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "tests/oracle/brought_out.hpp"

namespace attest {
namespace {

using namespace testing;  // the values

using emulator::Blocks;
using emulator::Error;
using emulator::Merge;
using emulator::Normalise;
using emulator::ScaleOn;
using emulator::Variant;

// A promise, as a plug-in or a script declares it.
struct Promise {
  const char* policy;
  const char* contract;
};

struct Freedom {
  const char* name;
  Promise declared, undeclared;
  const char* problem;
  void (*use)(Variant& kernel);
  void (*fill)(Inputs& inputs, std::uint64_t seed) = nullptr;  // values that bring it out
  int problems = 60;
  int found = 45;  // at least so many of them where it is not declared
};

constexpr const char* short_rows = "lq=4 lk=8 d=8 dv=8 lse=f32";
constexpr const char* ones_at_1030 = "lq=16 lk=8 d=4 dv=1 bias=zero v_form=one";
// Everything renounced that the defaults grant and that rounds: what is left is the number in question.
#define ATTEST_STRICT R"("exp2":false,"lse_merge":"none","lazy":0,"fold":"none","kv_tile_min":1048576)"
constexpr const char* strict = "{" ATTEST_STRICT "}";
constexpr const char* whole = R"({"kv_tile_min":1024,"lse_merge":"none"})";

// Where the freedom is wider than the default, `undeclared` is the default, or as near to it as shows the difference;
// where the default grants it already, `undeclared` is the contract that renounces it.
const Freedom freedoms[] = {
    {"tf32 operands", {"f32,operand=tf32", "{}"}, {"f32", "{}"}, short_rows, [](Variant&) {}},
    {"bf16 operands", {"f32,operand=bf16", "{}"}, {"f32,operand=tf32", "{}"}, short_rows, [](Variant&) {}},
    {"kappa, scores",
     {"f32", R"({"kappa":3})"},
     {"f32", "{}"},
     "lk=2 d=64 dv=4 scale=1 bias=zero",
     [](Variant& kernel) { kernel.truncate_qk = true; },
     long_sums},
    {"kappa, values",
     {"f32,softmax=f64", R"({"kappa":3,"kv_tile_min":1024,"lse_merge":"none"})"},
     {"f32,softmax=f64", whole},
     "lk=256 d=1 dv=2 scale=1",
     [](Variant& kernel) { kernel.truncate_pv = true; },
     one_heavy_key},
    {"kappa, row sum",
     {"f32", R"({"kappa":3,"kv_tile_min":1024,"lse_merge":"none"})"},
     {"f32", whole},
     "lk=256 d=1 dv=2 scale=1 lse=f64",
     [](Variant& kernel) { kernel.truncate_sum = true; },
     one_heavy_key},
    {"mma, scores",
     {"f32", R"({"mma":"volta"})"},
     {"f32", "{}"},
     "lk=2 d=64 dv=4 scale=1 bias=zero",
     [](Variant& kernel) { kernel.blocks_qk = Blocks::chained; },
     long_sums},
    {"mma, values",
     {"f32,softmax=f64", R"({"mma":"volta","kv_tile_min":1024,"lse_merge":"none"})"},
     {"f32,softmax=f64", whole},
     "lk=256 d=1 dv=2 scale=1",
     [](Variant& kernel) { kernel.blocks_pv = Blocks::chained; },
     one_heavy_key},
    {"mma, row sum",
     {"f32", R"({"mma":"volta","kv_tile_min":1024,"lse_merge":"none"})"},
     {"f32", whole},
     "lk=256 d=1 dv=2 scale=1 lse=f64",
     [](Variant& kernel) { kernel.blocks_sum = Blocks::chained; },
     one_heavy_key},
    {"mma, operands of tf32",
     {"f32,operand=tf32", "{" ATTEST_STRICT R"(,"mma":"ampere","normalise":"after","sum_of":"unrounded"})"},
     {"f32,operand=tf32", "{" ATTEST_STRICT R"(,"normalise":"after","sum_of":"unrounded"})"},
     "lk=1 d=8 dv=8 lse=f32",
     [](Variant& kernel) { kernel.cut_operands = true; },
     equal_scores},
    {"flush_to_zero, inputs",
     {"f16", R"({"flush_to_zero":true})"},
     {"f16", "{}"},
     short_rows,
     [](Variant&) {},
     subnormal_values},
    {"flush_to_zero, inputs of another format",
     {"bf16-all,storage=f16", R"({"flush_to_zero":true})"},
     {"bf16-all,storage=f16", "{}"},
     short_rows,
     [](Variant&) {},
     subnormal_values},
    {"flush_to_zero, bias",
     {"f16", R"({"flush_to_zero":true,"sum_of":"unrounded"})"},
     {"f16", R"({"sum_of":"unrounded"})"},
     "lk=2 d=1 dv=1 lse=f32 bias=zero",
     [](Variant&) {},
     subnormal_bias},
    {"flush_to_zero, weights",
     {"f16", R"({"flush_to_zero":true})"},
     {"f16", "{}"},
     "lk=2 d=1 dv=1 scale=1",
     [](Variant&) {},
     subnormal_weight},
    {"flush_to_zero, accumulators",
     {"f16-acc16", R"({"flush_to_zero":true})"},
     {"f16-acc16", "{}"},
     "lk=2 d=1 dv=4 scale=0x1p14",
     [](Variant&) {},
     subnormal_products},
    {"flush_to_zero, output",
     {"f32", R"({"flush_to_zero":true})"},
     {"f32", "{}"},
     "lk=2 d=1 dv=1",
     [](Variant&) {},
     subnormal_mean},
    {"tanh absolute",
     {"f32", R"({"tanh":"absolute"})"},
     {"f32", "{}"},
     "lq=4 lk=8 d=8 dv=8 softcap=50",
     [](Variant& kernel) { kernel.tanh_error = Error::random; }},
    {"tanh_ulp",
     {"f32", "{" ATTEST_STRICT R"(,"tanh_ulp":64})"},
     {"f32", strict},
     "lq=8 lk=2 d=1 dv=4 scale=1 softcap=4",
     [](Variant& kernel) { kernel.tanh_error = Error::random; },
     nullptr,
     60,
     30},
    {"tanh_ulp, of subnormals",
     {"f32,softcap=f16", "{" ATTEST_STRICT R"(,"tanh_ulp":64})"},
     {"f32,softcap=f16", strict},
     "lk=2 d=1 dv=1 scale=1 softcap=128 lse=f32",
     [](Variant& kernel) { kernel.tanh_error = Error::up; },
     a_thousandth},
    {"exp_ulp",
     {"f32,scale=f64,qk=f64,score=f64", "{" ATTEST_STRICT R"(,"exp_ulp":20})"},
     {"f32,scale=f64,qk=f64,score=f64", strict},
     "lk=2 d=1 dv=1 scale=1",
     [](Variant& kernel) { kernel.exp_error = Error::up; },
     an_eighth},
    {"exp_rel",
     {"f32", R"({"exp_rel":1e-4})"},
     {"f32", "{}"},
     short_rows,
     [](Variant& kernel) { kernel.exp_error = Error::random; }},
    {"div_ulp",
     {"f32", "{" ATTEST_STRICT R"(,"div_ulp":16})"},
     {"f32", strict},
     "lq=4 lk=2 d=8 dv=8",
     [](Variant& kernel) { kernel.div_error = Error::up; }},
    {"lazy",
     {"f16-acc16", R"({"lazy":8})"},
     {"f16-acc16", "{}"},
     "lk=2 d=1 dv=2 scale=1",
     [](Variant& kernel) { kernel.lazy = 8, kernel.tile = 1; },
     rise_of_seven},
    {"lazy, weights",
     {"f16", R"({"lazy":20})"},
     {"f16", "{}"},
     "lk=2 d=1 dv=2 scale=1",
     [](Variant& kernel) { kernel.lazy = 20, kernel.tile = 1; },
     rise_of_fourteen},
    // Without it the largest weight is 1, which no rounding changes.
    {"lazy, rounding of the largest weight",
     {"f32,weights=f16", R"({"normalise":"after","sum_of":"unrounded","lazy":1})"},
     {"f32,weights=f16", R"({"normalise":"after","sum_of":"unrounded","lazy":0})"},
     "lk=2 d=1 dv=1 scale=1",
     [](Variant& kernel) { kernel.lazy = 1, kernel.tile = 1; },
     rise_of_less_than_one},
    {"fold q",
     {"f16-scores16", R"({"fold":"q"})"},
     {"f16-scores16", R"({"fold":"none"})"},
     "lk=2 d=64 dv=4 scale=0x1p-7",
     [](Variant& kernel) { kernel.scale_on = ScaleOn::q; },
     tiny_queries},
    {"fold k",
     {"f16-scores16", R"({"fold":["none","k"]})"},
     {"f16-scores16", R"({"fold":"none"})"},
     "lk=2 d=64 dv=4 scale=0x1p-7",
     [](Variant& kernel) { kernel.scale_on = ScaleOn::k; },
     tiny_keys},
    {"fold sqrt",
     {"f16-scores16", R"({"fold":"sqrt"})"},
     {"f16-scores16", R"({"fold":"none"})"},
     "lk=2 d=1024 dv=4 scale=0x1p-12",
     [](Variant& kernel) { kernel.scale_on = ScaleOn::square_roots; },
     tiny_queries},
    {"fold q, rounded on entering the product",
     {"f16", R"({"fold":"q","exp2":false,"lse_merge":"none","sum_of":"unrounded"})"},
     {"f16", R"({"fold":"none","exp2":false,"lse_merge":"none","sum_of":"unrounded"})"},
     "lk=1 d=4 dv=1 scale=0x1.9p-2 lse=f32",
     [](Variant& kernel) { kernel.scale_on = ScaleOn::q, kernel.round_scaled = true; },
     nullptr,
     60,
     30},
    {"fold score",
     {"f32,scale=bf16", R"({"fold":"score","lse_merge":"none","kv_tile_min":1024})"},
     {"f32,scale=bf16", R"({"fold":"none","lse_merge":"none","kv_tile_min":1024})"},
     "lq=4 lk=2 d=4 dv=2 scale=0x1p-8 bias=normal lse=f32",
     [](Variant& kernel) { kernel.exp2 = kernel.in_octaves = true; }},
    {"fold q, overflow",
     {"f16-scores16", R"({"fold":"q"})"},
     {"f16-scores16", R"({"fold":"none"})"},
     "lk=2 d=1 dv=2 scale=2",
     [](Variant& kernel) { kernel.scale_on = ScaleOn::q; },
     large_queries},
    {"fold k, overflow",
     {"f16-scores16", R"({"fold":"k"})"},
     {"f16-scores16", R"({"fold":"none"})"},
     "lk=2 d=1 dv=2 scale=2",
     [](Variant& kernel) { kernel.scale_on = ScaleOn::k; },
     large_keys},
    {"exp2",
     {"f32,scale=f64,qk=f64,score=f64", R"({"exp2":true,"lse_merge":"none"})"},
     {"f32,scale=f64,qk=f64,score=f64", R"({"exp2":false,"lse_merge":"none"})"},
     "lq=16 lk=2 d=4 dv=4 bias=zero",
     [](Variant& kernel) { kernel.exp2 = true; },
     scores_near_1030,
     60,
     15},
    {"lse_merge flat",
     {"f32,partial=bf16", R"({"lse_merge":"flat"})"},
     {"f32,partial=bf16", R"({"lse_merge":"none"})"},
     short_rows,
     [](Variant& kernel) { kernel.splits = 4, kernel.merge = Merge::normalised; }},
    {"lse_merge chain",
     {"f32,partial=bf16", R"({"lse_merge":"chain","splits_max":8})"},
     {"f32,partial=bf16", R"({"lse_merge":"flat","splits_max":8})"},
     "lq=16 lk=16 d=8 dv=16",
     [](Variant& kernel) { kernel.splits = 8, kernel.merge = Merge::chain; }},
    {"splits_max",
     {"f32,partial=bf16", R"({"lse_merge":"chain","splits_max":32})"},
     {"f32,partial=bf16", R"({"lse_merge":"chain","splits_max":2})"},
     "lq=16 lk=64 d=8 dv=32",
     [](Variant& kernel) { kernel.splits = 32, kernel.merge = Merge::chain; },
     positive_values},
    {"merge_weights lse",
     {"f32", R"({"merge_weights":"lse"})"},
     {"f32", "{}"},
     ones_at_1030,
     [](Variant& kernel) { kernel.splits = 4, kernel.merge = Merge::by_lse; },
     scores_near_1030},
    {"merge_weights lse, chain",
     {"f32", R"({"merge_weights":"lse","lse_merge":"chain","splits_max":4})"},
     {"f32", R"({"lse_merge":"chain","splits_max":4})"},
     ones_at_1030,
     [](Variant& kernel) { kernel.splits = 4, kernel.merge = Merge::chain_by_lse; },
     scores_near_1030},
    {"normalise lse",
     {"f32", R"({"normalise":"lse"})"},
     {"f32", "{}"},
     ones_at_1030,
     [](Variant& kernel) { kernel.normalise = Normalise::by_lse; },
     scores_near_1030},
    // Weights of 1/129,560 lie between subnormals; weights of 1 are exact.
    {"normalise before",
     {"f16,softmax=f64,pv=f64", R"({"normalise":"before"})"},
     {"f16,softmax=f64,pv=f64", R"({"normalise":"after"})"},
     "lk=129560 d=1 dv=1 v_form=one",
     [](Variant& kernel) { kernel.normalise = Normalise::before; },
     equal_scores,
     2,
     2},
    {"sum_of rounded",
     {"bf16", R"({"sum_of":"rounded","fold":"none"})"},
     {"bf16", R"({"sum_of":"unrounded","fold":"none"})"},
     "lq=8 lk=4 d=8 dv=1 lse=f32",
     [](Variant& kernel) { kernel.sum_of_rounded = true; }},
    {"sum_of unrounded",
     {"f32,weights=bf16", R"({"sum_of":"unrounded","normalise":"after"})"},
     {"f32,weights=bf16", R"({"sum_of":"rounded","normalise":"after"})"},
     "lq=8 lk=4 d=8 dv=1 v_form=one",
     [](Variant&) {}},
    {"kv_tile_min",
     {"f32", R"({"exp_ulp":20,"lse_merge":"none"})"},
     {"f32", R"({"exp_ulp":20,"lse_merge":"none","kv_tile_min":64})"},
     "lk=64 d=1 dv=2 scale=1",
     [](Variant& kernel) { kernel.tile = 1, kernel.exp_error = kernel.rescale_error = Error::up; },
     rising_scores},
    {"key_order",
     {"f32", R"({"exp_ulp":20,"lse_merge":"none","key_order":"descending"})"},
     {"f32", R"({"exp_ulp":20,"lse_merge":"none","key_order":"ascending"})"},
     "lk=64 d=1 dv=2 scale=1",
     [](Variant& kernel) {
       kernel.tile = 1, kernel.exp_error = kernel.rescale_error = Error::up, kernel.reversed = true;
     },
     falling_scores},
};

Contract contract_of(const Promise& promise) {
  return contract_from_text(promise.contract, policy_from_text(promise.policy));
}

class Numbers : public ::testing::TestWithParam<Freedom> {};

// Judges by the quick levels and by the full formulas, which must agree.
VerdictKind judged(const Contract& contract, const Problem& problem, const Inputs& inputs, const Tensor& out,
                   const Tensor& lse) {
  const VerdictKind kind = oracle::AttentionOracle(contract, problem, inputs).judge(out, lse).kind;
  EXPECT_EQ(kind, oracle::AttentionOracle(contract, problem, inputs).judge_slowly(out, lse).kind);
  return kind;
}

TEST_P(Numbers, AreJudgedAsDeclared) {
  const Freedom& freedom = GetParam();
  const Contract declared = contract_of(freedom.declared), undeclared = contract_of(freedom.undeclared);
  ASSERT_NE(declared, undeclared);
  int found = 0;
  for (int n = 0; n < freedom.problems; ++n) {
    Problem problem = problem_from_text(std::string(freedom.problem));
    problem.dtype = declared.policy[Stage::storage];
    problem.seed = static_cast<std::uint64_t>(n) + 1;
    Inputs inputs = materialise(problem);
    if (freedom.fill) freedom.fill(inputs, problem.seed);
    Variant kernel;
    kernel.seed = mix(problem.seed);
    freedom.use(kernel);
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, declared, kernel, out, lse);
    EXPECT_NE(judged(declared, problem, inputs, out, lse), VerdictKind::fail) << to_text(problem);
    found += judged(undeclared, problem, inputs, out, lse) == VerdictKind::fail ? 1 : 0;
  }
  RecordProperty("found", found);
  EXPECT_GE(found, freedom.found) << "of " << freedom.problems;
}

INSTANTIATE_TEST_SUITE_P(Section0, Numbers, ::testing::ValuesIn(freedoms), [](const auto& row) {
  std::string name;
  for (const char* at = row.param.name; *at != '\0'; ++at)
    if (std::isalnum(static_cast<unsigned char>(*at)) != 0) name += *at;
  return name;
});

// gtest prints parameters with this.
void PrintTo(const Freedom& freedom, std::ostream* out) { *out << freedom.name; }

}  // namespace
}  // namespace attest
