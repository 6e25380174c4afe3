#include "models/laws.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "graph/read.hpp"
#include "models/localise.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/models/planted.hpp"

namespace attest::models {
namespace {

using test::Planted;

class Asked : public ::testing::Test {
 protected:
  LawResult on(Planted& runtime, const std::string& law, const std::string& level = "faulty",
               const std::string& line = "size.batch=3 size.length=5 values.ids=any values.mask=all seed=7") {
    const Part part = part_of_model(graph::test::model("encoder"));
    const graph::Family family(*part.program);
    const graph::Problem problem = graph::problem_from_text(line);
    Case one(part, family.feeds(problem), {}, problem.seed);
    return ask(law_named(law), {one, runtime, {level}});
  }
  static constexpr const char* partly_masked = "size.batch=3 size.length=5 values.ids=any values.mask=prefix seed=7";
  static void expect(const LawResult& result, VerdictKind kind, const std::string& text) {
    EXPECT_EQ(name(result.kind), name(kind)) << result.reason;
    EXPECT_NE(result.reason.find(text), std::string::npos) << result.reason;
  }
};

TEST_F(Asked, HoldOfASoundRuntime) {
  Planted runtime;
  for (const Law& law : all_laws()) {
    const LawResult result = law.name == "masked-positions" ? on(runtime, "masked-positions", "faulty", partly_masked)
                                                            : on(runtime, std::string(law.name), "faulty");
    EXPECT_EQ(result.kind, VerdictKind::pass) << law.name << ": " << result.reason;
    EXPECT_LE(result.z, 8) << law.name;
  }
  EXPECT_EQ(on(runtime, "levels-agree", "sound").kind, VerdictKind::skip);
}

TEST_F(Asked, FindABatchLeak) {
  Planted runtime(test::fault("batch-leak").plant);
  expect(on(runtime, "spread"), VerdictKind::fail, " deviations, of 10 that are permitted");
  EXPECT_EQ(failure_key("spread", on(runtime, "spread")), "spread/fail/finite");
  expect(on(runtime, "batch-alone"), VerdictKind::fail, ", the sample alone ");
  expect(on(runtime, "batch-permuted"), VerdictKind::fail, ", in another order ");
  expect(on(runtime, "levels-agree"), VerdictKind::fail, ", at sound ");
  EXPECT_EQ(on(runtime, "batch-duplicated").kind, VerdictKind::pass);  // the first sample is still the first
  EXPECT_EQ(on(runtime, "spread", "sound").kind, VerdictKind::pass);
  expect(on(runtime, "batch-alone", "faulty", "size.batch=1 size.length=5 values.ids=any values.mask=all seed=7"),
         VerdictKind::skip, "one sample");
}

// A batch is padded by samples of zeros, by which integers are not divided.
TEST(Laws, WhatAGraphDoesNotTakeIsSkipped) {
  graph::test::File f;
  f.inputs = {{"n", graph::Type::i64, {"rows"}}};
  f("Div", {f.constant(graph::integers(graph::Type::i64, {}, {7})), "n"}, {}, "y");
  f.outputs = {"y"};
  const Part part = part_of_model(graph::read_model(f.bytes(), "m"));
  const graph::Family family(*part.program);
  const graph::Problem problem = graph::problem_from_text("size.rows=3 values.n=integers seed=7");
  Planted runtime;
  Case one(part, family.feeds(problem), {}, problem.seed);
  const Law& padded = law_named("batch-padded");
  const Law* const both[] = {&law_named("spread"), &padded};
  const auto told = ask(both, {one, runtime, {"sound"}});
  EXPECT_EQ(name(told.at(0).kind), name(VerdictKind::pass)) << told[0].reason;
  EXPECT_EQ(name(told.at(1).kind), name(VerdictKind::skip)) << told[1].reason;
  EXPECT_NE(told[1].reason.find("does not take what the law makes"), std::string::npos);
  EXPECT_EQ(name(ask(padded, {one, runtime, {"sound"}}).kind), name(VerdictKind::skip));
}

// A runtime may refuse what the shapes that a file states exclude: both sums below are as long, by the file. It may not
// answer wrongly, nor refuse anything else.
TEST(Laws, ARefusalOfWhatAFilesShapesExcludeIsNoFailure) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"n"}}, {"u", graph::Type::f32, {"m"}}};
  f("Add", {"x", "u"}, {}, "s");
  f("Neg", {"s"}, {}, "y");
  f.within = {{"s", graph::Type::f32, {"m"}}};
  f.outputs = {"y"};
  const Part part = part_of_model(graph::read_model(f.bytes(), "m"));
  const graph::Family family(*part.program);
  Planted refuses, answers;
  refuses.before = [](const Part&, const Build&, const graph::Feeds&, Freshness) {
    return CallResult{CallStatus::error, "Shape mismatch attempting to re-use buffer"};
  };
  answers.after = [](const Part&, const Build&, const graph::Feeds&, Freshness, Answer& answer) {
    answer.outputs[0].floats[0] += 1;
  };
  const auto told = [&](Planted& runtime, const std::string& sizes) {
    const graph::Problem problem = graph::problem_from_text(sizes + " values.x=normal values.u=normal seed=7");
    Case one(part, family.feeds(problem), {}, problem.seed);
    return ask(law_named("spread"), {one, runtime, {"sound"}});
  };
  const LawResult excluded = told(refuses, "size.n=3 size.m=1");
  EXPECT_EQ(name(excluded.kind), name(VerdictKind::skip));
  EXPECT_NE(excluded.reason.find("axis 0 of 's' is 3, and 'm' by the file, which is 1 elsewhere"), std::string::npos)
      << excluded.reason;
  EXPECT_EQ(name(told(refuses, "size.n=1 size.m=3").kind), name(VerdictKind::error));
  EXPECT_EQ(name(told(answers, "size.n=3 size.m=1").kind), name(VerdictKind::fail));
}

TEST_F(Asked, FindWhatPaddingTouches) {
  Planted runtime;
  runtime.after = [](const Part&, const Build&, const graph::Feeds& feeds, Freshness, Answer& answer) {
    if (feeds.at("ids").shape.at(0) > 3) answer.outputs.at(0).floats.at(2) += 1;  // the last real sample
  };
  expect(on(runtime, "batch-padded"), VerdictKind::fail, "logit[2,0] = ");
  expect(on(runtime, "batch-padded"), VerdictKind::fail, ", in a batch with padding behind it ");
  EXPECT_EQ(on(runtime, "spread").kind, VerdictKind::pass);
  EXPECT_EQ(on(runtime, "batch-alone").kind, VerdictKind::pass);
  runtime.after = [](const Part&, const Build&, const graph::Feeds& feeds, Freshness, Answer& answer) {
    if (feeds.at("ids").shape.at(0) > 3) answer.outputs.at(0).floats.back() = std::nan("");  // in the padding
  };
  EXPECT_EQ(on(runtime, "batch-padded").kind, VerdictKind::pass);
  EXPECT_EQ(
      on(runtime, "batch-padded", "faulty", "size.batch=1 size.length=5 values.ids=any values.mask=all seed=7").kind,
      VerdictKind::pass);
}

TEST_F(Asked, FindWhatReadsMaskedTokens) {
  Planted runtime;
  // The last token of the first sample, which is masked, is added to its logit.
  runtime.after = [](const Part&, const Build&, const graph::Feeds& feeds, Freshness, Answer& answer) {
    answer.outputs.at(0).floats.at(0) += 0.01 * static_cast<double>(feeds.at("ids").integers.at(4));
  };
  expect(on(runtime, "masked-positions", "faulty", partly_masked), VerdictKind::fail,
         ", with other contents where it is masked ");
  expect(on(runtime, "masked-positions"), VerdictKind::skip, "nothing is masked");
  // The outputs of masked tokens themselves may be anything.
  runtime.after = [](const Part&, const Build&, const graph::Feeds& feeds, Freshness, Answer& answer) {
    answer.outputs.at(1).floats.at(4 * 16) += 0.01 * static_cast<double>(feeds.at("ids").integers.at(4));
  };
  EXPECT_EQ(on(runtime, "masked-positions", "faulty", partly_masked).kind, VerdictKind::pass);
}

TEST_F(Asked, SeeWhatAWitnessIs) {
  Planted runtime;
  runtime.after = [](const Part&, const Build&, const graph::Feeds&, Freshness, Answer& answer) {
    answer.outputs.at(1).floats.at(5 * 16 + 16 + 3) += 1;  // hidden[1,1,3]
  };
  expect(on(runtime, "spread"), VerdictKind::fail, "hidden[1,1,3] = ");
  runtime.after = [](const Part&, const Build&, const graph::Feeds&, Freshness, Answer& answer) {
    answer.outputs.at(0).floats.at(0) = std::numeric_limits<double>::quiet_NaN();
  };
  EXPECT_EQ(on(runtime, "spread").failure_class, "nan");
  EXPECT_EQ(on(runtime, "repeat").kind, VerdictKind::pass);  // NaN both times
}

// Laws over two runs tell of a difference between these two alone.
TEST_F(Asked, FindWhatOnlyAnotherRunShows) {
  const auto changes = [](auto when) {
    return [when](const Part&, const Build& build, const graph::Feeds&, Freshness on, Answer& answer) {
      if (when(build, on)) answer.outputs.at(0).floats.at(0) += 1;
    };
  };
  const std::vector<std::string> laws{"repeat", "history", "threads", "static-dynamic", "constants-as-inputs"};
  const auto failing = [&](Planted& runtime) {
    std::vector<std::string> found;
    for (const std::string& law : laws)
      if (on(runtime, law).kind == VerdictKind::fail) found.push_back(law);
    return found;
  };
  Planted runtime;
  int runs = 0;
  runtime.after = changes([&runs](const Build&, Freshness) { return ++runs % 2 == 0; });
  EXPECT_EQ(failing(runtime), laws);
  runtime.after = changes([](const Build&, Freshness on) { return on == Freshness::new_session; });
  EXPECT_EQ(failing(runtime), (std::vector<std::string>{"history"}));
  runtime.after = changes([](const Build& build, Freshness) { return build.threads != 1; });
  EXPECT_EQ(failing(runtime), (std::vector<std::string>{"threads"}));
  runtime.after = changes([](const Build& build, Freshness) { return build.fixed; });
  EXPECT_EQ(failing(runtime), (std::vector<std::string>{"static-dynamic"}));
  runtime.after = [](const Part& part, const Build&, const graph::Feeds&, Freshness, Answer& answer) {
    if (part.program->model().inputs.size() > 2) answer.outputs.at(0).floats.at(0) += 1;
  };
  EXPECT_EQ(failing(runtime), (std::vector<std::string>{"constants-as-inputs"}));
  runtime.after = {};
  runtime.before = [](const Part& part, const Build&, const graph::Feeds&, Freshness) {
    return part.program->model().inputs.size() > 2 ? CallResult{CallStatus::error, "no"} : CallResult{};
  };
  EXPECT_EQ(on(runtime, "constants-as-inputs").kind, VerdictKind::skip);
}

// The runtime takes inputs for packed that are not.
TEST_F(Asked, FindWhatReadsOtherLayoutsWrongly) {
  for (const InputLayout wrong : other_layouts) {
    Planted runtime;
    runtime.after = [wrong](const Part&, const Build& build, const graph::Feeds&, Freshness, Answer& answer) {
      if (build.layout == wrong) answer.outputs[0].floats[1] += 1;
    };
    expect(on(runtime, "input-layout"), VerdictKind::fail, ", with " + std::string(name(wrong)) + " inputs ");
    for (const Law& law : all_laws())
      EXPECT_TRUE(law.name == "input-layout" || !is_finding(on(runtime, std::string(law.name)).kind)) << law.name;
    runtime.take_layouts({wrong == InputLayout::odd_base ? InputLayout::padded_rows : InputLayout::odd_base});
    EXPECT_EQ(on(runtime, "input-layout").kind, VerdictKind::pass);
    runtime.take_layouts({});
    expect(on(runtime, "input-layout"), VerdictKind::skip, "packed inputs alone");
  }
  // A refusal of inputs that were said to be taken is an error.
  Planted runtime;
  runtime.before = [](const Part&, const Build& build, const graph::Feeds&, Freshness) {
    return build.layout == InputLayout::packed ? CallResult{} : CallResult{CallStatus::error, "not contiguous"};
  };
  expect(on(runtime, "input-layout"), VerdictKind::error, "not contiguous");
}

TEST_F(Asked, TellOfRunsThatGiveNothing) {
  Planted runtime;
  runtime.before = [](const Part&, const Build&, const graph::Feeds&, Freshness) {
    return CallResult{CallStatus::crash, "the worker was killed by SIGSEGV"};
  };
  expect(on(runtime, "spread"), VerdictKind::crash, "SIGSEGV");
  EXPECT_EQ(failure_key("spread", on(runtime, "spread")), "spread/crash/the-worker-was-killed-by-sigsegv");
  runtime.before = [](const Part&, const Build&, const graph::Feeds&, Freshness) {
    return CallResult{CallStatus::unsupported, "no"};
  };
  expect(on(runtime, "spread"), VerdictKind::skip, "no");
  runtime.before = [](const Part&, const Build& build, const graph::Feeds&, Freshness) {
    return build.fixed ? CallResult{CallStatus::error, "no static builds"} : CallResult{};
  };
  expect(on(runtime, "static-dynamic"), VerdictKind::error, "no static builds");
  runtime.before = {};
  runtime.after = [](const Part&, const Build&, const graph::Feeds&, Freshness, Answer& answer) {
    answer.outputs.at(0).shape = {4, 1};  // and the elements of 3
  };
  expect(on(runtime, "spread"), VerdictKind::fail, "float32 [4, 1] in place of float32 [3, 1]");
  EXPECT_EQ(on(runtime, "repeat").kind, VerdictKind::skip);
}

// Many a Sigmoid is 1/2 + tanh(x/2)/2, which is good to an ulp of 1/2 and no better.
TEST(Spread, TakesASigmoidForHalfATanh) {
  graph::test::File f;
  f.inputs = {{"x", graph::Type::f32, {"n"}}};
  f("Sigmoid", {"x"}, {}, "y");
  f.outputs = {"y"};
  const Part part = part_of_model(graph::read_model(f.bytes(), "m"));
  const graph::Feeds feeds{{"x", graph::floats(graph::Type::f32, {3}, {-7, 0.5, 9})}};
  Planted runtime;
  float added = 0;
  runtime.after = [&](const Part&, const Build&, const graph::Feeds& given, Freshness, Answer& answer) {
    for (std::size_t i = 0; i < 3; ++i)
      answer.outputs[0].floats[i] = 0.5F + 0.5F * std::tanh(0.5F * static_cast<float>(given.at("x").floats[i])) + added;
  };
  const auto asked = [&] {
    Case one(part, feeds, {}, 1);
    return ask(law_named("spread"), {one, runtime, {"faulty"}});
  };
  EXPECT_EQ(asked().kind, VerdictKind::pass) << asked().reason;
  added = 0x1p-19F;
  EXPECT_EQ(asked().kind, VerdictKind::fail);
}

TEST(Laws, AreNamed) {
  EXPECT_EQ(law_named("history").name, "history");
  EXPECT_THROW(law_named("nope"), Error);
}

// ---- where it arises

// Tensors of `model` whose node, or a constant that it reads, is another one in `planted`.
std::vector<std::string> changed_tensors(const graph::Model& model, const graph::Model& planted) {
  std::map<std::string, const graph::Node*> by_output;
  const auto name_in = [](const graph::Model& of, int value) {
    return value < 0 ? std::string() : of.values[static_cast<std::size_t>(value)];
  };
  for (const graph::Node& node : planted.nodes) by_output[name_in(planted, node.outputs.front())] = &node;
  std::vector<std::string> changed;
  for (const graph::Node& node : model.nodes) {
    const auto other = by_output.find(name_in(model, node.outputs.front()));
    bool same =
        other != by_output.end() && other->second->op == node.op && other->second->inputs.size() == node.inputs.size();
    for (std::size_t i = 0; same && i < node.inputs.size(); ++i) {
      const int a = node.inputs[i], b = other->second->inputs[i];
      same = name_in(model, a) == name_in(planted, b);
      if (same && a >= 0 && model.constants.contains(a))
        same = planted.constants.contains(b) && model.constants.at(a).bytes() == planted.constants.at(b).bytes();
    }
    if (!same) changed.push_back(name_in(model, node.outputs.front()));
  }
  return changed;
}

// The first wrong tensor of a planted fault is that of the planted node or of one that reads it; the segment holds it.
TEST(Place, IsThePlantedNode) {
  int asked = 0, right = 0, segments = 0, explained = 0;
  for (const char* const name : {"encoder", "attention-scores", "attention-both", "attention-division"}) {
    const Part part = part_of_model(graph::test::model(name));
    const graph::Model& model = part.program->model();
    const graph::Family family(*part.program);
    for (const auto& fault : graph::test::faults()) {
      const auto planted = fault.plant(model);
      if (!planted) continue;
      const auto changed = changed_tensors(model, *planted);
      Planted runtime(fault.plant);
      int failures = 0;
      for (std::uint64_t number = 0; number < 12 && failures < 2; ++number) {
        const graph::Problem problem = family.draw(5, number, 256);
        Case one(part, family.feeds(problem), {}, problem.seed);
        const Asking asking{one, runtime, {"faulty"}};
        if (ask(law_named("spread"), asking).kind != VerdictKind::fail) continue;
        ++failures;
        ++asked;
        const auto place = localise(law_named("spread"), asking, {}, problem.seed);
        if (!place) continue;
        bool near = std::ranges::find(changed, place->tensor) != changed.end();
        for (const graph::Node& node : model.nodes)
          if (model.values[static_cast<std::size_t>(node.outputs.front())] == place->tensor)
            for (const int input : node.inputs)
              near = near || (input >= 0 && std::ranges::find(changed, model.values[static_cast<std::size_t>(input)]) !=
                                                changed.end());
        right += near;
        segments += place->segment && place->segment->nodes.size() <= 3;
        explained += place->explains;
        if (!near)
          printf("%s %s: %s for %s\n", name, fault.name.c_str(), place->tensor.c_str(),
                 changed.empty() ? "-" : changed.front().c_str());
      }
    }
  }
  printf("%d of %d places are right, %d segments of three nodes and fewer, %d explain\n", right, asked, segments,
         explained);
  EXPECT_GE(asked, 40);
  EXPECT_GE(right, 0.9 * asked);
  EXPECT_GE(segments, 0.8 * asked);
  EXPECT_GE(explained, 0.8 * asked);
}

// A runtime whose whole graph alone is wrong.
TEST(Place, IsNowhereWhereNoPrefixFails) {
  const Part part = part_of_model(graph::test::model("encoder"));
  const graph::Family family(*part.program);
  const graph::Problem problem =
      graph::problem_from_text("size.batch=2 size.length=3 values.ids=any values.mask=all seed=7");
  Planted runtime;
  runtime.after = [](const Part& asked, const Build&, const graph::Feeds&, Freshness, Answer& answer) {
    if (asked.program->model().outputs.size() == 2) answer.outputs[0].floats[0] += 1;
  };
  Case one(part, family.feeds(problem), {}, problem.seed);
  const Asking asking{one, runtime, {"sound"}};
  EXPECT_EQ(ask(law_named("spread"), asking).kind, VerdictKind::fail);
  EXPECT_FALSE(localise(law_named("spread"), asking, {}, problem.seed));
}

// If the whole stops, the place is the first prefix that stops alike; one that stops otherwise where there is none.
TEST(Place, IsWhereARunStopsAlike) {
  const Part part = part_of_model(graph::test::model("encoder"));
  const graph::Family family(*part.program);
  const graph::Problem problem =
      graph::problem_from_text("size.batch=2 size.length=3 values.ids=any values.mask=all seed=7");
  Planted runtime;
  runtime.before = [](const Part& asked, const Build&, const graph::Feeds&, Freshness) {
    const auto& nodes = asked.program->model().nodes;
    const bool has_softmax = std::ranges::find(nodes, "Softmax", &graph::Node::op) != nodes.end();
    return has_softmax         ? CallResult{CallStatus::error, "no kernel"}
           : nodes.size() == 4 ? CallResult{CallStatus::error, "another matter"}
                               : CallResult{};
  };
  Case one(part, family.feeds(problem), {}, problem.seed);
  const Law& spread = law_named("spread");
  const Asking asking{one, runtime, {"sound"}};
  EXPECT_NE(localise(spread, asking, {}, problem.seed).value().op, "Softmax");
  PlaceLimits limits;
  limits.stops_as = ask(spread, asking).failure_class;
  EXPECT_EQ(localise(spread, asking, {}, problem.seed, limits).value().op, "Softmax");
  limits.stops_as = "nothing like it";
  EXPECT_NE(localise(spread, asking, {}, problem.seed, limits).value().op, "Softmax");
}

// Wrong only where three nodes are there together, as a fusion.
TEST(Place, GoesBackUntilASegmentFails) {
  const Part part = part_of_model(graph::test::model("attention-division"));
  const graph::Family family(*part.program);
  const graph::Problem problem = graph::problem_from_text(
      "size.batch=1 size.dim_v=2 size.heads=1 size.keys=3 size.queries=2 values.q=normal values.k=normal "
      "values.v=normal seed=7");
  Planted runtime([](const graph::Model& model) -> std::optional<graph::Model> {
    const auto has = [&](const std::string& op) {
      return std::ranges::find(model.nodes, op, &graph::Node::op) != model.nodes.end();
    };
    if (!has("Div") || !has("Softmax")) return std::nullopt;
    return test::fault("scale-missing").plant(model);
  });
  Case one(part, family.feeds(problem), {}, problem.seed);
  const auto place = localise(law_named("spread"), {one, runtime, {"faulty"}}, {}, problem.seed);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->op, "Softmax");
  ASSERT_TRUE(place->segment);
  EXPECT_EQ(place->segment->nodes.size(), 2u);
  EXPECT_EQ(place->segment->nodes.back(), "weights (Softmax)");
  EXPECT_TRUE(place->segment->got);
}

// The place of a law over batches is the first tensor on which it fails.
TEST(Place, IsFoundByOtherLaws) {
  const Part part = part_of_model(graph::test::model("encoder"));
  const graph::Family family(*part.program);
  const graph::Problem problem =
      graph::problem_from_text("size.batch=3 size.length=4 values.ids=any values.mask=all seed=7");
  Planted runtime(test::fault("batch-leak").plant);
  Case one(part, family.feeds(problem), {}, problem.seed);
  const auto by_spread = localise(law_named("spread"), {one, runtime, {"faulty"}}, {}, problem.seed);
  const auto by_batch = localise(law_named("batch-alone"), {one, runtime, {"faulty"}}, {}, problem.seed);
  ASSERT_TRUE(by_spread && by_batch);
  EXPECT_EQ(by_batch->tensor, by_spread->tensor);
  EXPECT_FALSE(by_batch->segment);
}

}  // namespace
}  // namespace attest::models
