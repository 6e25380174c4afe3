// The inner loops give the same bits for every instruction set that this machine has.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/format.hpp"
#include "core/rng.hpp"
#include "core/tensor.hpp"
#include "oracle/decode.hpp"
#include "oracle/last_bit.hpp"
#include "oracle/loops.hpp"
#include "oracle/numbers.hpp"

namespace attest::oracle::products {
namespace {

constexpr Index keys = 24, columns = 24;  // columns: sixteen at once, and then eight

[[maybe_unused]] std::vector<double> some(std::uint64_t seed, Index count, double amplitude) {
  std::vector<double> values;
  for (Index n = 0; n < count; ++n)
    values.push_back(amplitude * symmetric_uniform(mix(seed + static_cast<std::uint64_t>(n))));
  return values;
}

template <class T>
void append(std::vector<double>& all, const std::vector<T>& values) {
  all.insert(all.end(), values.begin(), values.end());
}

// Eleven rows of a few keys each, a row a lane: what they give, and how many are settled.
template <class L>
std::vector<double> run_short(std::uint64_t seed) {
  constexpr Index stride = 16, rows = 11, d = 3, dv = 2;
  const auto few = static_cast<Index>(1 + seed % short_keys);
  const auto array = [&](Index count, double amplitude) { return some(seed = mix(seed), count * stride, amplitude); };
  const Index by_keys = few * stride;
  std::vector<double> q = array(d, 2), k = array(few * d, 2), v = array(few * dv, 3), got(dv * stride),
                      bias = array(few, 1), open(static_cast<std::size_t>(by_keys), 0.0), z = array(few, 0),
                      e = array(few, 0), each = array(4, 0);
  for (Index n = 0; n < std::ssize(open); ++n)
    if (mix(seed + static_cast<std::uint64_t>(n)) % 4 == 0)
      open[static_cast<std::size_t>(n)] = -std::numeric_limits<double>::infinity();
  std::uint8_t sound[2], settled[2];
  const auto one = [&](Index n) { return each.data() + n * stride; };
  const ShortLanes lanes{rows,        stride,   few,      d,          dv,
                         q.data(),    k.data(), v.data(), got.data(), seed % 2 == 0 ? bias.data() : nullptr,
                         open.data(), z.data(), e.data(), one(0),     one(1),
                         one(2),      one(3),   sound,    settled};
  const double softcap = seed % 3 == 0 ? 5 : 0;
  const ShortTops tops = Loops<L>::short_scores({{0.5, softcap, true, 1e-6, 2e-6, 1e-4, 1e-5, 1e-6}, 300}, lanes);
  ShortRule rule{};
  for (auto* table : {&rule.bounded, &rule.t, &rule.g, &rule.damping}) table->fill(0.5);
  for (auto* table : {&rule.constant, &rule.cap, &rule.absolute_after, &rule.absolute_before})
    for (std::size_t n = 0; n < table->size(); ++n) (*table)[n] = 0.1 * static_cast<double>(n);
  rule.u_softmax = 1e-4;
  rule.a1 = rule.a2 = rule.a3 = 2;
  rule.spared = 1e-3;
  rule.eta_after = 1e-6;
  rule.unit = 0x1p-11;
  rule.tiny = 0x1p-25;
  Loops<L>::judge_short(rule, lanes);
  std::vector<double> all{tops.q_square, tops.k_square, tops.z, tops.bias};
  for (const auto* values : {&z, &e}) append(all, *values);
  for (Index n = 0; n < rows; ++n)
    if ((settled[n / lane_count] >> n % lane_count & 1) != 0)
      for (Index at = 0; at < 4; ++at) all.push_back(one(at)[n]);
  for (const std::uint8_t bits : {sound[0], sound[1], settled[0], settled[1]}) all.push_back(bits);
  return all;
}

// Returns the results of every loop on one row of numbers that depend on `seed`.
template <class L>
std::vector<double> run(std::uint64_t seed) {
  std::vector<double> all, z = some(seed, keys, 8), e = some(seed + 1, keys, 1), m(keys),
                           bias = some(seed + 2, keys, 4);
  std::vector<double> open(keys, 0);
  bias[3] = -std::numeric_limits<double>::infinity();
  open[5] = -std::numeric_limits<double>::infinity();
  const double softcap = seed % 3 == 0 ? 5 : 0;
  const ScoreSums scores =
      Loops<L>::finish_scores({0.5, softcap, true, 1e-6, 2e-6, 1e-4, 1e-5, 1e-6}, z.data(), e.data(),
                              seed % 2 == 0 ? bias.data() : nullptr, open.data(), keys - 3, keys);
  append(all, z);
  append(all, e);
  const WeightSums weights = Loops<L>::weigh({scores.z_max, 1e-4, 2, 2, 5, 3, 1, 1e-6, 0.5, 1e-3, 0.9}, z.data(),
                                             z.data(), e.data(), m.data(), keys);
  const std::vector<double> v = some(seed + 3, keys * columns, 1);
  std::vector<double> y(columns), reach(columns), got = some(seed + 4, columns, 0.1), lo(keys), hi(keys);
  Loops<L>::values(z.data(), m.data(), keys, 1, v.data(), keys, columns, y.data(), reach.data(), false);
  std::uint8_t accepted[columns / lane_count];
  const AcceptRule accept{1 / weights.mass, 0.1, 1e-2, 1e-2, 1e-6, 0x1p-11, 0x1p-25};
  Loops<L>::accept(accept, y.data(), reach.data(), got.data(), columns, accepted);
  Loops<L>::box(z.data(), e.data(), lo.data(), hi.data(), keys);
  const std::uint8_t inside =
      Loops<L>::inside_box(accept, z.data(), lo.data(), hi.data(), v.data(), keys, columns, y.data(), got.data());
  const std::uint8_t between =
      Loops<L>::inside_means({0x1p-11, 0x1p-25}, z.data(), lo.data(), hi.data(), v.data(), keys, columns, got.data());
  for (const auto* values : {&z, &e, &m, &y, &reach, &lo, &hi}) append(all, *values);
  // The full formulas' loops, on scores that end in -inf.
  std::vector<double> scores_of = some(seed + 5, keys, 20), full_lo(keys), full_hi(keys), p(keys);
  scores_of[keys - 1] = -std::numeric_limits<double>::infinity();
  const EndSums ends = Loops<L>::ends({20, -3, 0.01}, scores_of.data(), some(seed + 6, keys, 0.3).data(),
                                      full_lo.data(), full_hi.data(), keys);
  all.push_back(Loops<L>::weights(scores_of.data(), 20, p.data(), keys));
  for (const double sign : {-1.0, 1.0})
    all.push_back(
        Loops<L>::extreme_mean(full_lo.data(), full_hi.data(), some(seed + 7, keys, 1).data(), keys, 0, sign, sign));
  append(all, std::vector<double>{ends.lo, ends.hi});
  const Grid on = Loops<L>::grid(scores_of.data(), keys), of_bits = Loops<L>::grid(bias.data(), 2 * lane_count);
  for (const Grid& each : {on, of_bits})
    append(all, std::vector<double>{each.lowest_bit, each.largest, double(each.below_infinity),
                                    double(each.above_infinity)});
  for (const auto* values : {&full_lo, &full_hi, &p}) append(all, *values);
  append(all, std::vector<double>{scores.z_max, scores.n, weights.mass, weights.gain});
  all.insert(all.end(), accepted, accepted + columns / lane_count);
  append(all, std::vector<double>{double(inside), double(between)});
  std::vector<double> turned(columns * lane_count);
  Loops<L>::turn_eight(v.data(), columns, columns, turned.data(), lane_count);
  append(all, turned);
  return all;
}

template <class L>
void expect_same_bits() {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<double> least = run<Lanes>(seed), wide = run<L>(seed);
    append(least, run_short<Lanes>(seed));
    append(wide, run_short<L>(seed));
    ASSERT_EQ(least.size(), wide.size());
    for (std::size_t n = 0; n < least.size(); ++n)
      ASSERT_EQ(std::memcmp(&least[n], &wide[n], sizeof(double)), 0) << "seed " << seed << " number " << n;
  }
}

TEST(Loops, GiveTheSameBitsWithAvx2) {
#ifdef ATTEST_X86_LOOPS
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this machine has no AVX2";
  expect_same_bits<Pack<double, 4>>();
#else
  GTEST_SKIP() << "built for one instruction set";
#endif
}

TEST(Loops, GiveTheSameBitsWithAvx512) {
#ifdef ATTEST_X86_LOOPS
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    GTEST_SKIP() << "this machine has no AVX-512";
  expect_same_bits<Pack<double, 8>>();
#else
  GTEST_SKIP() << "built for one instruction set";
#endif
}

// Elements a little within the extremes of the mean over a box of weights lie inside, and those a little beyond the
// numbers that round to one do not.
TEST(Loops, FindElementsBetweenMeans) {
  constexpr double unit = 0x1p-24, tiny = 0x1p-150;
  int inside = 0, outside = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::vector<double> z = some(seed, keys, 4), widths = some(seed + 1, keys, seed % 3 == 0 ? 1e-9 : 3);
    for (double& width : widths) width = std::fabs(width);
    if (seed % 5 == 0) widths[1] = 1e30, z[2] = -1e30;  // may be anything; counts for nothing
    std::vector<double> p(keys), lo(keys), hi(keys), column(keys), got(lane_count), v(keys * lane_count);
    const double mass = weights(z.data(), 4, p.data(), keys);
    for (double& weight : p) weight /= mass;
    (void)ends({4, 0, 0}, z.data(), widths.data(), lo.data(), hi.data(), keys);
    v = some(seed + 2, keys * lane_count, 2);
    const double steps[lane_count] = {-1e-2, -1e-3, -1e-6, -1e-8, 1e-2, 1e-3, 1e-6, 0};
    for (const double side : {-1.0, 1.0}) {
      for (int c = 0; c < lane_count; ++c) {
        double y = 0;
        for (Index j = 0; j < keys; ++j) {
          column[static_cast<std::size_t>(j)] = v[static_cast<std::size_t>(j * lane_count + c)];
          y += p[static_cast<std::size_t>(j)] * column[static_cast<std::size_t>(j)];
        }
        const double extreme = extreme_mean(lo.data(), hi.data(), column.data(), keys, y, side, side * 10);
        // Well within, or beyond by more than half an ulp: the last one by hardly more.
        const double step = steps[c] != 0 ? steps[c] : 1.05 * unit * std::fabs(extreme);
        got[static_cast<std::size_t>(c)] = extreme + side * step;
      }
      const std::uint8_t bits =
          inside_means({unit, tiny}, p.data(), lo.data(), hi.data(), v.data(), keys, lane_count, got.data());
      for (int c = 0; c < lane_count; ++c) {
        const bool found = (bits >> c & 1) != 0, beyond = steps[c] >= 0;
        EXPECT_FALSE(found && beyond) << "seed " << seed << " lane " << c;
        // A narrow box has no room for the larger steps within.
        if (!beyond && seed % 3 != 0) {
          EXPECT_TRUE(found) << "seed " << seed << " lane " << c;
        }
        ++(found ? inside : outside);
      }
    }
  }
  EXPECT_GT(inside, 1000);
  EXPECT_GT(outside, 1000);
}

// A grid agrees with its numbers one by one, subnormal ones, zeros, infinities and NaN among them.
TEST(Loops, FindTheGridOfNumbers) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::vector<double> numbers(16);
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const std::uint64_t key = mix(seed * 16 + n);
      numbers[n] =
          std::ldexp(static_cast<double>(key % 64) - 32, static_cast<int>(mix(key) % 60) - (seed % 4 == 0 ? 1074 : 30));
      if (seed % 5 == 0 && mix(key) % 40 == 1) numbers[n] = seed % 2 == 0 ? infinite : -infinite;
      if (seed % 7 == 0 && mix(key) % 40 == 2) numbers[n] = std::nan("");
    }
    double lowest = infinite, largest = 0;
    bool below = true, above = true;
    for (const double x : numbers) {
      below = below && x < infinite;
      above = above && x > -infinite;
      if (!std::isfinite(x) || x == 0) continue;
      lowest = std::min(lowest, std::ldexp(1.0, last_bit(x)));
      largest = std::max(largest, std::fabs(x));
    }
    const Grid found = grid(numbers.data(), 16);
    EXPECT_EQ(found.lowest_bit, lowest) << seed;
    EXPECT_EQ(found.largest, largest) << seed;
    EXPECT_EQ(found.below_infinity, below) << seed;
    EXPECT_EQ(found.above_infinity, above) << seed;
  }
}

// Every 16-bit number, in runs of every length.
TEST(Loops, DecodeAsTheFormatSays) {
  std::vector<std::uint16_t> bits;
  for (int n = 0; n < 0x10000; ++n) bits.push_back(static_cast<std::uint16_t>(n));
  std::vector<double> f16(bits.size()), bf16(bits.size());
  Index first = 0;
  for (Index length = 1; first < std::ssize(bits); first += length, length = length % 19 + 1) {
    const Index count = std::min(length, std::ssize(bits) - first);
    oracle::decode(DType::f16, bits.data() + first, count, f16.data() + first);
    oracle::decode(DType::bf16, bits.data() + first, count, bf16.data() + first);
  }
  const auto same = [](double a, double b) {
    return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0;
  };
  for (std::size_t n = 0; n < bits.size(); ++n) {
    EXPECT_TRUE(same(attest::decode_f16(bits[n]), f16[n])) << n;
    EXPECT_TRUE(same(attest::decode_bf16(bits[n]), bf16[n])) << n;
  }
}

// Rows of every length and type: what a Tensor holds, then zeros in whole lanes, and nothing beyond.
TEST(Loops, DecodeAndPadWithZeros) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Index count = 1; count <= 19; ++count) {
      Tensor row(type, std::array<Index, 4>{1, 1, 1, count});
      for (Index n = 0; n < count; ++n) row.set(0, 0, 0, n, static_cast<double>(n * n) - 40);
      const attest_tensor view = row.view();
      std::vector<double> to(32, -1);
      oracle::decode_padded({view.dtype, attest_at(&view, 0, 0, 0, 0), 1, count, count}, to.data(), 0);
      for (Index n = 0; n < std::ssize(to); ++n) {
        const double expected = n < count ? static_cast<double>(n * n) - 40 : n < padded(count) ? 0 : -1;
        EXPECT_EQ(to[static_cast<std::size_t>(n)], expected) << n << " of " << count;
      }
    }
}

// The same of columns, for rows that lie apart.
TEST(Loops, DecodeTurnsRowsIntoColumns) {
  constexpr Index to_stride = 32;
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const Index rows : {1, 7, 8, 9, 24})
      for (const Index count : {1, 8, 13, 64, 71, 130}) {
        const std::array<Index, 4> shape{1, 1, rows, count},
            strides{rows * (count + 3), rows * (count + 3), count + 3, 1};
        Tensor tensor(type, shape, strides);
        const auto element = [](Index r, Index c) { return static_cast<double>((31 * r + 7 * c) % 200 - 100); };
        for (Index r = 0; r < rows; ++r)
          for (Index c = 0; c < count; ++c) tensor.set(0, 0, r, c, element(r, c));
        const attest_tensor view = tensor.view();
        std::vector<double> to(static_cast<std::size_t>((count + 1) * to_stride), -1000);
        oracle::decode_turned({view.dtype, attest_at(&view, 0, 0, 0, 0), rows, count, count + 3}, to.data(), to_stride);
        for (Index c = 0; c <= count; ++c)
          for (Index r = 0; r < to_stride; ++r) {
            const double expected = c == count || r >= padded(rows) ? -1000 : r < rows ? element(r, c) : 0;
            ASSERT_EQ(to[static_cast<std::size_t>(c * to_stride + r)], expected)
                << rows << " rows of " << count << ": row " << r << ", column " << c;
          }
      }
}

TEST(Growth, IsNoMoreThanItsCheapBounds) {
  double before = 0;
  for (double x = 1e-300; x < 700; x *= 1.01) {
    EXPECT_GE(growth_most(x), before) << x;
    before = growth_most(x);
    EXPECT_GE(exp_most(x), std::exp(x)) << x;
    EXPECT_GE(growth_most(x), growth(x)) << x;
    EXPECT_LE(growth_most(x), 1.8 * growth(x)) << x;
  }
}

}  // namespace
}  // namespace attest::oracle::products
