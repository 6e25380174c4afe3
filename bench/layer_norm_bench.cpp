// What a verdict costs beside the plainest float64 LayerNorm (plain_layer_norm.hpp), both on one thread: `ratio` of
// processor times,
// the figure to hold is 4. `whole_ratio` is that of the whole formulas for every element.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/plain_layer_norm.hpp"
#include "bench/processor_time.hpp"
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
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
