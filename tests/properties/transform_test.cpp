#include "properties/transform.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "properties/derive.hpp"

namespace attest::properties {
namespace {

constexpr std::array<Index, 4> shape{2, 3, 4, 5};
constexpr DType types[] = {DType::boolean, DType::bf16, DType::f32, DType::f64};

// Elements that differ, of those that a type tells apart.
Tensor numbered(DType type, Layout layout, unsigned shared = 0) {
  Tensor tensor = laid_out(type, layout, shape, shared);
  double next = 0;
  for_each_stored(tensor, [&](Index b, Index h, Index i, Index c) { tensor.set(b, h, i, c, next += 1); });
  return tensor;
}

template <class Visit>
void for_each_layout(Visit&& visit) {
  for (std::size_t l = 0; l < layout_count; ++l)
    if (static_cast<Layout>(l) != Layout::far) visit(static_cast<Layout>(l));
}

TEST(Transform, RowsAreCopiedBetweenAnyLayoutsAndNothingElseIs) {
  for_each_layout([](Layout from_layout) {
    for_each_layout([&](Layout to_layout) {
      for (const DType type : types) {
        const Tensor from = numbered(type, from_layout);
        Tensor to = laid_out(type, to_layout, shape, 0);
        to.fill(0);
        copy_row(from.view(), {1, 2, 3, 1}, to.view(), {0, 1, 2, 2}, 3);
        for (Index c = 0; c < 5; ++c)
          ASSERT_EQ(to.at(0, 1, 2, c), c < 2 ? 0 : from.at(1, 2, 3, c - 1))
              << static_cast<int>(from_layout) << ' ' << static_cast<int>(to_layout) << ' ' << static_cast<int>(type);
        EXPECT_EQ(to.damage(), Tensor::Damage::none);
        if (!broadcasts(to_layout)) {
          EXPECT_EQ(to.at(0, 1, 1, 2), 0);
        }
      }
    });
  });
}

TEST(Transform, ACopiedNanKeepsItsPayload) {
  const std::uint32_t bits = 0x7FA12345;
  for (const Layout layout : {Layout::bhsd, Layout::spaced}) {
    const Tensor from = numbered(DType::f32, layout), to = numbered(DType::f32, layout);
    std::memcpy(address_of(from.view(), {1, 1, 1, 1}), &bits, sizeof bits);
    copy_row(from.view(), {1, 1, 1, 0}, to.view(), {0, 0, 0, 0}, 5);
    std::uint32_t copied = 0;
    std::memcpy(&copied, address_of(to.view(), {0, 0, 0, 1}), sizeof copied);
    EXPECT_EQ(copied, bits);
  }
}

// Shared axes too: a tensor that lacks an axis in memory gives one that lacks it.
TEST(Transform, WholeRowsAreWhatElementsAre) {
  const auto source = [](std::array<Index, 4> at) {
    return std::array<Index, 4>{1 - at[0], at[1], (at[2] + 3) % 4, at[3] + 1};
  };
  constexpr std::array<Index, 4> part{2, 3, 6, 4};
  for_each_layout([&](Layout layout) {
    for (unsigned shared = 0; shared < 8; ++shared) {
      const Tensor from = numbered(DType::bf16, layout, shared);
      const Tensor rows = picked_rows(from, layout, part, source), elements = picked(from, layout, part, source);
      for (Index n = 0; n < rows.size(); ++n)
        ASSERT_EQ(rows.at(n / 72, n / 24 % 3, n / 4 % 6, n % 4), elements.at(n / 72, n / 24 % 3, n / 4 % 6, n % 4))
            << static_cast<int>(layout) << ' ' << shared;
      EXPECT_EQ(rows.damage(), Tensor::Damage::none);
    }
  });
  EXPECT_FALSE(picked_rows(Tensor(), Layout::bhsd, part, source).present());
}

TEST(Transform, SamplesAreGatheredAndLayoutsChangedBitByBit) {
  for_each_layout([](Layout layout) {
    Inputs inputs;
    inputs.q = numbered(DType::f16, layout);
    const Index samples[] = {1, 1, 0};
    const Inputs gathered = gather_samples(inputs, samples);
    const Tensor other = relaid(inputs.q, Layout::spaced);
    for (Index b = 0; b < 3; ++b)
      for (Index n = 0; n < 60; ++n) {
        const Index h = n / 20, i = n / 5 % 4, c = n % 5;
        ASSERT_EQ(gathered.q.at(b, h, i, c), inputs.q.at(b < 2 ? 1 : 0, h, i, c));
        if (b < 2) {
          ASSERT_EQ(other.at(b, h, i, c), inputs.q.at(b, h, i, c));
        }
      }
    EXPECT_EQ(gathered.q.damage(), Tensor::Damage::none);
    EXPECT_EQ(other.damage(), Tensor::Damage::none);
  });
}

}  // namespace
}  // namespace attest::properties
