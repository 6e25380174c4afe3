// Rates of the built-in kernels: every kernel of the list on problems from one multiply-add to a long row, on one
// thread. Names after the options, KERNEL/POLICY/PROBLEM, run those alone: 'explicit/f32/hq=8 hkv=8 lq=128 lk=128 d=64
// dv=64 threads=2'.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "core/error.hpp"
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

// A copy of a large tensor in large pages, in which NumPy keeps its arrays: otherwise the same call waits half as long
// again for memory.
class InLargePages {
 public:
  explicit InLargePages(attest_tensor& tensor) {
    std::size_t bytes = tensor.dtype.bits / 8;
    for (int axis = 0; axis < tensor.ndim; ++axis) bytes *= static_cast<std::size_t>(tensor.shape[axis]);
    constexpr std::size_t page = std::size_t{2} << 20;
    if (bytes < 2 * page) return;
    data_.reset(std::aligned_alloc(page, (bytes + page - 1) / page * page));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
    std::memcpy(data_.get(), static_cast<const char*>(tensor.data) + tensor.byte_offset, bytes);  // the layout is dense
    tensor.data = data_.get();
    tensor.byte_offset = 0;
  }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<void, Free> data_;
};

void run(benchmark::State& state, const kernels::KernelEntry& kernel, const std::string& text, const Policy& policy) {
  const Problem problem = problem_from_text(text);
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  attest_attention call = inputs.call(out, lse);
  const InLargePages q(call.q), k(call.k), v(call.v);
  const Contract contract = kernel.contract(policy);
  for (auto _ : state) {
    kernel.run(call, contract);
    benchmark::ClobberMemory();
  }
  state.counters["multiply_adds"] =
      benchmark::Counter(static_cast<double>(problem.multiply_adds()) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void add(std::string_view kernel_name, const std::string& policy, const std::string& shape) {
  const kernels::KernelEntry* kernel = kernels::find_kernel(kernels::builtin_kernels(), kernel_name);
  if (!kernel) throw usage_error("there is no kernel " + std::string(kernel_name));
  const Policy parsed = policy_from_text(policy);
  const std::string threads = shape.find("threads=") == std::string::npos ? " threads=1" : "";
  const std::string text = shape + threads + " dtype=" + std::string(name(parsed[Stage::storage]));
  benchmark::RegisterBenchmark((std::string(kernel_name) + '/' + policy + '/' + shape).c_str(),
                               [kernel, text, parsed](benchmark::State& state) { run(state, *kernel, text, parsed); })
      ->MeasureProcessCPUTime();
}

}  // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  for (int n = 1; n < argc; ++n) {
    const std::string text = argv[n];
    const auto first = text.find('/'), second = text.find('/', first + 1);
    if (second == std::string::npos || text.front() == '-') {
      benchmark::ReportUnrecognizedArguments(argc, argv);
      return 2;
    }
    add(text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1));
  }
  if (argc == 1)
    for (const char* policy : {"f32", "f16", "bf16", "f64", "f16-all"})
      for (const kernels::KernelEntry& kernel : kernels::builtin_kernels())
        for (const char* shape : shapes) add(kernel.name, policy, shape);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "kernels_bench: %s\n", error.what());
  return 2;
}
