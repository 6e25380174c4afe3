// A campaign of a model that was ended at any moment goes on to what it would have come to; and what its failures have
// in common.
#include "models/folder.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/file.hpp"
#include "models/campaign.hpp"
#include "tests/engine/temporary_folder.hpp"
#include "tests/graph/draw.hpp"
#include "tests/models/planted.hpp"

namespace attest::models {
namespace {

namespace fs = std::filesystem;
using test::Planted;

class Folders : public ::testing::Test {
 protected:
  Summary run(const std::string& name, std::uint64_t cases, const std::string& fault = "batch-leak") {
    subjects.clear();
    subjects.push_back(
        {fault.empty() ? std::make_unique<Planted>() : std::make_unique<Planted>(test::fault(fault).plant),
         "planted",
         {},
         {"sound", "faulty"}});
    options.model = "encoder.onnx";
    options.cases = cases;
    options.largest = 128;
    options.folder = folder.path() / name;
    options.corpus = options.folder / "corpus";
    return run_campaign(part, subjects, options, {});
  }
  // All that may be equal of two campaigns: everything but times, paths and who did what.
  static std::string told(const Summary& summary) {
    nlohmann::ordered_json state = state_to_json(summary);
    state.erase("seconds");
    for (const Finding& finding : summary.findings) {
      nlohmann::ordered_json one = to_json(finding);
      one.erase("seconds_to_first");
      one.erase("reproducer");
      one["condition"] = finding.condition ? finding.condition->text : "none";
      state["told"].push_back(one);
    }
    return json_text(state, 1);
  }

  engine::test::TemporaryFolder folder;
  Part part = part_of_model(graph::test::model("encoder"));
  std::vector<Subject> subjects;
  CampaignOptions options;
};

TEST_F(Folders, GoOnWhereACampaignStopped) {
  const Summary whole = run("whole", 14);
  EXPECT_EQ(whole.resumed, 0u);
  ASSERT_EQ(whole.findings.size(), 1u);
  run("parts", 2);
  run("parts", 7);
  const Summary parts = run("parts", 14);
  EXPECT_EQ(parts.resumed, 7u);
  EXPECT_EQ(parts.cases, 14u);
  EXPECT_EQ(told(parts), told(whole));
  EXPECT_EQ(told(run("parts", 14)), told(whole)) << "one that had come to its end";
}

// A process that is killed leaves whole lines, perhaps half a one behind them, and a defect whose problem was not
// committed yet.
TEST_F(Folders, LoseNothingToAKill) {
  const Summary whole = run("whole", 12);
  run("killed", 3);
  const std::string progress = engine::read_file(folder.path() / "killed" / "progress.jsonl", 1 << 20);
  run("killed", 9);
  const auto file = [&](const char* name) { return folder.path() / "killed" / name; };
  engine::write_file(file("progress.jsonl"), progress);
  for (const char* const name : {"progress.jsonl", "cases.jsonl", "findings.jsonl"})
    std::ofstream(file(name), std::ios::app) << "{\"half\": [1, ";
  const Summary killed = run("killed", 12);
  EXPECT_EQ(killed.resumed, 3u);
  EXPECT_EQ(told(killed), told(whole));
}

TEST_F(Folders, TellOtherCampaignsAndDamage) {
  run("one", 2);
  const auto refused = [&](const std::string& word, const std::string& fault = "batch-leak") {
    try {
      run("one", 4, fault);
      ADD_FAILURE() << "was not refused: " << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  options.seed = 2;
  refused("its seed is 1, here it is 2");
  options.seed = 1;
  graph::constrain(options.constraints, "size.batch", "2,4..5");
  refused("size.batch=2,4..5");
  options.constraints = {};
  options.further = std::nullopt;
  refused("its laws is 2");
  options.further = 2;
  {
    const engine::FolderLock lock(folder.path() / "one");
    refused("in use by another campaign");
  }
  std::ofstream(folder.path() / "one" / "progress.jsonl", std::ios::app) << "no JSON\n";
  refused("the line is damaged");
  engine::write_file(folder.path() / "one" / "progress.jsonl", "{\"cases\": 3}\n");
  refused("its last line is damaged");
}

// A batch leak shows by `spread`, and by `masked-positions` where all samples are equal until their masked ids change:
// one defect.
TEST_F(Folders, HaveOneFindingForOneDefectThatSeveralLawsTell) {
  // Short samples of equal ids, and these laws on each problem, bring that about.
  graph::constrain(options.constraints, "size.batch", "2..3");
  graph::constrain(options.constraints, "size.length", "2..6");
  graph::constrain(options.constraints, "values.ids", "same,ends");
  options.law_glob = "*s*p*";
  options.seed = 3;
  const Summary whole = run("whole", 60);
  ASSERT_EQ(whole.findings.size(), 1u);
  EXPECT_EQ(whole.findings[0].law, "spread");
  EXPECT_TRUE(whole.findings[0].others.contains("masked-positions/fail/finite"));
  EXPECT_TRUE(whole.findings[0].also.contains("masked-positions"));
  // The problem alone that is told last does not fail by `spread` here, but what the law makes of it.
  options.seed = 2;
  const Summary other = run("other", 60);
  ASSERT_EQ(other.findings.size(), 1u);
  EXPECT_EQ(other.findings[0].law, "spread");
  EXPECT_TRUE(other.findings[0].others.contains("masked-positions/fail/finite"));
  options.seed = 3;
  // Gone on with, it knows that.
  run("parts", 40);
  const Summary parts = run("parts", 60);
  EXPECT_EQ(told(parts), told(whole));
}

// ---- under which condition a failure shows

TEST_F(Folders, LearnWhereADefectShows) {
  const Summary summary = run("where", 40);
  ASSERT_EQ(summary.findings.size(), 1u);
  ASSERT_TRUE(summary.findings[0].condition);
  const Condition& condition = *summary.findings[0].condition;
  EXPECT_NE(condition.text.find("size.batch>"), std::string::npos) << condition.text;
  EXPECT_EQ(condition.counts.failing, summary.laws.at("spread").kinds.at(VerdictKind::fail));
  EXPECT_EQ(condition.counts.failing_elsewhere, 0u);
  EXPECT_GT(condition.counts.elsewhere, 5u);
}

TEST(Conditions, NameWhatFailsAndNothingElse) {
  const graph::Program program(graph::test::model("encoder"));
  const graph::Family family(program);
  const auto learned = [&](const std::function<bool(const graph::Problem&)>& fails, const std::string& smallest,
                           std::uint64_t problems = 300) {
    RunTable table(family);
    for (std::uint64_t i = 0; i < problems; ++i) {
      const graph::Problem problem = family.draw(5, i);
      const bool failing = fails(problem);
      const std::size_t at = table.add(problem);
      table.add({at, 0, "faulty", failing ? 0U : 1U, failing ? 0 : -1});
      table.add({at, 0, "sound", 1U, -1});  // not looked at
      table.add({at, 1, "faulty", 1U, -1});
    }
    const graph::Problem small = graph::problem_from_text(smallest);
    std::vector<graph::Problem> passing;
    for (const graph::Problem& one : family.simpler(small))
      if (!fails(one)) passing.push_back(one);
    const std::vector<std::string> levels{"faulty"};
    return table.learn({0, 0, 0, levels, small, passing});
  };
  const auto length = [](const graph::Problem& p) { return p.sizes.at("length"); };
  const auto batch = [](const graph::Problem& p) { return p.sizes.at("batch"); };
  const auto kept = [](const graph::Problem& p) { return p.values.at("mask"); };

  EXPECT_EQ(learned([&](const auto& p) { return length(p) >= 5; },
                    "size.batch=1 size.length=5 values.ids=any values.mask=all seed=1")
                .text,
            "size.length>=5");
  EXPECT_EQ(learned([&](const auto& p) { return kept(p) != graph::Regime::all && batch(p) > 1; },
                    "size.batch=2 size.length=1 values.ids=any values.mask=prefix seed=1")
                .text,
            "size.batch>1 && values.mask!=all");
  EXPECT_EQ(learned([&](const auto& p) { return batch(p) < length(p); },
                    "size.batch=1 size.length=2 values.ids=any values.mask=all seed=1")
                .text,
            "size.batch<size.length");
  EXPECT_EQ(learned([&](const auto& p) { return length(p) % 8 == 0; },
                    "size.batch=1 size.length=8 values.ids=any values.mask=all seed=1")
                .text,
            "size.length%8==0");
  // Too few failures to count: the neighbours of the smallest problem tell the condition.
  EXPECT_EQ(learned([&](const auto& p) { return length(p) >= 3; },
                    "size.batch=1 size.length=3 values.ids=any values.mask=all seed=1", 2)
                .text,
            "size.length>=3");
  // A failure that shows everywhere has no condition.
  EXPECT_EQ(
      learned([](const auto&) { return true; }, "size.batch=1 size.length=1 values.ids=any values.mask=all seed=1")
          .text,
      "");
  const Condition counted = learned([&](const auto& p) { return length(p) >= 5; },
                                    "size.batch=1 size.length=5 values.ids=any values.mask=all seed=1");
  EXPECT_EQ(counted.counts.asked + counted.counts.elsewhere, 300u);
  EXPECT_EQ(counted.counts.failing, counted.counts.asked);
}

}  // namespace
}  // namespace attest::models
