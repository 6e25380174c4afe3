#include "models/proven.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "engine/ops.hpp"
#include "graph/read.hpp"
#include "models/campaign.hpp"
#include "models/localise.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/graph/runtimes.hpp"
#include "tests/models/blocks.hpp"
#include "tests/models/careless.hpp"
#include "tests/models/counted.hpp"
#include "tests/models/planted.hpp"

namespace attest::models {
namespace {

using graph::Type;
using graph::test::attr;
using graph::test::File;
using test::BlockFile;
using test::BlockSpelling;
using test::Careless;
using test::Counted;
using test::Planted;

const Law& law() { return law_named("proven-bound"); }

graph::Model read(const File& file) { return graph::read_model(file.bytes(), "m"); }

// "attention y, layer_norm z": which parts are recognised, by the tensor that names them.
std::string parts_of(const graph::Model& model) {
  std::string text;
  const graph::Connections connections(model);
  for (const engine::Op* op : engine::all_ops())
    for (const auto& one : op->subgraphs(connections))
      text += (text.empty() ? "" : ", ") + std::string(op->name()) + " " +
              model.values[static_cast<std::size_t>(one->core)];
  return text;
}

// ---- attention and norms spelt out ----------------------------------------------------------------------------------

struct Spelling {
  Type type = Type::f32;
  std::string scale = "scores";  // where it is: scores, queries, keys, both, divided, none
  std::string mask;              // add, where, where-not, where-add (before the addend), add-scale (which is none)
  double closed = -std::numeric_limits<double>::infinity();
  bool cast = false;  // softmax of f16 in f32
  std::int64_t axis = -1;
};

File attention(const Spelling& s) {
  File f;
  f.inputs = {
      {"q", s.type, {"batch", "queries", 4}}, {"k", s.type, {"batch", "keys", 4}}, {"v", s.type, {"batch", "keys", 3}}};
  const auto scale = f.scalar(0.5, s.type), root = f.scalar(0.70703125, s.type);
  std::string q = "q", k = f("Transpose", {"k"}, {attr("perm", std::vector<std::int64_t>{0, 2, 1})}, "kt");
  if (s.scale == "queries" || s.scale == "both") q = f("Mul", {q, s.scale == "both" ? root : scale});
  if (s.scale == "keys" || s.scale == "both") k = f("Mul", {s.scale == "both" ? root : scale, k});
  std::string x = f("MatMul", {q, k}, {}, "scores");
  if (s.scale == "scores") x = f("Mul", {x, scale});
  if (s.scale == "divided") x = f("Div", {x, f.scalar(2, s.type)});
  if (s.mask.starts_with("where")) {
    f.inputs.push_back({"keep", Type::boolean, {"batch", 1, "keys"}});
    const auto closed = f.scalar(s.closed, s.type);
    x = s.mask == "where-not" ? f("Where", {"keep", closed, x}) : f("Where", {"keep", x, closed});
  }
  if (s.mask.find("add") != std::string::npos) {
    f.inputs.push_back({"bias", s.type, {"batch", "queries", "keys"}});
    x = f("Add", {"bias", x});
  }
  if (s.mask == "add-scale") x = f("Mul", {x, scale});
  if (s.cast) x = f("Cast", {x}, {attr("to", std::int64_t{1})});
  x = f("Softmax", {x}, {attr("axis", s.axis)});
  if (s.cast) x = f("Cast", {x}, {attr("to", std::int64_t{10})});
  f("MatMul", {x, "v"}, {}, "y");
  f.outputs = {"y"};
  return f;
}

File norm(const std::string& form, Type type = Type::f32) {
  File f;
  f.inputs = {{"x", type, {"rows", 6}}};
  std::string axis = f.axes({form == "first-axis" ? 0 : -1});
  if (form == "twice") axis = f("Reshape", {axis, f.axes({-1})});  // as torch exports it
  const auto two = f.scalar(2, type), epsilon = f.scalar(0x1p-10, type);
  const bool rms = form.starts_with("rms");
  const auto difference = [&] { return f("Sub", {"x", f("ReduceMean", {"x", axis})}); };
  const std::string d = rms ? "x" : difference(), again = form == "twice" ? difference() : d;
  const std::string variance = f("ReduceMean", {form == "product" ? f("Mul", {d, d}) : f("Pow", {again, two}), axis});
  std::string z;
  if (form == "outside")
    z = f("Div", {d, f("Add", {f("Sqrt", {variance}), epsilon})}, {}, "z");
  else if (form.ends_with("reciprocal"))
    z = f("Mul", {d, f("Reciprocal", {f("Sqrt", {f("Add", {epsilon, variance})})})}, {}, "z");
  else if (form == "one-over")
    z = f("Mul", {f("Div", {f.scalar(1, type), f("Sqrt", {f("Add", {variance, epsilon})})}), d}, {}, "z");
  else
    z = f("Div", {d, f("Sqrt", {f("Add", {variance, epsilon})})}, {}, "z");
  std::vector<double> gamma{1, 0.5, -2, 3, 0.25, 1.5};
  f("Add", {f("Mul", {z, f.constant(graph::floats(type, {6}, gamma))}), f.constant(graph::floats(type, {6}, gamma))},
    {}, "y");
  f.outputs = {"y"};
  return f;
}

// The operator: heads in an axis of their own, or four of queries and two of keys side by side.
File fused(const std::string& form, Type type = Type::f32, double scale = 0.25) {
  File f;
  f.opset = 23;
  std::vector<graph::test::Attr> attributes{attr("scale", scale)};
  if (form.starts_with("flat")) {
    f.inputs = {
        {"q", type, {"batch", "queries", 12}}, {"k", type, {"batch", "keys", 6}}, {"v", type, {"batch", "keys", 4}}};
    attributes.push_back(attr("q_num_heads", std::int64_t{4}));
    attributes.push_back(attr("kv_num_heads", std::int64_t{2}));
  } else {
    f.inputs = {{"q", type, {"batch", "heads", "queries", 5}},
                {"k", type, {"batch", "heads", "keys", 5}},
                {"v", type, {"batch", "heads", "keys", 3}}};
  }
  std::vector<std::string> names{"q", "k", "v"};
  if (form.ends_with("flags")) f.inputs.push_back({"mask", Type::boolean, {"queries", "keys"}});
  if (form.ends_with("added")) f.inputs.push_back({"mask", type, {"batch", 1, 1, "keys"}});
  if (f.inputs.size() > 3) names.push_back("mask");
  if (form.ends_with("causal")) attributes.push_back(attr("is_causal", std::int64_t{1}));
  f("Attention", names, attributes, "y");
  f.outputs = {"y"};
  return f;
}

TEST(Parts, AreRecognisedHoweverTheyAreSpelt) {
  for (const char* const scale : {"scores", "queries", "keys", "both", "divided", "none"})
    for (const char* const mask : {"", "add", "where", "where-not", "where-add"}) {
      Spelling s;
      s.scale = scale;
      s.mask = mask;
      EXPECT_EQ(parts_of(read(attention(s))), "attention y") << scale << ' ' << mask;
    }
  for (const char* const form : {"div", "twice", "product", "reciprocal", "one-over", "rms", "rms-reciprocal"})
    EXPECT_EQ(parts_of(read(norm(form))), "layer_norm z") << form;
  EXPECT_EQ(parts_of(graph::test::model("norm-op")), "layer_norm y");
  for (const char* const form : {"", "flags", "added", "causal", "flat", "flat-flags"})
    EXPECT_EQ(parts_of(read(fused(form))), "attention y") << form;
  const std::string encoder = parts_of(graph::test::model("encoder"));
  EXPECT_EQ(std::ranges::count(encoder, ','), 4) << encoder;  // an attention, its block and three norms
}

TEST(Parts, AreNoneThatLookAlike) {
  Spelling s;
  s.mask = "add-scale";
  EXPECT_EQ(parts_of(read(attention(s))), "");
  EXPECT_EQ(parts_of(read(norm("outside"))), "");
  // Options of Attention beyond its bound.
  const auto with = [](auto change) {
    File f = fused("added");
    f.opset = 25;
    change(f.nodes.back());
    return parts_of(read(f));
  };
  EXPECT_EQ(with([](auto& node) { node.attributes.push_back(attr("softcap", 0.0)); }), "attention y");
  EXPECT_EQ(with([](auto& node) { node.attributes.push_back(attr("softcap", 2.0)); }), "");
  EXPECT_EQ(with([](auto& node) { node.attributes.push_back(attr("left_window_size", std::int64_t{1})); }), "");
  EXPECT_EQ(with([](auto& node) { node.inputs.insert(node.inputs.end(), {"k", "v"}); }), "");
  EXPECT_EQ(with([](auto& node) { node.outputs.insert(node.outputs.end(), {"", "", "scores"}); }), "");
}

// "attention y: why not": parts as a campaign lists them at its start.
std::string listed(const File& file, const char* precision = "literal") {
  const Part part = part_of_model(read(file));
  const graph::Family family(*part.program);
  std::string text;
  for (const KnownPart& one : known_parts(family, graph::precision_from_text(precision)))
    text +=
        (text.empty() ? "" : "; ") + one.operation + " " + one.tensor + (one.skipped.empty() ? "" : ": " + one.skipped);
  return text;
}

TEST(Parts, AreListedWithTheReasonWhyOneIsNotHeldToItsBound) {
  const std::string no_block = "; mha y: no projection takes its heads";
  Spelling s;
  EXPECT_EQ(listed(attention(s)), "attention y" + no_block);
  // The list says what problems would tell before one is asked: two scales, an axis.
  File scaled_twice = attention(s);
  for (auto& node : scaled_twice.nodes)
    if (node.op == "MatMul" && node.inputs[0] == "q") node.inputs[0] = "twice";
  scaled_twice.nodes.insert(scaled_twice.nodes.begin(), {"Mul", {"q", scaled_twice.scalar(0.25)}, {"twice"}, {}, {}});
  EXPECT_EQ(listed(scaled_twice), "attention y: its scale is no single number in one place" + no_block);
  s.axis = 1;
  EXPECT_EQ(listed(attention(s)), "attention y: its softmax is over another axis" + no_block);
  s.axis = -1;
  EXPECT_EQ(listed(attention(s), "run=bf16"),
            "attention y: no bound is proven of graphs that run in another format than their own" + no_block);
  // Nodes that look like a part, and are none.
  File capped = attention(s);
  for (auto& node : capped.nodes)
    if (node.op == "Softmax") node.inputs[0] = "capped";
  capped.nodes.insert(capped.nodes.end() - 2, {"Tanh", {"scores"}, {"capped"}, {}, {}});
  EXPECT_NE(listed(capped).find("its scores come from Tanh, where a product of q and k"), std::string::npos)
      << listed(capped);
  File dropped = attention(s);
  const std::string weights = dropped.nodes[dropped.nodes.size() - 2].outputs[0];
  dropped.nodes.back().inputs[0] = "kept";
  dropped.nodes.insert(dropped.nodes.end() - 1, {"Relu", {weights}, {"kept"}, {}, {}});
  EXPECT_EQ(listed(dropped), "attention " + weights + ": no product takes its weights as they are");
  File old = attention(s);
  old.opset = 12;
  EXPECT_NE(listed(old).find("an operator version before 13"), std::string::npos) << listed(old);
  EXPECT_EQ(listed(norm("div")), "layer_norm y");
  EXPECT_EQ(listed(norm("first-axis")), "layer_norm y: its axes are not the last ones");
  File other = norm("div");
  for (auto& node : other.nodes)
    if (node.op == "Pow") node.op = "Max";  // another mean than of squares
  EXPECT_NE(listed(other).find("layer_norm z: it divides by the root of a mean"), std::string::npos) << listed(other);
}

TEST(Parts, OfBlocksSayWhichProjectionIsMissing) {
  BlockSpelling s;
  EXPECT_EQ(listed(BlockFile(s).file).find("projection"), std::string::npos) << listed(BlockFile(s).file);
  File turned =
      BlockFile(s).file;  // rotary embeddings, for one: something is computed between the projection and the keys
  const auto scores = std::ranges::find_if(turned.nodes, [](const graph::test::FileNode& node) {
    return node.op == "MatMul" && node.inputs[1].starts_with("Transpose");
  });
  ASSERT_NE(scores, turned.nodes.end());
  const std::string keys = std::exchange(scores->inputs[1], "turned");
  turned.nodes.insert(scores, {"Neg", {keys}, {"turned"}, {}, {}});
  EXPECT_NE(listed(turned).find(": its k comes from Neg, where a projection is looked for"), std::string::npos)
      << listed(turned);
}

// ---- the law --------------------------------------------------------------------------------------------------------

Counted asked(const graph::Model& model, Runtime& runtime, const std::string& level, const std::string& precision,
              std::uint64_t seed, std::uint64_t problems) {
  return test::count_results(model, runtime, level, precision, seed, problems, 256,
                             [](const Asking& asking) { return ask(law(), asking); });
}

// Sums one by one and in parts, functions off an ulp, flush to zero: none is blamed, and most results are judged.
TEST(ProvenBound, HoldsOfCarelessRuntimes) {
  std::vector<std::pair<std::string, graph::Model>> models;
  for (const auto& name : graph::test::models()) models.emplace_back(name, graph::test::model(name));
  for (const char* const scale : {"queries", "both", "divided"})
    for (const char* const mask : {"add", "where", "where-not", "where-add"})
      for (const Type type : {Type::f32, Type::f16, Type::f64}) {
        Spelling s;
        s.type = type;
        s.scale = scale;
        s.mask = mask;
        s.cast = type == Type::f16 && s.scale == "both";
        if (s.mask == "where") s.closed = type == Type::f16 ? -65504 : -0x1p127;
        if (s.mask == "where-not") s.closed = -1e4;
        models.emplace_back(s.scale + " " + s.mask, read(attention(s)));
      }
  for (const char* const form : {"twice", "reciprocal", "one-over", "rms", "rms-reciprocal"})
    for (const Type type : {Type::f32, Type::f16, Type::f64}) models.emplace_back(form, read(norm(form, type)));
  for (const char* const form : {"flags", "added", "causal", "flat", "flat-flags", "flat-causal"})
    for (const Type type : {Type::f32, Type::f16, Type::f64}) models.emplace_back(form, read(fused(form, type)));
  int held = 0, vacuous = 0;
  for (const auto& [name, model] : models)
    for (const auto& [kind, how] : graph::test::runtimes())
      for (const char* const precision : {"literal", "inner=f32"}) {
        Careless runtime(how, graph::precision_from_text(precision));
        const Counted counted = asked(model, runtime, "only", precision, 31, 12);
        EXPECT_EQ(counted.failed + counted.skipped, 0)
            << name << ' ' << kind << ' ' << precision << ' ' << counted.first;
        held += counted.held;
        vacuous += counted.vacuous;
      }
  printf("%d held, %d vacuous\n", held, vacuous);
  EXPECT_GT(held, 8 * vacuous);
}

// Each part of the call reaches the oracle: a runtime that computes something else is found.
TEST(ProvenBound, FindsWhatAnotherCallWouldGive) {
  const auto fails = [](const File& right, const File& wrong) {
    const graph::Model planted = read(wrong);
    Planted runtime([&planted](const graph::Model&) { return std::optional(planted); });
    // The part itself is asked: inputs and output have the names of the whole.
    return asked(read(right), runtime, "faulty", "literal", 5, 20).failed;
  };
  Spelling s;
  s.mask = "add";
  const File right = attention(s);
  EXPECT_EQ(fails(right, right), 0);
  for (const char* const scale : {"none", "queries"}) {
    Spelling other = s;
    other.scale = scale;
    EXPECT_EQ(fails(right, attention(other)) > 0, other.scale == "none") << scale;
  }
  Spelling where = s, not_where = s;
  where.mask = "where";
  not_where.mask = "where-not";
  EXPECT_GT(fails(attention(where), attention(not_where)), 0);
  EXPECT_EQ(fails(fused("flat-causal"), fused("flat-causal")), 0);
  EXPECT_GT(fails(fused("flat-causal"), fused("flat-causal", Type::f32, 0.5)), 0);
  EXPECT_GT(fails(fused("flat-causal"), fused("flat")), 0);
  EXPECT_EQ(fails(norm("div"), norm("twice")), 0);
  EXPECT_GT(fails(norm("div"), norm("outside")), 0);
  EXPECT_GT(fails(norm("div"), norm("rms")), 0);
}

TEST(ProvenBound, IsSkippedWhereNoneIsKnown) {
  Planted runtime;
  Spelling s;
  s.axis = 1;
  const Counted another_axis = asked(read(attention(s)), runtime, "sound", "literal", 5, 3);
  EXPECT_EQ(another_axis.skipped, 3);
  EXPECT_NE(another_axis.first.find("softmax is over another axis"), std::string::npos) << another_axis.first;
  const Counted first_axis = asked(read(norm("first-axis")), runtime, "sound", "literal", 5, 3);
  EXPECT_EQ(first_axis.skipped, 3);
  EXPECT_NE(first_axis.first.find("its axes are not the last ones"), std::string::npos) << first_axis.first;
  EXPECT_EQ(asked(read(norm("outside")), runtime, "sound", "literal", 5, 3).skipped, 3);
  EXPECT_EQ(asked(read(norm("div")), runtime, "sound", "run=bf16", 5, 3).skipped, 3);
  // A part that a runtime does not build says nothing about the results of the whole.
  runtime.before = [](const Part& part, const Build&, const graph::Feeds&, Freshness) {
    return part.program->model().inputs.size() == 1 && part.program->model().inputs[0].name == "ids"
               ? CallResult{}
               : CallResult{CallStatus::error, "no"};
  };
  const Counted not_built = asked(graph::test::model("norm"), runtime, "sound", "literal", 5, 1);
  EXPECT_EQ(not_built.held + not_built.vacuous, 0);
}

// Counts the problems on whose part a planted fault changes anything and that the bound finds; beside them, those that
// the ensemble of the whole finds.
TEST(ProvenBound, FindsPlantedFaults) {
  int all = 0, found = 0, by_both = 0, by_spread = 0;
  for (const char* const name :
       {"attention-queries", "attention-scores", "attention-both", "attention-division", "norm", "norm-op"}) {
    const Part part = part_of_model(graph::test::model(name));
    const graph::Family family(*part.program);
    for (const auto& fault : graph::test::faults()) {
      if (!fault.plant(part.program->model())) continue;
      Planted runtime(fault.plant);
      int of_fault = 0, changed = 0, spread = 0;
      for (std::uint64_t number = 0; number < 40; ++number) {
        const graph::Problem problem = family.draw(20261128, number, 512);
        Case one(part, family.feeds(problem), {}, problem.seed);
        const auto run = [&](const char* level) {
          return runtime.run(part, {level}, one.feeds(), std::size_t{1} << 30, Freshness::kept).outputs.at(0).floats;
        };
        if (run("sound") == run("faulty")) continue;
        ++changed;
        const bool here = is_finding(ask(law(), {one, runtime, {"faulty"}}).kind);
        const bool there = is_finding(ask(law_named("spread"), {one, runtime, {"faulty"}}).kind);
        of_fault += here;
        spread += there;
        by_both += here && there;
      }
      printf("%-20s %-22s %3d of %3d; spread %3d\n", name, fault.name.c_str(), of_fault, changed, spread);
      all += changed;
      found += of_fault;
      by_spread += spread;
    }
  }
  printf("%d of %d by the bound, %d by the ensemble, %d by both\n", found, all, by_spread, by_both);
  EXPECT_GT(all, 600);
  EXPECT_GT(found, 0.5 * all);
}

// Softmax in f16 beside a residual of 1e4, which hides it from whoever looks at the sum: found by a campaign, and
// named.
TEST(ProvenBound, FindsWhatTheEnsembleOfTheWholePasses) {
  Spelling s;
  s.mask = "where";
  File file = attention(s);
  file.inputs.push_back({"residual", Type::f32, {"batch", "queries", 3}});
  file("Add", {"y", "residual"}, {}, "sum");
  file.outputs = {"sum"};
  const Part part = part_of_model(read(file));
  std::vector<Subject> subjects;
  subjects.push_back({std::make_unique<Planted>(test::fault("softmax-f16").plant), "planted", {}, {"sound", "faulty"}});
  CampaignOptions options;
  options.model = "residual.onnx";
  options.cases = 40;
  options.largest = 128;
  graph::constrain(options.constraints, "values.residual", "far");
  for (const char* const input : {"values.q", "values.k", "values.v"})
    graph::constrain(options.constraints, input, "normal,uniform");
  options.law_glob = "spread";
  EXPECT_TRUE(run_campaign(part, subjects, options, {}).findings.empty());
  options.law_glob = "*";
  const Summary summary = run_campaign(part, subjects, options, {});
  ASSERT_EQ(summary.findings.size(), 1u);
  const Finding& finding = summary.findings[0];
  EXPECT_EQ(finding.key, "proven-bound/fail/finite");
  EXPECT_EQ(finding.levels, (std::set<std::string>{"faulty"}));
  EXPECT_EQ(finding.passing, (std::set<std::string>{"sound"}));
  const std::string& reason = finding.result.reason;
  EXPECT_NE(reason.find(" (MatMul) by itself, fed with right tensors: y["), std::string::npos) << reason;
  EXPECT_NE(reason.find("the proven bound of attention, policy f32"), std::string::npos) << reason;
  ASSERT_TRUE(finding.place && finding.place->segment);
  EXPECT_EQ(finding.place->tensor, "y");
  EXPECT_EQ(finding.place->segment->nodes.size(), 6u);  // transpose, product, scale, mask, softmax, product
  EXPECT_TRUE(finding.place->segment->got);
  EXPECT_GT(summary.proven, 0);
  EXPECT_GT(finding.failures, 3u);
}

// Several parts that are spelt alike have one defect, whichever of them a problem picks.
TEST(ProvenBound, TellsOneDefectOfPartsThatAreAlike) {
  File f;
  f.inputs = {{"x", Type::f32, {"rows", 6}}};
  const auto gamma = f.constant(graph::floats(Type::f32, {6}, {1, 0.5, -2, 3, 0.25, 1.5}));
  std::string x = "x";
  for (int layer = 0; layer < 4; ++layer) x = f("LayerNormalization", {x, gamma});
  f("Softmax", {x}, {}, "y");
  f.outputs = {"y"};
  const Part part = part_of_model(read(f));
  auto runtime = std::make_unique<Planted>();
  runtime->after = [](const Part& asked, const Build& build, const graph::Feeds&, Freshness, Answer& answer) {
    if (build.level == "faulty" && asked.program->model().nodes.size() == 1) answer.outputs[0].floats[0] += 1;
  };
  std::vector<Subject> subjects;
  subjects.push_back({std::move(runtime), "planted", {}, {"sound", "faulty"}});
  CampaignOptions options;
  options.model = "norms.onnx";
  options.cases = 30;
  options.law_glob = "proven-bound";
  const Summary summary = run_campaign(part, subjects, options, {});
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].failures, 30u);
  EXPECT_EQ(summary.findings[0].place->of, 4u);
}

}  // namespace
}  // namespace attest::models
