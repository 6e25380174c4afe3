// Errors that the statistical tier of layer_norm must not take for noise: kernels that keep their contract, whose numbers have few bits,
// so that the squares they add lose the same way again and again, and whose root, epsilon and orders take what they may to one side.
// beta takes back nearly all of each element, so that out holds little else than the error, whatever its format.
//
// ATTEST_LAYER_NORM_SEEDS (1) is how many problems of each kind are asked, ATTEST_LAYER_NORM_LONGEST (2048) how long rows get.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "oracle/layer_norm/calibration.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "tests/setting.hpp"

namespace attest::oracle::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;
using attest::layer_norm::make_out;
using attest::layer_norm::policy_from_text;
using attest::layer_norm::problem_from_text;
using attest::layer_norm::Values;
using emulated::Order;
using emulated::RootError;
using emulated::Shape;

// What x may hold: numbers of `bits` bits.
void shorten(Inputs& inputs, Format bits) {
  for (Index i = 0; i < inputs.x.shape()[0]; ++i)
    for (Index j = 0; j < inputs.x.shape()[1]; ++j) inputs.x.set(i, j, 0, 0, round_to(bits, inputs.x.at(i, j)));
}

// beta = -(the element without it), as nearly as its format has it; by the reference of row 0.
void take_back(const Contract& contract, const Problem& problem, Inputs& inputs) {
  for (Index j = 0; j < problem.hidden; ++j) inputs.beta.set(j, 0, 0, 0, 0);
  LayerNormOracle plain(contract, problem, inputs);
  std::vector<double> y;
  for (Index j = 0; j < problem.hidden; ++j) {
    const Interval at = plain.interval(0, j);
    y.push_back(0.5 * (at.enclosure.lo + at.enclosure.hi));
  }
  for (Index j = 0; j < problem.hidden; ++j)
    inputs.beta.set(j, 0, 0, 0, round_to(problem.param_format(), -y[static_cast<std::size_t>(j)]));
}

struct Kind {
  const char *name, *problem;
  Format bits;
};
constexpr Kind kinds[] = {
    {"f32 uniform", "dtype=f32 values=uniform", Format::f32},  // multiples of 2^-10
    {"f32 normal", "dtype=f32 values=normal", Format::f32},
    // Numbers that are equal modulo 2^-10, but no multiples of it.
    {"f32 moved", "dtype=f32 values=uniform offset=1.7", Format::f32},
    {"f32 moved on", "dtype=f32 values=uniform offset=4.3", Format::f32},
    {"f32 moved far", "dtype=f32 values=uniform offset=100.3", Format::f32},
    {"f32 of bf16", "dtype=f32 values=normal", Format::bf16},
    {"f32 of f16", "dtype=f32 values=normal", Format::f16},
    {"bf16 uniform", "dtype=bf16 values=uniform param_type=f32", Format::bf16},
    {"bf16 normal", "dtype=bf16 values=normal param_type=f32", Format::bf16},
    {"f16 normal", "dtype=f16 values=normal param_type=f32", Format::f16},
};

struct Way {
  const char *name, *norm;
  Variance variance;
};
constexpr Way ways[] = {{"rms", "rms", Variance::two_pass},
                        {"two_pass", "layer", Variance::two_pass},
                        {"two_pass_corrected", "layer", Variance::two_pass_corrected},
                        {"welford", "layer", Variance::welford},
                        {"shifted", "layer", Variance::shifted},
                        {"one_pass", "layer", Variance::one_pass}};

// The largest lambda that an element of row 0 needs.
double worst_lambda(const Contract& contract, const Problem& problem, const Inputs& inputs,
                    const emulated::Scheme& scheme) {
  Tensor out = make_out(problem), none;
  emulated::run(inputs, contract, scheme, out, none);
  LayerNormOracle judge(contract, problem, inputs);
  EXPECT_NE(judge.judge(out, none).kind, VerdictKind::fail) << to_text(problem);
  double most = 0;
  const Index step = std::max<Index>(1, problem.hidden / 64);
  for (Index j = 0; j < problem.hidden; j += step) {
    const double lambda = judge.lambda_needed(0, j, out.at(0, j));
    if (!std::isnan(lambda)) most = std::max(most, lambda);
  }
  return most;
}

TEST(LayerNormOneSided, NoConformingKernelIsBlamed) {
  const std::uint64_t seeds = setting("ATTEST_LAYER_NORM_SEEDS", 1),
                      longest = setting("ATTEST_LAYER_NORM_LONGEST", 2048);
  double overall = 0;
  for (const Kind& kind : kinds)
    for (const Way& way : ways) {
      if (std::string(way.name) == "rms" && std::string(kind.problem).find("offset") != std::string::npos) continue;
      std::string line;
      for (const Index n : {48, 64, 100, 128, 250, 256, 512, 1024, 2048, 4096, 16384, 65536}) {
        if (n > static_cast<Index>(longest)) continue;
        double most = 0;
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
          Problem problem = problem_from_text("rows=1 gamma=near beta=near epsilon=1e-5 " + std::string(kind.problem) +
                                              " hidden=" + std::to_string(n) + " norm=" + way.norm);
          problem.seed = seed;
          Contract contract = attest::layer_norm::contract_for(policy_from_text(std::string(name(problem.dtype))));
          contract.arithmetic.variance = way.variance;
          Inputs inputs = materialise(problem);
          shorten(inputs, kind.bits);
          take_back(contract, problem, inputs);
          for (const Order order : {Order::forward, Order::shuffled, Order::by_magnitude, Order::by_magnitude_down})
            for (const bool fma : {false, true})
              for (const RootError root : {RootError::up, RootError::down}) {
                emulated::Scheme scheme;
                scheme.order = order;
                scheme.fma = fma;
                scheme.root = root;
                scheme.reciprocal_count = fma;
                most = std::max(most, worst_lambda(contract, problem, inputs, scheme));
              }
        }
        line += fmt::format(" {:5.1f}", most);
        overall = std::max(overall, most);
        EXPECT_LT(most, 5) << kind.name << ' ' << way.name << " hidden " << n;
      }
      fmt::print("{:13} {:18} lambda, hidden 48.. {}\n", kind.name, way.name, line);
    }
  fmt::print("the largest lambda: {:.2f}\n", overall);
}

// Contracts of every policy and number, problems that the tier speaks of, kernels at the edge of what they promise.
TEST(LayerNormOneSided, EachNumberMayBeTakenToItsEdge) {
  const std::uint64_t cases = setting("ATTEST_LAYER_NORM_EDGES", 3000), seed = setting("ATTEST_LAYER_NORM_SEED", 1);
  struct Tally {
    int asked = 0, spoken_of = 0;
    double lambda = 0;
    std::string at;
  };
  std::map<std::string, Tally> tallies;
  for (std::uint64_t n = 0; n < cases; ++n) {
    const std::uint64_t key = extend(mix(seed), n);
    Contract contract = emulated::draw_contract(key);
    contract.arithmetic.kappa = 1;
    contract.arithmetic.flush_to_zero = attest::layer_norm::FlushToZero::no;
    if (!statistical_refusal(contract).empty()) continue;
    Problem problem = emulated::draw_problem(contract, 4096, key);
    constexpr Values spoken_of[] = {Values::uniform, Values::normal, Values::roots_large, Values::roots_small,
                                    Values::huge};
    problem.values = spoken_of[n % 5];
    problem.hidden = std::max<Index>(48, problem.hidden);
    problem.rows = 1;
    if (n % 3 != 0 || problem.norm == attest::layer_norm::Norm::rms) problem.offset = 0;
    if (n % 2 != 0) problem.amplitude = 1;
    problem.sum_out = false;
    problem.gamma = problem.beta = attest::layer_norm::Weights::near;
    if (problem.dtype != Format::f64) problem.param_type = attest::layer_norm::ParamType::f32;
    if (outputs_alike(problem)) continue;
    Inputs inputs = materialise(problem);
    take_back(contract, problem, inputs);
    emulated::Scheme scheme =
        emulated::draw_scheme(contract, problem.hidden, problem.norm == attest::layer_norm::Norm::rms, key);
    if (scheme.order > Order::shuffled) scheme.order = static_cast<Order>(key % 3);
    Tally& tally = tallies[to_text(contract.policy)];
    const double lambda = worst_lambda(contract, problem, inputs, scheme);
    ++tally.asked;
    tally.spoken_of += lambda > 0;
    EXPECT_LT(lambda, 5) << to_json(contract).dump() << ' ' << to_text(problem) << " key " << key;
    if (lambda > tally.lambda) tally.lambda = lambda, tally.at = to_json(contract).dump() + ' ' + to_text(problem);
  }
  for (const auto& [policy, tally] : tallies)
    fmt::print("{:36} {:5} rows, {:5} judged, lambda {:.2f}\n", policy, tally.asked, tally.spoken_of, tally.lambda);
  if (std::getenv("ATTEST_LAYER_NORM_SHOW") != nullptr)
    for (const auto& [policy, tally] : tallies) fmt::print("{:.2f} {}\n", tally.lambda, tally.at);
}

// Of one gamma and beta for all elements, what is made of them and the row's statistics (folded: r gamma, beta - m r gamma) is rounded
// once for all, which T must not take for as many independent roundings.
TEST(LayerNormOneSided, RowsOfOneGammaAndBetaErrTogether) {
  for (const char* line : {"rows=5 hidden=255 residual=like_x gamma=none beta=one values=uniform amplitude=0x1p-19 "
                           "offset=-0x1p-3 seed=16470904449220817613",
                           "rows=5 hidden=255 gamma=one beta=one values=normal offset=10 seed=3",
                           "rows=1 hidden=4096 gamma=one beta=one values=uniform seed=4"}) {
    const Problem problem = problem_from_text(line);
    const Inputs inputs = materialise(problem);
    double most = 0;
    for (std::uint64_t n = 0; n < 400; ++n) {
      const std::uint64_t key = extend(mix(5), n);
      Contract contract = emulated::draw_contract(key);
      contract.policy = policy_from_text("f32");
      contract.arithmetic.kappa = 1;
      contract.arithmetic.flush_to_zero = attest::layer_norm::FlushToZero::no;
      emulated::Scheme scheme = emulated::draw_scheme(contract, problem.hidden, false, key);
      if (scheme.order > Order::shuffled) scheme.order = Order::forward;
      Tensor out = make_out(problem), none;
      emulated::run(inputs, contract, scheme, out, none);
      oracle::Statistics statistics;
      LayerNormOracle judge(contract, problem, inputs);
      EXPECT_NE(judge.judge(out, none, &statistics).kind, VerdictKind::fail) << line;
      most = std::max(most, statistics.t());
    }
    fmt::print("T {:.2f} of {}\n", most, line);
    EXPECT_GT(most, 0) << line;
    EXPECT_LT(most, 2) << line;
  }
}

// x on a grid and a root of nearly 1: all results lie alike between two numbers, and what a kernel's own way moves them by, all of them
// are rounded by. T was 2.6 for kernels/ as they are.
TEST(LayerNormOneSided, ResultsThatLieAlikeSayNothingOfTheNoise) {
  const std::string line = "rows=1 hidden=319 gamma=one beta=one values=uniform seed=13621870173530705942 ";
  for (const auto& [rest, says] :
       {std::pair{"epsilon=0x1p+0 amplitude=0x1p-12", false}, std::pair{"epsilon=0x1p-7", true}}) {
    const Problem problem = problem_from_text(line + rest);
    const Inputs inputs = materialise(problem);
    for (const auto& kernel : attest::kernels::layer_norm::builtin_kernels()) {
      const Contract contract = kernel.contract(policy_from_text("f32"));
      Tensor out = make_out(problem), none;
      kernel.run(inputs.call(out, none), contract);
      oracle::Statistics statistics;
      LayerNormOracle judge(contract, problem, inputs);
      EXPECT_EQ(judge.judge(out, none, &statistics).kind, VerdictKind::pass) << kernel.name << rest;
      EXPECT_EQ(statistics.elements > 0, says) << kernel.name << rest;
      EXPECT_LT(statistics.t(), 1) << kernel.name << rest;
    }
  }
}

}  // namespace
}  // namespace attest::oracle::layer_norm
