// Shapes of models: how often they are drawn, that each is one of the lists, and that docs/sizes.md says what the lists
// say.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "generators/layer_norm/domain.hpp"
#include "generators/mha/domain.hpp"
#include "generators/models.hpp"
#include "tests/generators/statistics.hpp"

namespace attest {
namespace {

constexpr std::uint64_t draws = 4000;
const std::vector<Format> three{Format::f32, Format::f16, Format::bf16};

// Tells if the widths are those of a model, exactly.
bool has_widths_of_a_model(Index d, Index dv) {
  return std::ranges::any_of(model_heads(), [&](const ModelHeads& m) { return m.d == d && m.dv == dv; });
}
bool is_prefill(const Problem& p) { return has_widths_of_a_model(p.d, p.dv) && p.lq >= 64 && p.lk >= 64; }
bool is_decode(const Problem& p) { return has_widths_of_a_model(p.d, p.dv) && p.lq == 1 && p.lk >= 511; }

template <class Domain>
double share_of(const Domain& domain, auto&& holds) {
  std::uint64_t count = 0;
  for (std::uint64_t n = 0; n < draws; ++n) count += holds(draw_counted(domain, 1, n, 1).problem) ? 1 : 0;
  return static_cast<double>(count) / draws;
}

TEST(Models, PrefillAndDecodeAreTwoInAHundredEach) {
  Domain domain(Supports::everything(), three);
  EXPECT_GE(share_of(domain, is_prefill), 0.02);
  EXPECT_GE(share_of(domain, is_decode), 0.02);
  domain.draw_sizes(SizeRegime::small);
  EXPECT_LT(share_of(domain, is_prefill), 0.001);
  EXPECT_LT(share_of(domain, is_decode), 0.005);
}

// Widths one off a model's are drawn, too: one in sixteen, a third of these not off at all.
TEST(Models, AskedForAloneNothingElseIsDrawn) {
  Domain domain(Supports::everything(), three);
  domain.draw_sizes(SizeRegime::models);
  const auto near = [](const Problem& p) {
    for (const Index by : {-1, 0, 1})
      if (has_widths_of_a_model(p.d - by, p.dv - by)) return true;
    return false;
  };
  EXPECT_EQ(share_of(domain, near), 1);
  EXPECT_GE(share_of(domain, [](const Problem& p) { return has_widths_of_a_model(p.d, p.dv); }), 0.9);
  for (const Index samples : serving_batches)
    EXPECT_GT(share_of(domain, [&](const Problem& p) { return p.b == samples; }), 0.001) << samples;
  EXPECT_GE(share_of(domain, [](const Problem& p) { return p.hkv > 0 && p.hq / p.hkv >= 4; }), 0.1);
}

TEST(Models, ASubjectOfNoModelsWidthGetsNoneOfThem) {
  attest::Supports narrow = attest::Supports::everything();
  narrow.d.max = narrow.dv.max = 16;
  Domain domain(narrow, three);
  EXPECT_NO_THROW(draw_problem(domain, 1, 0, 1));
  domain.draw_sizes(SizeRegime::models);
  EXPECT_THROW(draw_problem(domain, 1, 0, 1), Error);
}

TEST(Models, NormsOfModelsAreThreeInAHundred) {
  layer_norm::Domain domain(layer_norm::Supports::everything(), three);
  const auto of_a_model = [](const layer_norm::Problem& p) {
    return std::ranges::binary_search(model_widths(), p.hidden) && p.rows >= 1;
  };
  const double both = share_of(domain, of_a_model);
  domain.draw_sizes(SizeRegime::small);
  EXPECT_GE(both - share_of(domain, of_a_model), 0.03);
  domain.draw_sizes(SizeRegime::models);
  EXPECT_GE(share_of(domain, of_a_model), 0.7);  // one in four is one off
}

TEST(Models, LongBlocksAreOneInAHundred) {
  mha::Domain domain(mha::Supports::everything(), three);
  EXPECT_GE(share_of(domain, [](const mha::Problem& p) { return p.l >= 1023; }), 0.01);
  EXPECT_GE(share_of(domain, [](const mha::Problem& p) { return p.l >= 4095; }), 0.001);
  domain.draw_sizes(SizeRegime::small);
  EXPECT_LT(share_of(domain, [](const mha::Problem& p) { return p.l >= 1023; }), 0.005);
}

TEST(Models, ThePageSaysWhatTheListSays) {
  std::ifstream file(ATTEST_SOURCE_DIR "/docs/sizes.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  for (const ModelHeads& m : model_heads()) {
    std::string row = "| " + std::string(m.model);
    for (const Index n : {m.d, m.dv, m.heads, m.kv_heads}) row += " | " + std::to_string(n);
    for (const Index n : {m.queries, m.keys}) row += " | " + (n > 0 ? std::to_string(n) : "");
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace attest
