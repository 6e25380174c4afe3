// Reports of campaigns of models: HTML, JUnit and SARIF, of what a runtime with a planted leak came to.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "engine/file.hpp"
#include "graph/read.hpp"
#include "models/campaign.hpp"
#include "models/exhibit.hpp"
#include "report/ci.hpp"
#include "report/export_model.hpp"
#include "report/export_runtime.hpp"
#include "report/html.hpp"
#include "report/markup.hpp"
#include "report/models.hpp"
#include "report/record.hpp"
#include "tests/engine/temporary_folder.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/models/planted.hpp"

namespace attest::report {
namespace {

using models::test::Planted;
using nlohmann::json;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class ModelReport : public ::testing::Test {
 protected:
  json run(const std::string& fault) {
    std::vector<models::Subject> subjects;
    subjects.push_back(
        {fault.empty() ? std::make_unique<Planted>() : std::make_unique<Planted>(models::test::fault(fault).plant),
         "planted",
         {},
         {"sound", "faulty"}});
    models::CampaignOptions options;
    options.model = "some/encoder.onnx";
    options.cases = 40;
    options.largest = 128;
    options.folder = folder.path() / "campaign";
    options.corpus = options.folder / "corpus";
    const models::Summary summary = run_campaign(part, subjects, options, {});
    nlohmann::ordered_json record = summary_json(summary);
    record["coverage"] = coverage_json(summary.coverage.value());
    write_record(options.folder, record);
    return record;
  }

  engine::test::TemporaryFolder folder;
  models::Part part = models::part_of_model(graph::test::model("encoder"));
};

TEST_F(ModelReport, TellsADefectWithItsPlaceAndItsPictures) {
  const json record = run("batch-leak");
  ASSERT_EQ(record.at("findings").size(), 1u);
  const json& finding = record.at("findings")[0];
  EXPECT_EQ(read_record(folder.path() / "campaign"), record);

  // The wrong samples are all but the first.
  const json& output = finding.at("where").at(0);
  EXPECT_GT(output.at("wrong").get<int>(), 0);
  EXPECT_EQ(output.at("wrong"), output.at("wrong_at").size());
  for (const json& at : output.at("wrong_at")) EXPECT_GT(at.at(0).get<int>(), 0);
  const json& tensor = finding.at("place").at("where").at(0);
  EXPECT_EQ(tensor.at("tensor"), finding.at("place").at("tensor"));
  EXPECT_GT(tensor.at("wrong").get<int>(), 0);

  const std::string page = html_page(record);
  EXPECT_NE(page.find("<h1>encoder.onnx</h1>"), std::string::npos);
  EXPECT_EQ(count(page, "class=\"card defect\""), 1u);
  for (const char* key : {"problem", "rerun", "key"})
    EXPECT_NE(page.find(finding.at(key).get<std::string>()), std::string::npos) << key;
  EXPECT_NE(page.find(finding.at("place").at("tensor").get<std::string>()), std::string::npos);
  const auto predicate = finding.at("when").at("predicate").get<std::string>();
  EXPECT_NE(page.find(escaped(predicate)), std::string::npos) << predicate;
  // There is one of both outputs, and of the tensor where it begins.
  EXPECT_EQ(count(page, "class=\"geometry\""), 3u);
  EXPECT_EQ(count(page, "class=\"errors\""), 3u);
  EXPECT_EQ(count(page, "class=\"heat\""), record.at("coverage").at("tables").size());
  for (const auto& [law, counts] : record.at("verdicts").items())
    EXPECT_NE(page.find("<th scope=\"row\">" + law + "</th>"), std::string::npos) << law;
  EXPECT_NE(page.find("no proof"), std::string::npos);
  EXPECT_EQ(page.find("never</em>"), std::string::npos) << "what cannot come together is not known";
}

TEST_F(ModelReport, TellsThatAllHeld) {
  const json record = run("");
  const std::string page = html_page(record);
  EXPECT_NE(page.find("every law held"), std::string::npos);
  EXPECT_NE(page.find("None was found."), std::string::npos);
  EXPECT_NE(junit_xml(record).find(" failures=\"0\" errors=\"0\""), std::string::npos);
  EXPECT_TRUE(sarif_json(record).at("runs")[0].at("results").empty());
}

TEST_F(ModelReport, IsThereForContinuousIntegration) {
  const json record = run("batch-leak");
  const json& finding = record.at("findings")[0];
  const std::string xml = junit_xml(record);
  std::size_t failing = 0;
  for (const auto& [law, counts] : record.at("verdicts").items()) {
    EXPECT_EQ(count(xml, "classname=\"some/encoder.onnx\" name=\"" + law + "\""), 1u) << law;
    if (counts.contains("fail")) ++failing;
  }
  EXPECT_GT(failing, 1u);
  EXPECT_EQ(count(xml, "<failure "), failing);
  EXPECT_NE(xml.find(finding.at("rerun").get<std::string>()), std::string::npos);
  const auto log = sarif_json(record);
  const auto& results = log.at("runs")[0].at("results");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].at("ruleId"), finding.at("law"));
  EXPECT_EQ(results[0].at("partialFingerprints").at("attestBucket/v1"), "spread/fail/finite:planted");
  EXPECT_EQ(results[0].at("locations")[0].at("physicalLocation").at("artifactLocation").at("uri"), "some/encoder.onnx");
  EXPECT_EQ(log.at("runs")[0].at("tool").at("driver").at("rules")[0].at("shortDescription").at("text"),
            "results lie where an ensemble of correct evaluations does");
}

TEST_F(ModelReport, OfAKilledCampaignIsWhatItHas) {
  const json whole = run("batch-leak");
  const auto campaign = folder.path() / "campaign";
  std::filesystem::remove(campaign / "summary.json");
  std::ofstream(campaign / "progress.jsonl", std::ios::app) << "{\"cases\":";  // half a line
  const std::string before = engine::read_file(campaign / "progress.jsonl", 1 << 20);
  const json record = read_record(campaign);
  EXPECT_EQ(engine::read_file(campaign / "progress.jsonl", 1 << 20), before) << "it may be another's";
  EXPECT_EQ(record.at("verdicts"), whole.at("verdicts"));
  EXPECT_EQ(record.at("model"), whole.at("model"));
  ASSERT_EQ(record.at("findings").size(), 1u);
  EXPECT_EQ(record.at("findings")[0].at("where"), whole.at("findings")[0].at("where"));
  EXPECT_EQ(record.at("findings")[0].at("place"), whole.at("findings")[0].at("place"));
  EXPECT_NE(html_page(record).find("has not come to its end"), std::string::npos);
  // The summary of an earlier run does not pass for one of this.
  json stale = whole;
  stale["cases"] = 3;
  engine::write_file(campaign / "summary.json", stale.dump());
  EXPECT_TRUE(read_record(campaign).contains("unfinished"));
}

TEST_F(ModelReport, RefusesWhatIsDamaged) {
  const json record = run("batch-leak");
  const auto file = folder.path() / "campaign" / "summary.json";
  std::vector<json> damaged(6, record);
  damaged[0]["findings"] = 7;
  damaged[1]["verdicts"] = json::array();
  damaged[2]["kind"] = "kernel";
  damaged[3].erase("skipped");
  damaged[4]["findings"][0].erase("levels");
  damaged[5]["findings"][0]["where"][0].erase("shape");
  for (const json& one : damaged) {
    engine::write_file(file, one.dump());
    EXPECT_THROW(html_page(read_record(folder.path() / "campaign")), Error) << one.dump().substr(0, 200);
  }
}

// Names of tensors and runtimes, and what runtimes say, are a stranger's.
TEST_F(ModelReport, KeepsTextText) {
  const std::string hostile = "</h3><script>alert(1)</script>\"'";
  json record = run("batch-leak");
  record["model"] = hostile + ".onnx";
  record["subjects"][0] = hostile;
  json& finding = record["findings"][0];
  for (const char* key : {"key", "runtime", "problem", "reason", "reproducer", "rerun"}) finding[key] = hostile;
  for (const char* key : {"levels", "passes_at", "also"}) finding[key] = {hostile};
  finding["when"]["predicate"] = finding["where"][0]["tensor"] = finding["place"]["words"] =
      finding["place"]["segment_words"] = hostile;
  record["coverage"]["fields"][0]["name"] = record["coverage"]["tables"][0]["name"] = hostile;
  record["skipped"] = {{hostile, 1}};
  const std::string page = html_page(record), xml = junit_xml(record);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(xml.find("<script"), std::string::npos);
  EXPECT_GE(count(page, "&lt;script&gt;alert(1)"), 14u);
}

// Scripts and drafts for a part with a proven bound do not say that nothing is proven; tensors of 8 bits have a type.
TEST(ModelExport, SaysWhatIsProvenAndNamesEveryType) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"n"}}};
  f("QuantizeLinear", {"x", f.scalar(0.5), f.constant(graph::integers(graph::Type::u8, {}, {7}))}, {}, "y");
  f.outputs = {"y"};
  const models::Part part = models::part_of_model(graph::read_model(f.bytes(), "m"));
  models::Entry entry;
  entry.runtime = "onnxruntime";
  entry.build.level = "all";
  entry.policy = "literal";
  entry.law = "proven-bound";
  entry.reason = "y[0] = 1, expected 2, permitted 2 .. 2, the proven bound of attention";
  entry.problem = "size.n=2 values.x=normal seed=1";
  entry.key = "proven-bound/fail/finite";
  models::Exhibit exhibit = whole_of(entry, part, nullptr);
  const auto script = [&] { return python_script({entry, exhibit, "m.onnx"}); };
  const auto draft = [&] { return issue_text({entry, exhibit, "m.onnx"}, "Linux"); };
  EXPECT_NE(script().find("'y', TensorProto.UINT8, None"), std::string::npos) << script();
  EXPECT_EQ(script().find("that interval is proven"), std::string::npos);  // nothing of the whole is proven
  EXPECT_NE(draft().find("(no proof)"), std::string::npos);
  exhibit.name = "segment";
  EXPECT_NE(script().find("that interval is proven"), std::string::npos);
  EXPECT_EQ(draft().find("(no proof)"), std::string::npos);
  EXPECT_NE(draft().find("is bounded, by proof"), std::string::npos);
}

// A failure that shows only after other calls is handed on with them.
TEST(ModelExport, CarriesWhatMustComeBefore) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"n"}}};
  f("Relu", {"x"}, {}, "y");
  f.outputs = {"y"};
  const models::Part part = models::part_of_model(graph::read_model(f.bytes(), "m"));
  models::Entry entry;
  entry.build.level = "all";
  entry.policy = "literal";
  entry.law = "spread";
  entry.key = "spread/fail/finite";
  entry.problem = "size.n=2 values.x=normal seed=1";
  for (const char* const runtime : {"onnxruntime", "openvino"}) {
    entry.runtime = runtime;
    entry.after.clear();
    EXPECT_EQ(python_script({entry, whole_of(entry, part, nullptr), "m.onnx"}).find("before"), std::string::npos);
    entry.after = {"size.n=1 values.x=integers seed=2", "size.n=3 values.x=normal seed=3"};
    const models::Exhibit exhibit = whole_of(entry, part, nullptr);
    ASSERT_EQ(exhibit.before.size(), 2u);
    EXPECT_EQ(exhibit.before[1].at("x").shape, (std::vector<Index>{3}));
    const std::string script = python_script({entry, exhibit, "m.onnx"});
    EXPECT_EQ(count(script, "'x': np.array("), 3u);
    const auto earlier = script.find("for earlier in before"),
               asked = script.find(", feeds)") + script.find("infer(feeds)") + 1;
    EXPECT_LT(earlier, asked) << script;
  }
}

// A script asks the provider of a build, with what was handed over to it, and no other in its place.
TEST(ModelExport, AsksTheProviderOfABuild) {
  models::Entry entry;
  entry.runtime = "onnxruntime";
  entry.build.level = "extended";
  EXPECT_NE(run_code(entry).find("ORT_ENABLE_EXTENDED\n"), std::string::npos);
  EXPECT_NE(run_code(entry).find("providers=['CPUExecutionProvider'])"), std::string::npos);
  EXPECT_EQ(run_code(entry).find("importlib"), std::string::npos);
  entry.build.level = "all+SomeExecutionProvider";
  EXPECT_NE(run_code(entry).find("provider, settings = 'SomeExecutionProvider', {}\n"), std::string::npos);
  entry.build.level = "basic+SomeExecutionProvider+a=x:1%2C2%2B3%+it's=a=b+c=";
  const std::string code = run_code(entry);
  EXPECT_NE(code.find("ORT_ENABLE_BASIC\n"), std::string::npos);
  EXPECT_NE(code.find("{'a': 'x:1,2+3%', 'it\\'s': 'a=b', 'c': ''}\n"), std::string::npos) << code;
  EXPECT_NE(code.find("assert provider in session.get_providers()"), std::string::npos);
  EXPECT_EQ(count(code, "enable_fallback=0"), 2u);
}

// A runtime's remark on a model stands in every report of a campaign.
TEST_F(ModelReport, TellsNotes) {
  json record = run("");
  EXPECT_FALSE(record.contains("notes"));
  record["notes"] = {{"planted faulty", "takes <2> of 8 nodes"}};
  EXPECT_NE(html_page(record).find("planted faulty: takes &lt;2&gt; of 8 nodes."), std::string::npos);
}

// Rows lie below each other and columns side by side, whatever lengths are 1.
TEST(Geometry, HasRowsDownwards) {
  const auto drawn = [](int axes, std::vector<int> extents, std::vector<int> wrong) {
    return geometry_svg(json{{"tensor", "out"},
                             {"axes", axes},
                             {"extents", extents},
                             {"wrong_at", {wrong}},
                             {"wrong", 1},
                             {"judged", 2}},
                        "x");
  };
  const std::string down = R"(<rect class="right" x="0" y="14" width="16" height="32"/>)";
  const auto has = [](const std::string& svg, const std::string& part) { return svg.find(part) != std::string::npos; };
  EXPECT_TRUE(has(drawn(4, {1, 1, 2, 1}, {0, 0, 1, 0}), down));
  EXPECT_TRUE(
      has(drawn(4, {1, 1, 2, 1}, {0, 0, 1, 0}), R"(<rect class="wrong" x="0" y="30" width="16" height="16"/>)"));
  EXPECT_TRUE(has(drawn(2, {2, 1, 1, 1}, {1, 0, 0, 0}), down));
  EXPECT_TRUE(has(drawn(3, {1, 2, 1, 1}, {0, 1, 0, 0}), down));
  EXPECT_TRUE(
      has(drawn(1, {2, 1, 1, 1}, {1, 0, 0, 0}), R"(<rect class="right" x="0" y="14" width="32" height="16"/>)"));
  EXPECT_EQ(count(drawn(3, {2, 2, 2, 1}, {1, 1, 1, 0}), R"(class="right")"), 2u)
      << "a panel for each index of the first axis";
}

}  // namespace
}  // namespace attest::report
