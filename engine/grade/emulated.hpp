#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/subject.hpp"
#include "engine/ops.hpp"

// Emulated kernels of any operation: they conform beside the built-in ones.
namespace attest::engine {

// A kernel on one problem: its contract for that, and a function that answers that problem's call.
struct EmulatedCall {
  Contract contract;
  std::function<void(const Call&)> run;
};
struct EmulatedKernel {
  Contract contract;  // `on` promises no more
  std::function<EmulatedCall(const Problem&)> on;
};
using DrawEmulated = std::function<EmulatedKernel(const Policy&, std::uint64_t number)>;

// A kernel that lives in attest (subjects/builtin_emulated.hpp): one of many that compute in `policy`, drawn from
// `number`.
EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number);
// The same, drawn from those with the sums that `promise` has and few others do (Grading::has_rare_sums()).
EmulatedKernel emulated_kernel_for(const Contract& promise, const Policy& policy, std::uint64_t number);

// Tells whether a kernel is found that keeps `contract` and returns `out` to the bit, for a problem of one element of
// out. False says nothing, and is all that is said of operations for which nobody looks.
bool emulated_kernel_returns(const Contract& contract, const Problem& problem, double out);

// One on a paired problem.
struct EmulatedResult {
  std::uint64_t number = 0;  // the kernel's number
  EmulatedCall kernel;
};

// `draws` kernels that compute in `policy`, and the same function as others that promise nothing beside it; none for a
// problem on which emulated ones do not run. `key` draws the kernels.
std::vector<EmulatedResult> emulated_results(const DrawEmulated& draw, std::uint64_t draws, const Policy& policy,
                                             const Problem& problem, std::uint64_t key);

// A subject that answers every call of the kernel's problem. Keeps references to both, which must outlive it.
std::unique_ptr<Subject> answering(const EmulatedCall& kernel, const SubjectInfo& info);
std::unique_ptr<Subject> answering(const EmulatedCall&& kernel, const SubjectInfo& info) = delete;
std::unique_ptr<Subject> answering(const EmulatedCall& kernel, const SubjectInfo&& info) = delete;

}  // namespace attest::engine
