#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "core/inputs.hpp"

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
  EXPECT_NE(copy.bytes().data(), moved.bytes().data());
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

TEST(Tensor, RefusesAbsurdSizes) {
  EXPECT_THROW(Tensor(DType::f64, std::array<Index, 4>{1 << 20, 1 << 20, 1 << 20, 1 << 20}), Error);
}

}  // namespace
}  // namespace attest
