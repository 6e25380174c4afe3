// Rates of the built-in kernels: every kernel of the list on problems from one multiply-add to a long row.
#include <benchmark/benchmark.h>

#include <string>

#include "core/inputs.hpp"
#include "kernels/registry.hpp"

namespace {

using namespace attest;

// Mean work of a campaign's problems is near 40,000 multiply-adds; many have fewer than 1,000.
constexpr const char* shapes[] = {
    "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1",       "b=1 hq=2 hkv=2 lq=4 lk=8 d=8 dv=8",
    "b=2 hq=4 hkv=2 lq=17 lk=33 d=16 dv=16",   "b=2 hq=4 hkv=4 lq=64 lk=64 d=64 dv=64",
    "b=1 hq=4 hkv=4 lq=256 lk=512 d=64 dv=64", "b=1 hq=1 hkv=1 lq=1 lk=65536 d=64 dv=64",
};

void run(benchmark::State& state, const kernels::KernelEntry& kernel, const std::string& text, const Policy& policy) {
  const Problem problem = problem_from_text(text);
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  const attest_attention call = inputs.call(out, lse);
  const Contract contract = kernel.contract(policy);
  for (auto _ : state) {
    kernel.run(call, contract);
    benchmark::ClobberMemory();
  }
  state.counters["multiply_adds"] =
      benchmark::Counter(static_cast<double>(problem.multiply_adds()) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* policy : {"f32", "f16", "bf16", "f64", "f16-all"})
    for (const kernels::KernelEntry& kernel : kernels::builtin_kernels())
      for (const char* shape : shapes) {
        const Policy parsed = policy_from_text(policy);
        const std::string text = std::string(shape) + " threads=1 dtype=" + std::string(name(parsed[Stage::storage]));
        benchmark::RegisterBenchmark(
            (std::string(kernel.name) + '/' + policy + '/' + shape).c_str(),
            [&kernel, text, parsed](benchmark::State& state) { run(state, kernel, text, parsed); });
      }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
