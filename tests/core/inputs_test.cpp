#include "core/inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "core/rng.hpp"
#include "core/values.hpp"

namespace attest {
namespace {

std::uint64_t hash(const Tensor& tensor) {
  std::uint64_t key = 0;
  const MemoryParts parts = tensor.parts();
  for (std::size_t n = 0; n < parts.count; ++n)
    for (const std::byte byte : parts.part(n)) key = extend(key, static_cast<std::uint64_t>(byte));
  return key;
}
std::uint64_t hash(const Inputs& inputs) {
  std::uint64_t key = 0;
  for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.bias, &inputs.keep, &inputs.kv_lengths})
    key = extend(key, hash(*tensor));
  return key;
}

Problem base() {
  Problem problem;
  problem.b = 3, problem.hq = 4, problem.hkv = 2, problem.lq = 5, problem.lk = 37, problem.d = 6, problem.dv = 3;
  problem.seed = 42;
  problem.keep = Keep::half;
  problem.bias = Bias::alibi;
  problem.lengths = Lengths::ragged;
  return problem;
}

// The layouts of the first version, in its order.
constexpr Layout first_layouts[] = {
    Layout::bhsd,       Layout::bshd,  Layout::padded_rows,     Layout::odd_base,        Layout::spaced,
    Layout::transposed, Layout::slice, Layout::broadcast_batch, Layout::broadcast_heads, Layout::broadcast_rows};

// Bits, not closeness: these must never change, on any machine, compiler or optimisation level.
std::uint64_t hash_of_values(std::size_t first, std::size_t end) {
  std::uint64_t key = 0;
  for (std::size_t values = first; values < end; ++values)
    for (const Format dtype : {Format::f16, Format::bf16, Format::f32, Format::f64}) {
      Problem problem = base();
      problem.dtype = dtype;
      problem.values = static_cast<Values>(values);
      problem.bias = static_cast<Bias>(values % bias_count);
      problem.keep = static_cast<Keep>(values % keep_count);
      problem.k_layout = first_layouts[values % std::size(first_layouts)];
      problem.v_form = static_cast<Form>(values % form_count);
      key = extend(key, hash(materialise(problem)));
    }
  return key;
}

TEST(Inputs, GoldenBits) {
  constexpr auto levels = static_cast<std::size_t>(Values::levels), ends = static_cast<std::size_t>(Values::ends);
  const std::uint64_t first = hash_of_values(0, levels);  // those of the first version
  EXPECT_EQ(first, 0xe3a60261996f4a2eu) << std::hex << first;
  const std::uint64_t second = hash_of_values(levels, ends);
  EXPECT_EQ(second, 0x3845a96a3c3d0170u) << std::hex << second;
  const std::uint64_t third = hash_of_values(ends, values_count);
  EXPECT_EQ(third, 0x2a1b137cfd4e490eu) << std::hex << third;
}

TEST(Inputs, ASliceHoldsTheSameNumbers) {
  for (std::size_t values = 0; values < values_count; ++values) {
    Problem whole = base();
    whole.values = static_cast<Values>(values);
    const Inputs all = materialise(whole);
    Problem slice = whole;
    slice.b = 1, slice.b0 = 2;
    slice.hq = 1, slice.hq0 = 3, slice.hkv = 1, slice.hkv0 = 1;
    slice.lq = 2, slice.lq0 = 3;
    slice.lk = 20, slice.lk0 = 17;
    slice.d = 4, slice.d0 = 2;
    const Inputs part = materialise(slice);
    for (Index j = 0; j < slice.lk; ++j)
      for (Index c = 0; c < slice.d; ++c) ASSERT_EQ(part.k.at(0, 0, j, c), all.k.at(2, 1, 17 + j, 2 + c)) << values;
    for (Index i = 0; i < slice.lq; ++i) {
      for (Index c = 0; c < slice.d; ++c) ASSERT_EQ(part.q.at(0, 0, i, c), all.q.at(2, 3, 3 + i, 2 + c)) << values;
      for (Index j = 0; j < slice.lk; ++j) {
        ASSERT_EQ(part.keep.at(0, 0, i, j), all.keep.at(2, 3, 3 + i, 17 + j));
        ASSERT_EQ(part.bias.at(0, 0, i, j), all.bias.at(2, 3, 3 + i, 17 + j));
      }
    }
  }
}

// Elements are drawn several at once, along rows or along columns; each is what it is alone.
TEST(Inputs, EveryElementOfABlockIsWhatItIsAlone) {
  for (std::size_t values = 0; values < values_count; ++values)
    for (const Index width : {1, 3, 15, 16, 21})
      for (const Index length : {1, 9, 150}) {
        Problem problem = base();
        problem.values = static_cast<Values>(values);
        problem.amplitude = 0.75;
        for (const auto which : {Edit::Tensor::q, Edit::Tensor::k, Edit::Tensor::v}) {
          const DrawnBlock block{1, 2, 3, 1, 5, length, 0, width};
          std::vector<double> all(static_cast<std::size_t>(2 * length * width));
          draw_block(problem, which, block, all);
          for (Index n = 0; n < 2 * length; ++n)
            for (Index c = 0; c < width; ++c) {
              double one = 0;
              draw_rows(problem, which, 1 + n / length, 3, 5 + n % length, c, 1, {&one, 1});
              ASSERT_EQ(all[static_cast<std::size_t>(n * width + c)], one) << values << ' ' << width << ' ' << length;
            }
        }
      }
}

TEST(Inputs, ValuesAreFiniteInEveryDistributionAndFormat) {
  for (std::size_t values = 0; values < values_count; ++values)
    for (const Format dtype : {Format::f16, Format::bf16, Format::f32, Format::f64}) {
      Problem problem = base();
      problem.values = static_cast<Values>(values);
      problem.dtype = dtype;
      problem.amplitude = 1024;
      const Inputs inputs = materialise(problem);
      for (const Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
        const auto n = tensor->shape();
        for (Index i = 0; i < n[2]; ++i)
          for (Index c = 0; c < n[3]; ++c) ASSERT_TRUE(std::isfinite(tensor->at(1, 1, i, c))) << values;
      }
    }
}

// The numbers of k's first column, over the amplitude.
std::vector<double> levels(std::uint64_t seed, Index keys) {
  Problem problem;
  problem.lk = keys, problem.d = 4, problem.dtype = Format::bf16, problem.amplitude = 8;
  problem.values = Values::levels;
  problem.seed = seed;
  const Inputs inputs = materialise(problem);
  EXPECT_EQ(std::fabs(inputs.q.at(0, 0, 0, 0)), 1);
  std::vector<double> found;
  for (Index key = 0; key < keys; ++key) found.push_back(inputs.k.at(0, 0, key, 0) / 8);
  return found;
}

TEST(Inputs, LevelsOfBlocksStand2To30NatsApart) {
  constexpr std::uint64_t seeds = 400;
  std::set<Index> lengths;
  std::set<double> steps;
  std::size_t rising = 0, falling = 0, scattered = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const std::vector<double> found = levels(seed, 1024);
    // Where the level changes, and by how much.
    std::vector<Index> starts{0};
    std::vector<double> changes;
    for (std::size_t key = 1; key < found.size(); ++key)
      if (found[key] != found[key - 1]) {
        starts.push_back(static_cast<Index>(key));
        changes.push_back(found[key] - found[key - 1]);
        ASSERT_GE(std::fabs(changes.back()), 2) << seed;
        ASSERT_LE(std::fabs(changes.back()), 30) << seed;
      }
    ASSERT_GE(starts.size(), 3u) << seed;
    Index length = starts[1];
    for (std::size_t n = 2; n < starts.size(); ++n) length = std::min(length, starts[n] - starts[n - 1]);
    for (const Index start : starts) ASSERT_EQ(start % length, 0) << seed;
    lengths.insert(length);
    const bool even = std::ranges::all_of(changes, [&](double x) { return std::fabs(x) == std::fabs(changes[0]); });
    if (even) steps.insert(std::fabs(changes[0]));
    (!even ? scattered : changes[0] > 0 ? rising : falling) += 1;
  }
  EXPECT_GT(rising, seeds / 8);
  EXPECT_GT(falling, seeds / 8);
  EXPECT_GT(scattered, seeds / 4);
  for (const Index length : {16, 32, 64, 128}) EXPECT_TRUE(lengths.contains(length)) << length;
  EXPECT_GT(lengths.size(), 20u);
  EXPECT_GT(steps.size(), 20u);
}

TEST(Inputs, EndsAreOnBothSidesAndLeaveRoomForAMaskThatIsAdded) {
  int rising = 0;
  for (const Format dtype : {Format::f16, Format::bf16, Format::f32, Format::f64})
    for (std::uint64_t seed = 0; seed < 32; ++seed) {
      Problem problem;
      problem.lk = 400, problem.d = 2, problem.dtype = dtype, problem.values = Values::ends, problem.seed = seed;
      const Inputs inputs = materialise(problem);
      const double largest = largest_finite(dtype);
      Index above = 0, above_in_first_half = 0;
      for (Index key = 0; key < problem.lk; ++key) {
        const double k = inputs.k.at(0, 0, key, 0);
        above += k > 0;
        above_in_first_half += k > 0 && key < 200;
        EXPECT_GE(std::fabs(k), largest * 0.37);
        EXPECT_LE(std::fabs(k), largest * 0.94);
        EXPECT_EQ(inputs.k.at(0, 0, key, 1), 0);
      }
      EXPECT_EQ(std::fabs(inputs.q.at(0, 0, 0, 0)), 1);
      if (above_in_first_half == 0) {
        EXPECT_EQ(above, 200);  // the other half lies at the other end
        ++rising;
      } else {
        EXPECT_NEAR(static_cast<double>(above), 200, 50);
        EXPECT_NEAR(static_cast<double>(above_in_first_half), 100, 40);
      }
    }
  EXPECT_GT(rising, 4 * 32 / 4);
  EXPECT_LT(rising, 4 * 32 * 3 / 4);
}

TEST(Inputs, ANullKeyIsTheFirstOfEveryHeadAndItsValue) {
  for (const Layout layout : {Layout::bhsd, Layout::bshd, Layout::spaced}) {
    Problem problem = base(), plain = base();
    problem.k_layout = plain.k_layout = layout;
    problem.null_key = true;
    const Inputs inputs = materialise(problem), others = materialise(plain);
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hkv; ++h)
        for (Index j = 0; j < problem.lk; ++j) {
          EXPECT_EQ(inputs.k.at(b, h, j, 1), j == 0 ? 0 : others.k.at(b, h, j, 1));
          EXPECT_EQ(inputs.v.at(b, h, j, 1), j == 0 ? 0 : others.v.at(b, h, j, 1));
        }
    EXPECT_EQ(inputs.q.at(0, 0, 0, 1), others.q.at(0, 0, 0, 1));
    problem.lk0 = 1;  // without that key
    EXPECT_NE(materialise(problem).k.at(0, 0, 0, 1), 0);
  }
}

TEST(Inputs, BroadcastLayoutsRepeatTheFirst) {
  Problem problem = base();
  problem.k_layout = Layout::broadcast_rows;
  problem.v_layout = Layout::broadcast_heads;
  problem.q_layout = Layout::broadcast_batch;
  const Inputs inputs = materialise(problem);
  EXPECT_EQ(inputs.k.at(1, 1, 9, 2), inputs.k.at(1, 1, 0, 2));
  EXPECT_NE(inputs.k.at(1, 1, 9, 2), inputs.k.at(1, 0, 9, 2));
  EXPECT_EQ(inputs.v.at(1, 1, 9, 2), inputs.v.at(1, 0, 9, 2));
  EXPECT_EQ(inputs.q.at(2, 1, 4, 2), inputs.q.at(0, 1, 4, 2));
}

TEST(Inputs, MaskAxesThatAreLeftOutHaveStrideZero) {
  Problem problem = base();
  problem.keep_axes = 8;
  problem.bias_axes = 5;
  const Inputs inputs = materialise(problem);
  EXPECT_EQ(inputs.keep.strides()[0], 0);
  EXPECT_EQ(inputs.keep.strides()[2], 0);
  EXPECT_EQ(inputs.bias.strides()[1], 0);
  EXPECT_EQ(inputs.bias.strides()[3], 0);
  EXPECT_EQ(inputs.keep.at(2, 3, 4, 11), inputs.keep.at(0, 0, 0, 11));
  EXPECT_EQ(inputs.keep.shape()[0], 3);
}

TEST(Inputs, EditsAreTheLastWord) {
  Problem problem = base();
  problem.edits = {{Edit::Tensor::k, {1, 0, 5, 2}, 0.1}, {Edit::Tensor::kv_lengths, {2, 0, 0, 0}, 7}};
  const Inputs inputs = materialise(problem);
  EXPECT_EQ(inputs.k.at(1, 0, 5, 2), static_cast<double>(0.1f));
  EXPECT_EQ(inputs.kv_lengths.at(2), 7);
}

// Past every 32-bit index, at steps that keep alignment, along the first axis of a few elements.
TEST(Inputs, RowsFarApartAreBeyond32Bits) {
  for (const std::array<Index, 4>& shape : {std::array<Index, 4>{2, 3, 4, 5}, {1, 16, 4, 5}, {70000, 1, 3, 1}}) {
    const Placement far = place(Layout::far, shape);
    Index last = 0, apart = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      last += (shape[axis] - 1) * far.strides[axis];
      if (far.strides[axis] % 256 == 0 && far.strides[axis] >= Index{1} << 28) apart = shape[axis];
    }
    EXPECT_GE(last, Index{1} << 32);
    EXPECT_LE(last, (Index{1} << 32) + (Index{1} << 20));
    EXPECT_TRUE(apart >= 2 && apart <= 16) << apart;
    EXPECT_EQ(far.strides[3], 1);
  }
  const std::array<Index, 4> one{1, 1, 1, 5}, long_rows{1, 1, 17, 5};
  EXPECT_EQ(place(Layout::far, one).strides, place(Layout::bhsd, one).strides);
  EXPECT_EQ(place(Layout::far, long_rows).strides, place(Layout::bhsd, long_rows).strides);
}

// The memory around a slice belongs to a larger tensor: rows and heads do not follow each other.
TEST(Inputs, ASliceIsTheInteriorOfALargerTensor) {
  for (const Index width : {1, 2, 3, 4}) {
    const std::array<Index, 4> shape{3, 2, 5, width};
    const Placement slice = place(Layout::slice, shape);
    EXPECT_EQ(slice.strides[3], 1);
    EXPECT_EQ(slice.strides[2] % 2, 1);
    EXPECT_GT(slice.strides[2], width);
    EXPECT_GT(slice.strides[1], 5 * slice.strides[2]);
    EXPECT_GT(slice.base_offset, slice.strides[2]);
    Tensor tensor(DType::f16, shape, slice.strides, slice.base_offset);
    tensor.poison();
    EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
    tensor.span_bytes()[0] = std::byte{1};  // before the first element
    EXPECT_EQ(tensor.damage(), Tensor::Damage::gap);
  }
}

TEST(Inputs, ABiasHasATypeOfItsOwn) {
  Problem problem = base();
  problem.dtype = Format::f16;
  problem.bias = Bias::empty_lowest;
  for (const auto& [type, dtype, lowest] :
       {std::tuple{BiasType::same, DType::f16, -65504.0}, std::tuple{BiasType::f16, DType::f16, -65504.0},
        std::tuple{BiasType::f32, DType::f32, -0x1.FFFFFEp127}, std::tuple{BiasType::bf16, DType::bf16, -0x1.FEp127},
        std::tuple{BiasType::f64, DType::f64, -0x1.FFFFFFFFFFFFFp1023}}) {
    problem.bias_type = type;
    const Inputs inputs = materialise(problem);
    EXPECT_EQ(inputs.bias.dtype(), dtype);
    double least = 0;
    for (Index j = 0; j < problem.lk; ++j) least = std::min(least, inputs.bias.at(0, 0, 0, j));
    EXPECT_EQ(least, lowest);
  }
}

TEST(Inputs, HalfOfTheRowsOfAnEmptyEncodingAreEmpty) {
  Problem problem = base();
  problem.bias = Bias::empty_inf;
  problem.keep = Keep::some_empty;
  const Inputs inputs = materialise(problem);
  int biased = 0, kept = 0;
  for (Index b = 0; b < problem.b; ++b)
    for (Index h = 0; h < problem.hq; ++h)
      for (Index i = 0; i < problem.lq; ++i) {
        bool open = false, allowed = false;
        for (Index j = 0; j < problem.lk; ++j) {
          open = open || std::isfinite(inputs.bias.at(b, h, i, j));
          allowed = allowed || inputs.keep.at(b, h, i, j) != 0;
        }
        biased += open ? 0 : 1;
        kept += allowed ? 0 : 1;
      }
  EXPECT_NEAR(biased, 30, 15);  // out of 60
  EXPECT_NEAR(kept, 30, 15);
}

TEST(Inputs, CountedMasksOpenEveryNumberOfKeys) {
  Problem problem;
  problem.b = 40, problem.lq = 50, problem.lk = 24, problem.seed = 5;
  problem.keep = Keep::counted;
  const Inputs inputs = materialise(problem);
  std::array<int, 25> rows{};
  std::array<int, 24> keys{};
  for (Index b = 0; b < problem.b; ++b)
    for (Index i = 0; i < problem.lq; ++i) {
      std::size_t open = 0;
      for (Index j = 0; j < problem.lk; ++j) {
        const bool kept = inputs.keep.at(b, 0, i, j) != 0;
        open += kept ? 1 : 0;
        keys[static_cast<std::size_t>(j)] += kept ? 1 : 0;
      }
      ++rows[open];
    }
  for (const int count : rows) EXPECT_GT(count, 10);
  for (const int count : keys) EXPECT_NEAR(count, 2000 * 7.5 / 24, 150);
}

TEST(Inputs, NormalsHaveTheMomentsTheyClaim) {
  double sum = 0, squares = 0;
  constexpr int n = 1 << 18;
  for (int i = 0; i < n; ++i) {
    const double x = normal(mix(static_cast<std::uint64_t>(i)));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
}

TEST(Inputs, JudgedRowsAreDrawnFromFirstToLast) {
  Problem problem = base();
  EXPECT_EQ(judged_rows(problem).size(), 60u);
  problem.rows = 7;
  const auto rows = judged_rows(problem);
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 59);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  std::set<Index> seen;
  for (problem.seed = 1; problem.seed <= 300; ++problem.seed) {
    const std::vector<Index> judged = judged_rows(problem);
    seen.insert(judged.begin(), judged.end());
  }
  EXPECT_EQ(seen.size(), 60u) << "each row is judged under some seed";
}

TEST(Inputs, OneRowOfEachStretchIsDrawn) {
  for (const auto& [wanted, all] :
       {std::pair<Index, Index>{0, 5}, {1, 5}, {2, 5}, {4, 5}, {5, 5}, {9, 5}, {16, Index{1} << 40}}) {
    const std::vector<Index> numbers = drawn(wanted, all, 7);
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(std::min(wanted, all)));
    EXPECT_EQ(std::ranges::adjacent_find(numbers, std::greater_equal{}), numbers.end()) << wanted << " of " << all;
    for (std::size_t n = 1; n < numbers.size(); ++n)
      EXPECT_LE(static_cast<double>(numbers[n] - numbers[n - 1]),
                2.0 * static_cast<double>(all) / static_cast<double>(wanted) + 1);
  }
}

TEST(Inputs, TheCallSaysWhenTheScaleIsTheDefault) {
  Problem problem = base();
  const Inputs defaulted = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  EXPECT_EQ(defaulted.call(out, lse).flags, ATTEST_SCALE_IS_DEFAULT);
  EXPECT_EQ(defaulted.call(out, lse).scale, 1 / std::sqrt(6.0));
  EXPECT_EQ(defaulted.call(out, lse).lse.ndim, 0);
  problem.scale = 0;
  const Inputs given = materialise(problem);
  EXPECT_EQ(given.call(out, lse).flags, 0u);
  EXPECT_EQ(given.call(out, lse).scale, 0);
}

}  // namespace
}  // namespace attest
