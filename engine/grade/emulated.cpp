#include "engine/grade/emulated.hpp"

#include <string>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "subjects/builtin_emulated.hpp"

namespace attest::engine {
namespace {

class Answering final : public Subject {
 public:
  Answering(const EmulatedCall& kernel, const SubjectInfo& info) : kernel_(kernel), info_(info) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls) kernel_.run(call);
    return std::vector<CallResult>(calls.size());
  }

 private:
  const EmulatedCall& kernel_;
  const SubjectInfo& info_;
};

template <class OwnProblem, class OwnContract>
EmulatedKernel erased(EmulatedKernelOf<OwnProblem, OwnContract> kernel) {
  return {kernel.contract, [on = std::move(kernel.on)](const Problem& problem) -> EmulatedCall {
            EmulatedCallOf<OwnContract> call = on(problem.as<OwnProblem>());
            return {std::move(call.contract), std::move(call.run)};
          }};
}

// Calls `take` with the types of the operation that `problem` is of. Throws Error(usage) if that has no emulated
// kernels.
template <std::size_t n = 0, class Take>
auto with_types_of(const ops::Op& op, Take&& take) -> decltype(take(std::tuple_element_t<0, EmulatedOps>())) {
  if constexpr (n == std::tuple_size_v<EmulatedOps>) {
    throw usage_error("the operation " + std::string(op.name()) + " has no emulated kernels");
  } else {
    using Types = std::tuple_element_t<n, EmulatedOps>;
    if (op.owns(typeid(typename Types::Problem))) return take(Types());
    return with_types_of<n + 1>(op, std::forward<Take>(take));
  }
}

}  // namespace

EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number) {
  return with_types_of(policy.op(), [&]<class Types>(Types) {
    return erased(attest::emulated_kernel(policy.as<typename Types::Policy>(), number));
  });
}

EmulatedKernel emulated_kernel_for(const Contract& promise, const Policy& policy, std::uint64_t number) {
  return with_types_of(policy.op(), [&]<class Types>(Types) {
    const auto& own = policy.as<typename Types::Policy>();
    const auto& contract = promise.as<typename Types::Contract>();
    if constexpr (requires { attest::emulated_kernel_with(*contract.arithmetic.mma, own, number); })
      if (contract.arithmetic.mma) return erased(attest::emulated_kernel_with(*contract.arithmetic.mma, own, number));
    return erased(attest::emulated_kernel(own, number));
  });
}

bool emulated_kernel_returns(const Contract& contract, const Problem& problem, double out) {
  return with_types_of(problem.op(), [&]<class Types>(Types) {
    const auto& own = contract.as<typename Types::Contract>();
    const auto& its = problem.as<typename Types::Problem>();
    if constexpr (requires { attest::emulated_kernel_returns(own, its, out); })
      return attest::emulated_kernel_returns(own, its, out);
    else
      return false;
  });
}

std::vector<EmulatedResult> emulated_results(const DrawEmulated& draw, std::uint64_t draws, const Policy& policy,
                                             const Problem& problem, std::uint64_t key) {
  std::vector<EmulatedResult> results;
  const ops::Grading& grading = *problem.op().grading();
  if (!draw || !grading.is_emulated(problem)) return results;
  const Contract silent = grading.silent(policy);
  for (std::uint64_t n = 0; results.size() < draws; ++n) {
    const std::uint64_t number = extend(key, n);
    const EmulatedKernel kernel = draw(policy, number);
    if (grading.same_function(kernel.contract, silent)) results.push_back({number, kernel.on(problem)});
  }
  return results;
}

std::unique_ptr<Subject> answering(const EmulatedCall& kernel, const SubjectInfo& info) {
  return std::make_unique<Answering>(kernel, info);
}

}  // namespace attest::engine
