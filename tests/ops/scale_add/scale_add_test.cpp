// An operation that is added by its folder and one line of a list goes through everything: drawn, judged, shrunk, told,
// stored, replayed, exported. No room above ops/ is compiled for it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "engine/campaign.hpp"
#include "engine/replay.hpp"
#include "report/export.hpp"
#include "report/observers.hpp"
#include "scale_add.hpp"
#include "tests/engine/temporary_folder.hpp"

namespace attest {
namespace {

namespace fs = std::filesystem;
using engine::test::TemporaryFolder;
using Element = std::function<double(const attest_scale_add&, Index i)>;

class Kernel final : public SubjectFactory {
 public:
  explicit Kernel(Element element) : element_(std::move(element)) {
    info_.name = "test:scale_add";
    info_.ops = {"scale_add"};
    info_.dtypes = {Format::f32, Format::f16, Format::bf16};
  }
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override { return std::make_unique<One>(*this); }

 private:
  struct One final : Subject {
    explicit One(const Kernel& kernel) : kernel(kernel) {}
    [[nodiscard]] const SubjectInfo& info() const noexcept override { return kernel.info_; }
    std::vector<CallResult> run(std::span<const Call> calls) override {
      for (const Call& each : calls) {
        const auto& call = each.as<attest_scale_add>();
        for (Index i = 0; i < call.out.shape[0]; ++i) store(call.out, i, 0, 0, 0, kernel.element_(call, i));
      }
      return std::vector<CallResult>(calls.size());
    }
    bool renew() override { return true; }
    const Kernel& kernel;
  };
  SubjectInfo info_;
  Element element_;
};

Format format(const attest_scale_add& call) { return format_of(*dtype_of(call.x.dtype)); }
double right(const attest_scale_add& call, Index i) {
  return round_to(format(call), call.scale * load(call.x, i)) + load(call.y, i);
}
double fused(const attest_scale_add& call, Index i) { return std::fma(call.scale, load(call.x, i), load(call.y, i)); }
// The elements behind the first group of four are not scaled.
double tail_unscaled(const attest_scale_add& call, Index i) {
  return i < 4 ? right(call, i) : load(call.x, i) + load(call.y, i);
}

engine::Summary campaign(const SubjectFactory& subject, std::uint64_t cases, const fs::path& corpus = {}) {
  engine::CampaignOptions options;
  options.subject = subject.info().name;
  options.cases = cases;
  options.seed = 5;
  options.corpus = corpus;
  options.op = &ops::scale_add_op();
  engine::Observer silent;
  return engine::run_campaign(subject, nullptr, options, silent);
}

TEST(ScaleAdd, IsListedAndSaysItself) {
  ASSERT_EQ(ops::all_ops().size(), 4u);
  EXPECT_EQ(ops::find_op("scale_add"), &ops::scale_add_op());
  const std::string line = "op=scale_add n=7 dtype=f16 scale=0x1.8p-1 seed=18446744073709551615";
  const ops::Problem problem = ops::problem_from_text(line);
  EXPECT_EQ(&problem.op(), &ops::scale_add_op());
  EXPECT_EQ(ops::to_text(problem), line);
  EXPECT_EQ(ops::problem_from_json(nlohmann::json(ops::to_json(problem))), problem);
  EXPECT_NE(ops::problem_from_text("op=scale_add n=8"), problem);
  for (const char* wrong : {"op=scale_add n=0", "op=scale_add m=1", "op=scale_add n=x", "op=scale_add dtype=f8"})
    EXPECT_THROW((void)ops::problem_from_text(wrong), Error) << wrong;
}

TEST(ScaleAdd, ConformingKernelsHold) {
  for (const Element& element : {Element(right), Element(fused)}) {
    const engine::Summary summary = campaign(Kernel(element), 400);
    EXPECT_TRUE(summary.findings.empty()) << report::summary_text(summary);
    EXPECT_EQ(summary.cases, 400u);
  }
}

TEST(ScaleAdd, ADefectIsFoundShrunkToldReplayedAndExported) {
  const TemporaryFolder folder;
  const Kernel kernel(tail_unscaled);
  const engine::Summary summary = campaign(kernel, 200, folder.path());
  ASSERT_FALSE(summary.findings.empty());
  const engine::Entry& entry = summary.findings.front().entry;
  EXPECT_EQ(entry.property, "policy-bound");
  EXPECT_TRUE(entry.minimal);
  EXPECT_EQ(work_of(entry.problem), 5);
  EXPECT_EQ(entry.problem.as<scale_add::Problem>().dtype, Format::f32);
  EXPECT_EQ(entry.evidence->index[0], 4);
  const std::string text = report::summary_text(summary);
  EXPECT_NE(text.find("op=scale_add n=5"), std::string::npos) << text;
  EXPECT_NE(text.find("n>=5 && scale!=1"), std::string::npos) << text;  // the condition learned

  const auto replayed = [&](const Element& element) {
    return engine::replay(
        {folder.path()}, [&](const engine::Entry&) { return std::make_unique<Kernel>(element); }, nullptr,
        [](const engine::ReplayResult&) {});
  };
  const engine::ReplayReport again = replayed(tail_unscaled), mended = replayed(right);
  EXPECT_GT(again.entries, 0);
  EXPECT_EQ(again.as_expected, again.entries);
  EXPECT_EQ(mended.mended, mended.entries);

  const auto call = entry.problem.op().exchange(entry.problem);
  ASSERT_EQ(kernel.open()->run_one(call->call()).status, CallStatus::done);
  EXPECT_EQ(call->judge(entry.contract).kind, VerdictKind::fail);
  const std::string script = report::python_script({entry, *call, true, {}});
  EXPECT_NE(script.find("expected = scale * x.astype(np.float64) + y.astype(np.float64)"), std::string::npos) << script;
  report::write_npz({entry, *call, true, {}}, folder.path() / "call.npz");
  EXPECT_GT(fs::file_size(folder.path() / "call.npz"), 0u);
}

}  // namespace
}  // namespace attest
