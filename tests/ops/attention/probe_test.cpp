// Probes of attention: no kernel that keeps its contract is told as breaking it or as wider than it is; one that
// computes one stage in a narrower format than it promises is told in that stage's row.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/explicit/explicit.hpp"
#include "ops/op.hpp"
#include "probed.hpp"
#include "tests/ops/probe_rows.hpp"

namespace attest {
namespace {

using test::expect_nothing_broken;
using test::Probed;
using test::ProbeRow;
using test::Standing;
using test::told;

std::vector<ProbeRow> stages(Subject& subject) {
  const Format dtype = subject.info().dtypes.front();
  const ops::Contract contract = subject.info().contract(dtype);
  return ops::all_ops().front()->probes()->stages({subject, dtype, contract, true});
}
std::vector<ProbeRow> semantics(Subject& subject) {
  const Format dtype = subject.info().dtypes.front();
  const ops::Contract contract = subject.info().contract(dtype);
  return ops::all_ops().front()->probes()->semantics({subject, dtype, contract, true});
}

const std::map<std::string, Stage, std::less<>> stage_of_row{
    {"operand", Stage::operand},       {"scale", Stage::scale},     {"qk", Stage::qk},
    {"score", Stage::score},           {"softcap", Stage::softcap}, {"softmax (exp)", Stage::softmax},
    {"softmax (sum)", Stage::softmax}, {"weights", Stage::weights}, {"pv", Stage::pv},
    {"partial", Stage::partial},       {"output", Stage::output}};

// Leaves the format of partial results out: no kernel that does not split shows it.
void expect_no_wider(std::vector<ProbeRow> rows, const Policy& real, const std::string& what) {
  std::erase_if(rows, [](const ProbeRow& row) { return row.stage == "partial"; });
  test::expect_no_wider(rows, contract_for(real), what);
}

// ---- kernels that keep their word -----------------------------------------------------------------------------------

TEST(AttentionProbe, AgreesWithEveryBuiltinVariant) {
  for (const kernels::KernelEntry& kernel : kernels::builtin_kernels())
    for (const Format dtype : {Format::f32, Format::f16, Format::bf16}) {
      const Contract contract = kernel.contract(policy_for(dtype));
      Probed subject(contract, test::kernel_answer(kernel, contract));
      const std::string what = std::string(kernel.name) + " " + std::string(name(dtype));
      const std::vector<ProbeRow> rows = stages(subject);
      expect_nothing_broken(rows, what);
      expect_no_wider(rows, contract.policy, what);
      expect_nothing_broken(semantics(subject), what);
    }
}

TEST(AttentionProbe, ToldFormatsOfThePlainestKernel) {
  for (const NamedPolicy& named : named_policies()) {
    const Contract contract = kernels::explicit_contract(named.policy);
    Probed subject(contract, [&](const attest_attention& call) { kernels::explicit_attention(call, contract); });
    const std::vector<ProbeRow> rows = stages(subject);
    expect_nothing_broken(rows, std::string(named.name));
    expect_no_wider(rows, contract.policy, std::string(named.name));
    std::set<std::string> open;
    for (const ProbeRow& row : rows)
      if (stage_of_row.contains(row.stage) && !row.at_least) open.insert(row.stage);
    // The kernel rounds everything where it promises to: no row at all may be left open.
    if (named.name == "f32" || named.name == "f16" || named.name == "f64") {
      EXPECT_TRUE(open.empty()) << named.name << ": " << *open.begin();
    }
  }
}

// Any order, tiles, splits, place of the scale and error that a contract permits, and every stage in any format.
TEST(AttentionProbe, NeverAccusesWhoKeepsItsContract) {
  constexpr std::uint64_t kernels_tried = 8;
  const Format formats[] = {Format::f32, Format::f16, Format::bf16, Format::tf32};
  for (std::uint64_t n = 0; n < kernels_tried; ++n) {
    const Format dtype = formats[n % 3];
    Policy policy = policy_for(dtype);
    std::uint64_t key = mix(n);
    if (n % 2 == 1)  // some stages narrower
      for (const Stage stage :
           {Stage::operand, Stage::scale, Stage::qk, Stage::score, Stage::softmax, Stage::weights, Stage::pv})
        if (((key = mix(key)) & 3) == 0) policy.set(stage, formats[below(mix(key), std::size(formats))]);
    Contract contract =
        emulator::draw_any_contract(policy, static_cast<int>(below(mix(key + 1), emulator::all_variants)));
    const std::string what = "kernel " + std::to_string(n) + " of " + to_text(contract.policy);
    Probed subject(contract, test::emulated_answer(contract, n));
    subject.said().supports.lk.max = 512;  // it is slow
    const std::vector<ProbeRow> rows = stages(subject);
    expect_nothing_broken(rows, what);
    expect_no_wider(rows, contract.policy, what);
    expect_nothing_broken(semantics(subject), what);
  }
}

// ---- kernels that do not --------------------------------------------------------------------------------------------

struct Lie {
  Format dtype;
  Stage stage;
  Format real;
};

std::vector<Lie> lies() {
  std::vector<Lie> all;
  const auto narrower_than = [&](Format dtype, Format promised, Stage stage) {
    for (const Format real : {Format::tf32, Format::f16, Format::bf16})
      if (!ops::holds(real, promised)) all.push_back({dtype, stage, real});
  };
  for (const Format dtype : {Format::f32, Format::f16, Format::bf16}) {
    const Policy policy = policy_for(dtype);
    for (std::size_t n = 1; n < stage_count; ++n) {
      const auto stage = static_cast<Stage>(n);
      narrower_than(dtype, policy[stage], stage);
    }
  }
  return all;
}

// The faults that no row tells, or another one, and the reason.
const std::map<std::string, std::string> undetectable{
    {"f16,partial=tf32", "the bound lets weights, rounded to as many bits, lose as much"},
    {"f16,partial=f16", "likewise"},
    {"bf16,partial=tf32", "likewise"},
    {"bf16,partial=bf16", "likewise"},
};

TEST(AttentionProbe, ExposesEachStageThatIsNarrowerThanPromised) {
  for (const Lie& lie : lies()) {
    const bool splits = lie.stage == Stage::partial;
    const kernels::KernelEntry& kernel =
        *kernels::find_kernel(kernels::builtin_kernels(), splits ? "fused-split" : "explicit");
    const Contract promise = kernel.contract(policy_for(lie.dtype));
    if (lie.real == Format::tf32 && lie.stage == Stage::output) continue;    // never in memory
    if (lie.dtype == Format::bf16 && lie.stage == Stage::operand) continue;  // no kernel here rounds it to f16
    Policy real = promise.policy;
    real.set(lie.stage, lie.real);
    Probed subject(promise, test::kernel_answer(kernel, kernel.contract(real)));
    const std::string what =
        std::string(name(lie.dtype)) + "," + std::string(name(lie.stage)) + "=" + std::string(name(lie.real));
    std::vector<std::string> accused;
    std::string all;
    const std::vector<ProbeRow> found = stages(subject);
    expect_no_wider(found, real, what);
    for (const ProbeRow& row : found) {
      if (row.standing == Standing::contradicts) accused.push_back(row.stage);
      if (row.standing != Standing::agrees) all += "\n  " + row.stage + ": " + row.observed;
    }
    const bool told = std::ranges::any_of(accused, [&](const std::string& row) {
      const auto stage = stage_of_row.find(row);
      return stage != stage_of_row.end() && stage->second == lie.stage;
    });
    const bool alone = std::ranges::all_of(accused, [&](const std::string& row) {
      const auto stage = stage_of_row.find(row);
      return stage == stage_of_row.end() || stage->second == lie.stage;
    });
    std::string rows;
    for (const std::string& row : accused) rows += row + ", ";
    if (undetectable.contains(what))
      EXPECT_FALSE(told) << what << " is told by now: take it from the list";
    else
      EXPECT_TRUE(told && alone) << what << " is told in: " << rows << all;
  }
}

// A poor exp shows in its own row as more than is promised, whatever the rows of stages blame; a right one agrees.
TEST(AttentionProbe, AgreesToNoExpThatIsPoor) {
  for (const auto& [kernel, right] : {std::pair{"exp-poor", false}, {"explicit", true}, {"fused", true}}) {
    const auto& table = right ? kernels::builtin_kernels() : kernels::fault_kernels();
    const kernels::KernelEntry* entry = kernels::find_kernel(table, kernel);
    ASSERT_NE(entry, nullptr) << kernel;
    const Contract contract = entry->contract(policy_for(Format::f32));
    Probed subject(contract, test::kernel_answer(*entry, contract));
    const std::vector<ProbeRow> rows = stages(subject);
    const auto row = std::ranges::find(rows, "exp error", &ProbeRow::stage);
    ASSERT_NE(row, rows.end()) << kernel;
    EXPECT_EQ(row->standing == Standing::agrees, right) << kernel << ": " << told(*row);
  }
}

// A planted defect in an option is told in the row of that option.
TEST(AttentionProbe, TellsOtherMeaningsInTheirRows) {
  const std::map<std::string, std::pair<std::string, std::string>> rows_of_faults{
      {"causal-corner", {"causal top left, lq < lk", "bottom right"}},
      {"causal-off-by-one", {"causal bottom right, lq < lk", "bottom right, one key more"}},
      {"window-off-by-one", {"window, left", ""}},
      {"row-empty-nan", {"empty row, by keep", "nan"}},
      {"softcap-after-bias", {"softcap and bias", "after the bias"}},
      {"softcap-dropped", {"softcap formula", "dropped"}},
      {"scale-default-kept", {"scale given", "1/sqrt(d) in its place"}},
      {"scale-twice", {"scale given", "applied twice"}},
      {"scale-after-mask", {"bias", "scaled too"}},
      {"lse-wrong-base", {"lse", "base 2"}},
      {"lse-empty", {"lse of an empty row", ""}},
      {"mask-finite", {"score of a closed key", "a finite number, which leaks into rows that score lower"}},
      {"mask-multiply", {"keys closed by keep", "taken all the same"}},
      {"kv-length-ignored", {"keys past the length", "taken all the same"}},
      {"padding-right-only", {"keys closed by keep", ""}},
      {"gqa-modulo", {"key head of query head h", "h % hkv"}},
  };
  for (const auto& [fault, expected] : rows_of_faults)
    for (const Format dtype : {Format::f32, Format::f16}) {
      const kernels::KernelEntry* kernel = kernels::find_kernel(kernels::fault_kernels(), fault);
      ASSERT_NE(kernel, nullptr) << fault;
      const Contract contract = kernel->contract(policy_for(dtype));
      Probed subject(contract, test::kernel_answer(*kernel, contract));
      const std::vector<ProbeRow> rows = semantics(subject);
      const auto row = std::ranges::find(rows, expected.first, &ProbeRow::stage);
      ASSERT_NE(row, rows.end()) << fault;
      EXPECT_EQ(row->standing, Standing::contradicts) << fault << ": " << told(*row);
      if (!expected.second.empty()) {
        EXPECT_EQ(row->observed, expected.second) << fault << ": " << told(*row);
      }
    }
}

// A subject that says no policy is held to what it computes in, and one that is narrow to no more than the generous
// reading.
TEST(AttentionProbe, NarrowsTheGenerousReadingByWhatWasSeen) {
  const ops::Probes& probes = *ops::all_ops().front()->probes();
  const auto narrowed = [&](const Policy& real) {
    Probed subject(contract_for(Policy(Format::f16)), [&](const attest_attention& call) {
      kernels::explicit_attention(call, kernels::explicit_contract(real));
    });
    const ops::Contract generous = subject.info().contract(Format::f16);
    return probes.narrowed(generous, probes.stages({subject, Format::f16, generous, false})).as<Contract>();
  };
  const Contract wide = narrowed(policy_for(Format::f16));
  for (const Stage stage : {Stage::scale, Stage::qk, Stage::score, Stage::softcap, Stage::softmax, Stage::pv})
    EXPECT_EQ(wide.policy[stage], Format::f32) << name(stage);
  EXPECT_EQ(wide.policy[Stage::weights], Format::f16);
  EXPECT_EQ(wide.policy[Stage::partial], Format::f16);
  EXPECT_GE(wide.arithmetic.kappa, 3);
  EXPECT_EQ(narrowed(Policy(Format::f16)).policy, Policy(Format::f16));
  for (const Stage stage : {Stage::qk, Stage::softmax, Stage::pv})
    EXPECT_EQ(narrowed(policy_for(Format::f16).set(stage, Format::f16)).policy[stage], Format::f16) << name(stage);
}

}  // namespace
}  // namespace attest
