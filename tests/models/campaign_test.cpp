#include "models/campaign.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/npz.hpp"
#include "engine/file.hpp"
#include "graph/raw.hpp"
#include "graph/read.hpp"
#include "models/effort.hpp"
#include "models/exhibit.hpp"
#include "models/replay.hpp"
#include "tests/engine/temporary_folder.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/models/planted.hpp"

namespace attest::models {
namespace {

using test::Planted;

class Campaigns : public ::testing::Test {
 protected:
  // A campaign of `cases` on both builds of `runtime`, which stays here.
  Summary run(std::unique_ptr<Planted> runtime, std::uint64_t cases) {
    planted = runtime.get();
    subjects.clear();
    subjects.push_back({std::move(runtime), "planted", {}, {"sound", "faulty"}});
    options.model = model_file;
    options.cases = cases;
    options.largest = 128;
    return run_campaign(part, subjects, options, {});
  }
  static std::unique_ptr<Planted> planting(const std::string& fault) {
    return std::make_unique<Planted>(test::fault(fault).plant);
  }

  engine::test::TemporaryFolder folder;
  std::filesystem::path model_file = folder.path() / "encoder.onnx";
  Part part = part_of_model(graph::test::model("encoder"));
  std::vector<Subject> subjects;
  CampaignOptions options;
  Planted* planted = nullptr;
};

TEST_F(Campaigns, HoldOfASoundRuntime) {
  const Summary summary = run(std::make_unique<Planted>(), 12);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.cases, 12u);
  EXPECT_EQ(summary.runs, 24u);
  EXPECT_EQ(summary.laws.at("spread").kinds.at(VerdictKind::pass), 24u);
  EXPECT_EQ(summary.exit(), Exit::held);
  std::uint64_t further = 0, beside = 0;
  for (const auto& [law, counts] : summary.laws)
    for (const auto& [kind, n] : counts.kinds) (law == "proven-bound" ? beside : further) += law == "spread" ? 0 : n;
  EXPECT_EQ(further, 48u);
  EXPECT_GT(beside, 0u);
}

TEST_F(Campaigns, ShrinkAndLocaliseALeak) {
  options.corpus = folder.path() / "corpus";
  const Summary summary = run(planting("batch-leak"), 16);
  EXPECT_EQ(summary.exit(), Exit::found);
  ASSERT_EQ(summary.findings.size(), 1u);
  const Finding& finding = summary.findings[0];
  EXPECT_EQ(finding.key, "spread/fail/finite");
  EXPECT_EQ(finding.smallest.problem.sizes, (std::map<std::string, Index>{{"batch", 2}, {"length", 2}}));
  EXPECT_EQ(finding.smallest.problem.values.at("mask"), graph::Regime::all);
  EXPECT_TRUE(finding.smallest.minimal);
  EXPECT_EQ(finding.levels, (std::set<std::string>{"faulty"}));
  EXPECT_EQ(finding.passing, (std::set<std::string>{"sound"}));
  EXPECT_TRUE(finding.also.contains("batch-alone"));
  EXPECT_FALSE(finding.also.contains("repeat"));
  ASSERT_TRUE(finding.place && finding.place->segment);
  EXPECT_TRUE(finding.place->explains);
  EXPECT_GT(finding.failures, 3u);

  // The segment is a model of its own, on inputs that lie beside it.
  std::filesystem::path file = finding.reproducer;
  const graph::Program segment(graph::load_model(file.replace_extension(".onnx")));
  graph::Feeds feeds;
  graph::Array expected;
  for (const NamedArray& one : load_npz(file.replace_extension(".npz"))) {
    graph::Array array{static_cast<graph::Type>(one.type), one.shape, 1, {}, {}};
    array.floats.resize(static_cast<std::size_t>(one.size()));
    one.read(0, array.floats);
    if (one.name == "expected") expected = array;
    if (one.name != "expected" && one.name != "got") feeds.emplace(one.name, array);
  }
  EXPECT_EQ(results_by(segment, feeds, *graph::nearest(), {}).at(0).floats, expected.floats);
}

TEST_F(Campaigns, AreTheSameAgain) {
  const Summary a = run(planting("softmax-f16"), 6);
  options.jobs = 4;  // whatever evaluates graphs
  const Summary b = run(planting("softmax-f16"), 6);
  ASSERT_EQ(a.findings.size(), b.findings.size());
  for (std::size_t i = 0; i < a.findings.size(); ++i) {
    EXPECT_EQ(a.findings[i].smallest.problem, b.findings[i].smallest.problem);
    EXPECT_EQ(a.findings[i].result.reason, b.findings[i].result.reason);
    EXPECT_EQ(a.findings[i].failures, b.findings[i].failures);
  }
}

// Two defects that fail alike are told apart by where they arise.
TEST_F(Campaigns, TellDefectsApartByPlace) {
  const Summary summary = run(std::make_unique<Planted>([](const graph::Model& model) -> std::optional<graph::Model> {
                                const auto leak = test::fault("batch-leak").plant(model);
                                const auto tanh = test::fault("tanh-for-erf").plant(leak.value_or(model));
                                return tanh ? tanh : leak;
                              }),
                              16);
  std::set<std::string> ops;
  for (const Finding& finding : summary.findings) {
    EXPECT_EQ(finding.key, "spread/fail/finite");
    ASSERT_TRUE(finding.place);
    ops.insert(finding.place->op);
  }
  EXPECT_EQ(ops, (std::set<std::string>{"Erf", "MatMul"}));
  EXPECT_EQ(summary.findings.size(), 2u);
}

// Wrong from the third shape on that the model is asked: a fresh process is right, and one that was asked two others is
// not.
TEST_F(Campaigns, FindWhatOnlyAHistoryShows) {
  auto runtime = std::make_unique<Planted>();
  std::set<std::string> shapes;
  runtime->after = [shapes](const Part& asked, const Build& build, const graph::Feeds& feeds, Freshness on,
                            Answer& answer) mutable {
    if (build.level != "faulty" || asked.program->model().outputs.size() != 2) return;
    if (on != Freshness::kept) shapes.clear();
    shapes.insert(graph::shape_text(feeds.at("ids").shape));
    if (shapes.size() >= 3) answer.outputs[0].floats[0] += 1;
  };
  options.corpus = folder.path() / "corpus";
  options.further = 0;
  const Summary summary = run(std::move(runtime), 8);
  ASSERT_EQ(summary.findings.size(), 1u);
  const Finding& finding = summary.findings[0];
  EXPECT_FALSE(finding.flaky);
  ASSERT_EQ(finding.smallest.after.size(), 2u);
  EXPECT_TRUE(finding.smallest.minimal);
  Index tokens = 0;  // three shapes that differ: 1 x 1, 1 x 2, and 2 x 1 or 1 x 3
  for (const graph::Problem& one : {finding.smallest.problem, finding.smallest.after[0], finding.smallest.after[1]})
    tokens += one.sizes.at("batch") * one.sizes.at("length");
  EXPECT_LE(tokens, 6);
  EXPECT_FALSE(finding.place);  // no part of it fails
  EXPECT_EQ(read_entry(finding.reproducer).after.size(), 2u);
  EXPECT_EQ(finding.passing, (std::set<std::string>{"sound"}));
}

// Answers by the shapes of what is asked for, each graph by itself, what it answered when they came first: `which`
// graphs do.
std::function<void(const Part&, const Build&, const graph::Feeds&, Freshness, Answer&)> stale(
    std::function<bool(const Part&)> which) {
  using Answers = std::map<std::string, std::vector<graph::Array>>;
  return [which = std::move(which), kept = std::map<std::uint64_t, Answers>()](
             const Part& asked, const Build& build, const graph::Feeds& feeds, Freshness on, Answer& answer) mutable {
    if (build.level != "faulty") return;
    if (on == Freshness::new_process) kept.clear();
    if (on == Freshness::new_session) kept[asked.key].clear();
    std::string shapes;
    for (const auto& [name, array] : feeds) shapes += graph::shape_text(array.shape);
    if (which(asked)) answer.outputs = kept[asked.key].emplace(shapes, answer.outputs).first->second;
  };
}

// The whole is right; a part by itself answers what it was asked before, seldom and long ago.
TEST_F(Campaigns, FindWhatTheHistoryOfAPartShows) {
  const auto is_part = [](const Part& asked) {
    return !asked.program->model().inputs.empty() && asked.program->model().inputs[0].name != "ids";
  };
  auto runtime = std::make_unique<Planted>();
  runtime->after = stale(is_part);
  engine::write_file(model_file, *part.file);
  options.corpus = folder.path() / "corpus";
  const Summary summary = run(std::move(runtime), 160);
  ASSERT_GE(summary.findings.size(), 1u);
  for (const Finding& finding : summary.findings) {
    EXPECT_EQ(finding.key, "proven-bound/fail/finite");
    EXPECT_FALSE(finding.flaky) << finding.result.reason;
    ASSERT_EQ(finding.smallest.after.size(), 1u);
    EXPECT_TRUE(finding.smallest.minimal);
    EXPECT_LE(finding.smallest.problem.sizes.at("batch") * finding.smallest.problem.sizes.at("length"), 2);
    ASSERT_TRUE(finding.place && finding.place->segment);
    EXPECT_EQ(finding.place->segment->before.size(), 1u);

    // It is kept whole: replayed, shrunk again, and handed on with what comes before.
    const Resolvers resolvers{[](const Entry& entry) { return engine::read_file(entry.model, 1 << 22); },
                              [&](const Entry&) -> std::unique_ptr<Runtime> {
                                auto again = std::make_unique<Planted>();
                                again->after = stale(is_part);
                                return again;
                              }};
    EXPECT_EQ(replay_entry(finding.reproducer, resolvers, false).outcome, Outcome::as_expected);
    const ShrunkEntry shrunk = shrink_entry(finding.reproducer, resolvers, 1000, options.corpus);
    EXPECT_TRUE(shrunk.fails) << shrunk.sentence;
    EXPECT_EQ(shrunk.entry.after.size(), 1u);
    const Entry entry = read_entry(finding.reproducer);
    const auto asked = resolvers.runtime(entry);
    const auto exhibit = segment_of(finding.reproducer, entry, asked.get());
    ASSERT_TRUE(exhibit && exhibit->got);
    ASSERT_EQ(exhibit->before.size(), 1u);
    for (const auto& [name, array] : finding.place->segment->before[0])
      EXPECT_EQ(exhibit->before[0].at(name).floats, array.floats);
    EXPECT_NE(exhibit->got->at(0).floats, exhibit->expected[0].reference.floats);
    EXPECT_EQ(whole_of(entry, part, nullptr).before.size(), 1u);
  }
}

// A failure by `spread` has each tensor asked after the same calls.
TEST_F(Campaigns, PlaceWhatOnlyAHistoryShows) {
  auto runtime = std::make_unique<Planted>();
  runtime->after = stale([](const Part& asked) {
    return std::ranges::any_of(asked.program->model().nodes, [](const graph::Node& node) { return node.op == "Erf"; });
  });
  options.corpus = folder.path() / "corpus";
  options.further = 0;
  options.law_glob = "spread";
  const Summary summary = run(std::move(runtime), 40);
  ASSERT_EQ(summary.findings.size(), 1u);
  const Finding& finding = summary.findings[0];
  EXPECT_EQ(finding.smallest.after.size(), 1u);
  ASSERT_TRUE(finding.place && finding.place->segment);
  EXPECT_EQ(finding.place->op, "Erf");
  EXPECT_EQ(finding.place->segment->nodes.size(), 1u);
  EXPECT_EQ(finding.place->segment->before.size(), 1u);
}

// A model that was compiled for a single token first is wrong for all longer ones: `history` compiles anew on the way.
TEST_F(Campaigns, FindWhatAFirstProblemLeavesBehind) {
  auto runtime = std::make_unique<Planted>();
  bool first = true, spoilt = false;
  runtime->after = [first, spoilt](const Part& asked, const Build& build, const graph::Feeds& feeds, Freshness on,
                                   Answer& answer) mutable {
    if (build.level != "faulty" || asked.program->model().outputs.size() != 2) return;
    const Index length = feeds.at("ids").shape.at(1);
    if (first || on != Freshness::kept) spoilt = length == 1;
    first = false;
    if (spoilt && length > 1) answer.outputs[0].floats[0] += 1;
  };
  options.corpus = folder.path() / "corpus";
  options.further = 12;
  const Summary summary = run(std::move(runtime), 24);
  ASSERT_GE(summary.findings.size(), 1u);
  for (const Finding& finding : summary.findings) {
    EXPECT_FALSE(finding.flaky) << finding.result.reason;
    EXPECT_EQ(finding.smallest.after.size(), 1u);
  }
}

// A law's own model of a problem may leave something behind, too: earlier problems are asked by that law.
TEST_F(Campaigns, FindWhatALawLeavesBehind) {
  auto runtime = std::make_unique<Planted>();
  int given = 0;  // runs with weights as inputs
  runtime->after = [given](const Part& asked, const Build& build, const graph::Feeds&, Freshness on,
                           Answer& answer) mutable {
    if (on == Freshness::new_process) given = 0;
    const auto& constants = asked.program->model().constants;
    const bool in_file = std::ranges::any_of(constants, [](const auto& one) { return is_floating(one.second.type); });
    if (build.level != "faulty" || in_file) return;
    if (++given > 1 && !answer.outputs[0].floats.empty()) answer.outputs[0].floats[0] += 1;
  };
  options.corpus = folder.path() / "corpus";
  options.law_glob = "constants-as-inputs";
  const Summary summary = run(std::move(runtime), 6);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_FALSE(summary.findings[0].flaky) << summary.findings[0].result.reason;
  EXPECT_EQ(summary.findings[0].smallest.after.size(), 1u);
}

// A failure that nothing repeats is told once, however often it shows.
TEST_F(Campaigns, TellFlakesOfOneKindOnce) {
  auto runtime = std::make_unique<Planted>();
  runtime->after = [](const Part&, const Build&, const graph::Feeds& feeds, Freshness on, Answer& answer) mutable {
    static std::set<std::string> seen;
    std::string key;
    for (const auto& [name, array] : feeds) key += graph::raw_bytes(array);
    if (on == Freshness::kept && seen.insert(key).second) answer.outputs[0].floats[0] += 1;
  };
  options.further = 0;
  const Summary summary = run(std::move(runtime), 6);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_TRUE(summary.findings[0].flaky);
  EXPECT_GE(summary.findings[0].failures, 4u);
}

TEST_F(Campaigns, TellWhatShowsOnce) {
  auto runtime = std::make_unique<Planted>();
  int runs = 0;
  runtime->after = [runs](const Part&, const Build&, const graph::Feeds&, Freshness, Answer& answer) mutable {
    if (++runs == 5) answer.outputs[0].floats[0] += 1;
  };
  options.corpus = folder.path() / "corpus";
  options.further = 0;
  const Summary summary = run(std::move(runtime), 6);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_TRUE(summary.findings[0].flaky);
  EXPECT_EQ(summary.findings[0].key, "spread/flaky/finite");
  EXPECT_TRUE(summary.findings[0].reproducer.empty());
}

TEST_F(Campaigns, AreFindingsOfCrashes) {
  auto runtime = std::make_unique<Planted>();
  runtime->before = [](const Part& asked, const Build& build, const graph::Feeds& feeds, Freshness) {
    const bool dies = build.level == "faulty" && feeds.contains("mask") && feeds.at("mask").shape.at(1) > 2 &&
                      asked.program->model().nodes.size() > 20;
    return dies ? CallResult{CallStatus::crash, "the worker was killed by SIGSEGV"} : CallResult{};
  };
  const Summary summary = run(std::move(runtime), 6);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].key, "spread/crash/the-worker-was-killed-by-sigsegv");
  EXPECT_EQ(summary.findings[0].smallest.problem.sizes, (std::map<std::string, Index>{{"batch", 1}, {"length", 3}}));
  EXPECT_TRUE(summary.findings[0].place);
}

TEST_F(Campaigns, JudgeNothingWhereNothingRuns) {
  auto runtime = std::make_unique<Planted>();
  runtime->before = [](const Part&, const Build&, const graph::Feeds&, Freshness) {
    return CallResult{CallStatus::unsupported, "no such models"};
  };
  const Summary summary = run(std::move(runtime), 3);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.exit(), Exit::incomplete);
  EXPECT_EQ(summary.laws.at("spread").skipped.at("no such models"), 6u);
}

// The cost of a model decides how large its problems are, and nothing else does.
TEST(Efforts, KeepToWhatAVerdictMayCost) {
  for (const char* const name : {"encoder", "attention-both", "norm"}) {
    const graph::Program program(graph::test::model(name));
    const Effort effort = effort_for(graph::Family(program), Index{1} << 14);
    EXPECT_EQ(effort.small, 512) << name;
    EXPECT_EQ(effort.large, Index{1} << 14) << name;
    EXPECT_EQ(effort_for(graph::Family(program), 100).small, 100);
  }
  constexpr Index width = 2000;
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"tokens", 1}}};
  auto x = f("MatMul", {"x", f.constant(graph::zeros(graph::Type::f32, {1, width}))});
  for (int layer = 0; layer < 5; ++layer)
    x = f("MatMul", {x, f.constant(graph::zeros(graph::Type::f32, {width, width}))});
  f("Relu", {x}, {}, "y");
  f.outputs = {"y"};
  const graph::Program heavy(graph::read_model(f.bytes(), "m"));
  const graph::Family family(heavy);
  EXPECT_NEAR(heavy.seen(family.feeds(family.of_length(3))).work, 3 * (5.0 * width * width + width + width), 1);
  const Effort effort = effort_for(family, Index{1} << 14);
  EXPECT_EQ(effort.small, 8);  // elements of 20 million multiply-adds each
  EXPECT_EQ(effort.large, 32);
}

// A model whose axes hang on each other in a way that no symbol says.
TEST_F(Campaigns, SkipWhatTheGraphDoesNotTake) {
  graph::test::File f;
  f.inputs = {{"a", graph::Type::f32, {"n", 3}}, {"b", graph::Type::f32, {"m", 3}}};
  f("Add", {"a", "b"}, {}, "y");  // n and m are equal, or one of them is 1
  f.outputs = {"y"};
  part = part_of_model(graph::read_model(f.bytes(), "m"));
  const Summary summary = run(std::make_unique<Planted>(), 60);
  std::uint64_t skipped = 0;
  for (const auto& [reason, n] : summary.skipped) {
    skipped += n;
    EXPECT_NE(reason.find("(Add)"), std::string::npos) << reason;
    EXPECT_EQ(reason.find("[N"), std::string::npos) << reason;
  }
  EXPECT_EQ(summary.skipped.size(), 1u);  // reasons that differ in their numbers are one
  EXPECT_GT(skipped, 20u);
  EXPECT_LT(skipped, 60u);
  EXPECT_EQ(summary.runs, 2 * (60 - skipped));
  EXPECT_THROW(
      run_problem(part, subjects, graph::problem_from_text("size.m=2 size.n=3 values.a=normal values.b=normal seed=1"),
                  options, {}),
      Error);
}

// Graphs that pin a length, or join two, though the file calls them open: most problems that are simpler are none that
// they take.
class Pinned : public Campaigns {
 protected:
  // The one finding of a runtime that leaves a Relu out, stored.
  Finding found(const graph::test::File& f) {
    part = part_of_model(graph::read_model(f.bytes(), "m"));
    engine::write_file(model_file, *part.file);
    options.corpus = folder.path() / "corpus";
    const Summary summary = run(without_relu(), 200);
    EXPECT_GT(summary.skipped.size(), 0u);
    EXPECT_EQ(summary.findings.size(), 1u);
    return summary.findings.at(0);
  }
  static std::unique_ptr<Planted> without_relu() {
    return std::make_unique<Planted>([](graph::Model model) -> std::optional<graph::Model> {
      for (graph::Node& node : model.nodes)
        if (node.op == "Relu") node.op = "Identity";
      return model;
    });
  }
  static void expect_whole(const Finding& finding) {
    EXPECT_EQ(finding.key, "spread/fail/finite");
    ASSERT_TRUE(finding.place && finding.place->segment);
    EXPECT_EQ(finding.place->op, "Relu");
    EXPECT_TRUE(finding.smallest.minimal);
    const Resolvers resolvers{[](const Entry& entry) { return engine::read_file(entry.model, 1 << 20); },
                              [](const Entry&) -> std::unique_ptr<Runtime> { return without_relu(); }};
    EXPECT_EQ(replay_entry(finding.reproducer, resolvers, false).outcome, Outcome::as_expected);
  }
};

TEST_F(Pinned, ALength) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"batch", "length", 4}}};
  const auto w = f.constant(graph::floats(graph::Type::f32, {4, 4}, std::vector<double>(16, 0.25)));
  const auto heads = f.constant(graph::integers(graph::Type::i64, {4}, {0, 5, 2, 2}));
  f("Relu", {f("Reshape", {f("MatMul", {"x", w}), heads})}, {}, "y");
  f.outputs = {"y"};
  const Finding finding = found(f);
  expect_whole(finding);
  EXPECT_EQ(finding.smallest.problem.sizes, (std::map<std::string, Index>{{"batch", 1}, {"length", 5}}));
  ASSERT_TRUE(finding.condition);
  EXPECT_EQ(finding.condition->text.find("length"), std::string::npos) << finding.condition->text;
}

TEST_F(Pinned, TwoThatAreEqual) {
  graph::test::File f;
  f.inputs = {{"a", graph::Type::f32, {2, "n"}}, {"b", graph::Type::f32, {"m", 3}}};
  f("Relu", {f("MatMul", {"a", "b"})}, {}, "y");
  f.outputs = {"y"};
  const Finding finding = found(f);
  expect_whole(finding);
  EXPECT_EQ(finding.smallest.problem.sizes, (std::map<std::string, Index>{{"m", 1}, {"n", 1}}));
}

// A role that the owner states, and the graph does not show, goes along in the reproducer.
TEST_F(Pinned, ByARoleThatIsSaid) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"n", 3}}, {"rows", graph::Type::i64, {"m"}}};
  f("Relu", {f("Gather", {"x", "rows"})}, {}, "y");
  f.outputs = {"y"};
  graph::constrain(options.constraints, "role.rows", "ids:2");
  const Finding finding = found(f);
  expect_whole(finding);
  EXPECT_EQ(read_entry(finding.reproducer).roles, (std::map<std::string, std::string>{{"rows", "ids:2"}}));
}

// A runtime's wrong shape is handed on to nodes that do not take it.
TEST_F(Pinned, AShapeThatTheRuntimeGetsWrong) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"n", 6}}};
  const auto shape = f("Concat",
                       {f("Shape", {"x"}, {graph::test::attr("end", std::int64_t{1})}),
                        f.constant(graph::integers(graph::Type::i64, {1}, {6}))},
                       {graph::test::attr("axis", std::int64_t{0})});
  f("Relu", {f("Reshape", {"x", shape})}, {}, "y");
  f.outputs = {"y"};
  part = part_of_model(graph::read_model(f.bytes(), "m"));
  auto runtime = std::make_unique<Planted>();
  runtime->after = [](const Part& asked, const Build& build, const graph::Feeds&, Freshness, Answer& answer) {
    if (build.level != "faulty") return;
    if (asked.program->model().nodes.back().op == "Shape") answer.outputs[0].integers[0] += 1;
    if (asked.program->model().nodes.back().op == "Relu") answer.outputs[0].floats[0] += 1;
  };
  const Summary summary = run(std::move(runtime), 6);
  ASSERT_EQ(summary.findings.size(), 1u);
  ASSERT_TRUE(summary.findings[0].place);
  EXPECT_EQ(summary.findings[0].place->op, "Shape");
  EXPECT_FALSE(summary.findings[0].place->explains);
}

// A call that the end of the time cuts off is no result; failures seen before it are told.
TEST_F(Campaigns, SayWhatTheEndCutsShort) {
  constexpr double hours = 1e4;  // the runtime says when it is over
  options.seconds = hours;
  options.further = 0;
  auto runtime = std::make_unique<Planted>();
  runtime->after = [runs = 0](const Part&, const Build&, const graph::Feeds&, Freshness, Answer& answer) mutable {
    answer.cut_off = ++runs >= 5;
  };
  Summary summary = run(std::move(runtime), 20);
  EXPECT_TRUE(planted->until);
  EXPECT_TRUE(summary.cut_short);
  EXPECT_EQ(summary.cases, 2u);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.laws.at("spread").kinds.at(VerdictKind::pass), 4u);

  runtime = planting("batch-leak");
  runtime->after = [](const Part&, const Build& build, const graph::Feeds&, Freshness on, Answer& answer) {
    answer.cut_off = build.level == "faulty" && on == Freshness::new_process;
  };
  summary = run(std::move(runtime), 20);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_FALSE(summary.findings[0].flaky);
  EXPECT_FALSE(summary.findings[0].smallest.minimal);
  EXPECT_EQ(summary.findings[0].smallest.problem, summary.findings[0].original);
  EXPECT_FALSE(summary.findings[0].result.reason.empty());

  // A time limit that nobody could confirm is none.
  runtime = std::make_unique<Planted>();
  runtime->before = [](const Part&, const Build& build, const graph::Feeds&, Freshness on) {
    const bool hangs = build.level == "faulty" && on == Freshness::kept;
    return hangs ? CallResult{CallStatus::timeout, "no answer within 10 s"} : CallResult{};
  };
  runtime->after = [](const Part&, const Build&, const graph::Feeds&, Freshness on, Answer& answer) {
    answer.cut_off = on == Freshness::new_process;
  };
  summary = run(std::move(runtime), 20);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_TRUE(summary.cut_short);
  EXPECT_EQ(summary.slow, 0u);
  for (auto& [law, counts] : summary.laws) counts.kinds.erase(VerdictKind::pass);
  EXPECT_EQ(summary.exit(), Exit::incomplete);
}

TEST(Cases, StopWhereTheyAreTold) {
  const Part part = part_of_model(graph::test::model("encoder"));
  const graph::Family family(*part.program);
  int asked = 0;
  Case one(part, family.feeds(family.of_length(2)), {}, 1, [&asked] { return ++asked > 3; });
  EXPECT_THROW(one.room(), graph::Stopped);
  EXPECT_EQ(asked, 4);
}

// A limit that a busy machine passes is no finding; one that a fresh process passes, too, is.
TEST_F(Campaigns, CountWhatWasSlowOnce) {
  auto runtime = std::make_unique<Planted>();
  runtime->before = [slow = 3](const Part&, const Build&, const graph::Feeds&, Freshness on) mutable {
    return on == Freshness::kept && --slow == 0 ? CallResult{CallStatus::timeout, "no answer within 10 s"}
                                                : CallResult{};
  };
  options.further = 0;
  const Summary summary = run(std::move(runtime), 5);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.slow, 1u);
  EXPECT_EQ(summary.exit(), Exit::held);
}

// ---- files

class Replays : public Campaigns {
 protected:
  std::filesystem::path stored() {
    engine::write_file(model_file, *part.file);
    options.corpus = folder.path() / "corpus";
    return run(planting("batch-leak"), 6).findings.at(0).reproducer;
  }
  Replayed replayed(const std::filesystem::path& file, const std::string& fault, bool expect_pass = false) {
    return replay_entry(file,
                        {[](const Entry& entry) { return engine::read_file(entry.model, 1 << 20); },
                         [fault](const Entry&) -> std::unique_ptr<Runtime> {
                           return fault.empty() ? std::make_unique<Planted>() : planting(fault);
                         }},
                        expect_pass);
  }
};

TEST_F(Replays, GiveWhatEntriesExpect) {
  const auto file = stored();
  EXPECT_TRUE(is_entry(engine::read_file(file, 1 << 20)));
  EXPECT_EQ(replayed(file, "batch-leak").outcome, Outcome::as_expected);
  EXPECT_EQ(replayed(file, "").outcome, Outcome::mended);
  EXPECT_EQ(replayed(file, "", true).outcome, Outcome::as_expected);
  EXPECT_EQ(replayed(file, "batch-leak", true).outcome, Outcome::unexpected);
  const Entry entry = read_entry(file);
  EXPECT_EQ(entry.model, std::filesystem::weakly_canonical(model_file));
  EXPECT_EQ(entry.model_digest, hex64(digest_of(*part.file)));
  EXPECT_EQ(entry.law, "spread");
  EXPECT_FALSE(entry.tensor.empty());
}

TEST_F(Replays, KnowTheModelByItsContents) {
  const auto file = stored();
  engine::write_file(model_file,
                     graph::test::model("norm").values.empty() ? "" : *part_of_model(graph::test::model("norm")).file);
  const Replayed other = replayed(file, "batch-leak");
  EXPECT_EQ(other.outcome, Outcome::not_run);
  EXPECT_NE(other.sentence.find("have changed"), std::string::npos) << other.sentence;
}

TEST_F(Replays, TellDamagedFiles) {
  const auto file = stored();
  const std::string text = engine::read_file(file, 1 << 20);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const auto at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    other.replace(at, from.size(), to);
    engine::write_file(file, other);
    const Replayed result = replayed(file, "batch-leak");
    EXPECT_EQ(result.outcome, Outcome::damaged) << from;
    return result.sentence;
  };
  EXPECT_NE(with("\"spread\"", "\"repeat\"").find("digest"), std::string::npos);
  EXPECT_NE(with("\"format\": 1", "\"format\": 2").find("format 2"), std::string::npos);
  EXPECT_NE(with("\"case\": ", "\"case\": -1").find("digest"), std::string::npos);
  engine::write_file(file, text.substr(0, text.size() / 2));
  EXPECT_EQ(replayed(file, "").outcome, Outcome::damaged);
  EXPECT_FALSE(is_entry("[1]"));
  EXPECT_FALSE(is_entry("{\"kind\": 3}"));
}

}  // namespace
}  // namespace attest::models
