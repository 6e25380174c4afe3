#include "kernels/loops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.hpp"
#include "kernels/arithmetic.hpp"
#include "tests/kernels/support.hpp"

// The loops of every instruction set beside plain ones, and kernels that run on each of them: the same bits.
namespace attest::kernels::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool same(float x, float y) {
  return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (std::isnan(x) && std::isnan(y));
}

// Numbers of all sizes; `odd`: some NaN, infinite or subnormal.
std::vector<float> some(std::uint64_t seed, Index count, bool odd) {
  std::vector<float> x;
  for (Index n = 0; n < count; ++n) {
    const std::uint64_t bits = mix(seed * 1000003 + static_cast<std::uint64_t>(n));
    const float plain = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-30f;
    const float others[] = {std::nanf(""), infinity, -infinity, 0x1p-140f, -0.f, 3e38f, -0x1p-126f, 0.f};
    x.push_back(odd && bits >> 60 == 0 ? others[bits >> 40 & 7] : plain);
  }
  return x;
}

constexpr auto f16_at = static_cast<std::size_t>(Format::f16), bf16_at = static_cast<std::size_t>(Format::bf16);

class LoopsBits : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    loops_ = loops_of(GetParam());
    if (!loops_) GTEST_SKIP() << "this machine, or this build, has no such instruction set";
  }
  const Loops* loops_ = nullptr;
};

TEST_P(LoopsBits, DotsAreChainsInOrder) {
  bool backwards_differs = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const bool odd = seed % 3 == 0;
    const auto [rows, n, d] = std::array{static_cast<Index>(1 + seed % 11), static_cast<Index>(1 + seed * 7 % 140),
                                         static_cast<Index>(seed * 5 % 70)};
    const Index stride = padded(n), step = padded(d);
    const std::vector<float> q = some(seed, rows * step + 1, odd), keys = some(seed + 7, d * stride + 1, odd);
    std::vector<float> dots(static_cast<std::size_t>(rows * stride));
    loops_->dots(q.data(), step, rows, keys.data(), stride, d, n, 0.3f, dots.data(), stride);
    std::vector<float> lying(static_cast<std::size_t>(n * step + 1)), in_place(static_cast<std::size_t>(rows * n));
    for (Index j = 0; j < n; ++j)
      for (Index e = 0; e < d; ++e)
        lying[static_cast<std::size_t>(j * step + e)] = keys[static_cast<std::size_t>(e * stride + j)];
    for (Index r = 0; r < rows; ++r)
      loops_->dot_row(q.data() + r * step, lying.data(), step, d, n, 0.3f, in_place.data() + r * n);
    for (Index r = 0; r < rows; ++r)
      for (Index j = 0; j < n; ++j) {
        float sum = 0, backwards = 0;
        for (Index e = 0; e < d; ++e)
          sum += q[static_cast<std::size_t>(r * step + e)] * keys[static_cast<std::size_t>(e * stride + j)];
        for (Index e = d; e-- > 0;)
          backwards += q[static_cast<std::size_t>(r * step + e)] * keys[static_cast<std::size_t>(e * stride + j)];
        ASSERT_TRUE(same(dots[static_cast<std::size_t>(r * stride + j)], sum * 0.3f)) << seed;
        ASSERT_TRUE(same(in_place[static_cast<std::size_t>(r * n + j)], sum * 0.3f)) << seed;
        backwards_differs |= !same(sum, backwards);
      }
  }
  EXPECT_TRUE(backwards_differs) << "the comparison sees no order";
}

TEST_P(LoopsBits, WeighedValuesAreChainsInOrder) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const bool odd = seed % 3 == 0;
    const auto [rows, keys, dv] = std::array{static_cast<Index>(1 + seed % 11), static_cast<Index>(seed * 7 % 65),
                                             static_cast<Index>(1 + seed * 5 % 140)};
    const Index step = padded(keys), stride = padded(dv);
    const std::vector<float> weights = some(seed, rows * step + 1, odd),
                             values = some(seed + 7, keys * stride + 1, odd);
    const std::vector<float> before = some(seed + 11, rows * stride, false);
    std::vector<float> sum = before, listed = before;
    loops_->weigh(weights.data(), step, rows, keys, values.data(), stride, dv, sum.data(), stride);
    std::vector<std::int32_t> list;
    for (Index j = 0; j < keys; j += 2) list.push_back(static_cast<std::int32_t>(j));
    for (Index r = 0; r < rows; ++r)
      loops_->weigh_listed(weights.data() + r * step, list.data(), std::ssize(list), values.data(), stride, dv,
                           listed.data() + r * stride);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < dv; ++c) {
        const auto at = static_cast<std::size_t>(r * stride + c);
        float all = before[at], some = before[at];
        for (Index j = 0; j < keys; ++j) {
          const float term =
              weights[static_cast<std::size_t>(r * step + j)] * values[static_cast<std::size_t>(j * stride + c)];
          all += term;
          if (j % 2 == 0) some += term;
        }
        ASSERT_TRUE(same(sum[at], all)) << seed;
        ASSERT_TRUE(same(listed[at], some)) << seed;
      }
  }
}

TEST_P(LoopsBits, RowsOfScoresAreThoseOfTheLeastMachine) {
  const Loops& least = *loops_of(Isa::least);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Index n = static_cast<Index>(1 + seed % 90);
    const std::vector<float> x = some(seed, padded(n), seed % 2 == 0);
    bool open = false, least_open = false;
    ASSERT_TRUE(loops_->largest(x.data(), n, &open) == least.largest(x.data(), n, &least_open)) << seed;
    ASSERT_EQ(open, least_open);
    ASSERT_EQ(open, std::ranges::find(x, -infinity) == x.end());
    ASSERT_TRUE(same(loops_->sum(x.data(), n), least.sum(x.data(), n))) << seed;
    std::vector<float> y = x, z = x;
    const auto compare = [&] {
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_TRUE(same(y[i], z[i])) << seed << ' ' << x[i];
    };
    ASSERT_TRUE(same(loops_->powers(x.data(), 1.5f, n, y.data()), least.powers(x.data(), 1.5f, n, z.data())));
    compare();
    for (const auto change : {&Loops::scale, &Loops::divide}) {
      (loops_->*change)(1.7f, y.data(), n);
      (least.*change)(1.7f, z.data(), n);
      compare();
    }
    for (const Format format : {Format::tf32, Format::f16, Format::bf16}) {
      loops_->round[static_cast<std::size_t>(format)](y.data(), n);
      least.round[static_cast<std::size_t>(format)](z.data(), n);
      compare();
    }
    bool finite = true;
    for (Index j = 0; j < n; ++j) finite = finite && std::isfinite(x[static_cast<std::size_t>(j)]);
    ASSERT_EQ(loops_->finite(x.data(), n), finite) << seed;
  }
}

TEST_P(LoopsBits, ColumnsAreTheRowsTurned) {
  for (const Index rows : {1, 3, 4, 7, 8, 16, 23, 40})
    for (const Index columns : {1, 2, 4, 5, 16, 19, 64}) {
      const std::vector<float> from = some(3, rows * (columns + 3), true);
      std::vector<float> to(static_cast<std::size_t>(padded(rows) * columns));
      loops_->columns(from.data(), columns + 3, rows, columns, padded(rows), to.data());
      for (Index r = 0; r < rows; ++r)
        for (Index c = 0; c < columns; ++c)
          ASSERT_TRUE(same(to[static_cast<std::size_t>(c * padded(rows) + r)],
                           from[static_cast<std::size_t>(r * (columns + 3) + c)]));
    }
}

TEST_P(LoopsBits, SixteenBitsAreThoseOfThePluginHeader) {
  std::vector<std::uint16_t> half(65536 + 5), back(half.size());
  for (std::size_t n = 0; n < half.size(); ++n) half[n] = static_cast<std::uint16_t>(n);
  std::vector<float> wide(half.size());
  const Index n = std::ssize(half);
  loops_->widen[f16_at](half.data(), n, wide.data());
  for (std::size_t i = 0; i < half.size(); ++i) ASSERT_TRUE(same(wide[i], attest_f16_load(half[i]))) << i;
  loops_->widen[bf16_at](half.data(), n, wide.data());
  for (std::size_t i = 0; i < half.size(); ++i) ASSERT_TRUE(same(wide[i], attest_bf16_load(half[i]))) << i;
  for (std::uint32_t start = 0; start < 7; ++start) {
    std::uint32_t bits = start << 29;
    for (float& x : wide) x = std::bit_cast<float>(bits += 8191 + start);
    loops_->narrow[f16_at](wide.data(), n, back.data());
    for (std::size_t i = 0; i < half.size(); ++i) ASSERT_EQ(back[i], attest_f16_store(wide[i])) << wide[i];
    loops_->narrow[bf16_at](wide.data(), n, back.data());
    for (std::size_t i = 0; i < half.size(); ++i) ASSERT_EQ(back[i], attest_bf16_store(wide[i])) << wide[i];
  }
}

// Runs that fill no register, and those whose last one does not: nothing behind them is written.
TEST_P(LoopsBits, SixteenBitsOfAnyNumberOfElements) {
  constexpr std::size_t room = 96;
  std::vector<std::uint16_t> half(room);
  for (std::size_t i = 0; i < room; ++i) half[i] = static_cast<std::uint16_t>(mix(i));
  for (std::size_t n = 0; n <= 70; ++n) {
    std::vector<float> wide(room, -7.0F);
    std::vector<std::uint16_t> back(room, 0x1234);
    for (const bool f16 : {true, false}) {
      loops_->widen[f16 ? f16_at : bf16_at](half.data() + n % 5, static_cast<Index>(n), wide.data());
      loops_->narrow[f16 ? f16_at : bf16_at](wide.data(), static_cast<Index>(n), back.data());
      for (std::size_t i = 0; i < room; ++i) {
        const std::uint16_t from = half[(i + n % 5) % room];
        ASSERT_TRUE(same(wide[i], i >= n ? -7.0F : f16 ? attest_f16_load(from) : attest_bf16_load(from))) << n;
        ASSERT_EQ(back[i], i >= n ? 0x1234 : f16 ? attest_f16_store(wide[i]) : attest_bf16_store(wide[i])) << n;
      }
    }
  }
}

// Random problems with every option and every kind of values, overflowing scores among them, and a NaN or an infinity
// here and there.
Problem any_problem(std::uint64_t seed, Format dtype) {
  Problem problem = random_problem(seed, dtype);
  if (seed % 3 == 0) problem.values = static_cast<Values>(mix(seed) % static_cast<std::uint64_t>(values_count));
  if (seed % 5 == 0) {
    const char* edits[] = {"k[0,0,0,0]:nan", "v[0,0,0,0]:inf", "q[0,0,0,0]:-inf", "v[0,0,0,0]:nan"};
    problem = problem_from_text(to_text(problem) + " edit=" + edits[seed / 5 % 4]);
  }
  return problem;
}

class UsedLoops {
 public:
  explicit UsedLoops(const Loops& used) : before_(loops()) { use_loops(used); }
  ~UsedLoops() { use_loops(before_); }
  UsedLoops(const UsedLoops&) = delete;
  UsedLoops& operator=(const UsedLoops&) = delete;

 private:
  const Loops& before_;
};

TEST_P(LoopsBits, OfKernelsAreThoseOfTheLeastMachine) {
  for (const char* text : {"f32", "f16", "bf16", "f32,weights=bf16", "f16-all"})
    for (std::uint64_t seed = 0; seed < 120; ++seed) {
      const Policy policy = policy_from_text(text);
      const Problem problem = any_problem(seed, policy[Stage::storage]);
      for (const char* name : {"explicit", "explicit-lse", "fused", "fused-split", "fused-exp2", "fused-flush"}) {
        Result got, expected;
        {
          const UsedLoops used(*loops_);
          got = run(builtin(name), problem, policy);
        }
        {
          const UsedLoops used(*loops_of(Isa::least));
          expected = run(builtin(name), problem, policy);
        }
        ASSERT_TRUE(test::same(got, expected)) << name << ' ' << text << ' ' << to_text(problem);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, LoopsBits, testing::Values(Isa::least, Isa::avx2, Isa::avx512), [](const auto& info) {
  return info.param == Isa::least ? "least" : info.param == Isa::avx2 ? "avx2" : "avx512";
});

// The definition of explicit and fused at f32, a loop per index, for a tile of keys: chains of rounded products and
// sums in ascending order, a row's sum in eight interleaved ones.
std::vector<float> defined(const Problem& p, const Inputs& inputs, bool divide_first) {
  std::vector<float> out;
  const auto scale = static_cast<float>(inputs.scale);
  const auto at = [](const Tensor& tensor, Index b, Index h, Index i, Index c) {
    return static_cast<float>(tensor.at(b, h, i, c));
  };
  std::vector<float> s(static_cast<std::size_t>(padded(p.lk)));
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i) {
        const Index kv = h / p.group();
        float largest = -infinity, sums[8] = {};
        std::ranges::fill(s, -infinity);
        for (Index j = 0; j < p.lk; ++j) {
          float dot = 0;
          for (Index e = 0; e < p.d; ++e) dot += at(inputs.q, b, h, i, e) * at(inputs.k, b, kv, j, e);
          const bool open = (!p.causal || j <= i) && (!inputs.keep.present() || inputs.keep.at(b, h, i, j) != 0);
          if (open) s[static_cast<std::size_t>(j)] = dot * scale;
          largest = std::max(largest, s[static_cast<std::size_t>(j)]);
        }
        const std::vector<float> scores = s;
        std::vector<float> w(s.size());
        loops_of(Isa::least)->powers(s.data(), largest == -infinity ? 0 : largest, p.lk, w.data());
        for (std::size_t j = 0; j < w.size(); ++j) sums[j % 8] += w[j];
        const float sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
        for (Index c = 0; c < p.dv; ++c) {
          float y = 0;
          for (std::size_t j = 0; j < static_cast<std::size_t>(p.lk); ++j)
            if (scores[j] != -infinity)
              y += (divide_first ? w[j] / sum : w[j]) * at(inputs.v, b, kv, static_cast<Index>(j), c);
          out.push_back(sum == 0 ? 0 : divide_first ? y : y / sum);
        }
      }
  return out;
}

TEST(Loops, KernelsAreWhatTheyAreDefinedAs) {
  int short_rows = 0, last_bits = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto of = [&](std::uint64_t least, std::uint64_t most, std::uint64_t n) {
      return std::to_string(least + mix(seed * 16 + n) % (most - least + 1));
    };
    const Problem problem =
        problem_from_text("b=2 hq=2 hkv=1 lq=" + of(1, seed % 7 == 0 ? 90 : 20, 0) +
                          " lk=" + of(1, seed % 3 == 0 ? 64 : 13, 1) + " d=" + of(1, 20, 2) + " dv=" + of(1, 40, 3) +
                          (seed % 2 ? " causal=1" : "") + (seed % 4 == 3 ? " keep=half keep_axes=15" : "") +
                          (seed % 5 == 0 ? " edit=v[0,0,0,0]:inf" : "") + " seed=" + std::to_string(seed));
    const Inputs inputs = materialise(problem);
    short_rows += problem.lq >= 4 && problem.lk <= 12 ? 1 : 0;
    for (const bool divide_first : {true, false}) {
      const Result got = run(builtin(divide_first ? "explicit" : "fused"), problem, Policy(Format::f32));
      const std::vector<float> expected = defined(problem, inputs, divide_first),
                               other = defined(problem, inputs, !divide_first);
      ASSERT_EQ(got.out.size(), expected.size());
      for (std::size_t e = 0; e < expected.size(); ++e) {
        ASSERT_TRUE(same(static_cast<float>(got.out[e]), expected[e])) << to_text(problem) << ' ' << e;
        last_bits += same(other[e], expected[e]) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(short_rows, 100);
  EXPECT_GT(last_bits, 1000) << "the comparison sees no last bit";
}

// fused softens a block of rows at once, fused-tile64 row after row.
TEST(Loops, AnOnlineSoftmaxOfBlocksIsThatOfRows) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Problem problem = any_problem(seed, Format::f32);
    const Policy policy = policy_from_text(seed % 4 == 0 ? "f32,weights=bf16" : "f32");
    ASSERT_TRUE(test::same(run(builtin("fused"), problem, policy), run(builtin("fused-tile64"), problem, policy)))
        << to_text(problem);
  }
}

// Heads of few rows of few keys, which many of a call take a lane each, beside calls of single samples, which do not.
TEST(Loops, ShortHeadsInLanesHaveTheBitsOfTheirOwnCalls) {
  int compared = 0;
  for (const char* text : {"f32", "f16", "bf16", "f32,weights=bf16", "f16,operand=bf16"}) {
    const Policy policy = policy_from_text(text);
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const auto of = [&](std::uint64_t least, std::uint64_t most, std::uint64_t n) {
        return static_cast<Index>(least + mix(seed * 16 + n) % (most - least + 1));
      };
      Problem problem = any_problem(seed, policy[Stage::storage]);
      problem.edits.clear();
      problem.rows = 0;
      problem.b = of(9, 40, 0);
      problem.hkv = of(1, 2, 1);
      problem.hq = problem.hkv * of(1, 2, 2);
      problem.lq = of(1, problem.hq == 4 ? 2 : 3, 3);
      problem.lk = of(1, 12, 4);
      problem.d = of(1, 6, 5);
      problem.dv = of(1, problem.lk > 6 ? 2 : 7, 6);
      for (Layout Problem::*layout : {&Problem::q_layout, &Problem::k_layout, &Problem::v_layout})
        if (broadcasts(problem.*layout) || problem.*layout == Layout::far) problem.*layout = Layout::slice;
      if (problem.out_layout == Layout::far) problem.out_layout = Layout::transposed;
      if (problem.mask_layout == Layout::far) problem.mask_layout = Layout::spaced;
      Problem single = problem;
      single.b = 1;
      if (seed % 4 == 0) {
        const char* edits[] = {"k[0,0,0,0]:nan", "v[0,0,0,0]:inf", "q[0,0,0,0]:-inf", "v[0,0,0,0]:nan"};
        problem = problem_from_text(to_text(problem) + " edit=" + edits[seed / 4 % 4]);
        single.edits = problem.edits;
      }
      for (const char* name : {"explicit", "fused"}) {
        const Result together = run(builtin(name), problem, policy);
        ASSERT_TRUE(together.intact);
        for (Index b = 0; b < problem.b; b += 4) {
          single.b0 = problem.b0 + b;
          if (b > 0) single.edits.clear();
          const Result alone = run(builtin(name), single, policy);
          const auto part = [b](const std::vector<double>& all, const std::vector<double>& one) {
            const auto from = all.begin() + b * std::ssize(one);
            return std::vector<double>(from, from + std::ssize(one));
          };
          const Result here{part(together.out, alone.out), part(together.lse, alone.lse), true};
          ASSERT_TRUE(test::same(here, alone)) << name << ' ' << text << ' ' << to_text(single);
          ++compared;
        }
        single.edits = problem.edits;
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

// Products in blocks of rows and row by row give the same bits, whatever lies in the values of closed keys.
TEST(Loops, AClosedKeysValueChangesNoBit) {
  for (const char* name : {"explicit", "explicit-lse", "fused"})
    for (const char* mask : {"causal=1", "keep=half"}) {
      const std::string shape = std::string("lq=40 lk=70 d=9 dv=24 seed=4 ") + mask;
      const Problem plain = problem_from_text(shape);
      const Result expected = run(builtin(name), plain, Policy(Format::f32));
      for (const char* value : {"nan", "inf"}) {
        // Row 40 does not exist: under causality no row sees key 69. Under `keep` some rows do.
        const Problem odd = problem_from_text(shape + " edit=v[0,0,69,3]:" + value);
        const Result got = run(builtin(name), odd, Policy(Format::f32));
        std::size_t differ = 0;
        for (std::size_t e = 0; e < got.out.size(); ++e) {
          if (got.out[e] == expected.out[e]) continue;
          EXPECT_FALSE(std::isfinite(got.out[e])) << name << ' ' << mask << ' ' << e;
          EXPECT_EQ(e % 24, 3u) << name << ' ' << mask;
          ++differ;
        }
        EXPECT_EQ(differ > 0, std::string_view(mask) != "causal=1") << name << ' ' << mask;
        EXPECT_LT(differ, 40u);
      }
    }
}

}  // namespace
}  // namespace attest::kernels::test
