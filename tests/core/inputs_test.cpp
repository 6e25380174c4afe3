#include "core/inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/rng.hpp"

namespace attest {
namespace {

std::uint64_t hash(const Tensor& tensor) {
  std::uint64_t key = 0;
  for (const std::byte byte : tensor.bytes()) key = extend(key, static_cast<std::uint64_t>(byte));
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

// Bits, not closeness: these must never change, on any machine, compiler or optimisation level.
TEST(Inputs, GoldenBits) {
  std::uint64_t key = 0;
  for (std::size_t values = 0; values < values_count; ++values)
    for (const Format dtype : {Format::f16, Format::bf16, Format::f32, Format::f64}) {
      Problem problem = base();
      problem.dtype = dtype;
      problem.values = static_cast<Values>(values);
      problem.bias = static_cast<Bias>(values % bias_count);
      problem.keep = static_cast<Keep>(values % keep_count);
      problem.k_layout = static_cast<Layout>(values % layout_count);
      problem.v_form = static_cast<Form>(values % form_count);
      key = extend(key, hash(materialise(problem)));
    }
  EXPECT_EQ(key, 0x174e78c33fc45c39u) << std::hex << key;
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

TEST(Inputs, JudgedRowsAreSpreadFromFirstToLast) {
  Problem problem = base();
  EXPECT_EQ(judged_rows(problem).size(), 60u);
  problem.rows = 7;
  const auto rows = judged_rows(problem);
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 59);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
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
