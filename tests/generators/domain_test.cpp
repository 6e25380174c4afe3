// A problem that a subject does not support or an assumption excludes is never drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "core/tensor.hpp"
#include "tests/generators/statistics.hpp"

namespace attest {
namespace {

using test::draw_many;
using test::share;

bool in(Index value, const DimRange& range) {
  return value >= range.min && value <= range.max && value % range.multiple == 0;
}

// Why `problem` is outside `supports`; empty if it is inside. Written apart from the generators.
std::string objection(const Problem& p, const Supports& s) {
  const bool window = p.window_left >= 0 || p.window_right >= 0;
  if (p.causal && !s.causal) return "causal";
  if (window && !s.window) return "window";
  if ((p.causal || window) && !(p.align == Align::top_left ? s.top_left : s.bottom_right)) return "align";
  if (p.hq != p.hkv && !s.gqa) return "gqa";
  if (p.bias != Bias::none && !s.bias) return "bias";
  if (p.bias != Bias::none && !s.bias_types[static_cast<std::size_t>(p.bias_type)]) return "bias type";
  if (p.keep != Keep::none && !s.keep) return "keep";
  if (p.lengths != Lengths::none && !s.kv_lengths) return "lengths";
  if (p.softcap != 0 && !s.softcap) return "softcap";
  if (p.lse != LseOutput::none && !s.lse) return "lse";
  if (p.scale && s.scale == Supports::Scale::only_default) return "scale";
  if (p.scale && !(*p.scale > 0) && s.scale == Supports::Scale::positive) return "scale sign";
  if (!in(p.b, s.b) || !in(p.hq, s.hq) || !in(p.hkv, s.hkv) || !in(p.lq, s.lq) || !in(p.lk, s.lk)) return "length";
  if (!in(p.d, s.d) || !in(p.dv, s.dv)) return "width";
  if (s.dv_equals_d && p.d != p.dv) return "dv";
  return {};
}

// The same for a tensor's strides and alignment.
std::string objection(const Placement& placement, const std::array<Index, 4>& shape, Format dtype, const Supports& s) {
  const auto& strides = placement.strides;
  if (s.strides != Supports::Strides::any && strides[3] != 1) return "last stride";
  if (s.strides == Supports::Strides::contiguous) {
    Index expected = 1;
    for (std::size_t axis = 4; axis-- > 0; expected *= shape[axis])
      if (strides[axis] != expected) return "not contiguous";
  }
  const auto bytes = static_cast<Index>(size_of(dtype_of(dtype)));
  if (placement.base_offset * bytes % s.alignment != 0) return "base";
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (strides[axis] * bytes % s.alignment != 0) return "row alignment";
  return {};
}

void expect_supported(const Supports& supports, const std::vector<Format>& dtypes) {
  for (const Problem& p : draw_many(Domain(supports, dtypes), 5, 3000)) {
    ASSERT_NO_THROW(validate(p)) << to_text(p);
    ASSERT_EQ(objection(p, supports), "") << to_text(p);
    ASSERT_NE(std::find(dtypes.begin(), dtypes.end(), p.dtype), dtypes.end());
    const std::array<Index, 4> q{p.b, p.hq, p.lq, p.d}, k{p.b, p.hkv, p.lk, p.d}, v{p.b, p.hkv, p.lk, p.dv},
        out{p.b, p.hq, p.lq, p.dv}, mask{p.b, p.hq, p.lq, p.lk};
    ASSERT_EQ(objection(place(p.q_layout, q), q, p.dtype, supports), "") << to_text(p);
    ASSERT_EQ(objection(place(p.k_layout, k), k, p.dtype, supports), "") << to_text(p);
    ASSERT_EQ(objection(place(p.v_layout, v), v, p.dtype, supports), "") << to_text(p);
    ASSERT_EQ(objection(place(p.out_layout, out), out, p.dtype, supports), "") << to_text(p);
    Supports unaligned = supports;
    unaligned.alignment = 1;  // an alignment speaks of q, k, v and out
    ASSERT_EQ(objection(place(p.mask_layout, mask), mask, p.dtype, unaligned), "") << to_text(p);
    const Index axes = p.keep_axes & p.bias_axes;
    ASSERT_TRUE(supports.strides != Supports::Strides::contiguous || axes == 15) << to_text(p);
    ASSERT_TRUE(supports.strides != Supports::Strides::last_dim_contiguous || (axes & 8)) << to_text(p);
  }
}

constexpr Index unbounded = std::numeric_limits<Index>::max();

TEST(Domain, DrawsWhatEverySubjectSupports) { expect_supported(Supports{}, {Format::f16, Format::f64}); }

TEST(Domain, DrawsNoOptionThatASubjectLacks) {
  Supports s;
  s.causal = s.gqa = s.bias = s.keep = s.kv_lengths = s.window = s.softcap = s.lse = false;
  s.scale = Supports::Scale::only_default;
  expect_supported(s, {Format::f32});
}

TEST(Domain, KeepsToOneCornerOneBiasTypeAndPositiveScales) {
  Supports s;
  s.top_left = s.bias_types[0] = false;
  s.scale = Supports::Scale::positive;
  expect_supported(s, {Format::bf16});
  s.bottom_right = false;  // no corner at all: no diagonal
  expect_supported(s, {Format::bf16});
  const auto problems = draw_many(Domain(s, {Format::bf16}), 6, 1000);
  EXPECT_EQ(share(problems, [](const Problem& p) { return p.causal || p.window_left >= 0; }), 0);
}

TEST(Domain, KeepsToContiguousTensors) {
  Supports s;
  s.strides = Supports::Strides::contiguous;
  expect_supported(s, {Format::f16, Format::f32});
  s.strides = Supports::Strides::last_dim_contiguous;
  expect_supported(s, {Format::f16, Format::f32});
}

TEST(Domain, KeepsToAlignedRows) {
  Supports s;
  s.strides = Supports::Strides::last_dim_contiguous;
  s.alignment = 16;
  s.gqa = false;
  expect_supported(s, {Format::f16, Format::f32, Format::f64});
  s.strides = Supports::Strides::any;
  expect_supported(s, {Format::f16});
}

TEST(Domain, KeepsToDimensions) {
  Supports s;
  s.b = {2, 6, 2};
  s.hq = {3, 96, 3};
  s.hkv = {3, 48, 1};
  s.lq = {1, 1, 1};
  s.lk = {16, unbounded, 16};
  s.d = {8, 256, 8};
  s.dv_equals_d = true;
  expect_supported(s, {Format::f16});
  s.hkv = {1, 1, 1};
  s.dv_equals_d = false;
  s.dv = {64, 64, 64};
  expect_supported(s, {Format::f16});
  s.hkv = {0, 48, 3};  // the least number of heads is 3, where there are any
  s.hq = {0, unbounded, 1};
  expect_supported(s, {Format::f16});
  s.hkv = {1, unbounded, 4};
  s.hq = {2, unbounded, 6};
  expect_supported(s, {Format::f16});
}

TEST(Domain, ALargeSmallestProblemLeavesVariety) {
  Supports s;
  s.d = s.dv = {64, 256, 64};
  const auto problems = draw_many(Domain(s, {Format::f16}), 12, 5000);
  EXPECT_LT(share(problems, [](const Problem& p) { return p.b * p.hq * p.lq * p.lk == 1; }), 0.3);
  EXPECT_GT(share(problems, [](const Problem& p) { return p.lk >= 256; }), 0.01);
  EXPECT_GT(share(problems, [](const Problem& p) { return p.d == 256; }), 0.01);
}

TEST(Domain, DrawsEmptyDimensionsOnlyWhereTheyAreAllowed) {
  const auto empty = [](const Problem& p) { return p.b == 0 || p.hq == 0 || p.lq == 0 || p.lk == 0 || p.d == 0; };
  Supports s;
  EXPECT_EQ(share(draw_many(Domain(s, {Format::f32}), 7, 3000), empty), 0);
  s.b.min = s.hq.min = s.hkv.min = s.lq.min = s.lk.min = s.d.min = s.dv.min = 0;
  expect_supported(s, {Format::f32});
  const auto problems = draw_many(Domain(s, {Format::f32}), 7, 3000);
  EXPECT_GT(share(problems, empty), 0.01);
  EXPECT_LT(share(problems, empty), 0.06);
}

TEST(Domain, NarrowsFieldsWithoutFiltering) {
  Domain domain(Supports{}, {Format::f32});
  domain.narrow("lk", 40, 50);
  domain.narrow("hkv", 2, 2);
  domain.narrow("causal", 1, 1);
  domain.narrow("keep", static_cast<Index>(Keep::prefix), static_cast<Index>(Keep::suffix));
  domain.narrow("window_left", 5, 1000);
  domain.narrow("q_layout", static_cast<Index>(Layout::spaced), static_cast<Index>(Layout::spaced));
  domain.narrow("threads", 16, 16);
  for (const Problem& p : draw_many(domain, 8, 2000)) {
    ASSERT_NO_THROW(validate(p));
    ASSERT_TRUE(p.lk >= 40 && p.lk <= 50 && p.hkv == 2 && p.hq % 2 == 0 && p.causal);
    ASSERT_TRUE(p.keep == Keep::prefix || p.keep == Keep::suffix);
    ASSERT_TRUE(p.window_left >= 5 && p.window_left <= 1000 && p.threads == 16);
    ASSERT_EQ(p.q_layout, Layout::spaced);
  }
}

TEST(Domain, EveryDrawnFieldCanBeNarrowedToEachOfItsEnds) {
  for (const Field& field : fields()) {
    for (const bool low : {true, false}) {
      Domain domain(Supports{}, {Format::f32});
      const Index end =
          low ? std::max<Index>(field.lo, field.name.size() <= 3 && field.name != "lse" ? 1 : field.lo) : field.hi;
      try {
        domain.narrow(field.name, end, end);
      } catch (const Error&) {
        continue;  // not drawn within a range, or outside what can be drawn (a broadcast output, say)
      }
      for (const Problem& p : draw_many(domain, 9, 50)) ASSERT_EQ(field.get(p), end) << to_text(p);
    }
  }
}

TEST(Domain, AssumedPredicatesHoldForEveryProblem) {
  Domain domain(Supports{}, {Format::f32});
  domain.assume([](const Problem& p) { return p.lq <= p.lk; });
  domain.assume([](const Problem& p) { return p.effective_scale() > 0; });
  for (const Problem& p : draw_many(domain, 10, 2000)) ASSERT_TRUE(p.lq <= p.lk && p.effective_scale() > 0);
}

TEST(Domain, SaysWhenNothingIsLeft) {
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([] { Domain(Supports{}, {}); }), "the domain holds no problem: no dtype to draw");
  Supports s;
  s.d = {2000, 4000, 1};
  EXPECT_EQ(message([&] { Domain(s, {Format::f32}); }), "the domain holds no problem: nothing is left of d");
  Domain domain(Supports{}, {Format::f32});
  EXPECT_EQ(message([&] { domain.narrow("lk", 9, 8); }), "the domain holds no problem: nothing is left of lk");
  EXPECT_EQ(message([&] { domain.narrow("scale", 0, 1); }),
            "field scale has no range to narrow: state it as a predicate");
  s = {};
  s.strides = Supports::Strides::contiguous;
  Domain contiguous(s, {Format::f32});
  EXPECT_EQ(message([&] { contiguous.narrow("k_layout", 1, 2); }),
            "the domain holds no problem: nothing is left of k_layout");
  Domain never(Supports{}, {Format::f32});
  never.assume([](const Problem&) { return false; });
  EXPECT_NE(message([&] { draw_problem(never, 1, 0, 1); }).find("widen --assume"), std::string::npos);
}

}  // namespace
}  // namespace attest
