#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "subjects/builtin_emulated.hpp"

// Emulated kernels among the conforming subjects of the paired cases.
namespace attest::engine {

// Larger problems have none: they compute an operation at a time.
inline constexpr Index most_emulated = Index{1} << 16;  // multiply-adds

struct EmulatedResult {
  std::uint64_t number = 0;   // of the kernel, for emulated_kernel()
  attest::Contract contract;  // what it promises for the problem
  Tensor out, lse;            // lse absent unless the problem asks for it
};

// What `draws` kernels give that compute in `policy`, with the semantics of attention as the other kernels have it; none for
// a problem without a multiply-add, or with too many. Which kernels: drawn from `key`.
std::vector<EmulatedResult> emulated_results(
    const std::function<EmulatedKernel(const attest::Policy&, std::uint64_t number)>& kernel, std::uint64_t draws,
    const attest::Policy& policy, const attest::Problem& problem, const Inputs& inputs, std::uint64_t key);

// A subject that answers every call with `result`, which must outlive it.
std::unique_ptr<Subject> answering(const EmulatedResult& result, const SubjectInfo& info);

}  // namespace attest::engine
