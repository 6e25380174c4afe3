#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/rng.hpp"
#include "engine/calibrate.hpp"
#include "engine/check.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/stream.hpp"

// What the tests of an operation's statistical laws have in common.
namespace attest::engine::test {

// Every instance answers its calls as `kernel` does.
class AnsweringFactory final : public SubjectFactory {
 public:
  AnsweringFactory(SubjectInfo info, EmulatedCall kernel) : info_(std::move(info)), kernel_(std::move(kernel)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override { return answering(kernel_, info_); }

 private:
  SubjectInfo info_;
  EmulatedCall kernel_;
};

inline const Verdict& verdict_of(const CaseOutcome& outcome, std::size_t law) {
  return std::ranges::find(outcome.laws, law, &LawVerdict::law)->verdict;
}

// The laws of one operation.
struct StatisticalLaws {
  explicit StatisticalLaws(const Op& of)
      : op(of),
        bound(law_named("policy-bound", of)),
        spread(law_named("statistical-bound", of)),
        aggregate(law_named("aggregate-error", of)) {}

  [[nodiscard]] CaseOutcome asked(const Problem& problem, const Contract& contract, Subject& subject) const {
    return check(problem, contract, {subject, nullptr}, std::vector{bound, spread, aggregate});
  }
  // One of the emulated kernels with this number that the tiers speak of.
  [[nodiscard]] EmulatedKernel spoken_of(const Policy& policy, std::uint64_t number) const {
    for (std::uint64_t key = mix(number);; key = mix(key)) {
      EmulatedKernel kernel = emulated_kernel(policy, key);
      if (op.calibrating()->refusal(kernel.contract).empty()) return kernel;
    }
  }
  [[nodiscard]] std::unique_ptr<Domain> domain(const SubjectInfo& info,
                                               std::function<bool(const Problem&)> wanted) const {
    auto all = domain_for(info, op, std::nullopt, std::nullopt);
    all->assume(std::move(wanted));
    return all;
  }
  [[nodiscard]] CalibrateOptions small_calibration(const char* policy, std::uint64_t kernels,
                                                   std::uint64_t cases) const {
    CalibrateOptions options;
    options.op = &op;
    options.kernel = emulated_kernel;
    options.policies = {op.policy_from_text(policy)};
    options.kernels = kernels;
    options.cases = cases;
    options.jobs = 1;
    return options;
  }

  const Op& op;
  const std::size_t bound, spread, aggregate;
};

// Returns what was calibrated.
inline oracle::Calibration expect_calibration_of_its_options_alone(CalibrateOptions options) {
  const oracle::Calibration one = calibrate(options);
  options.jobs = 3;
  EXPECT_EQ(one, calibrate(options));
  EXPECT_EQ(one.op, options.op->name());
  EXPECT_EQ(ops::calibration_from_text(oracle::to_file_text(one), "x"), one);
  EXPECT_EQ(&ops::op_of(one), options.op);
  options.jobs = 2;
  options.seed = 2;
  EXPECT_NE(one.policies, calibrate(options).policies);
  return one;
}

// The emulated kernels, but for what `spoil` does to their answer of a call.
inline DrawEmulated spoilt(std::function<void(const Call&)> spoil) {
  return [spoil = std::move(spoil)](const Policy& policy, std::uint64_t number) {
    const EmulatedKernel kernel = emulated_kernel(policy, number);
    return EmulatedKernel{kernel.contract, [kernel, spoil](const Problem& problem) -> EmulatedCall {
                            const EmulatedCall call = kernel.on(problem);
                            return {call.contract, [call, spoil](const Call& asked) {
                                      call.run(asked);
                                      spoil(asked);
                                    }};
                          }};
  };
}

// Data of another operation leave the shipped ones as they are; empty data of its own do not.
inline void expect_data_of_others_unused(const StatisticalLaws& laws, Subject& subject, const Problem& problem) {
  const Contract contract = contract_for_problem(subject.info(), std::nullopt, problem);
  oracle::Calibration none, other;
  none.op = laws.op.name();
  Bench bench{subject, nullptr};
  for (const auto& [data, kind] : {std::pair{&none, VerdictKind::skip}, {&other, VerdictKind::pass}}) {
    bench.calibration = data;
    EXPECT_EQ(check(problem, contract, bench, std::vector{laws.spread}).laws.front().verdict.kind, kind);
  }
}

}  // namespace attest::engine::test
