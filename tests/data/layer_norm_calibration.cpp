// Writes oracle/layer_norm/calibration.json: what conforming emulated kernels give to the statistical tier of layer_norm. Kernels take
// all of what a contract permits, to one side, too, in every order that does not look at the numbers.
//
//   layer_norm_calibration CASES [SEED] > oracle/layer_norm/calibration.json     CASES of each policy and class; 2,000 were shipped
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "oracle/layer_norm/calibration.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest {
namespace {

namespace emulated = attest::emulator::layer_norm;
using layer_norm::Problem;
using oracle::CalibrationCell;
using oracle::layer_norm::LayerNormOracle;

constexpr Index most_of_lambda = 1024;  // elements of a problem whose lambda is asked of each
constexpr std::uint64_t kernels = 50;

struct Measured {
  std::uint64_t kernel;
  double t;
};

void measure(const layer_norm::Policy& policy, layer_norm::Values values, bool offset, std::uint64_t n,
             std::uint64_t seed, CalibrationCell& cell, std::vector<Measured>& results) {
  const std::uint64_t key = extend(extend(mix(seed), n), static_cast<std::uint64_t>(values) * 2 + offset);
  const std::uint64_t kernel = n % kernels;
  layer_norm::Contract contract = emulated::draw_contract(extend(mix(seed ^ 0x6b), kernel));
  contract.policy = policy;
  contract.arithmetic.kappa = 1;
  contract.arithmetic.flush_to_zero = layer_norm::FlushToZero::no;
  Problem problem = emulated::draw_problem(contract, 8192, key);
  problem.values = values;
  problem.rows = std::max<Index>(1, problem.rows);
  if (!offset) problem.offset = 0;
  if (offset && problem.offset == 0) problem.offset = std::pow(10.0, static_cast<double>(below(mix(key), 50)) / 10);
  const layer_norm::Inputs inputs = materialise(problem);
  Tensor out = make_out(problem), none;
  const bool rms = problem.norm == layer_norm::Norm::rms;
  emulated::Scheme scheme = emulated::draw_scheme(contract, problem.hidden, rms, key);
  if (scheme.order > emulated::Order::shuffled) scheme.order = static_cast<emulated::Order>(key % 3);
  emulated::run(inputs, contract, scheme, out, none);
  LayerNormOracle judge(contract, problem, inputs);
  oracle::Statistics statistics;
  if (judge.judge(out, none, &statistics).kind == VerdictKind::fail) {
    std::fprintf(stderr, "an emulated kernel left the proven interval: %s\n", to_text(problem).c_str());
    std::exit(1);
  }
  double lambda = statistics.largest_lambda;
  if (problem.elements() <= most_of_lambda)
    for (Index row = 0; row < problem.rows; ++row)
      for (Index column = 0; column < problem.hidden; ++column) {
        const double needed = judge.lambda_needed(row, column, out.at(row, column));
        if (std::isnan(needed)) continue;
        ++cell.lambda_elements;
        lambda = std::max(lambda, needed);
      }
  cell.lambda = std::max(cell.lambda, lambda);
  if (statistics.elements < oracle::least_elements) return;
  cell.elements += statistics.elements;
  results.push_back({kernel, statistics.t()});
  if (statistics.t() > cell.t) {
    cell.t = statistics.t();
    cell.worst = to_text(problem);
  }
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  using namespace attest;
  if (argc < 2 || std::atol(argv[1]) < 1) {
    std::fprintf(stderr, "usage: layer_norm_calibration CASES [SEED]\n");
    return 2;
  }
  const auto cases = static_cast<std::uint64_t>(std::atol(argv[1]));
  oracle::Calibration calibration;
  calibration.seed = argc > 2 ? static_cast<std::uint64_t>(std::atol(argv[2])) : 1;
  for (const layer_norm::NamedPolicy& named : layer_norm::named_policies()) {
    if (!oracle::layer_norm::statistical_refusal(contract_for(named.policy)).empty()) continue;
    oracle::PolicyCalibration& of_policy = calibration.policies[to_text(named.policy)];
    std::vector<double> above(kernels, 0), all(kernels, 0);
    for (std::size_t values = 0; values < layer_norm::values_count; ++values)
      for (const bool offset : {false, true}) {
        layer_norm::Problem problem;
        problem.values = static_cast<layer_norm::Values>(values);
        problem.offset = offset ? 1 : 0;
        if (oracle::layer_norm::outputs_alike(problem)) continue;
        oracle::CalibrationCell cell;
        std::vector<Measured> results;
        for (std::uint64_t n = 0; n < cases; ++n)
          measure(named.policy, static_cast<layer_norm::Values>(values), offset, n, calibration.seed, cell, results);
        cell.kernels = static_cast<std::int64_t>(kernels);
        cell.results = std::ssize(results);
        std::ranges::sort(results, {}, &Measured::t);
        const auto at = [&](double share) {
          return results.empty() ? 0
                                 : results[static_cast<std::size_t>(share * static_cast<double>(results.size() - 1))].t;
        };
        cell.t50 = at(0.5), cell.t90 = at(0.9), cell.t99 = at(0.99), cell.t999 = at(0.999);
        for (const Measured& one : results) {
          all[one.kernel] += 1;
          above[one.kernel] += one.t > cell.t99;
        }
        // Asked of nothing: everything of this class is undetermined, or its rows' errors do not act linearly.
        if (cell.lambda_elements > 0 || cell.results > 0)
          of_policy.classes[oracle::layer_norm::calibration_class(problem)] = cell;
      }
    for (std::uint64_t kernel = 0; kernel < kernels; ++kernel)
      if (all[kernel] >= 100) of_policy.share = std::max(of_policy.share, above[kernel] / all[kernel]);
    std::fprintf(stderr, "%s\n", to_text(named.policy).c_str());
  }
  std::fputs(oracle::to_file_text(calibration).c_str(), stdout);
  return 0;
}
