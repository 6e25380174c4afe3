// No kernel that keeps its contract is ever found wrong. The emulator draws a contract, a problem and a scheme that
// takes every number of the contract to its end, to one side; every element it gives must lie in its interval.
//
// ATTEST_LAYER_NORM_CASES (6000) and ATTEST_LAYER_NORM_SEED (1) choose the problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/problem.hpp"
#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "tests/setting.hpp"

namespace attest::oracle::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;

struct Tally {
  std::int64_t judged = 0, undetermined = 0, wide = 0, rows_wide = 0, findings = 0;
};

std::string describe(const emulated::Scheme& s) {
  return fmt::format(
      "order {} shape {} lanes {} block {} chain {} reciprocal {} fma {} divide {} root {} x {} sums {} flush {}{}{} "
      "seen {} "
      "late {} merge {}",
      int(s.order), int(s.shape), s.lanes, s.block, s.chain_of_lanes, s.reciprocal_count, s.fma, s.divide_by_root,
      int(s.root), s.root_share, int(s.sums), s.flush_x, s.flush_params, s.flush_results, s.seen_as_statistics,
      s.gamma_added_late, s.merge_form);
}

TEST(LayerNormSoundness, NoConformingKernelIsFoundWrong) {
  std::int64_t rows_of_one_mean = 0;
  const std::uint64_t cases = setting("ATTEST_LAYER_NORM_CASES", 6000), seed = setting("ATTEST_LAYER_NORM_SEED", 1);
  std::map<std::string, Tally> by_policy, by_variance, by_values;
  Tally all;
  for (std::uint64_t n = 0; n < cases; ++n) {
    const std::uint64_t key = extend(mix(seed), n);
    const Contract contract = emulated::draw_contract(key);
    const Problem problem = emulated::draw_problem(contract, 65536, key);
    const Inputs inputs = materialise(problem);
    Tensor out = attest::layer_norm::make_out(problem), sum_out = attest::layer_norm::make_sum_out(problem);
    const emulated::Scheme scheme =
        emulated::draw_scheme(contract, problem.hidden, problem.norm == attest::layer_norm::Norm::rms, key);
    emulated::run(inputs, contract, scheme, out, sum_out);
    LayerNormOracle oracle(contract, problem, inputs);
    Verdict verdict = oracle.judge_slowly(out, sum_out);
    for (Index row = 0; row < problem.rows && verdict.kind != VerdictKind::fail; ++row) {
      rows_of_one_mean += contract.arithmetic.variance == Variance::two_pass;
      if (auto evidence = oracle.no_shared_mean(row, out))
        verdict = Verdict::fail(std::move(*evidence), verdict.counts);
    }
    const auto values = *attest::layer_norm::find_field("values");
    for (Tally* tally :
         {&all, &by_policy[to_text(contract.policy)],
          &by_variance[problem.norm == attest::layer_norm::Norm::rms ? "rms"
                                                                     : std::string(name(contract.arithmetic.variance))],
          &by_values[std::string(values.labels[static_cast<std::size_t>(problem.values)])]}) {
      tally->judged += verdict.counts.judged;
      tally->undetermined += verdict.counts.undetermined;
      tally->wide += verdict.counts.wide;
      tally->findings += verdict.kind == VerdictKind::fail;
    }
    if (verdict.kind == VerdictKind::fail && all.findings < 20) {
      const Evidence& e = *verdict.evidence;
      ADD_FAILURE() << "case " << n << ": " << to_text(problem) << "\n  " << json_text(to_json(contract)) << "\n  "
                    << describe(scheme) << "\n  " << e.tensor << "[" << e.index[0] << "," << e.index[1] << "] got "
                    << hex_float(e.got) << " expected " << hex_float(e.expected) << " in " << hex_float(e.lo) << " .. "
                    << hex_float(e.hi) << " ratio " << e.ratio << " " << e.note;
    }
  }
  const auto print = [](const std::string& name, const Tally& t) {
    fmt::print("{:44} judged {:10} undetermined {:9} findings {}\n", name, t.judged, t.undetermined, t.findings);
  };
  for (const auto* table : {&by_policy, &by_variance, &by_values})
    for (const auto& [name, tally] : *table) print(name, tally);
  print("all", all);
  fmt::print("rows asked for one mean: {}\n", rows_of_one_mean);
  EXPECT_EQ(all.findings, 0);
  EXPECT_GT(all.judged, all.undetermined);  // not by leaving everything open
}

}  // namespace
}  // namespace attest::oracle::layer_norm
