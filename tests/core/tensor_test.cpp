#include "core/tensor.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "core/rng.hpp"

namespace attest {
namespace {

constexpr std::array<Index, 4> shape{2, 3, 4, 5};

Tensor laid_out(Layout layout, DType type = DType::f32) {
  const Placement placement = place(layout, shape);
  return Tensor(type, shape, placement.strides, placement.base_offset);
}

TEST(Tensor, ElementsKeepTheirValuesInEveryLayout) {
  for (std::size_t l = 0; l < layout_count; ++l) {
    const auto layout = static_cast<Layout>(l);
    if (broadcasts(layout)) continue;
    Tensor tensor = laid_out(layout, DType::f16);
    for (Index i = 0; i < tensor.size(); ++i) tensor.set(i / 60, i / 20 % 3, i / 5 % 4, i % 5, static_cast<double>(i));
    for (Index i = 0; i < tensor.size(); ++i)
      ASSERT_EQ(tensor.at(i / 60, i / 20 % 3, i / 5 % 4, i % 5), static_cast<double>(i)) << l;
    EXPECT_EQ(tensor.damage(), Tensor::Damage::none) << l;
  }
}

TEST(Tensor, UnwrittenMemoryReadsAsNan) {
  const Tensor tensor = laid_out(Layout::padded_rows);
  EXPECT_TRUE(std::isnan(tensor.at(1, 2, 3, 4)));
  const attest_tensor view = tensor.view();
  EXPECT_TRUE(std::isnan(static_cast<double>(*(static_cast<const float*>(attest_at(&view, 0, 0, 0, 0)) - 1))));
}

TEST(Tensor, GuardsTellWhereSomethingWasWritten) {
  for (const auto& [column, expected] :
       {std::pair<Index, Tensor::Damage>{-1, Tensor::Damage::before}, {5, Tensor::Damage::gap}}) {
    Tensor tensor = laid_out(Layout::padded_rows);
    tensor.poison();
    EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
    tensor.set(0, 0, 0, column, 1);
    EXPECT_EQ(tensor.damage(), expected);
  }
  Tensor tensor = laid_out(Layout::bhsd);
  tensor.set(1, 2, 3, 5, 1);
  EXPECT_EQ(tensor.damage(), Tensor::Damage::after);
}

// Whoever reads a guard or a gap of an output meets a NaN, and no byte of it is one of an input's.
TEST(Tensor, FencesAreNanOfEveryTypeAndDifferFromInputs) {
  std::set<std::uint64_t> words;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    const std::uint64_t word = fence_word(mix(key));
    words.insert(word);
    for (int byte = 0; byte < 8; ++byte) EXPECT_NE(word >> 8 * byte & 0xFF, 0xFFu);
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      Tensor tensor = laid_out(Layout::bhsd, type);
      tensor.poison(word);
      EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
      for (Index behind = 5; behind < 9; ++behind) EXPECT_TRUE(std::isnan(tensor.at(1, 2, 3, behind)));
      tensor.poison(word ^ 1);
      EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
    }
  }
  EXPECT_GT(words.size(), 900u);
}

// Every byte between the guards that is part of no element, in every layout.
TEST(Tensor, EveryGapIsWatched) {
  for (std::size_t l = 0; l < layout_count; ++l) {
    const auto layout = static_cast<Layout>(l);
    if (broadcasts(layout) || layout == Layout::far) continue;
    for (const DType type : {DType::f16, DType::f32, DType::f64}) {
      Tensor tensor = laid_out(layout, type);
      const std::uint64_t fence = type == DType::f32 ? Tensor::plain_fence : fence_word(l);
      tensor.poison(fence);
      const std::span<std::byte> bytes = tensor.span_bytes();
      std::vector<bool> is_element(bytes.size());
      const attest_tensor view = tensor.view();
      for (Index i = 0; i < tensor.size(); ++i) {
        ASSERT_TRUE(tensor.is_poison(i / 60, i / 20 % 3, i / 5 % 4, i % 5)) << l;
        const auto* at = static_cast<const std::byte*>(attest_at(&view, i / 60, i / 20 % 3, i / 5 % 4, i % 5));
        std::fill_n(is_element.begin() + (at - bytes.data()), size_of(type), true);
      }
      EXPECT_EQ(tensor.damage(), Tensor::Damage::none) << l;
      for (std::size_t n = 0; n < bytes.size(); ++n) {
        if (is_element[n]) continue;
        const std::byte held = bytes[n];
        bytes[n] = held == std::byte{0xFF} ? std::byte{0xFE} : std::byte{0xFF};  // as of an input
        ASSERT_EQ(tensor.damage(), Tensor::Damage::gap) << l << ' ' << n;
        bytes[n] = held;
      }
    }
  }
}

// Once every element is written, nothing tells the two apart: guards and gaps are there, whatever the memory held
// before.
TEST(Tensor, WhatIsToBeWrittenEndsAsOneThatStartedAs0xFF) {
  for (std::size_t l = 0; l < layout_count; ++l)
    for (unsigned shared = 0; shared < 16; ++shared)
      for (Index n = 0; n < 81; ++n) {
        const std::array<Index, 4> small{1 + n / 27, 1 + n / 9 % 3, 1 + n / 3 % 3, 1 + n % 3};
        const auto layout = static_cast<Layout>(l);
        if (layout == Layout::far) continue;
        const Placement placement = place(layout, small, shared);
        Tensor plain(DType::f32, small, placement.strides, placement.base_offset);
        plain.poison();
        {
          Tensor before = plain.clone();
          std::ranges::fill(before.span_bytes(), std::byte{0});
        }
        Tensor written = Tensor::to_be_written(DType::f32, small, placement.strides, placement.base_offset);
        written.poison();
        ASSERT_EQ(written.parts().count, 1u);
        ASSERT_TRUE(std::ranges::equal(written.parts().part(0), plain.parts().part(0)))
            << l << ' ' << shared << ' ' << n;
      }
}

// Indices that share the memory of one element leave no gap, and it is poisoned once.
TEST(Tensor, BroadcastsArePoisonedAndWatched) {
  Tensor tensor = laid_out(Layout::broadcast_rows);
  tensor.poison();
  EXPECT_TRUE(tensor.is_poison(1, 2, 3, 4));
  EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
}

TEST(Tensor, FillingWritesEveryElementAndNothingElse) {
  for (std::size_t l = 0; l < layout_count; ++l)
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32, DType::boolean}) {
      Tensor tensor = laid_out(static_cast<Layout>(l), type);
      tensor.fill(1);
      for (Index i = 0; i < tensor.size(); ++i) ASSERT_EQ(tensor.at(i / 60, i / 20 % 3, i / 5 % 4, i % 5), 1) << l;
      EXPECT_EQ(tensor.damage(), Tensor::Damage::none) << l;
    }
  Tensor rounded = laid_out(Layout::bhsd, DType::bf16), none(DType::f32, std::array<Index, 4>{2, 0, 1, 1});
  rounded.fill(0.1);
  EXPECT_EQ(rounded.at(1, 2, 3, 4), 0x1.9Ap-4);
  none.fill(1);
  EXPECT_EQ(none.damage(), Tensor::Damage::none);
}

TEST(Tensor, PoisonIsNanAndKnownAgain) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor tensor = laid_out(Layout::spaced, type);
    tensor.poison();
    EXPECT_TRUE(std::isnan(tensor.at(1, 1, 1, 1)));
    EXPECT_TRUE(tensor.is_poison(1, 1, 1, 1));
    tensor.set(1, 1, 1, 1, NAN);
    EXPECT_FALSE(tensor.is_poison(1, 1, 1, 1));
    EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
  }
}

TEST(Tensor, ViewsAndClonesStayValidAcrossMoves) {
  Tensor tensor = laid_out(Layout::bshd);
  tensor.set(1, 2, 3, 4, 7);
  const attest_tensor view = tensor.view();
  const Tensor moved = std::move(tensor);
  EXPECT_EQ(load(view, 1, 2, 3, 4), 7);
  const Tensor copy = moved.clone();
  EXPECT_EQ(copy.at(1, 2, 3, 4), 7);
  EXPECT_NE(copy.parts().first, moved.parts().first);
}

TEST(Tensor, BasesAreAlignedUnlessTheLayoutSaysOtherwise) {
  const Tensor aligned = laid_out(Layout::bhsd), odd = laid_out(Layout::odd_base);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned.view().data) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(odd.view().data) % 64, 4u);
}

TEST(Tensor, EmptyShapesHaveDataAndNoElements) {
  const Tensor tensor(DType::f32, std::array<Index, 4>{2, 0, 3, 4});
  EXPECT_EQ(tensor.size(), 0);
  EXPECT_NE(tensor.view().data, nullptr);
  EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
}

// The memory that this process holds, in bytes.
std::size_t resident() {
  std::size_t total = 0, held = 0;
  std::ifstream("/proc/self/statm") >> total >> held;
  return held * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Tensor, RowsFarApartHoldWhatTheyNeedAlone) {
  const std::size_t before = resident();
  Tensor tensor = laid_out(Layout::far);
  const MemoryParts parts = tensor.parts();
  EXPECT_EQ(parts.count, 2u);
  EXPECT_GE(parts.step, std::size_t{1} << 34);  // 2^32 elements of four bytes
  EXPECT_GE(parts.size, std::size_t{60 * 4});
  EXPECT_LE(parts.size, std::size_t{1} << 12);
  tensor.poison();
  tensor.set(1, 2, 3, 4, 7);
  EXPECT_EQ(tensor.damage(), Tensor::Damage::none);
  const Tensor copy = tensor.clone();
  EXPECT_EQ(copy.at(1, 2, 3, 4), 7);
  EXPECT_TRUE(copy.is_poison(0, 0, 0, 0));
  EXPECT_EQ(copy.damage(), Tensor::Damage::none);
  EXPECT_LE(resident(), before + (std::size_t{1} << 20));
}

TEST(Tensor, GuardsOfPartsThatLieFarApart) {
  for (const auto& [sample, column, expected] :
       {std::tuple<Index, Index, Tensor::Damage>{0, -1, Tensor::Damage::before},
        {0, 60, Tensor::Damage::gap},
        {1, -1, Tensor::Damage::gap},
        {1, 60, Tensor::Damage::after}}) {
    Tensor tensor = laid_out(Layout::far);
    tensor.set(sample, 0, 0, column, 1);
    EXPECT_EQ(tensor.damage(), expected) << sample << ' ' << column;
  }
}

TEST(Tensor, RefusesAbsurdSizes) {
  const std::array<Index, 4> many{1 << 16, 1, 1, 1 << 20}, far{Index{1} << 22, 1 << 20, 1 << 20, 1};
  EXPECT_THROW(Tensor(DType::f16, many, far), Error);
  EXPECT_THROW(Tensor(DType::f64, std::array<Index, 4>{1 << 20, 1 << 20, 1 << 20, 1 << 20}), Error);
}

}  // namespace
}  // namespace attest
