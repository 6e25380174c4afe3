// The probes of layer_norm: they agree with every kernel that keeps its contract, and expose each stage that is
// narrower and each option that means something else.
#include "core/layer_norm/call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/layer_norm/inputs.hpp"
#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "kernels/layer_norm/emulated/emulator.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "ops/op.hpp"
#include "tests/ops/narrow_stage.hpp"
#include "tests/ops/probe_rows.hpp"

namespace attest {
namespace {

using kernels::layer_norm::KernelEntry;
using layer_norm::Contract;
using layer_norm::Policy;
using layer_norm::Stage;
using layer_norm::Variance;
using test::expect_no_wider;
using test::expect_nothing_broken;
using test::ProbeRow;
using test::Standing;
using test::told;

using Answer = std::function<void(const attest_layer_norm&)>;

// A subject that promises one contract and computes under another.
class Probed final : public Subject {
 public:
  Probed(const Contract& promise, Answer answer) : answer_(std::move(answer)) {
    info_.name = "probed";
    info_.layer_norm.emplace();
    auto& offer = *info_.layer_norm;
    offer.dtypes = {promise.policy[Stage::storage]};
    offer.policies = {promise.policy};
    offer.semantics = promise;
    offer.supports = layer_norm::Supports::everything();
  }
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls) answer_(call.as<attest_layer_norm>());
    return std::vector<CallResult>(calls.size());
  }
  layer_norm::Supports& supports() noexcept { return info_.layer_norm->supports; }

 private:
  SubjectInfo info_;
  Answer answer_;
};

const ops::Probes& probes() { return *ops::find_op("layer_norm")->probes(); }
std::vector<ProbeRow> rows_of(Probed& subject, bool meanings) {
  const auto& offer = *subject.info().layer_norm;
  const ops::Contract contract = offer.contract(offer.dtypes.front(), "probed");
  const ops::ProbeTarget target{subject, offer.dtypes.front(), contract, true};
  return meanings ? probes().semantics(target) : probes().stages(target);
}
std::vector<ProbeRow> stages(Probed& subject) { return rows_of(subject, false); }
std::vector<ProbeRow> semantics(Probed& subject) { return rows_of(subject, true); }

Answer answer_of(const KernelEntry& kernel, const Contract& contract) {
  return [&kernel, contract](const attest_layer_norm& call) { kernel.run(call, contract); };
}
const KernelEntry& builtin(std::string_view name) {
  return *kernels::layer_norm::find_kernel(kernels::layer_norm::builtin_kernels(), name);
}

constexpr Format dtypes[] = {Format::f32, Format::f16, Format::bf16};

// ---- kernels that keep their word -----------------------------------------------------------------------------------

TEST(LayerNormProbe, AgreesWithEveryBuiltinVariant) {
  for (const KernelEntry& kernel : kernels::layer_norm::builtin_kernels())
    for (const Format dtype : {Format::f32, Format::f16, Format::bf16, Format::f64}) {
      const Contract contract = kernel.contract(layer_norm::policy_for(dtype));
      Probed subject(contract, answer_of(kernel, contract));
      const std::string what = std::string(kernel.name) + " " + std::string(name(dtype));
      const std::vector<ProbeRow> rows = stages(subject);
      expect_nothing_broken(rows, what);
      expect_no_wider(rows, contract, what);
      expect_nothing_broken(semantics(subject), what);
    }
}

// The kernel rounds everything where it promises to: nothing may be left open but the formats that storage hides.
TEST(LayerNormProbe, TellsFormatsOfThePlainestKernel) {
  for (const layer_norm::NamedPolicy& named : layer_norm::named_policies())
    for (const bool rms : {false, true}) {
      const KernelEntry& kernel = builtin("explicit");
      const Contract contract = kernel.contract(named.policy);
      Probed subject(contract, answer_of(kernel, contract));
      if (rms) subject.supports().layer = false;
      const std::vector<ProbeRow> rows = stages(subject);
      const std::string what = std::string(named.name) + (rms ? " rms" : "");
      expect_nothing_broken(rows, what);
      expect_no_wider(rows, contract, what);
      if (std::string_view(named.name).ends_with("-all")) continue;
      for (const ProbeRow& row : rows)
        if (row.of_stage && !(rms && row.stage == "statistics (mean)")) {
          EXPECT_TRUE(row.at_least) << what << ": " << told(row);
          EXPECT_EQ(row.standing, *row.of_stage == static_cast<std::size_t>(Stage::sum) &&
                                          named.policy[Stage::storage] != Format::f32 &&
                                          named.policy[Stage::storage] != Format::f64
                                      ? Standing::open  // f32 rounded to storage is the same number
                                      : Standing::agrees)
              << what << ": " << told(row);
        }
    }
}

// Any order, merges, roots, forms and flushing that a contract permits, each taken to its end, and every stage in any
// format.
Answer emulated_answer(const Contract& contract, std::uint64_t seed) {
  return [contract, seed](const attest_layer_norm& call) {
    const auto copied = [](const attest_tensor& from) {
      if (!attest_present(&from)) return Tensor();
      Tensor to(*dtype_of(from.dtype), std::span(from.shape, static_cast<std::size_t>(from.ndim)));
      for (Index r = 0; r < from.shape[0]; ++r)
        for (Index i = 0; i < (from.ndim > 1 ? from.shape[1] : 1); ++i) to.set(r, i, 0, 0, load(from, r, i));
      return to;
    };
    layer_norm::Inputs inputs;
    inputs.x = copied(call.x);
    inputs.residual = copied(call.residual);
    inputs.gamma = copied(call.gamma);
    inputs.beta = copied(call.beta);
    inputs.epsilon = call.epsilon;
    inputs.norm = call.rms != 0 ? layer_norm::Norm::rms : layer_norm::Norm::layer;
    Tensor out = copied(call.out), sum_out = copied(call.sum_out);
    namespace emulated = emulator::layer_norm;
    const emulated::Scheme scheme = emulated::draw_scheme(contract, call.x.shape[1], call.rms != 0, seed);
    emulated::run(inputs, contract, scheme, out, sum_out);
    for (Index r = 0; r < call.x.shape[0]; ++r)
      for (Index i = 0; i < call.x.shape[1]; ++i) {
        store(call.out, r, i, 0, 0, out.at(r, i));
        if (sum_out.present()) store(call.sum_out, r, i, 0, 0, sum_out.at(r, i));
      }
  };
}

TEST(LayerNormProbe, NeverAccusesWhoKeepsItsContract) {
  for (std::uint64_t n = 0; n < 300; ++n) {
    const Contract contract = emulator::layer_norm::draw_contract(mix(n));
    // One that sorts what it adds meets numbers that cancel side by side, wherever they stand.
    if (emulator::layer_norm::draw_scheme(contract, 32, false, n).order >= emulator::layer_norm::Order::by_magnitude)
      continue;
    const std::string what = "kernel " + std::to_string(n) + " of " + layer_norm::to_text(contract.policy);
    Probed subject(contract, emulated_answer(contract, n));
    subject.supports().hidden.max = 256;  // it is slow
    const std::vector<ProbeRow> rows = stages(subject);
    expect_nothing_broken(rows, what);
    expect_no_wider(rows, contract, what);
    expect_nothing_broken(semantics(subject), what);
  }
}

// ---- kernels that do not --------------------------------------------------------------------------------------------

// The faults that no row tells, and the reason.
const std::map<std::string, std::string, std::less<>> undetectable{
    {"f16,sum=f16", "x + residual rounded to f32 and then to storage is the same number"},
    {"bf16,sum=bf16", "likewise"},
};

TEST(LayerNormProbe, ExposesEachStageThatIsNarrowerThanPromised) {
  for (const Format dtype : dtypes)
    for (std::size_t n = 1; n < layer_norm::stage_count; ++n)
      for (const Format narrow : {Format::f16, Format::bf16})
        for (const char* kernel_name : {"explicit", "fused"}) {
          const auto stage = static_cast<Stage>(n);
          const KernelEntry& kernel = builtin(kernel_name);
          const Contract promise = kernel.contract(layer_norm::policy_for(dtype));
          if (ops::holds(narrow, promise.policy[stage])) continue;
          Policy real = promise.policy;
          real.set(stage, narrow);
          Probed subject(promise, answer_of(kernel, kernel.contract(real)));
          const std::string lie =
              std::string(name(dtype)) + "," + std::string(name(stage)) + "=" + std::string(name(narrow));
          const std::vector<ProbeRow> rows = stages(subject);
          expect_no_wider(rows, kernel.contract(real), lie);
          test::expect_blamed(rows, n, lie + " of " + kernel_name, undetectable.contains(lie));
        }
}

// A planted defect is told in the row that asks for it.
TEST(LayerNormProbe, TellsPlantedDefectsInTheirRows) {
  const std::map<std::string, std::pair<std::string, std::string>> rows_of_faults{
      {"ln-variance-cancel", {"variance", ""}},
      {"ln-f16-square", {"statistics (variance)", ""}},
      {"ln-bf16-reduce", {"statistics (mean)", ""}},
      {"ln-eps-outside", {"epsilon", "outside: root + epsilon"}},
      {"ln-tail", {"divisor", ""}},
      {"ln-policy-ignored", {"statistics (variance)", "f16"}},
      {"ln-count-less-one", {"divisor", "n - 1"}},
      {"ln-count-padded", {"mean, LayerNorm", ""}},
      {"ln-mean-bf16", {"normalise", "bf16 or narrower"}},
      {"ln-batch-path", {"statistics (mean)", ""}},
      {"ln-mean-kept", {"mean, LayerNorm", "left where it is"}},
      {"ln-rms-centred", {"mean, RMSNorm", ""}},
      {"ln-eps-default", {"epsilon given", ""}},
      {"ln-gamma-offset", {"factor", "1 + gamma"}},
      {"ln-beta-first", {"beta", "added before gamma"}},
      {"ln-residual-twice", {"residual", ""}},
      {"ln-residual-after", {"residual", "added to the result"}},
  };
  // The next test's; layouts and a second row's residual, which no probe asks; and faults that differ only where
  // storage is narrower than f32.
  const std::set<std::string_view> untold{"ln-rsqrt-poor", "ln-strides-ignored", "ln-residual-first-row",
                                          "ln-norm-rounded", "ln-sum-unrounded"};
  for (const KernelEntry& kernel : kernels::layer_norm::fault_kernels()) {
    if (untold.contains(kernel.name)) continue;
    ASSERT_TRUE(rows_of_faults.contains(std::string(kernel.name))) << kernel.name;
    const auto& [stage, observed] = rows_of_faults.at(std::string(kernel.name));
    const Contract contract = kernel.contract(layer_norm::policy_for(Format::f32));
    Probed subject(contract, answer_of(kernel, contract));
    std::vector<ProbeRow> rows = stages(subject);
    for (ProbeRow& row : semantics(subject)) rows.push_back(std::move(row));
    test::expect_row(rows, stage, observed, Standing::contradicts, std::string(kernel.name));
    for (const ProbeRow& row : rows)
      if (row.standing == Standing::contradicts) {
        EXPECT_NE(row.observed, row.promised) << told(row);
      }
  }
}

// A root that is off shows in its own row as more than is promised, whatever the rows of stages blame.
TEST(LayerNormProbe, AgreesToNoRootThatIsPoor) {
  for (const bool right : {false, true}) {
    const KernelEntry& kernel = builtin("explicit");
    const Contract contract = kernel.contract(layer_norm::policy_for(Format::f32));
    Probed subject(contract, [&](const attest_layer_norm& call) {
      answer_of(kernel, contract)(call);
      for (Index r = 0; r < call.out.shape[0] && !right; ++r)
        for (Index i = 0; i < call.out.shape[1]; ++i)
          store(call.out, r, i, 0, 0, load(call.out, r, i, 0, 0) * (1 + 0x1p-11));
    });
    const std::vector<ProbeRow> rows = stages(subject);
    const auto row = std::ranges::find(rows, "root error", &ProbeRow::stage);
    ASSERT_NE(row, rows.end());
    EXPECT_EQ(row->standing == Standing::agrees, right) << told(*row);
  }
}

// ---- other meanings -------------------------------------------------------------------------------------------------

// A plain kernel of which every choice may be another one.
struct Choices {
  double (*denominator)(double variance, double epsilon) = [](double v, double e) { return std::sqrt(v + e); };
  bool bessel = false, subtracts = true, gamma_offset = false, beta_first = false, adds_after = false,
       drops_residual = false, fixed_epsilon = false, all_rows = false, drops_beta = false, first_gamma = false,
       hides_nan = false;
};

Answer plain(const Choices& how) {
  return [how](const attest_layer_norm& call) {
    const Index rows = call.x.shape[0], n = call.x.shape[1];
    const bool added = attest_present(&call.residual);
    const auto sum = [&](Index r, Index i) {
      const double x = load(call.x, r, i), y = added ? load(call.residual, r, i) : 0;
      return round_to(Format::f32, how.adds_after || how.drops_residual ? x : x + y);
    };
    for (Index r = 0; r < rows; ++r) {
      const Index first = how.all_rows ? 0 : r, end = how.all_rows ? rows : r + 1;
      const auto count = static_cast<double>((end - first) * n);
      double mean = 0, variance = 0;
      for (Index row = first; row < end; ++row)
        for (Index i = 0; i < n && !call.rms && how.subtracts; ++i) mean += sum(row, i) / count;
      for (Index row = first; row < end; ++row)
        for (Index i = 0; i < n; ++i) variance += std::pow(sum(row, i) - mean, 2) / (how.bessel ? count - 1 : count);
      const double by = how.denominator(variance, how.fixed_epsilon ? 1e-5 : call.epsilon);
      for (Index i = 0; i < n; ++i) {
        const double stored = attest_present(&call.gamma) ? load(call.gamma, how.first_gamma ? 0 : i) : 1;
        const double gamma = how.gamma_offset && attest_present(&call.gamma) ? stored + 1 : stored;
        const double beta = attest_present(&call.beta) && !how.drops_beta ? load(call.beta, i) : 0;
        const double t = (sum(r, i) - mean) / by;
        double y = how.beta_first ? (t + beta) * gamma : t * gamma + beta;
        if (how.adds_after && added) y += load(call.residual, r, i);
        if (how.hides_nan && std::isnan(y)) y = 0;
        store(call.out, r, i, 0, 0, round_to(Format::f32, y));
        if (attest_present(&call.sum_out))
          store(call.sum_out, r, i, 0, 0, round_to(Format::f32, load(call.x, r, i) + load(call.residual, r, i)));
      }
    }
  };
}

TEST(LayerNormProbe, TellsOtherMeaningsInTheirRows) {
  struct Case {
    Choices how;
    std::string row, observed;
  };
  const auto with = [](auto change) {
    Choices how;
    change(how);
    return how;
  };
  const Case cases[] = {
      {with([](Choices& c) { c.denominator = [](double v, double e) { return std::sqrt(v) + e; }; }), "epsilon",
       "outside: root + epsilon"},
      {with([](Choices& c) { c.denominator = [](double v, double) { return std::sqrt(v); }; }), "epsilon", "dropped"},
      {with([](Choices& c) { c.denominator = [](double v, double e) { return std::sqrt(std::max(v, e)); }; }),
       "epsilon", "the larger of variance and epsilon"},
      {with([](Choices& c) { c.fixed_epsilon = true; }), "epsilon given", ""},
      {with([](Choices& c) { c.bessel = true; }), "divisor", "n - 1"},
      {with([](Choices& c) { c.subtracts = false; }), "mean, LayerNorm", "left where it is"},
      {with([](Choices& c) { c.gamma_offset = true; }), "factor", "1 + gamma"},
      {with([](Choices& c) { c.first_gamma = true; }), "gamma by", "one for all columns"},
      {with([](Choices& c) { c.beta_first = true; }), "beta", "added before gamma"},
      {with([](Choices& c) { c.drops_beta = true; }), "beta", "dropped"},
      {with([](Choices& c) { c.adds_after = true; }), "residual", "added to the result"},
      {with([](Choices& c) { c.drops_residual = true; }), "residual", "dropped"},
      {with([](Choices& c) { c.all_rows = true; }), "statistics of", "all rows"},
      {with([](Choices& c) { c.hides_nan = true; }), "NaN in x", "is gone"},
  };
  const Contract contract = builtin("fused").contract(layer_norm::policy_for(Format::f32));
  {
    Probed right(contract, plain({}));
    expect_nothing_broken(semantics(right), "plain");
    expect_nothing_broken(stages(right), "plain");
  }
  for (const Case& each : cases) {
    Probed subject(contract, plain(each.how));
    test::expect_row(semantics(subject), each.row, each.observed, Standing::contradicts, each.row);
  }
}

// ---- what was seen, as a contract -----------------------------------------------------------------------------------

TEST(LayerNormProbe, SaysWhatWasSeenAsAContract) {
  const KernelEntry& kernel = builtin("fused-one-pass");
  Contract promise = builtin("fused").contract(layer_norm::policy_for(Format::f32));
  Probed subject(promise, answer_of(kernel, kernel.contract(promise.policy)));
  const Contract seen = probes().seen(promise, stages(subject)).as<Contract>();
  EXPECT_EQ(seen.arithmetic.variance, Variance::one_pass);
}

// A subject that says no policy is held to what it computes in, and one that is narrow to no more than the generous
// reading.
TEST(LayerNormProbe, NarrowsTheGenerousReadingByWhatWasSeen) {
  const auto narrowed = [&](const Policy& real, std::string_view kernel_name = "fused") {
    const KernelEntry& kernel = builtin(kernel_name);
    const Contract generous = layer_norm::contract_for(Policy(Format::f16));
    Probed subject(generous, answer_of(kernel, kernel.contract(real)));
    const ops::Contract any = generous;
    return probes().narrowed(any, probes().stages({subject, Format::f16, any, false})).as<Contract>();
  };
  const Contract wide = narrowed(layer_norm::policy_for(Format::f16));
  for (const Stage stage : {Stage::statistics, Stage::normalise, Stage::affine})
    EXPECT_EQ(wide.policy[stage], Format::f32) << name(stage);
  EXPECT_GE(wide.arithmetic.kappa, 3);
  EXPECT_EQ(narrowed(Policy(Format::f16)).policy, Policy(Format::f16));
  for (const Stage stage : {Stage::statistics, Stage::normalise, Stage::affine})
    EXPECT_EQ(narrowed(layer_norm::policy_for(Format::f16).set(stage, Format::f16)).policy[stage], Format::f16)
        << name(stage);
  // The error of one pass is no error of a stage that is said to be f32.
  EXPECT_EQ(narrowed(layer_norm::policy_for(Format::f16), "fused-one-pass").policy[Stage::statistics], Format::f16);
}

// ---- the law that asks one question of a problem --------------------------------------------------------------------

test::AskedNarrowStage ask(Probed& subject, int problems) {
  return test::ask_narrow_stage(*ops::find_op("layer_norm"), subject, problems);
}

TEST(LayerNormNarrowStage, TellsEachStageAtUsualWidths) {
  const KernelEntry& kernel = builtin("explicit");
  for (const Format dtype : dtypes)
    for (std::size_t stage = 1; stage < layer_norm::stage_count; ++stage)
      for (const Format narrow : {Format::f16, Format::bf16}) {
        const Contract promise = kernel.contract(layer_norm::policy_for(dtype));
        if (ops::holds(narrow, promise.policy[static_cast<Stage>(stage)])) continue;
        Policy real = promise.policy;
        real.set(static_cast<Stage>(stage), narrow);
        Probed subject(promise, answer_of(kernel, kernel.contract(real)));
        subject.supports().rows = {1, 4, 1};
        subject.supports().hidden = {768, 8192, 256};
        const std::string lie = std::string(name(dtype)) + "," +
                                std::string(layer_norm::name(static_cast<Stage>(stage))) + "=" +
                                std::string(name(narrow));
        const test::AskedNarrowStage result = ask(subject, 300);
        EXPECT_EQ(result.failed > 0, !undetectable.contains(lie))
            << lie << ", " << result.asked << " asked: " << result.first;
      }
}

TEST(LayerNormNarrowStage, LeavesEveryBuiltinVariantAlone) {
  for (const KernelEntry& kernel : kernels::layer_norm::builtin_kernels())
    for (const layer_norm::NamedPolicy& named : layer_norm::named_policies()) {
      const Contract contract = kernel.contract(named.policy);
      Probed subject(contract, answer_of(kernel, contract));
      const test::AskedNarrowStage result = ask(subject, 40);
      EXPECT_EQ(result.failed, 0) << kernel.name << " " << named.name << ": " << result.first;
    }
}

TEST(LayerNormNarrowStage, LeavesEmulatedKernelsAtTheirEndsAlone) {
  int asked = 0;
  for (std::uint64_t n = 0; n < 200; ++n) {
    const Contract contract = emulator::layer_norm::draw_contract(mix(n + 44));
    Probed subject(contract, emulated_answer(contract, n));
    subject.supports().hidden.max = 1024;  // it is slow
    subject.supports().rows.max = 4;
    const test::AskedNarrowStage result = ask(subject, 10);
    EXPECT_EQ(result.failed, 0) << "kernel " << n << " of " << layer_norm::to_text(contract.policy) << ": "
                                << result.first;
    asked += result.asked;
  }
  EXPECT_GT(asked, 1000);
}

}  // namespace
}  // namespace attest
