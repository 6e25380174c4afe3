// Every number and choice of docs/bounds.md, section 0: a kernel that uses all the room that it gives, which is never found
// wrong where its contract says so, and is where its contract does not.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"

namespace attest {
namespace {

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

void fill(Tensor& tensor, double (*value)(Index position, Index column)) {
  const auto shape = tensor.shape();
  for (Index i = 0; i < shape[2]; ++i)
    for (Index c = 0; c < shape[3]; ++c) tensor.set(0, 0, i, c, value(i, c));
}

void rise_of_fourteen(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return 14.0 * static_cast<double>(j); });
}

// Two keys at scores of +-64, that bring a bias of -+64 to 0. The first product of a score is all of it but for 63 that
// are just under an ulp each.
void long_sums(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 8.0; });
  fill(in.k, [](Index j, Index c) { return (j == 0 ? 1 : -1) * (c == 0 ? 1 : 0x1.f8p-24); });
  fill(in.bias, [](Index, Index j) { return j == 0 ? -8.0 : 8.0; });
}

// One weight of 1, all others just under an ulp of it.
void one_heavy_key(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return j == 0 ? 0 : std::log(0x1.ep-24); });
  fill(in.v, [](Index, Index) { return 1.0; });
}

void rising_scores(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return 0.01 * static_cast<double>(j); });
  fill(in.v, [](Index j, Index) { return j < 32 ? 1.0 : -1.0; });
}
void falling_scores(Inputs& in, std::uint64_t) {
  rising_scores(in, 0);
  fill(in.k, [](Index j, Index) { return -0.01 * static_cast<double>(j); });
}

// Elements of one factor that are next to nothing, and large ones of the other: what is folded into the former underflows.
void tiny(Tensor& small, Tensor& large, std::uint64_t seed) {
  const double size = 0x1p-14 * (1.5 + 0.5 * symmetric_uniform(mix(seed)));
  for (Index i = 0; i < small.shape()[2]; ++i)
    for (Index c = 0; c < small.shape()[3]; ++c) small.set(0, 0, i, c, i % 2 == 0 ? size : -size);
  fill(large, [](Index j, Index) { return j % 2 == 0 ? 0x1p14 : -0x1p14; });
}
void tiny_queries(Inputs& in, std::uint64_t seed) { tiny(in.q, in.k, seed); }
void tiny_keys(Inputs& in, std::uint64_t seed) { tiny(in.k, in.q, seed); }

void large_queries(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 60000.0; });
  fill(in.k, [](Index, Index) { return 0x1p-13; });
}
void large_keys(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0x1p-13; });
  fill(in.k, [](Index, Index) { return 60000.0; });
}

void subnormal_values(Inputs& in, std::uint64_t) {
  fill(in.v, [](Index, Index) { return 0x1.3p-16; });
}
void subnormal_bias(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0.0; });
  fill(in.bias, [](Index, Index) { return 0x1.8p-15; });
}
void subnormal_weight(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return -11.0 * static_cast<double>(j); });
  fill(in.v, [](Index j, Index) { return 60000.0 * static_cast<double>(j); });
}
void subnormal_products(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0x1p-8; });
  fill(in.k, [](Index j, Index) { return j == 0 ? 0 : 0x1.8p-8; });
}
void subnormal_mean(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0.0; });
  fill(in.v, [](Index j, Index) { return j == 0 ? 0x1.8p-126 : -0x1p-126; });
}
void scores_near_1030(Inputs& in, std::uint64_t) {
  fill(in.bias, [](Index, Index) { return 1030.0; });
}
void rise_of_seven(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return 7.0 * static_cast<double>(j); });
  fill(in.v, [](Index, Index) { return 100.0; });
}
// A weight just above 1/8 beside one of 1, whose value is 0: few other roundings show.
void an_eighth(Inputs& in, std::uint64_t seed) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.v, [](Index j, Index) { return static_cast<double>(j); });
  in.k.set(0, 0, 0, 0, 0);
  in.k.set(0, 0, 1, 0, -2.06 + 0.01 * symmetric_uniform(mix(seed)));
}
// The second key has the larger score, and all of the output.
void rise_of_less_than_one(Inputs& in, std::uint64_t seed) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.v, [](Index j, Index) { return static_cast<double>(j); });
  in.k.set(0, 0, 0, 0, 0);
  in.k.set(0, 0, 1, 0, 0.5 + 0.4 * symmetric_uniform(mix(seed)));
}
void positive_values(Inputs& in, std::uint64_t) {
  fill(in.v,
       [](Index j, Index c) { return 1.5 + 0.5 * symmetric_uniform(mix(static_cast<std::uint64_t>(j * 997 + c))); });
}
void equal_scores(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0.0; });
}

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
     {"bf16", R"({"sum_of":"rounded"})"},
     {"bf16", R"({"sum_of":"unrounded"})"},
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
     [](Variant& kernel) { kernel.tile = 1, kernel.exp_error = Error::up; },
     rising_scores},
    {"key_order",
     {"f32", R"({"exp_ulp":20,"lse_merge":"none","key_order":"descending"})"},
     {"f32", R"({"exp_ulp":20,"lse_merge":"none","key_order":"ascending"})"},
     "lk=64 d=1 dv=2 scale=1",
     [](Variant& kernel) { kernel.tile = 1, kernel.exp_error = Error::up, kernel.reversed = true; },
     falling_scores},
};

Contract contract_of(const Promise& promise) {
  return contract_from_json(nlohmann::json::parse(promise.contract), policy_from_text(promise.policy));
}

class Numbers : public ::testing::TestWithParam<Freedom> {};

// By the quick levels and by the full formulas alike.
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
