// The defects that a block's enclosure finds: each of its contract's numbers overstepped, and the defects of a block by
// regime of weights. ATTEST_MHA_CASES and ATTEST_MHA_E print the table of docs/mha.md with as many cases and tokens
// that wide.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "kernels/mha/emulated.hpp"
#include "oracle/mha/mha.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest {
namespace {

using emulator::BlockDefect;
using emulator::BlockVariant;

Index from_environment(const char* name, Index fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : fallback;
}

mha::Contract contract_of(const std::string& policy, const std::string& numbers) {
  return mha::contract_from_json(nlohmann::json::parse(numbers), mha::policy_from_text(policy));
}

// Returns how many of some problems blame a kernel that keeps `kept` and is held to `declared`.
int blamed(const std::string& policy, const std::string& declared, const std::string& kept_policy,
           const std::string& kept, const std::string& line, int problems,
           const std::function<void(BlockVariant&)>& change = {}) {
  int count = 0;
  for (int n = 0; n < problems; ++n) {
    const mha::Contract contract = contract_of(policy, declared), own = contract_of(kept_policy, kept);
    mha::Problem problem = mha::problem_from_text(line);
    problem.seed = static_cast<std::uint64_t>(n) + 1;
    const mha::Inputs inputs = mha::materialise(problem);
    const Tensor out = mha::make_out(problem);
    const mha::Call call = inputs.call(out);
    BlockVariant variant = emulator::draw_block_variant(own, problem, problem.seed);
    variant.in.order = variant.out.order = emulator::SumOrder::forward;
    if (change) change(variant);
    emulator::run(call, own, variant);
    count += oracle::MhaOracle(contract, call).judge(out).kind == VerdictKind::fail;
  }
  return count;
}

constexpr const char* dense_f16 = "l=6 m=6 e=16 heads=2 kv_heads=2 head_dim=8 dtype=f16 weights=dense";
constexpr const char* out_one_hot = "l=6 m=6 e=32 heads=2 kv_heads=2 head_dim=8 dtype=f16 weights=dense_in";
constexpr const char* cancelling = "l=6 m=6 e=64 heads=2 kv_heads=2 head_dim=8 dtype=f16 weights=cancelling";
constexpr const char* plain = R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0})";

TEST(MhaBeyond, EachNumberOfTheContractIsHeldAgainstWhatOverstepsIt) {
  // projections: a kernel that leaves them unrounded, or rounds them apart from their biases
  EXPECT_GT(blamed("f16", plain, "f16", R"({"projections":"unrounded"})", out_one_hot, 40), 0);
  EXPECT_GT(blamed("f16", plain, "f16", R"({"projections":"separate"})", out_one_hot, 20), 0);
  EXPECT_GT(blamed("f16", R"({"projections":"unrounded","exp2":false,"fold":"none"})", "f16", "{}", dense_f16, 20), 0);
  EXPECT_EQ(blamed("f16", R"({"projections":["rounded","unrounded"]})", "f16", R"({"projections":"unrounded"})",
                   dense_f16, 20),
            0);
  // heads
  EXPECT_GT(blamed("f16", R"({"projections":"unrounded","heads":"unrounded"})", "f16", R"({"projections":"unrounded"})",
                   dense_f16, 20),
            15);
  // gemm
  EXPECT_GT(blamed("f16,gemm=f32", plain, "f16,gemm=f16", "{}", cancelling, 20), 15);
  EXPECT_EQ(blamed("f16,gemm=f16", plain, "f16,gemm=f16", "{}", cancelling, 20), 0);
  // gemm_chain: a sum in sequence, and truncated, loses more than one in lanes
  const auto truncate = [](BlockVariant& v) { v.in.truncate = v.out.truncate = true; };
  const char* wide = "l=4 m=1 e=512 heads=1 kv_heads=1 head_dim=32 dtype=f16 weights=dense_in";
  const char* in_lanes = R"({"gemm_chain":{"lanes":64},"exp2":false,"fold":"none","lse_merge":"none","lazy":0})";
  EXPECT_GT(blamed("f16,gemm=f16", in_lanes, "f16,gemm=f16", "{}", wide, 20, truncate), 10);
  EXPECT_EQ(blamed("f16,gemm=f16", R"({"kappa":3})", "f16,gemm=f16", "{}", wide, 20, truncate), 0);
  // drops_b_k: softmax forgets b_k, the rounding of k does not
  const auto drop = [](BlockVariant& v) { v.defect = BlockDefect::no_b_k; };
  EXPECT_GT(blamed("f16", plain, "f16", "{}", out_one_hot, 20, drop), 0);
  EXPECT_EQ(blamed("f16", R"({"drops_b_k":true})", "f16", "{}", out_one_hot, 20, drop), 0);
}

// A declared chain narrows what a long sum may lose, so that what oversteps it shows sooner.
TEST(MhaBeyond, AChainNarrowsTheEnclosure) {
  const mha::Problem problem =
      mha::problem_from_text("l=2 m=2 e=256 heads=1 kv_heads=1 head_dim=8 dtype=f32 weights=dense seed=3");
  const mha::Inputs inputs = mha::materialise(problem);
  const Tensor out = mha::make_out(problem);
  const auto width = [&](const char* numbers) {
    const mha::Contract contract = contract_of("f32", numbers);
    const mha::Call call = inputs.call(out);
    oracle::MhaOracle oracle(contract, call);
    const oracle::Enclosure e = oracle.enclosure(0, 0, 1, 5);
    return e.hi - e.lo;
  };
  EXPECT_LT(width(R"({"gemm_chain":{"lanes":16}})"), 0.3 * width("{}"));
  EXPECT_LE(width(R"({"gemm_chain":8})"), width(R"({"gemm_chain":16})"));
}

constexpr BlockDefect defects[] = {
    BlockDefect::none,    BlockDefect::order_swapped, BlockDefect::order_q_k,  BlockDefect::order_interleaved,
    BlockDefect::no_b_q,  BlockDefect::no_b_v,        BlockDefect::no_b_out,   BlockDefect::no_transpose,
    BlockDefect::gemm_16, BlockDefect::softmax_16,    BlockDefect::gemm_out_16};
constexpr const char* defect_names[] = {"none",  "k<->v", "q<->k",   "interleaved", "b_q",        "b_v",
                                        "b_out", "heads", "gemm-16", "softmax-16",  "out-gemm-16"};
struct Regime {
  const char *name, *weights;
  bool larger = false;  // than problems of these weights are drawn
};
constexpr Regime regimes[] = {{"dense", "dense"},
                              {"one_hot", "one_hot"},
                              {"power_of_two", "power_of_two"},
                              {"integers", "integers"},
                              {"integers, larger", "integers", true},
                              {"cancelling", "cancelling"},
                              {"cancelling, larger", "cancelling", true},
                              {"dense_in", "dense_in"},
                              {"dense_out", "dense_out"}};

// Integers of weights are multiples of the power of two below that of a dense weight's size; the prototype's of the one
// that is nearest to 1 / (2 sqrt(2 e)). Where e is a power of four that is twice as much, and scores four times: a
// sharper softmax.
double larger_unit(Index e) {
  const double width = std::sqrt(static_cast<double>(e));
  const int drawn = -std::ilogb(2.8 * width) - 1, other = -static_cast<int>(std::lround(std::log2(2 * 1.41 * width)));
  return std::ldexp(1.0, other - drawn);
}

// The projections in and their biases, times a power of two.
void enlarge(mha::Inputs& inputs, double by) {
  for (Tensor* tensor : {&inputs.w_q, &inputs.w_k, &inputs.w_v, &inputs.b_q, &inputs.b_k, &inputs.b_v})
    for (Index i = 0; i < tensor->shape()[0]; ++i)
      for (Index j = 0; j < (tensor->shape().size() > 1 ? tensor->shape()[1] : 1); ++j)
        tensor->set(i, j, 0, 0, by * tensor->at(i, j));
}

struct Cell {
  int cases = 0, found = 0;  // cases in which the defect changes an output
};
using Line = std::array<Cell, std::size(defects)>;

Line detect(const char* dtype, const Regime& regime, Index e, Index l, Index cases, double& relative_radius) {
  Line line{};
  double radii = 0, squares = 0;
  for (Index n = 0; n < cases; ++n) {
    const mha::Contract contract = contract_of(dtype, R"({"lse_merge":"none","fold":"none"})");
    mha::Problem problem =
        mha::problem_from_text("self=1 heads=4 kv_heads=4 dtype=" + std::string(dtype) + " weights=" + regime.weights +
                               " l=" + std::to_string(l) + " m=" + std::to_string(l) + " e=" + std::to_string(e) +
                               " head_dim=" + std::to_string(e / 4));
    problem.seed = static_cast<std::uint64_t>(n) + 1;
    problem.causal = n % 3 == 1;
    mha::Inputs inputs = mha::materialise(problem);
    if (regime.larger) enlarge(inputs, larger_unit(e));
    const Tensor right = mha::make_out(problem);
    BlockVariant variant = emulator::draw_block_variant(contract, problem, problem.seed);
    // Another order takes the place of one that looks at the numbers, each as often.
    for (emulator::Sums* sums : {&variant.in, &variant.out})
      if (sums->order == emulator::SumOrder::greedy)
        sums->order = static_cast<emulator::SumOrder>(below(sums->seed, 5));
    for (std::size_t k = 0; k < std::size(defects); ++k) {
      Tensor out = mha::make_out(problem);
      const mha::Call call = inputs.call(k == 0 ? right : out);
      BlockVariant wrong = variant;
      wrong.defect = defects[k];
      emulator::run(call, contract, wrong);
      const Tensor& got = k == 0 ? right : out;
      bool same = k > 0;
      for (Index i = 0; i < l && same; ++i)
        for (Index c = 0; c < e && same; ++c) same = got.at(0, i, c) == right.at(0, i, c);
      if (same) continue;
      oracle::MhaOracle oracle(contract, call);
      ++line[k].cases;
      line[k].found += oracle.judge(got).kind == VerdictKind::fail;
      if (k > 0) continue;
      for (Index c = 0; c < e; ++c) {
        const oracle::Enclosure at = oracle.enclosure(0, 0, l - 1, c);
        radii += (at.hi - at.lo) * (at.hi - at.lo) / 4;
        squares += at.y * at.y;
      }
    }
  }
  relative_radius = std::sqrt(radii / squares);
  return line;
}

TEST(MhaDetection, SeesStructureEverywhereAndPrecisionWhereProjectionsAreExact) {
  const Index cases = from_environment("ATTEST_MHA_CASES", 3), e = from_environment("ATTEST_MHA_E", 32),
              l = from_environment("ATTEST_MHA_L", 8);
  const auto share = [](const Cell& cell) { return cell.cases == 0 ? -1.0 : 100.0 * cell.found / cell.cases; };
  for (const char* dtype : {"f32", "f16", "bf16"})
    for (const Regime& regime : regimes) {
      double radius = 0;
      const Line line = detect(dtype, regime, e, l, cases, radius);
      std::printf("%-4s %-18s radius %.1e |", dtype, regime.name, radius);
      for (std::size_t k = 1; k < line.size(); ++k) {
        if (line[k].cases == 0)
          std::printf(" %s -", defect_names[k]);
        else
          std::printf(" %s %.0f", defect_names[k], share(line[k]));
      }
      std::printf("\n");
      EXPECT_EQ(line[0].found, 0) << dtype << ' ' << regime.name;
      for (const std::size_t structural : {1, 3, 5, 6, 7})
        EXPECT_GE(share(line[structural]), 90) << dtype << ' ' << regime.name << ' ' << defect_names[structural];
      const std::string name(regime.weights);
      if (name == "cancelling") {
        EXPECT_EQ(share(line[8]), 100) << dtype;
      }
      if (name == "one_hot" || name == "power_of_two" || name == "cancelling" || regime.larger) {
        EXPECT_GE(share(line[9]), regime.larger ? 95 : 60) << dtype << ' ' << regime.name;
      }
    }
}

// Counts the cases that show that the last product is summed in 16 bits, by the order of the sum: the loss of a sum one
// by one shows sooner than that of pairs and lanes. ATTEST_MHA_CASES and ATTEST_MHA_E print the table of docs/mha.md,
// section 5.
TEST(MhaDetection, OrdersOfTheLastProduct) {
  const Index cases = from_environment("ATTEST_MHA_CASES", 4), e = from_environment("ATTEST_MHA_E", 32),
              l = from_environment("ATTEST_MHA_L", 8);
  const struct {
    const char* name;
    emulator::SumOrder order;
    Index lanes;
  } orders[] = {{"forward", emulator::SumOrder::forward, 1}, {"backward", emulator::SumOrder::backward, 1},
                {"random", emulator::SumOrder::random, 1},   {"4 lanes", emulator::SumOrder::lanes, 4},
                {"32 lanes", emulator::SumOrder::lanes, 32}, {"pairwise", emulator::SumOrder::pairwise, 1}};
  for (const char* regime : {"dense", "dense_out"}) {
    std::printf("%-10s", regime);
    int right = 0;
    for (const auto& order : orders) {
      int found = 0;
      for (Index n = 0; n < cases; ++n) {
        const mha::Contract contract = contract_of("f16", R"({"lse_merge":"none","fold":"none"})");
        mha::Problem problem = mha::problem_from_text(
            "self=1 heads=4 kv_heads=4 dtype=f16 weights=" + std::string(regime) + " l=" + std::to_string(l) +
            " m=" + std::to_string(l) + " e=" + std::to_string(e) + " head_dim=" + std::to_string(e / 4));
        problem.seed = static_cast<std::uint64_t>(n) + 1;
        problem.causal = n % 3 == 1;
        const mha::Inputs inputs = mha::materialise(problem);
        const Tensor out = mha::make_out(problem);
        const mha::Call call = inputs.call(out);
        BlockVariant variant = emulator::draw_block_variant(contract, problem, problem.seed);
        variant.out.order = order.order;
        variant.out.lanes = order.lanes;
        variant.out.splits = 1;
        for (const BlockDefect defect : {BlockDefect::gemm_out_16, BlockDefect::none}) {
          variant.defect = defect;
          emulator::run(call, contract, variant);
          const bool blamed_here = oracle::MhaOracle(contract, call).judge(out).kind == VerdictKind::fail;
          (defect == BlockDefect::none ? right : found) += blamed_here;
        }
      }
      std::printf("  %s %.0f %%", order.name, 100.0 * found / static_cast<double>(cases));
    }
    std::printf("\n");
    EXPECT_EQ(right, 0) << regime;
  }
}

}  // namespace
}  // namespace attest
