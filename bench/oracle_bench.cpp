// Measures the cost of a verdict beside the plainest float64 attention (plain_attention.hpp), both on one thread. The
// `ratio` of a verdict is its processor time, less 0.2 us a problem, over that of the plain one; the figure to hold is
// 3.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/plain_attention.hpp"
#include "bench/processor_time.hpp"
#include "core/inputs.hpp"
#include "kernels/registry.hpp"
#include "oracle/attention.hpp"

namespace {

using namespace attest;
constexpr const char* shapes[] = {
    "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1",       "b=1 hq=2 hkv=2 lq=4 lk=8 d=8 dv=8",
    "b=2 hq=4 hkv=4 lq=17 lk=33 d=16 dv=16",   "b=2 hq=4 hkv=4 lq=64 lk=64 d=64 dv=64",
    "b=1 hq=4 hkv=4 lq=256 lk=512 d=64 dv=64",
};

void judge(benchmark::State& state, const std::string& text, const Policy& policy) {
  const Problem problem = problem_from_text(text);
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse;
  const kernels::KernelEntry& kernel = kernels::builtin_kernels().front();
  const Contract contract = kernel.contract(policy);
  kernel.run(inputs.call(out, lse), contract);
  bench::PlainAttention plain(problem);
  const auto verdict = [&] {
    benchmark::DoNotOptimize(oracle::AttentionOracle(contract, problem, inputs).judge(out, lse));
  };
  for (auto _ : state) verdict();
  const auto seconds = bench::seconds_each<2>({[&] { benchmark::DoNotOptimize(plain()); }, verdict});
  state.counters["plain_us"] = seconds[0] * 1e6;
  state.counters["verdict_us"] = seconds[1] * 1e6;
  state.counters["ratio"] = (seconds[1] - 0.2e-6) / seconds[0];
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* policy : {"f32", "f16", "f16-scores16", "bf16", "f64"})
    for (const char* shape : shapes) {
      const Policy parsed = policy_from_text(policy);
      const std::string text = std::string(shape) + " threads=1 dtype=" + std::string(name(parsed[Stage::storage]));
      benchmark::RegisterBenchmark((std::string("verdict/") + policy + '/' + shape).c_str(),
                                   [text, parsed](benchmark::State& state) { judge(state, text, parsed); });
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
