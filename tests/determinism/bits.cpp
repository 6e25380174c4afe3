// Prints what must not depend on the compiler or its options: problem texts, tensor bits, enclosures, and how the
// oracle judges the explicit kernel and three faults, with witnesses. The tests beside it compare the output of several
// builds.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "core/inputs.hpp"
#include "core/rng.hpp"
#include "generators/draw.hpp"
#include "kernels/registry.hpp"
#include "oracle/attention.hpp"

namespace {

using namespace attest;

constexpr std::uint64_t cases = 150;

std::uint64_t hash(std::uint64_t key, const Tensor& tensor) {
  const MemoryParts parts = tensor.parts();
  for (std::size_t n = 0; n < parts.count; ++n)
    for (const std::byte byte : parts.part(n)) key = extend(key, static_cast<std::uint64_t>(byte));
  return key;
}

// The bits of the enclosures of the first and the last element of out, and of their rows' log-sum-exp.
std::uint64_t enclosures(const Problem& problem, const Inputs& inputs) {
  const Contract contract = contract_for(policy_for(problem.dtype));
  oracle::AttentionOracle oracle(contract, problem, inputs);
  const Index last_column = problem.dv - 1;
  std::uint64_t bits = 0;
  if (problem.b == 0 || problem.hq == 0 || problem.lq == 0 || problem.dv == 0) return bits;
  for (const bool last : {false, true}) {
    const Index b = last ? problem.b - 1 : 0, h = last ? problem.hq - 1 : 0, i = last ? problem.lq - 1 : 0;
    for (const oracle::Enclosure& e :
         {oracle.out_enclosure(b, h, i, last ? last_column : 0), oracle.lse_enclosure(b, h, i)})
      for (const double number : {e.y, e.lo, e.hi, e.hull_lo, e.hull_hi})
        bits = extend(bits, std::bit_cast<std::uint64_t>(number));
  }
  return bits;
}

void print_verdict(const kernels::KernelEntry& kernel, const Problem& problem, const Inputs& inputs) {
  const Contract contract = kernel.contract(policy_for(problem.dtype));
  Tensor out = make_out(problem), lse = make_lse(problem);
  kernel.run(inputs.call(out, lse), contract);
  const Verdict verdict = oracle::AttentionOracle(contract, problem, inputs).judge(out, lse);
  std::printf("  %s %s %lld", std::string(kernel.name).c_str(), std::string(name(verdict.kind)).c_str(),
              static_cast<long long>(verdict.counts.judged));
  if (const auto& e = verdict.evidence)
    std::printf(" %s[%lld,%lld,%lld,%lld] %s %s %s..%s", e->tensor.c_str(), static_cast<long long>(e->index[0]),
                static_cast<long long>(e->index[1]), static_cast<long long>(e->index[2]),
                static_cast<long long>(e->index[3]), hex_float(e->got).c_str(), hex_float(e->expected).c_str(),
                hex_float(e->lo).c_str(), hex_float(e->hi).c_str());
  std::printf("\n");
}

}  // namespace

int main() {
  const Domain domain(Supports{}, {Format::f16, Format::bf16, Format::f32, Format::f64});
  for (std::uint64_t number = 0; number < cases; ++number) {
    const Problem problem = draw_problem(domain, 1, number, 1, 70);
    const Inputs inputs = materialise(problem);
    std::uint64_t bits = 0;
    for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.bias, &inputs.keep, &inputs.kv_lengths})
      bits = hash(bits, *tensor);
    std::printf("%s\n  %016llx %016llx\n", to_text(problem).c_str(), static_cast<unsigned long long>(bits),
                static_cast<unsigned long long>(enclosures(problem, inputs)));
    print_verdict(*kernels::find_kernel(kernels::builtin_kernels(), "explicit"), problem, inputs);
    for (const std::string_view fault : {"scale-missing", "tail-included", "qk-acc-f16"})
      print_verdict(*kernels::find_kernel(kernels::fault_kernels(), fault), problem, inputs);
  }
}
