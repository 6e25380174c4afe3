// A call of attention as graphs of ONNX operators, evaluated in float64, against what the oracle says that it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "ops/op.hpp"
#include "report/package.hpp"

namespace attest {
namespace {

Contract contract_of(const Problem& problem, EmptyRow empty_row = EmptyRow::unspecified, bool cap_first = true) {
  Contract contract = contract_for(policy_for(problem.dtype));
  contract.empty_row = empty_row;
  contract.softcap_before_bias = cap_first;
  return contract;
}

struct Made {
  std::vector<ops::NamedGraph> graphs;
  std::unique_ptr<ops::Exchange> call;
  ops::Contract contract;
};

Made made(const std::string& line, EmptyRow empty_row = EmptyRow::unspecified, bool cap_first = true) {
  const Problem own = problem_from_text(line);
  validate(own);
  const ops::Problem problem = own;
  ops::Contract contract = contract_of(own, empty_row, cap_first);
  auto call = problem.op().exchange(problem);
  auto graphs = problem.op().graphs(*call, contract);
  return {std::move(graphs), std::move(call), std::move(contract)};
}

// The largest difference between what an explicit graph gives and the reference, relative to 1 and to the reference;
// rows without keys are left out unless the contract says what they are.
double apart(const ops::NamedGraph& one, Made& of, bool empty_rows) {
  const auto out = graph::Program(one.model).run(one.feeds).front();
  const Problem& p = of.call->problem().as<Problem>();
  EXPECT_EQ(out.shape, (std::vector<Index>{p.b, p.hq, p.lq, p.dv}));
  double worst = 0;
  std::size_t at = 0;
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i)
        for (Index c = 0; c < p.dv; ++c, ++at) {
          const ops::Permitted permitted = of.call->element(of.contract, "out", {b, h, i, c});
          if (permitted.undetermined || !permitted.number || !std::isfinite(permitted.y)) {
            if (empty_rows) ADD_FAILURE() << "nothing is known of a row";
            continue;
          }
          worst = std::max(worst, std::fabs(out.floats[at] - permitted.y) / (1 + std::fabs(permitted.y)));
          if (std::isnan(out.floats[at])) worst = 1e300;
        }
  return worst;
}

std::vector<std::string> names(const Made& made) {
  std::vector<std::string> all;
  for (const ops::NamedGraph& one : made.graphs) all.push_back(one.name);
  return all;
}

const std::vector<std::string> all_four{"explicit-queries", "explicit-scores", "explicit-both", "node"};

TEST(Graphs, AreWhatTheCallIs) {
  for (const char* const line :
       {"b=2 hq=2 hkv=2 lq=3 lk=5 d=4 dv=3 dtype=f32 scale=0x1p-2 values=normal:1 seed=1",
        "b=2 hq=4 hkv=2 lq=3 lk=5 d=4 dv=3 dtype=f64 scale=-0x1p-2 values=normal:1 seed=2",
        "b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=3 dtype=f64 scale=0x0p+0 values=normal:1 seed=2",
        "b=1 hq=2 hkv=1 lq=4 lk=6 d=4 dv=4 dtype=f64 causal=1 align=bottom_right values=normal:1 seed=3",
        "b=1 hq=2 hkv=2 lq=6 lk=6 d=4 dv=4 dtype=f64 causal=1 values=normal:1 seed=4",
        "b=1 hq=1 hkv=1 lq=6 lk=6 d=4 dv=4 dtype=f64 window_left=1 window_right=2 values=normal:1 seed=5",
        "b=3 hq=2 hkv=2 lq=2 lk=6 d=4 dv=4 dtype=f64 lengths=ragged values=normal:1 seed=6",
        "b=2 hq=2 hkv=2 lq=2 lk=6 d=4 dv=4 dtype=f64 bias=normal softcap=0x1p+0 values=normal:1 seed=7",
        "b=2 hq=2 hkv=2 lq=2 lk=6 d=4 dv=4 dtype=f16 bias=alibi values=normal:1 seed=8"}) {
    Made one = made(line);
    EXPECT_EQ(names(one), all_four) << line;
    for (const ops::NamedGraph& graph : one.graphs) {
      if (graph.name != "node") {
        EXPECT_LT(apart(graph, one, false), 1e-3) << line << " " << graph.name;
      }
    }
    if (one.call->problem().as<Problem>().dtype == Format::f64) {
      EXPECT_LT(apart(one.graphs[1], one, false), 1e-12) << line;
    }
    // The expected results of all are those of the first; the node has the same inputs of q, k and v.
    const auto packages = report::packaged(std::move(one.graphs));
    EXPECT_EQ(packages.back().expected.front().floats, packages.front().expected.front().floats);
    EXPECT_EQ(packages.back().feeds.at("q").floats, packages.front().feeds.at("q").floats);
  }
}

TEST(Graphs, SayWhatBecomesOfRowsWithoutKeys) {
  const std::string line =
      "b=1 hq=1 hkv=1 lq=4 lk=2 d=4 dv=4 dtype=f64 causal=1 align=bottom_right values=normal:1 seed=3";
  Made zero = made(line, EmptyRow::zero);
  EXPECT_EQ(names(zero), all_four);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(apart(zero.graphs[i], zero, true), 1e-12);
  Made mean = made(line, EmptyRow::mean_v);
  EXPECT_EQ(names(mean).size(), 3u);  // a node that gives 0 there is none
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(apart(mean.graphs[i], mean, true), 1e-12);
  Made nan = made(line, EmptyRow::nan);
  const auto package = report::packaged(std::move(nan.graphs)).front();
  EXPECT_TRUE(std::isnan(package.expected.front().floats.front()));
  EXPECT_FALSE(std::isnan(package.expected.front().floats.back()));
  EXPECT_THROW(
      made("b=3 hq=1 hkv=1 lq=2 lk=6 d=4 dv=4 dtype=f64 lengths=some_zero values=normal:1 seed=6", EmptyRow::mean_v),
      Error);
}

TEST(Graphs, KeepTheOrderOfSoftcapAndBias) {
  const std::string line =
      "b=1 hq=2 hkv=2 lq=2 lk=6 d=4 dv=4 dtype=f64 bias=normal softcap=0x1p+0 values=normal:1 seed=7";
  Made behind = made(line, EmptyRow::unspecified, false);
  EXPECT_EQ(names(behind).size(), 3u);
  EXPECT_LT(apart(behind.graphs[0], behind, false), 1e-12);
  Made before = made(line);
  EXPECT_GT(apart(behind.graphs[0], before, false), 1e-3) << "the order says nothing here";
}

TEST(Graphs, AreOfAttentionAlone) {
  const ops::Problem norm = ops::problem_from_text("op=layer_norm rows=2 hidden=4 dtype=f32 values=normal seed=1");
  const auto call = norm.op().exchange(norm);
  EXPECT_THROW((void)norm.op().graphs(*call, contract_of(problem_from_text("b=1 dtype=f32"))), Error);
}

}  // namespace
}  // namespace attest
