#pragma once
#include <omp.h>

#include <exception>
#include <type_traits>

#include "kernels/layer_norm/promise.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "kernels/layer_norm/steps.hpp"
#include "kernels/rounding.hpp"

// Fused layer_norm: a row is brought in, its statistics made and its output written at once, by the steps of steps.hpp.
namespace attest::kernels::layer_norm {

template <class Steps>
Contract fused_contract(const Policy& policy) {
  Contract contract = common_promise(policy);
  Steps::declare(contract.arithmetic);
  return contract;
}

// Float holds what every format but f64 needs.
inline bool needs_double(const Policy& policy) noexcept {
  for (std::size_t stage = 0; stage < attest::layer_norm::stage_count; ++stage)
    if (policy[static_cast<Stage>(stage)] == Format::f64) return true;
  return false;
}

template <class Real>
struct Workspace {
  explicit Workspace(Index n)
      : loaded(static_cast<std::size_t>(n)), x(loaded.size()), seen(loaded.size()), y(loaded.size()) {}
  std::vector<double> loaded;
  std::vector<Real> x, seen, y;
};

template <class Steps, class Real>
void fused_row(const Call& call, const Policy& policy, const std::vector<Real>& gamma, const std::vector<Real>& beta,
               Index row, Workspace<Real>& space) {
  const Index n = call.hidden;
  Steps::load(call, row, space.loaded);
  std::ranges::transform(space.loaded, space.x.begin(), [](double x) { return static_cast<Real>(x); });
  Moments<Real> moments{};
  Real scale{};
  with_rounding<Real>(policy[Stage::statistics], [&](auto round) {
    std::ranges::transform(space.x, space.seen.begin(), round);
    if (call.rms)
      moments.variance = mean_square<Steps>(round, space.seen.data(), n);
    else
      moments = Steps::template moments<Steps>(round, space.seen.data(), n);
    scale = Steps::inverse_root(round, moments.variance, Real{round(static_cast<Real>(call.tensors.epsilon))});
  });
  with_rounding<Real>(policy[Stage::normalise], [&](auto round) {
    const Real mean = round(moments.mean), r = round(scale);
    for (std::size_t i = 0; i < space.x.size(); ++i) space.y[i] = round(round(round(space.x[i]) - mean) * r);
  });
  with_rounding<Real>(policy[Stage::affine], [&](auto round) {
    for (std::size_t i = 0; i < space.x.size(); ++i)
      space.y[i] = Steps::affine(policy, round, space.y[i], gamma[i], beta[i]);
  });
  std::ranges::copy(space.y, space.loaded.begin());
  Steps::store(call, row, space.loaded);
}

template <class Steps, class Real>
void fused_rows(const Call& call, const Policy& policy) {
  const auto as_real = [](const std::vector<double>& from) { return std::vector<Real>(from.begin(), from.end()); };
  const std::vector<Real> gamma = as_real(call.gamma()), beta = as_real(call.beta());
  constexpr double worth_a_team = 1 << 16;
  const bool alone = call.rows < 2 || omp_in_parallel() || static_cast<double>(call.rows * call.hidden) < worth_a_team;
  const int threads = alone ? 1
                            : static_cast<int>(std::min<Index>(
                                  call.tensors.threads > 0 ? call.tensors.threads : omp_get_max_threads(), call.rows));
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    try {
      Workspace<Real> space(call.hidden);
#pragma omp for schedule(static)
      for (Index row = 0; row < call.rows; ++row) fused_row<Steps, Real>(call, policy, gamma, beta, row, space);
    } catch (...) {
#pragma omp critical(attest_layer_norm_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

template <class Steps>
void fused_layer_norm(const attest_layer_norm& tensors, const Contract& contract) {
  const Call call(tensors, contract);
  const Policy policy = Steps::computes_in(call);
  if (needs_double(policy))
    fused_rows<Steps, double>(call, policy);
  else
    fused_rows<Steps, float>(call, policy);
}

// A fault: its steps derive from its parent's and replace one of them. It promises what the parent promises.
template <class Parent, class Steps>
constexpr KernelEntry fault(std::string_view name, std::string_view doc, std::string_view report,
                            std::string_view parent, std::string_view family, std::string_view stage) {
  return {name, doc, report, parent, family, stage, fused_contract<Parent>, fused_layer_norm<Steps>};
}

// A fault of the kernel `fused`, which is asked another call than the one that was made.
constexpr KernelEntry misreading(void (*run)(const attest_layer_norm& tensors, const Contract& contract),
                                 std::string_view name, std::string_view doc, std::string_view report,
                                 std::string_view family, std::string_view stage) {
  return {name, doc, report, "fused", family, stage, fused_contract<TwoPass>, run};
}

}  // namespace attest::kernels::layer_norm
