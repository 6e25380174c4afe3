#include <gtest/gtest.h>

#include "core/error.hpp"
#include "engine/ops.hpp"
#include "graph/cut.hpp"
#include "graph/problem.hpp"
#include "models/campaign.hpp"
#include "models/proven.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/runtimes.hpp"
#include "tests/models/blocks.hpp"
#include "tests/models/careless.hpp"
#include "tests/models/counted.hpp"
#include "tests/models/planted.hpp"
#include "tests/setting.hpp"

namespace attest::models {
namespace {

using graph::Type;
using test::BlockSpelling;
using test::Careless;
using test::Counted;
using test::described;
using test::Planted;
using test::spellings;
using test::StoresAtTimes;

std::vector<std::string> blocks_of(const graph::Model& model) {
  std::vector<std::string> names;
  const graph::Connections connections(model);
  for (const engine::Op* op : engine::all_ops())
    for (const auto& one : op->subgraphs(connections))
      if (one->inner >= 0) names.push_back(model.values[static_cast<std::size_t>(one->output)]);
  return names;
}

Counted asked(const graph::Model& model, Runtime& runtime, const std::string& level, const std::string& precision,
              std::uint64_t seed, std::uint64_t problems, std::string_view tensor = "out") {
  return test::count_results(model, runtime, level, precision, seed, problems, 192,
                             [&](const Asking& asking) { return proven_bound_of(asking, tensor); });
}

TEST(Blocks, AreRecognisedHoweverTheyAreSpelt) {
  for (const BlockSpelling& s : spellings())
    EXPECT_EQ(blocks_of(test::block(s)), std::vector<std::string>{"out"}) << described(s);
  EXPECT_EQ(blocks_of(graph::test::model("encoder")).size(), 1u);
}

// A prefix that ends before the last bias has the block by the same name; one that ends before that has none.
TEST(Blocks, KeepTheirNamesInPrefixes) {
  const graph::Model model = test::block({});
  const graph::Node& sum = *graph::giver_of(model, graph::giver_of(model, model.outputs[0].value)->inputs[0]);
  ASSERT_EQ(sum.op, "Add");
  const graph::Model prefix = graph::prefix(model, sum.inputs[0]);
  const graph::Connections whole(model), part(prefix);
  const auto core = [](const graph::Connections& graph) {
    for (const engine::Op* op : engine::all_ops())
      for (const auto& one : op->subgraphs(graph))
        if (one->inner >= 0) return one->core;
    return -1;
  };
  EXPECT_EQ(core(whole), core(part));
  EXPECT_TRUE(blocks_of(graph::prefix(model, graph::giver_of(prefix, sum.inputs[0])->inputs[0])).empty());
}

// Sums one by one and in parts, functions off an ulp, flush to zero; those of 16 bits also store any of their tensors
// and not others: none is blamed.
TEST(Blocks, HoldOfCarelessRuntimes) {
  const std::uint64_t problems = setting("ATTEST_BLOCKS_PROBLEMS", 4), seed = setting("ATTEST_BLOCKS_SEED", 41);
  int runs = 0, held = 0, vacuous = 0, undecided = 0;
  for (BlockSpelling s : spellings())
    for (const Type type : {Type::f32, Type::f16, Type::bf16, Type::f64}) {
      s.type = type;
      s.cast = type == Type::f16 && s.heads == "three";
      const graph::Model model = test::block(s);
      for (const auto& [kind, how] : graph::test::runtimes())
        for (const char* const way : {"literal", "inner=f32", "at times"}) {
          const bool at_times = way[0] == 'a';
          if (way[0] != 'l' && !test::is_narrow(model)) continue;
          Careless careless(how, graph::precision_from_text(at_times ? "literal" : way));
          StoresAtTimes stores(how, seed);
          Runtime& runtime = at_times ? static_cast<Runtime&>(stores) : careless;
          const Counted counted = asked(model, runtime, "only", at_times ? "literal" : way, seed, problems);
          EXPECT_EQ(counted.failed, 0) << described(s) << ", " << kind << ", " << way << ": " << counted.first;
          runs += static_cast<int>(problems);
          held += counted.held;
          vacuous += counted.vacuous;
          undecided += counted.skipped;
        }
    }
  printf("%d runs: %d held, %d vacuous, %d skipped\n", runs, held, vacuous, undecided);
  EXPECT_GT(held, runs / 3);
  EXPECT_LT(undecided, runs / 10);
}

// A runtime that computes `wrong` where it is given the block by itself, and what is right of every other graph.
Planted planted(const graph::Model& wrong) {
  return Planted([wrong](const graph::Model& given) -> std::optional<graph::Model> {
    if (given.outputs[0].name == "y") return wrong;
    if (given.outputs[0].name != "out") return std::nullopt;
    const auto out = std::ranges::find(wrong.values, "out");
    return graph::prefix(wrong, static_cast<int>(out - wrong.values.begin()));
  });
}

// Each part of the call reaches the oracle: a runtime that computes another one is found, in f16 too but for precision.
TEST(Blocks, FindsWhatAnotherCallWouldGive) {
  struct Fault {
    const char* wrong;
    BlockSpelling of;
    bool in_16_bits = true;
  };
  BlockSpelling plain, packed, masked, where, fused;
  packed.projections = "packed-split";
  masked.mask = "add";
  where.mask = "where";
  fused.core = "operator";
  fused.scale = "none";
  int found = 0, all = 0;
  for (const Fault& fault :
       {Fault{"no-b_q", plain}, Fault{"no-b_v", plain}, Fault{"no-b_out", plain}, Fault{"no-b_q", packed},
        Fault{"k-for-v", plain}, Fault{"packed-misread", packed}, Fault{"head-leak", plain},
        Fault{"heads-untransposed", plain}, Fault{"heads-swapped", plain}, Fault{"scale", plain},
        Fault{"mask-inverted", where}, Fault{"mask-before-scale", masked}, Fault{"scale", fused},
        Fault{"no-b_out", fused}, Fault{"softmax-f16", plain, false}})
    for (const Type type : {Type::f32, Type::f16}) {
      if (type == Type::f16 && !fault.in_16_bits) continue;
      BlockSpelling right = fault.of;
      right.type = type;
      BlockSpelling wrong = right;
      wrong.wrong = fault.wrong;
      const graph::Model model = test::block(right);
      Planted sound = planted(model), faulty = planted(test::block(wrong));
      EXPECT_EQ(asked(model, sound, "faulty", "literal", 5, 10).failed, 0) << described(wrong);
      const Counted counted = asked(model, faulty, "faulty", "literal", 5, 20);
      printf("%-20s %-14s %-4s %d of 20\n", fault.wrong, right.projections.c_str(),
             std::string(graph::name(type)).c_str(), counted.failed);
      EXPECT_GT(counted.failed, 2) << described(wrong);
      found += counted.failed;
      all += 20;
    }
  printf("%d of %d\n", found, all);
  // b_k moves all scores of a row alike, and is no fault.
  BlockSpelling no_b_k = plain;
  no_b_k.wrong = "no-b_k";
  const graph::Model model = test::block(plain);
  Planted faulty = planted(test::block(no_b_k));
  EXPECT_EQ(asked(model, faulty, "faulty", "literal", 5, 20).failed, 0);
}

// Graphs that look like another block than they are: judged by what they say, or not recognised.
TEST(Blocks, AreTakenForWhatTheyAre) {
  int judged = 0;
  for (const char* const wrong :
       {"k-for-v", "packed-misread", "head-leak", "heads-untransposed", "heads-swapped", "scale", "scale-twice",
        "mask-before-scale", "no-b_q", "no-b_k", "no-b_v", "no-b_out"})
    for (const char* const projections : {"add", "gemm", "packed-split", "packed-gather", "packed-heads"})
      for (const char* const heads : {"four", "tokens-first"})
        for (const char* const scale : {"scores", "queries"}) {
          BlockSpelling s;
          s.wrong = wrong;
          s.projections = projections;
          s.heads = heads;
          s.scale = scale;
          s.mask = "add";
          const graph::Model model = test::block(s);
          Planted runtime;
          const Counted counted = asked(model, runtime, "sound", "literal", 11, 6);
          EXPECT_EQ(counted.failed, 0) << described(s) << ": " << counted.first;
          judged += counted.held;
          const std::string name = wrong;
          const bool is_none = name == "head-leak" || (name == "mask-before-scale" && s.scale == "scores") ||
                               (name.starts_with("scale") && s.scale == "queries");
          EXPECT_EQ(counted.held + counted.vacuous, is_none ? 0 : 6) << described(s) << ": " << counted.first;
        }
  EXPECT_GT(judged, 400);
}

// Heads before tokens without a transpose: rows are made of several tokens, but where there is one.
TEST(Blocks, ThatMixTokensAreNotJudged) {
  for (const char* const wrong : {"rows-mixed", "merge-mixed"}) {
    BlockSpelling s;
    s.wrong = wrong;
    Planted runtime;
    const Counted counted = asked(test::block(s), runtime, "sound", "literal", 3, 30);
    EXPECT_EQ(counted.failed, 0) << counted.first;
    EXPECT_GT(counted.skipped, 10) << wrong;
    EXPECT_NE(counted.first.find(s.wrong == "rows-mixed" ? "its rows are not tokens"
                                                         : "its heads are not joined token by token"),
              std::string::npos)
        << counted.first;
  }
}

// Columns in any order, of queries in another one than of keys, some of them twice: the computed result is judged, and
// nothing else passes.
TEST(Blocks, ThatShuffleColumnsAreJudged) {
  int held = 0, skipped = 0, found = 0;
  for (std::uint64_t shuffle = 1; shuffle <= 24; ++shuffle) {
    BlockSpelling s;
    s.shuffle = shuffle;
    s.projections = shuffle % 3 == 0 ? "packed-heads" : shuffle % 3 == 1 ? "add" : "packed-gather";
    s.kv_heads = shuffle % 6 == 4 ? 1 : 2;
    Planted sound;
    const Counted counted = asked(test::block(s), sound, "sound", "literal", shuffle, 6);
    EXPECT_EQ(counted.failed, 0) << shuffle << ": " << counted.first;
    held += counted.held;
    skipped += counted.skipped;
    if (shuffle % 2 == 1) continue;
    BlockSpelling other = s;
    other.shuffle = shuffle + 100;
    Planted faulty = planted(test::block(other));
    found += asked(test::block(s), faulty, "faulty", "literal", shuffle, 6).failed;
  }
  printf("%d held, %d skipped, %d of 72 found\n", held, skipped, found);
  EXPECT_GT(held, 40);
  EXPECT_EQ(skipped, 72);  // heads of which one column is joined twice
  EXPECT_GT(found, 50);
}

TEST(Blocks, ThatShareKeysAndValuesAreJudged) {
  BlockSpelling s;
  s.shared_kv = true;
  Planted runtime;
  const Counted counted = asked(test::block(s), runtime, "sound", "literal", 3, 10);
  EXPECT_EQ(counted.failed + counted.skipped, 0) << counted.first;
  EXPECT_GT(counted.held, 0);
}

// An operator between stages that is none of the operation, or a value that is no parameter, makes it no block.
TEST(Blocks, AreNoneWithAnythingElseBetween) {
  using graph::test::attr;
  const auto with = [](const char* op, const char* after_op, bool other) {
    BlockSpelling s;
    test::BlockFile made(s);
    auto& file = made.file;
    const auto found = std::ranges::find(file.nodes, after_op, &graph::test::FileNode::op);
    const std::string old = found->outputs[0];
    found->outputs[0] = "before";
    std::vector<std::string> inputs{"before"};
    if (other) inputs.push_back(op == std::string("Mul") || op == std::string("Add") ? "x_mean" : "before");
    if (other) {
      file.inputs.push_back({"extra", Type::f32, {8}});
      inputs[1] = "extra";
    }
    const auto at = found - file.nodes.begin();
    file.nodes.insert(file.nodes.begin() + at + 1, {op, inputs, {old}, {}, ""});
    return graph::read_model(file.bytes(), "m");
  };
  // An activation of queries, a bias and a gate that are no parameters.
  EXPECT_TRUE(blocks_of(with("Tanh", "Add", false)).empty());
  EXPECT_TRUE(blocks_of(with("Add", "Add", true)).empty());
  EXPECT_TRUE(blocks_of(with("Mul", "Add", true)).empty());
  // A bias of tokens is none of columns.
  BlockSpelling s;
  test::BlockFile made(s);
  auto& constants = made.file.constants;
  for (auto& [name, array] : constants)
    if (array.shape == std::vector<Index>{8}) array = graph::floats(Type::f32, {2, 4}, array.floats);
  EXPECT_TRUE(blocks_of(graph::read_model(made.file.bytes(), "m")).empty());
}

// A campaign finds a defect beside a residual of 1e4. It is told at the block and not at its attention, which is right
// by itself; and the campaign's reproducer is one.
TEST(Blocks, AreNamedByCampaigns) {
  BlockSpelling s;
  test::BlockFile made(s);
  const auto with_residual = [](const BlockSpelling& spelling) {
    test::BlockFile one(spelling);
    one.file.inputs.push_back({"residual", Type::f32, {"batch", "tokens", 6}});
    one.file("Add", {"y", "residual"}, {}, "sum");
    one.file.outputs = {"sum"};
    return graph::read_model(one.file.bytes(), "m");
  };
  BlockSpelling wrong = s;
  wrong.wrong = "softmax-f16";
  const Part part = part_of_model(with_residual(s));
  const graph::Model other = test::block(wrong), whole = with_residual(wrong);
  auto runtime = std::make_unique<Planted>([&](const graph::Model& given) -> std::optional<graph::Model> {
    const std::string& name = given.outputs[0].name;
    const graph::Model& from = name == "sum" ? whole : other;
    if (name != "sum" && name != "out") return std::nullopt;
    const auto value = std::ranges::find(from.values, name);
    return graph::prefix(from, static_cast<int>(value - from.values.begin()));
  });
  std::vector<Subject> subjects;
  subjects.push_back({std::move(runtime), "planted", {}, {"sound", "faulty"}});
  CampaignOptions options;
  options.model = "residual.onnx";
  options.cases = 60;
  options.largest = 128;
  graph::constrain(options.constraints, "values.residual", "far");
  graph::constrain(options.constraints, "values.x", "normal,uniform");
  options.law_glob = "proven-bound";
  const Summary summary = run_campaign(part, subjects, options, {});
  ASSERT_EQ(summary.findings.size(), 1u);
  const Finding& finding = summary.findings[0];
  EXPECT_EQ(finding.key, "proven-bound/fail/finite");
  const std::string& reason = finding.result.reason;
  EXPECT_NE(reason.find(" (Add) by itself, fed with right tensors: out["), std::string::npos) << reason;
  EXPECT_NE(reason.find("the proven bound of an attention block of 2 heads, policy f32"), std::string::npos) << reason;
  ASSERT_TRUE(finding.place && finding.place->segment);
  EXPECT_EQ(finding.place->tensor, "out");
  EXPECT_GT(finding.place->segment->nodes.size(), 12u);
  EXPECT_TRUE(finding.place->segment->got);
  EXPECT_GT(finding.failures, 3u);
}

// Softmax in f16 wherever it is computed: the attention, by itself, says more than the block around it.
TEST(Blocks, LeaveToTheirAttentionWhatThatShows) {
  const Part part = part_of_model(test::block({}));
  const graph::Family family(*part.program);
  Planted runtime(test::fault("softmax-f16").plant);
  const Law& law = law_named("proven-bound");
  int failed = 0;
  for (std::uint64_t number = 0; number < 40; ++number) {
    const graph::Problem problem = family.draw(9, number, 128);
    Case one(part, family.feeds(problem), {}, problem.seed);
    const Asking asking{one, runtime, {"faulty"}};
    const LawResult result = ask(law, asking);
    if (!is_finding(result.kind)) continue;
    ++failed;
    const bool alone = result.reason.find("the proven bound of attention,") != std::string::npos;
    EXPECT_EQ(alone, is_finding(proven_bound_of(
                                    asking,
                                    *[&] {
                                      const graph::Model& model = part.program->model();
                                      const graph::Connections connections(model);
                                      for (const engine::Op* op : engine::all_ops())
                                        for (const auto& found : op->subgraphs(connections))
                                          if (found->inner < 0)
                                            return &model.values[static_cast<std::size_t>(found->output)];
                                      return &model.values[0];
                                    }())
                                    .kind))
        << result.reason;
  }
  EXPECT_GT(failed, 5);
}

// Blocks change nothing of what the seed of a problem picked before they were known: where that part fails, it is told.
TEST(Blocks, ComeAfterThePartThatAProblemPicked) {
  const Part part = part_of_model(graph::test::model("encoder"));
  const graph::Family family(*part.program);
  std::vector<std::string> order;
  Planted runtime;
  runtime.before = [&order](const Part& asked, const Build&, const graph::Feeds&, Freshness) {
    order.push_back(asked.program->model().outputs[0].name);
    return CallResult{};
  };
  const std::vector<std::string> blocks = blocks_of(part.program->model());
  std::map<std::string, int> first;
  for (std::uint64_t number = 0; number < 24; ++number) {
    const graph::Problem problem = family.draw(2, number, 64);
    Case one(part, family.feeds(problem), {}, problem.seed);
    order.clear();
    proven_bound({one, runtime, {"sound"}}, {});
    ASSERT_EQ(order.size(), 2u);
    EXPECT_NE(order[0], blocks[0]);
    EXPECT_EQ(order[1], blocks[0]);
    ++first[order[0]];
  }
  EXPECT_EQ(first.size(), 4u);  // an attention and three norms
}

}  // namespace
}  // namespace attest::models
