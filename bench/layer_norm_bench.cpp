// Measures the cost of a verdict beside the plainest float64 LayerNorm (plain_layer_norm.hpp), both on one thread:
// `ratio` of processor times, the figure to hold is 4. `whole_ratio` is that of the whole formulas for every element.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/plain_layer_norm.hpp"
#include "bench/processor_time.hpp"
#include "generators/layer_norm/domain.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace {

using namespace attest;

void judge(benchmark::State& state, const std::string& text, const std::string& policy) {
  const layer_norm::Problem problem = layer_norm::problem_from_text(text);
  const layer_norm::Inputs inputs = materialise(problem);
  const Tensor out = layer_norm::make_out(problem), none;
  const auto& kernel = *kernels::layer_norm::find_kernel(kernels::layer_norm::builtin_kernels(), "fused");
  const layer_norm::Contract contract = kernel.contract(layer_norm::policy_from_text(policy));
  kernel.run(inputs.call(out, none), contract);
  bench::PlainLayerNorm plain(problem);
  const auto quick = [&] {
    benchmark::DoNotOptimize(oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge(out, none));
  };
  const auto whole = [&] {
    benchmark::DoNotOptimize(oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge_slowly(out, none));
  };
  for (auto _ : state) quick();
  const auto seconds = bench::seconds_each<3>({[&] { benchmark::DoNotOptimize(plain()); }, quick, whole});
  state.counters["plain_us"] = seconds[0] * 1e6;
  state.counters["verdict_us"] = seconds[1] * 1e6;
  state.counters["ratio"] = (seconds[1] - 0.2e-6) / seconds[0];
  state.counters["whole_ratio"] = seconds[2] / seconds[0];
}

// Judges problems as campaigns draw them, all in contiguous memory: `ratio` is that of problems of 256 elements or more
// in rows of 16 or more, together; `short_ratio` of the others, `all_ratio` of all.
void judge_stream(benchmark::State& state, const std::string& policy) {
  const auto& kernel = *kernels::layer_norm::find_kernel(kernels::layer_norm::builtin_kernels(), "fused");
  const layer_norm::Contract contract = kernel.contract(layer_norm::policy_from_text(policy));
  layer_norm::Supports supports = layer_norm::Supports::everything();
  supports.far = false;
  const layer_norm::Domain domain(supports, {contract.policy[layer_norm::Stage::storage]});
  double plain_seconds[2] = {}, verdict_seconds[2] = {};
  for (std::uint64_t n = 0; n < 400; ++n) {
    layer_norm::Problem problem = layer_norm::draw_counted(domain, 1, n, 1).problem;
    if (problem.elements() == 0 || problem.elements() > 100'000) continue;
    problem.x_layout = problem.residual_layout = problem.param_layout = problem.out_layout =
        layer_norm::Layout::contiguous;
    const layer_norm::Inputs inputs = materialise(problem);
    const Tensor out = layer_norm::make_out(problem), sum = layer_norm::make_sum_out(problem);
    kernel.run(inputs.call(out, sum), contract);
    bench::PlainLayerNorm plain(problem);
    const auto seconds = bench::seconds_each<2>(
        {[&] { benchmark::DoNotOptimize(plain()); },
         [&] {
           benchmark::DoNotOptimize(oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge(out, sum));
         }},
        3, 2e-4);
    const bool is_short = problem.elements() < 256 || problem.hidden < 16;
    plain_seconds[is_short] += seconds[0];
    verdict_seconds[is_short] += seconds[1] - 0.2e-6;
  }
  for (auto _ : state) benchmark::DoNotOptimize(plain_seconds);
  state.counters["ratio"] = verdict_seconds[0] / plain_seconds[0];
  state.counters["short_ratio"] = verdict_seconds[1] / plain_seconds[1];
  state.counters["all_ratio"] = (verdict_seconds[0] + verdict_seconds[1]) / (plain_seconds[0] + plain_seconds[1]);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* policy : {"f32", "f16", "bf16", "f64", "f16-all", "f32,statistics=bf16"})
    for (const char* shape : {"rows=1 hidden=64", "rows=16 hidden=256", "rows=64 hidden=1024", "rows=16 hidden=8192"})
      for (const char* values : {"", " offset=100"}) {
        const std::string text = std::string(shape) + values + " seed=1 dtype=" +
                                 std::string(policy).substr(0, std::string(policy).find_first_of(",-"));
        benchmark::RegisterBenchmark(("layer_norm_verdict/" + std::string(policy) + "/" + shape + values).c_str(),
                                     [=](benchmark::State& state) { judge(state, text, policy); });
      }
  for (const char* policy : {"f32", "f16", "bf16", "f64", "f16-all", "bf16-all"})
    benchmark::RegisterBenchmark(("layer_norm_stream/" + std::string(policy)).c_str(), [=](benchmark::State& state) {
      judge_stream(state, policy);
    })->Iterations(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
