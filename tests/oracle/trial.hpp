#pragma once
// One call of the emulated kernel, and what the oracle says of it.
#include <functional>
#include <limits>

#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"

namespace attest::testing {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

inline Problem short_rows(Format dtype) {
  Problem p;
  p.b = p.hq = p.hkv = 2;
  p.lq = 4;
  p.lk = 6;
  p.d = 8;
  p.dv = 4;
  p.dtype = dtype;
  p.lse = LseOutput::f32;
  p.seed = 11;
  return p;
}

struct Trial {
  explicit Trial(const Problem& the_problem, const Contract& the_contract, emulator::Variant variant = {})
      : problem(the_problem), contract(the_contract), inputs(materialise(problem)) {
    make(variant);
  }
  Trial(const Problem& the_problem, const Contract& the_contract, const std::function<void(Inputs&)>& change)
      : problem(the_problem), contract(the_contract), inputs(materialise(problem)) {
    change(inputs);
    make({});
  }
  void make(const emulator::Variant& variant) {
    out = make_out(problem);
    lse = make_lse(problem);
    emulator::run(inputs, contract, variant, out, lse);
  }
  Verdict judge() const { return oracle::AttentionOracle(contract, problem, inputs).judge(out, lse); }
  Verdict judge_slowly() const { return oracle::AttentionOracle(contract, problem, inputs).judge_slowly(out, lse); }

  Problem problem;
  Contract contract;
  Inputs inputs;
  Tensor out, lse;
};

}  // namespace attest::testing
