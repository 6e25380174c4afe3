#pragma once
// What a kernel that promises a contract returned for one problem, and what the oracle and its statistical tiers say of it.
#include <algorithm>
#include <cmath>

#include "kernels/emulated/emulator.hpp"
#include "kernels/registry.hpp"
#include "oracle/attention.hpp"
#include "oracle/calibration.hpp"

namespace attest::testing {

struct Result {
  Problem problem;
  Contract contract;
  Inputs inputs;
  Tensor out, lse;

  Result(const Problem& the_problem, const Contract& promised, const Contract& kept, const emulator::Variant& variant)
      : problem(the_problem), contract(promised), inputs(materialise(problem)) {
    out = make_out(problem);
    lse = make_lse(problem);
    emulator::run(inputs, kept, variant, out, lse);
  }
  // Of a kernel of attest's own.
  Result(const Problem& the_problem, const Policy& policy, const kernels::KernelEntry& kernel)
      : problem(the_problem), contract(kernel.contract(policy)), inputs(materialise(problem)) {
    out = make_out(problem);
    lse = make_lse(problem);
    kernel.run(inputs.call(out, lse), contract);
  }

  // The largest lambda that an element needs, and how many elements the tier speaks of.
  struct Largest {
    double lambda = 0;
    Index elements = 0;
  };
  [[nodiscard]] Largest largest() const {
    oracle::AttentionOracle oracle(contract, problem, inputs);
    Largest result;
    for (const Index flat : judged_rows(problem)) {
      const RowIndex r = row_index(problem, flat);
      for (Index c = 0; c < problem.dv; ++c) {
        const double got = out.at(r.b, r.h, r.i, c);
        if (!std::isfinite(got)) continue;
        const double lambda = oracle.lambda_needed(r.b, r.h, r.i, c, problem.dtype, got);
        if (std::isnan(lambda)) continue;
        ++result.elements;
        result.lambda = std::max(result.lambda, lambda);
      }
    }
    return result;
  }
  Verdict judge(oracle::Statistics* statistics = nullptr) const {
    return oracle::AttentionOracle(contract, problem, inputs).judge(out, lse, statistics);
  }

  // What tier three says of it, as `aggregate-error` asks: T after a second look, the shipped limit of its class, and that of as many errors
  // as judge() counted.
  struct Aggregate {
    double t, class_limit, limit;
  };
  [[nodiscard]] Aggregate aggregate(const oracle::Statistics& statistics) const {
    const double class_limit = oracle::shipped_calibration().thresholds(contract.policy, problem).t.value();
    return {std::min(statistics.t(), oracle::AttentionOracle(contract, problem, inputs).slow_t(out)), class_limit,
            oracle::largest_t(class_limit, statistics)};
  }
};

}  // namespace attest::testing
