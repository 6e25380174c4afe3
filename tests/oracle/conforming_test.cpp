// No false alarm: emulated kernels that keep their contract, in many orders and schemes, are never found wrong.
#include <string>

#include <gtest/gtest.h>

#include "oracle/attention.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/emulator.hpp"

namespace attest {
namespace {

std::string text(const Evidence& e) {
  return e.tensor + "[" + std::to_string(e.index[0]) + "," + std::to_string(e.index[1]) + "," +
         std::to_string(e.index[2]) + "," + std::to_string(e.index[3]) + "] got " + hex_float(e.got) + " in " +
         hex_float(e.lo) + " .. " + hex_float(e.hi) + " ratio " + std::to_string(e.ratio) + " " + e.note;
}

class Conforming : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Conforming, KernelsAreNeverFoundWrong) {
  const NamedPolicy& named = named_policies()[GetParam()];
  const Format dtype = named.policy[Stage::storage];
  Counts counts;
  int alarms = 0, vacuous = 0, problems = 0;
  const int rounds = 4200;
  for (int n = 0; n < rounds; ++n) {
    const Contract contract = testing::draw_contract(named.policy, n % testing::contract_variants);
    const Problem problem = testing::draw_problem(dtype, static_cast<std::uint64_t>(n) * 977 + GetParam());
    const Inputs inputs = materialise(problem);
    const emulator::Variant variant = emulator::draw_variant(contract, problem, static_cast<std::uint64_t>(n));
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, variant, out, lse);
    const Verdict verdict = oracle::AttentionOracle(contract, problem, inputs).judge(out, lse);
    counts += verdict.counts;
    ++problems;
    vacuous += verdict.kind == VerdictKind::vacuous;
    if (verdict.kind == VerdictKind::fail && ++alarms <= 5)
      ADD_FAILURE() << named.name << " contract " << n % testing::contract_variants << " problem " << n << ": "
                    << to_text(problem) << "\n  " << text(*verdict.evidence) << "\n  normalise "
                    << static_cast<int>(variant.normalise) << " scale on " << static_cast<int>(variant.scale_on)
                    << " tile " << variant.tile << " splits " << variant.splits << " merge "
                    << static_cast<int>(variant.merge) << " exp2 " << variant.exp2 << " fma " << variant.fma
                    << " truncate " << variant.truncate_qk;
  }
  EXPECT_EQ(alarms, 0);
  EXPECT_GE(counts.judged, 100'000);
  RecordProperty("judged", std::to_string(counts.judged));
  RecordProperty("undetermined", std::to_string(counts.undetermined));
  RecordProperty("vacuous", vacuous);
  std::printf("%s: judged %ld, undetermined %ld, vacuous %d of %d\n", std::string(named.name).c_str(),
              static_cast<long>(counts.judged), static_cast<long>(counts.undetermined), vacuous, problems);
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, Conforming, ::testing::Range<std::size_t>(0, 9));

}  // namespace
}  // namespace attest
