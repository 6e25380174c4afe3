// Problems of mha as they are drawn: valid, as the subject takes them, the same everywhere, and with something of
// everything.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "generators/mha/domain.hpp"

namespace attest::mha {
namespace {

const std::vector<Format> three{Format::f32, Format::f16, Format::bf16};

TEST(MhaDraw, EveryLabelOccursAndEveryProblemIsValid) {
  const Domain domain(Supports::everything(), three);
  std::map<std::string, std::map<Index, int>> seen;
  std::map<std::string, int> regions;
  constexpr int problems = 20'000;
  Index most = 0;
  for (int n = 0; n < problems; ++n) {
    const Problem p = draw_counted(domain, 1, static_cast<std::uint64_t>(n), 1).problem;
    ASSERT_NO_THROW(validate(p)) << to_text(p);
    ASSERT_FALSE(declined(p, domain.supports(), three)) << to_text(p);
    EXPECT_EQ(problem_from_text(to_text(p)), p);
    for (const Field& field : fields()) ++seen[std::string(field.name)][field.get(p)];
    most = std::max(most, p.multiply_adds());
    regions["work at most 2^12"] += p.multiply_adds() <= 1 << 12;
    regions["work of 2^16 and more"] += p.multiply_adds() >= 1 << 16;
    regions["grouped heads"] += p.heads > p.kv_heads;
    regions["several heads"] += p.heads > 1 && p.heads == p.kv_heads;
    regions["heads * head_dim is not e"] += p.q_width() != p.e;
    regions["one query of many tokens"] += !p.self && p.l == 1 && p.m >= 16;
    regions["packed with grouped heads"] += p.packed && p.heads > p.kv_heads;
    regions["packed and transposed"] += p.packed && p.weight_layout == Layout::transposed;
    regions["causal where l is not m"] += p.causal && p.l != p.m;
    regions["causal with lengths"] += p.causal && p.has_lengths();
    regions["keep and a bias"] += p.has_keep() && p.bias != Bias::none;
    regions["tokens first, several samples"] += p.x_layout == Layout::tokens_first && p.b > 1 && p.l > 1;
    regions["cancelling, wide"] += p.weights == Weights::cancelling && p.e >= 64;
    regions["a scale below 0"] += p.scale && *p.scale < 0;
    regions["production"] += p.e >= 256 && p.head_dim >= 32;
  }
  for (const Field& field : fields())
    if (field.kind == FieldKind::label || field.kind == FieldKind::flag)
      for (Index label = field.lo; label <= field.hi; ++label) {
        const bool drawn = field.weights.empty() || static_cast<std::size_t>(label) >= field.weights.size() ||
                           field.weights[static_cast<std::size_t>(label)] > 0;
        if (field.name == "dtype" || (field.name == "out_layout" && label == field.hi)) continue;
        if (drawn)
          EXPECT_GT(seen[std::string(field.name)][label], 20) << field.name << ' ' << label;
        else
          EXPECT_EQ(seen[std::string(field.name)][label], 0) << field.name << ' ' << label;
      }
  for (const auto& [region, count] : regions) EXPECT_GE(count, problems / 500) << region;
  EXPECT_LE(most, Index{1} << 31);
  // Shares of docs/mha.md, section 4.
  const auto share = [&](Weights weights) { return seen["weights"][static_cast<Index>(weights)] * 100.0 / problems; };
  EXPECT_NEAR(share(Weights::power_of_two), 25, 5);
  EXPECT_NEAR(share(Weights::cancelling), 25, 5);
  EXPECT_NEAR(share(Weights::dense), 15, 5);
  EXPECT_NEAR(share(Weights::dense_in), 15, 5);
  EXPECT_NEAR(share(Weights::uniform), 10, 5);
  EXPECT_NEAR(share(Weights::selection), 10, 5);
}

TEST(MhaDraw, ASelectingProblemHasItsScaleAndItsBias) {
  const Domain domain(Supports::everything(), three);
  for (std::uint64_t n = 0; n < 3000; ++n) {
    const Problem p = draw_counted(domain, 2, n, 1).problem;
    if (p.weights != Weights::selection) continue;
    EXPECT_EQ(p.effective_scale(), 256);
    EXPECT_TRUE(p.has_in_biases());
  }
}

// The `supports` of a subject narrow the problems that are drawn; none comes that it declines.
TEST(MhaDraw, AsksNobodyForWhatHeDoesNotTake) {
  std::vector<Supports> all(8);
  all[0].cross = all[0].gqa = all[0].bias = false;
  all[0].heads_fill_e = true;
  all[0].scale = Supports::Scale::only_default;
  all[1].strides = Strides::contiguous;
  all[1].alignment = 16;
  all[1].no_in_biases = all[1].no_out_bias = false;
  all[2].self = all[2].keep = all[2].causal = all[2].in_biases = all[2].out_bias = false;
  all[3].strides = Strides::last_dim_contiguous;
  all[3].top_left = all[3].kv_lengths = false;
  all[3].scale = Supports::Scale::positive;
  all[4].heads = {4, 4, 1};
  all[4].kv_heads = {2, 2, 1};
  all[4].e = {64, 64, 1};
  all[4].head_dim = {16, 16, 1};
  all[5].head_dim = {8, 64, 8};
  all[5].e = {8, 512, 8};
  all[5].heads_fill_e = true;
  all[5].l = {2, 16, 2};
  all[5].m = {4, 32, 4};
  all[6].b = {1, 1, 1};
  all[6].heads = {3, 6, 3};
  all[6].alignment = 64;
  all[6].heads_fill_e = true;
  all[7].l = all[7].m = {7, 7, 1};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Domain domain(all[i], three);
    for (std::uint64_t n = 0; n < 1500; ++n) {
      const Problem p = draw_counted(domain, 3, n, 1).problem;
      ASSERT_NO_THROW(validate(p)) << i << ' ' << to_text(p);
      const auto why = declined(p, all[i], three);
      ASSERT_FALSE(why) << i << ' ' << *why << ": " << to_text(p);
    }
  }
  Supports none;
  none.e = {5, 5, 1};
  none.heads = {2, 2, 1};
  none.kv_heads = {2, 2, 1};
  none.heads_fill_e = true;
  EXPECT_THROW((void)draw_counted(Domain(none, three), 1, 0, 1), Error);
}

TEST(MhaDraw, NarrowsAndAssumes) {
  Domain domain(Supports::everything(), three);
  domain.narrow("weights", static_cast<Index>(Weights::selection), static_cast<Index>(Weights::selection));
  domain.narrow("padding", 1, 2);
  domain.narrow("e", 16, 40);
  domain.assume([](const Problem& p) { return p.b == 1; });
  for (std::uint64_t n = 0; n < 300; ++n) {
    const Problem p = draw_counted(domain, 4, n, 1).problem;
    EXPECT_EQ(p.weights, Weights::selection);
    EXPECT_TRUE(p.has_lengths() && p.b == 1 && p.e >= 16 && p.e <= 40) << to_text(p);
  }
  EXPECT_THROW(domain.narrow("padding", 3, 3), Error);
  EXPECT_THROW(domain.narrow("seed", 1, 2), Error);
  EXPECT_FALSE(Domain::narrows("scale"));
  EXPECT_TRUE(Domain::narrows("bias"));
  Supports needs;
  needs.no_in_biases = needs.no_out_bias = false;
  Domain with_biases(needs, three);
  EXPECT_THROW(with_biases.narrow("biases", 0, 2), Error);
}

// A plan is kept with everything but what tensors hold.
TEST(MhaDraw, RepeatsKeepThePlan) {
  const Domain domain(Supports::everything(), three);
  std::set<std::uint64_t> seeds;
  for (std::uint64_t n = 0; n < 200; n += 4) {
    Problem first = draw_counted(domain, 5, n, 4).problem;
    for (std::uint64_t i = 0; i < 4; ++i) {
      Problem p = draw_counted(domain, 5, n + i, 4).problem;
      seeds.insert(p.seed);
      EXPECT_EQ(p.weights == Weights::selection, first.weights == Weights::selection);
      p.seed = first.seed;
      p.weights = first.weights;
      p.amplitude = first.amplitude;
      EXPECT_EQ(p, first);
    }
  }
  EXPECT_EQ(seeds.size(), 200u);
}

// The same problems on every machine, compiler and day.
TEST(MhaDraw, IsTheSameEverywhere) {
  const Domain domain(Supports::everything(), three);
  std::uint64_t digest = 0;
  for (std::uint64_t n = 0; n < 1000; ++n)
    for (const char c : to_text(draw_counted(domain, 1, n, 1).problem))
      digest = extend(digest, static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  EXPECT_EQ(digest, 0x30d46f2effe8c8e2u) << std::hex << digest;
}

}  // namespace
}  // namespace attest::mha
