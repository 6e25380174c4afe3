// The probes of blocks: they agree with every block that keeps its contract, and expose each stage that is narrower and
// each option that means something else.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "core/mha/call.hpp"
#include "core/rng.hpp"
#include "kernels/mha/emulated.hpp"
#include "kernels/mha/registry.hpp"
#include "ops/op.hpp"
#include "tests/ops/narrow_stage.hpp"
#include "tests/ops/probe_rows.hpp"

namespace attest {
namespace {

using kernels::BlockEntry;
using mha::Contract;
using mha::Policy;
using test::expect_no_wider;
using test::expect_nothing_broken;
using test::ProbeRow;
using test::Standing;
using test::told;

using Answer = std::function<void(const mha::Call&)>;

// A subject that promises one contract and computes under another.
class Probed final : public Subject {
 public:
  Probed(const Contract& promise, Answer answer, bool gives_stages = false) : answer_(std::move(answer)) {
    info_.name = "probed";
    info_.mha.emplace();
    info_.mha->dtypes = {promise.attention.policy[Stage::storage]};
    info_.mha->contracts = {promise};
    info_.mha->supports = mha::Supports::everything();
    supports().stage_q = supports().stage_k = supports().stage_v = supports().stage_heads = gives_stages;
  }
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls) answer_(mha::from_plugin(call.as<attest_mha>()));
    return std::vector<CallResult>(calls.size());
  }
  mha::Supports& supports() noexcept { return info_.mha->supports; }

 private:
  SubjectInfo info_;
  Answer answer_;
};

const ops::Probes& probes() { return *ops::find_op("mha")->probes(); }
std::vector<ProbeRow> rows_of(Probed& subject, bool meanings) {
  const ops::Contract contract = subject.info().mha->contracts.front();
  const ops::ProbeTarget target{subject, subject.info().mha->dtypes.front(), contract, true};
  return meanings ? probes().semantics(target) : probes().stages(target);
}
std::vector<ProbeRow> stages(Probed& subject) { return rows_of(subject, false); }
std::vector<ProbeRow> semantics(Probed& subject) { return rows_of(subject, true); }

Answer answer_of(const BlockEntry& block, const Contract& contract) {
  return [&block, contract](const mha::Call& call) { block.run(call, contract); };
}
const BlockEntry& builtin(std::string_view name) { return *kernels::find_kernel(kernels::builtin_blocks(), name); }
Policy policy_of(Format dtype) {
  const attest::Policy policy = policy_for(dtype);
  return {policy, policy[Stage::qk]};
}
Policy with_stage(Policy policy, std::size_t stage, Format format) {
  if (stage < stage_count)
    policy.attention.set(static_cast<Stage>(stage), format);
  else
    policy.gemm = format;
  return policy;
}
Format stage_of(const Policy& policy, std::size_t stage) {
  return stage < stage_count ? policy.attention[static_cast<Stage>(stage)] : policy.gemm;
}
std::string stage_name(std::size_t stage) {
  return stage < stage_count ? std::string(name(static_cast<Stage>(stage))) : "gemm";
}

constexpr Format dtypes[] = {Format::f32, Format::f16, Format::bf16};

// ---- blocks that keep their word ------------------------------------------------------------------------------------

TEST(MhaProbe, AgreesWithEveryBuiltinVariant) {
  for (const BlockEntry& block : kernels::builtin_blocks())
    for (const Format dtype : dtypes)
      for (const int shape : {0, 1, 2}) {
        if (shape != 0 && dtype != Format::f16) continue;
        const Contract contract = block.contract(policy_of(dtype));
        Probed subject(contract, answer_of(block, contract), block.gives_stages);
        if (shape == 1) subject.supports().cross = false;
        if (shape == 2) {  // as a layer of torch: biases, the default scale, e split among the heads
          subject.supports().no_in_biases = subject.supports().no_out_bias = subject.supports().gqa = false;
          subject.supports().heads_fill_e = true;
          subject.supports().scale = mha::Supports::Scale::only_default;
        }
        const std::string what = std::string(block.name) + " " + std::string(name(dtype)) + " " + std::to_string(shape);
        Contract real = contract;
        if (block.name == "unrounded")  // operands of a product are f32 there
          for (const Stage stage : {Stage::operand, Stage::weights}) real.attention.policy.set(stage, Format::f32);
        const std::vector<ProbeRow> rows = stages(subject);
        expect_nothing_broken(rows, what);
        expect_no_wider(rows, real, what);
        expect_nothing_broken(semantics(subject), what);
      }
}

// The block rounds everything where it promises to: nothing may be left open but the stages in the list.
TEST(MhaProbe, TellsFormatsOfThePlainestBlock) {
  const BlockEntry& block = builtin("explicit");
  for (const Format dtype : dtypes)
    for (const bool crosses : {true, false}) {
      const Contract contract = block.contract(policy_of(dtype));
      Probed subject(contract, answer_of(block, contract), true);
      subject.supports().cross = crosses;
      for (const ProbeRow& row : stages(subject)) {
        if (!row.of_stage || row.stage == "partial") continue;
        const bool hidden = dtype == Format::bf16 && row.stage == "softmax (sum)";  // out is rounded more coarsely
        EXPECT_TRUE(row.at_least || hidden) << name(dtype) << ": " << told(row);
      }
    }
}

// Emulated block n of a contract, which then permits what it does.
Probed emulated_block(Contract& contract, Format dtype, std::uint64_t n) {
  contract.attention.masked_unread = MaskedUnread::no;  // it computes what masks close, too
  contract.projections[1] = n % 4 != 3;
  contract.projections[2] = n % 4 == 3;
  return Probed(contract, [contract, dtype, n](const mha::Call& call) {
    mha::Problem problem;
    problem.b = call.b();
    problem.l = call.l();
    problem.m = call.m();
    problem.e = call.e();
    problem.heads = call.heads;
    problem.kv_heads = call.kv_heads;
    problem.head_dim = call.head_dim;
    problem.dtype = dtype;
    problem.scale = call.scale;
    emulator::run(call, contract, emulator::draw_block_variant(contract, problem, n));
  });
}

// Any order, tiles, way to project and error that a contract permits.
TEST(MhaProbe, NeverAccusesWhoKeepsItsContract) {
  for (std::uint64_t n = 0; n < 12; ++n) {
    const Format dtype = dtypes[n % 3];
    Contract contract = builtin(n % 2 == 0 ? "explicit" : "fused").contract(policy_of(dtype));
    std::uint64_t key = mix(n);
    const Format narrow[] = {Format::f32, Format::f16, Format::bf16};
    if (n >= 6)  // some stages narrower
      for (const std::size_t stage : {static_cast<std::size_t>(Stage::qk), static_cast<std::size_t>(Stage::softmax),
                                      static_cast<std::size_t>(Stage::pv), stage_count})
        if (((key = mix(key)) & 3) == 0) {
          const Policy policy =
              with_stage({contract.attention.policy, contract.gemm}, stage, narrow[below(mix(key), 3)]);
          contract.attention.policy = policy.attention;
          contract.gemm = policy.gemm;
        }
    Probed subject = emulated_block(contract, dtype, n);
    subject.supports().m.max = 256;  // it is slow
    const std::string what =
        "block " + std::to_string(n) + " of " + mha::to_text({contract.attention.policy, contract.gemm});
    const std::vector<ProbeRow> rows = stages(subject);
    expect_nothing_broken(rows, what);
    expect_no_wider(rows, contract, what);
    expect_nothing_broken(semantics(subject), what);
  }
}

// ---- blocks that do not ---------------------------------------------------------------------------------------------

// The faults that no row tells, and the reason.
const std::map<std::string, std::string, std::less<>> undetectable{};

TEST(MhaProbe, ExposesEachStageThatIsNarrowerThanPromised) {
  const BlockEntry& block = builtin("explicit");
  for (const Format dtype : dtypes)
    for (std::size_t stage = 1; stage <= stage_count; ++stage) {
      if (stage == static_cast<std::size_t>(Stage::softcap) || stage == static_cast<std::size_t>(Stage::partial))
        continue;  // no block has one
      for (const Format narrow : {Format::tf32, Format::f16, Format::bf16}) {
        const bool stored = stage == static_cast<std::size_t>(Stage::output) || stage == stage_count;
        const Contract promise = block.contract(policy_of(dtype));
        const Policy policy{promise.attention.policy, promise.gemm};
        if (ops::holds(narrow, stage_of(policy, stage)) || (narrow == Format::tf32 && stored)) continue;
        if (dtype == Format::bf16 && stage == static_cast<std::size_t>(Stage::operand))
          continue;  // no block here rounds it to f16
        const Contract real = block.contract(with_stage(policy, stage, narrow));
        Probed subject(promise, answer_of(block, real));
        const std::string lie = std::string(name(dtype)) + "," + stage_name(stage) + "=" + std::string(name(narrow));
        const std::vector<ProbeRow> rows = stages(subject);
        expect_no_wider(rows, real, lie);
        test::expect_blamed(rows, stage, lie, undetectable.contains(lie));
      }
    }
}

TEST(MhaProbe, TellsPlantedDefectsInTheirRows) {
  const std::map<std::string, std::pair<std::string, std::string>> rows_of_faults{
      {"mha-qkv-order", {"packed rows", "[heads, 3, head_dim]"}},
      {"mha-bias-missing", {"b_v", "dropped"}},
      {"mha-head-transpose", {"heads", "put together without their transpose"}},
      {"mha-gemm-f16", {"gemm (q)", "f16"}},
      {"mha-softmax-f16", {"softmax (exp)", ""}},
      {"mha-scale-twice", {"scale given", "applied twice"}},
      {"mha-scale-embed-dim", {"default scale", ""}},
      {"mha-causal-corner", {"causal top left, lq < lk", "bottom right"}},
      {"mha-mask-dropped", {"keys closed by keep", "taken all the same"}},
      {"mha-kv-length-ignored", {"keys past the length", "taken all the same"}},
      {"mha-last-token", {"keys closed by keep", ""}},
      {"mha-out-bias-missing", {"b_out", "dropped"}},
      {"mha-gqa-modulo", {"key head of query head h", ""}},
      {"mha-out-gemm-f16", {"gemm (out)", "f16"}},
      {"mha-heads-bf16", {"output", "bf16"}},
      {"mha-batch-path", {"softmax (exp)", ""}},
  };
  // Layouts, other samples, and heads and a w_out of which more than one column is not 0: no probe asks for them. A
  // product stored twice differs where storage is narrower than f32 alone.
  const std::set<std::string_view> untold{"mha-layout-misread", "mha-batch-leak", "mha-out-transposed",
                                          "mha-heads-interleaved", "mha-bias-separate"};
  for (const BlockEntry& block : kernels::fault_blocks()) {
    if (untold.contains(block.name)) continue;
    ASSERT_TRUE(rows_of_faults.contains(std::string(block.name))) << block.name;
    const auto& [stage, observed] = rows_of_faults.at(std::string(block.name));
    const Contract contract = block.contract(policy_of(Format::f32));
    Probed subject(contract, answer_of(block, contract));
    std::vector<ProbeRow> rows = stages(subject);
    for (ProbeRow& row : semantics(subject)) rows.push_back(std::move(row));
    test::expect_row(rows, stage, observed, Standing::contradicts, std::string(block.name));
  }
}

// ---- other meanings -------------------------------------------------------------------------------------------------

// Each case changes a call before the right block answers it.
TEST(MhaProbe, TellsOtherMeaningsInTheirRows) {
  struct Case {
    std::function<void(mha::Call&)> change;
    std::string row, observed;
  };
  static const attest_tensor absent{};
  const Case cases[] = {
      {[](mha::Call& call) { call.b_q = absent; }, "b_q", "dropped"},
      {[](mha::Call& call) { call.b_v = absent; }, "b_v", "dropped"},
      {[](mha::Call& call) { call.b_out = absent; }, "b_out", "dropped"},
      {[](mha::Call& call) { call.causal = false; }, "causal top left, lq < lk", ""},
      {[](mha::Call& call) { call.align = Align::bottom_right; }, "causal top left, lq < lk", "bottom right"},
      {[](mha::Call& call) { call.keep = absent; }, "keys closed by keep", "taken all the same"},
      {[](mha::Call& call) { call.kv_lengths = absent; }, "keys past the length", "taken all the same"},
      {[](mha::Call& call) { call.bias = absent; }, "bias", "dropped"},
      {[](mha::Call& call) { call.scale *= call.scale; }, "scale given", "applied twice"},
      {[](mha::Call& call) { call.scale = 1 / static_cast<double>(call.head_dim); }, "default scale", "1/d"},
      {[](mha::Call& call) { std::swap(call.w_q, call.w_k); }, "projections", ""},
  };
  const Contract contract = builtin("explicit").contract(policy_of(Format::f32));
  for (const Case& each : cases) {
    Probed subject(contract, [&](const mha::Call& call) {
      mha::Call changed = call;
      each.change(changed);
      builtin("explicit").run(changed, contract);
    });
    subject.supports().gqa = false;
    test::expect_row(semantics(subject), each.row, each.observed, Standing::contradicts, each.row);
  }
}

// A stage that a subject gives is held to those before it.
TEST(MhaProbe, HoldsStagesThatAreGiven) {
  const Contract contract = builtin("explicit").contract(policy_of(Format::f32));
  const auto given = [&](const Contract& real) {
    Probed subject(contract, answer_of(builtin("explicit"), real), true);
    return stages(subject);
  };
  for (const char* stage : {"given q", "given k", "given v", "given heads", "given out"})
    test::expect_row(given(contract), stage, "", Standing::agrees, stage);
  test::expect_row(given(builtin("explicit").contract(with_stage(policy_of(Format::f32), stage_count, Format::f16))),
                   "given q", "outside its bound", Standing::contradicts, "gemm");
  test::expect_row(
      given(builtin("explicit")
                .contract(with_stage(policy_of(Format::f32), static_cast<std::size_t>(Stage::softmax), Format::f16))),
      "given heads", "outside its bound", Standing::contradicts, "softmax");
}

// A subject that says no policy is held to what it computes in, and one that is narrow to no more than the generous
// reading.
TEST(MhaProbe, NarrowsTheGenerousReadingByWhatWasSeen) {
  const auto narrowed = [&](const Policy& real) {
    const BlockEntry& block = builtin("explicit");
    const Contract generous = mha::contract_for({attest::Policy(Format::f16), Format::f16});
    Probed subject(generous, answer_of(block, block.contract(real)));
    const ops::Contract any = generous;
    return probes().narrowed(any, probes().stages({subject, Format::f16, any, false})).as<Contract>();
  };
  const Contract wide = narrowed(policy_of(Format::f16));
  EXPECT_EQ(wide.gemm, Format::f32);
  for (const Stage stage : {Stage::scale, Stage::qk, Stage::score, Stage::softmax, Stage::pv})
    EXPECT_EQ(wide.attention.policy[stage], Format::f32) << name(stage);
  const Contract narrow = narrowed({attest::Policy(Format::f16), Format::f16});
  EXPECT_EQ(narrow.gemm, Format::f16);
  EXPECT_EQ(narrow.attention.policy, attest::Policy(Format::f16));
  EXPECT_EQ(narrowed(with_stage(policy_of(Format::f16), stage_count, Format::f16)).gemm, Format::f16);
}

// ---- the law that asks one question of a problem --------------------------------------------------------------------

test::AskedNarrowStage ask(Probed& subject, int problems) {
  return test::ask_narrow_stage(*ops::find_op("mha"), subject, problems);
}

TEST(MhaNarrowStage, TellsEachStageOfABlock) {
  const BlockEntry& block = builtin("explicit");
  for (const Format dtype : dtypes)
    for (const std::size_t stage :
         {static_cast<std::size_t>(Stage::qk), static_cast<std::size_t>(Stage::score),
          static_cast<std::size_t>(Stage::softmax), static_cast<std::size_t>(Stage::pv), stage_count})
      for (const Format narrow : {Format::f16, Format::bf16}) {
        const Contract promise = block.contract(policy_of(dtype));
        const Policy policy{promise.attention.policy, promise.gemm};
        Probed subject(promise, answer_of(block, block.contract(with_stage(policy, stage, narrow))));
        subject.supports().l.max = subject.supports().m.max = subject.supports().e.max = 128;
        const test::AskedNarrowStage result = ask(subject, 400);
        EXPECT_GT(result.failed, 0) << name(dtype) << "," << stage_name(stage) << "=" << name(narrow) << ", "
                                    << result.asked << " asked";
      }
}

TEST(MhaNarrowStage, LeavesEveryBuiltinVariantAlone) {
  for (const BlockEntry& block : kernels::builtin_blocks())
    for (const Format dtype : dtypes)
      for (const bool crosses : {true, false}) {
        const Contract contract = block.contract(policy_of(dtype));
        Probed subject(contract, answer_of(block, contract), block.gives_stages);
        subject.supports().cross = crosses;
        const test::AskedNarrowStage result = ask(subject, 60);
        EXPECT_EQ(result.failed, 0) << block.name << " " << name(dtype) << ": " << result.first;
        EXPECT_GT(result.asked, 0) << block.name;
      }
}

TEST(MhaNarrowStage, LeavesEmulatedBlocksAlone) {
  int asked = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const Format dtype = dtypes[n % 3];
    Contract contract = builtin(n % 2 == 0 ? "explicit" : "fused").contract(policy_of(dtype));
    Probed subject = emulated_block(contract, dtype, n);
    subject.supports().l.max = subject.supports().m.max = subject.supports().e.max = 64;  // it is slow
    const test::AskedNarrowStage result = ask(subject, 10);
    EXPECT_EQ(result.failed, 0) << "block " << n << ": " << result.first;
    asked += result.asked;
  }
  EXPECT_GT(asked, 300);
}

}  // namespace
}  // namespace attest
