// A call says the same in its own bytes as in JSON, and what is no call is refused.
#include "subjects/packed_call.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/layer_norm/call.hpp"
#include "core/mha/call.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest {
namespace {

using testing::SmallCall;

constexpr std::size_t arena_bytes = 131072;

struct Packed {
  std::vector<std::byte> bytes = std::vector<std::byte>(4096);
  std::vector<TensorOffsets> offsets{1};

  explicit Packed(const Call& call) {
    for (std::size_t i = 0; i < most_tensors; ++i) offsets[0][i] = 4096 * (i + 1);
    EXPECT_GT(pack({0, 3, 10000, arena_bytes, 0}, std::array{call}, offsets, bytes), 0u);
  }
  [[nodiscard]] std::span<const std::byte> call() const { return Unpacker(bytes).next(); }
};

void expect_equal(const attest_tensor& a, const attest_tensor& b) {
  EXPECT_EQ(a.data, b.data);
  ASSERT_EQ(a.ndim, b.ndim);
  EXPECT_EQ(a.dtype.bits, b.dtype.bits);
  EXPECT_EQ(a.dtype.code, b.dtype.code);
  for (std::int32_t axis = 0; axis < a.ndim; ++axis) {
    EXPECT_EQ(a.shape[axis], b.shape[axis]);
    EXPECT_EQ(a.strides[axis], b.strides[axis]);
  }
}

TEST(PackedCall, SaysWhatTheMessageSays) {
  SmallCall small(5, DType::f16);
  small.v = Tensor(DType::f16, std::array<Index, 4>{1, 1, 2, 5}, std::array<Index, 4>{0, 0, 0, 2}, 3);
  small.lse = Tensor(DType::f32, std::array<Index, 3>{1, 1, 1});
  Tensor keep(DType::boolean, std::array<Index, 4>{1, 1, 1, 2});
  attest_attention call = small.call();
  call.keep = keep.view();
  call.scale = 0.1;
  call.softcap = 30;
  call.causal = 1;
  call.align = ATTEST_BOTTOM_RIGHT;
  call.window_left = std::numeric_limits<std::int64_t>::max();
  call.window_right = -1;
  call.threads = 3;
  call.flags = ATTEST_SCALE_IS_DEFAULT;
  call.form = R"({"hint":"f16","mask":"1d"})";
  const Packed packed(call);
  EXPECT_EQ(Unpacker(packed.bytes).trip().subject, 3u);
  EXPECT_EQ(Unpacker(packed.bytes).trip().calls, 1u);
  std::string line;
  append_call(line, Call(call), packed.offsets[0]);
  std::vector<std::byte> arena(arena_bytes);
  const ReceivedCall one_call(packed.call(), arena.data(), arena.size());
  const ReceivedCall other_call(parse_json(line), arena.data(), arena.size());
  for (const TensorSlot& slot : one_call.call.shape().tensors)
    expect_equal(one_call.call.tensor(slot), other_call.call.tensor(slot));
  const auto &one = one_call.call.as<attest_attention>(), &other = other_call.call.as<attest_attention>();
  EXPECT_EQ(one.struct_size, other.struct_size);
  EXPECT_EQ(one.scale, other.scale);
  EXPECT_EQ(one.softcap, other.softcap);
  EXPECT_EQ(one.flags, other.flags);
  EXPECT_EQ(one.causal, other.causal);
  EXPECT_EQ(one.align, other.align);
  EXPECT_EQ(one.threads, other.threads);
  EXPECT_EQ(one.window_left, other.window_left);
  EXPECT_EQ(one.window_right, other.window_right);
  EXPECT_STREQ(one.form, other.form);
}

TEST(PackedCall, SaysWhatTheMessageSaysOfLayerNorm) {
  const Tensor x(DType::bf16, std::array<Index, 2>{3, 5}, std::array<Index, 2>{11, 2}, 1),
      gamma(DType::f32, std::array<Index, 1>{5}), out(DType::bf16, std::array<Index, 2>{3, 5});
  attest_layer_norm call{};
  call.struct_size = sizeof call;
  call.x = x.view();
  call.gamma = gamma.view();
  call.out = out.view();
  call.epsilon = 1e-5;
  call.rms = 1;
  call.threads = 3;
  const Call sent_call(call);
  const Packed packed{sent_call};
  std::string line;
  append_call(line, sent_call, packed.offsets[0]);
  std::vector<std::byte> arena(arena_bytes);
  const ReceivedCall one_call(packed.call(), arena.data(), arena.size());
  const ReceivedCall other_call(parse_json(line), arena.data(), arena.size());
  for (const TensorSlot& slot : one_call.call.shape().tensors) {
    const attest_tensor &sent = sent_call.tensor(slot), &came = one_call.call.tensor(slot);
    expect_equal(came, other_call.call.tensor(slot));
    ASSERT_EQ(came.ndim, sent.ndim) << slot.name;
    for (std::int32_t axis = 0; axis < sent.ndim; ++axis) EXPECT_EQ(came.strides[axis], sent.strides[axis]);
  }
  for (const ReceivedCall* received : {&one_call, &other_call}) {
    const auto& came = received->call.as<attest_layer_norm>();
    EXPECT_EQ(came.struct_size, sizeof came);
    EXPECT_EQ(came.epsilon, 1e-5);
    EXPECT_EQ(came.rms, 1);
    EXPECT_EQ(came.threads, 3);
  }
}

TEST(PackedCall, SaysWhatTheMessageSaysOfABlock) {
  const mha::Problem problem = mha::problem_from_text(
      "b=2 l=3 m=5 e=8 heads=4 kv_heads=2 head_dim=3 dtype=f16 packed=1 causal=1 align=bottom_right padding=rows "
      "bias=shared "
      "x_layout=tokens_first threads=3");
  const mha::Inputs inputs = mha::materialise(problem);
  const Tensor out = mha::make_out(problem);
  const mha::StageOutputs stages = mha::make_stages(problem, DType::f32);
  mha::Call block = inputs.call(out);
  block.stages = stages.views();
  const attest_mha call = mha::as_plugin(block, false);
  const Call sent_call(call);
  const Packed packed{sent_call};
  std::string line;
  append_call(line, sent_call, packed.offsets[0]);
  std::vector<std::byte> arena(arena_bytes);
  const ReceivedCall one_call(packed.call(), arena.data(), arena.size());
  const ReceivedCall other_call(parse_json(line), arena.data(), arena.size());
  for (const TensorSlot& slot : one_call.call.shape().tensors) {
    const attest_tensor &sent = sent_call.tensor(slot), &came = one_call.call.tensor(slot);
    expect_equal(came, other_call.call.tensor(slot));
    ASSERT_EQ(came.ndim, sent.ndim) << slot.name;
    for (std::int32_t axis = 0; axis < sent.ndim; ++axis) EXPECT_EQ(came.strides[axis], sent.strides[axis]);
  }
  for (const ReceivedCall* received : {&one_call, &other_call}) {
    const auto& came = received->call.as<attest_mha>();
    EXPECT_EQ(came.struct_size, sizeof came);
    EXPECT_EQ(came.flags, ATTEST_SCALE_IS_DEFAULT);
    EXPECT_EQ(came.scale, call.scale);
    EXPECT_EQ(came.heads, 4);
    EXPECT_EQ(came.kv_heads, 2);
    EXPECT_EQ(came.head_dim, 3);
    EXPECT_EQ(came.causal, 1);
    EXPECT_EQ(came.align, ATTEST_BOTTOM_RIGHT);
    EXPECT_EQ(came.threads, 3);
    EXPECT_TRUE(attest_present(&came.heads_out) && !attest_present(&came.scores));
  }
}

TEST(PackedCall, WhatDoesNotFitIsNotPacked) {
  const SmallCall small;
  const std::vector<Call> calls(3, small.call());
  const std::vector<TensorOffsets> offsets(3);
  std::vector<std::byte> bytes(1300);
  EXPECT_EQ(pack({}, calls, offsets, std::span(bytes).first(32 + 3 * (64 + 4 * 80))), 32u + 3 * (64 + 4 * 80));
  EXPECT_EQ(pack({}, calls, offsets, std::span(bytes).first(32 + 3 * (64 + 4 * 80) - 1)), 0u);
}

// Writes `value` at `offset` of the call.
template <class T>
void expect_refused(std::size_t offset, T value, const char* why) {
  const SmallCall small;
  Packed packed(small.call());
  std::memcpy(packed.bytes.data() + sizeof(PackedTrip) + offset, &value, sizeof value);
  std::vector<std::byte> arena(arena_bytes);
  try {
    const ReceivedCall received(packed.call(), arena.data(), arena.size());
    FAIL() << why;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(PackedCall, IsRefusedIfItIsNone) {
  constexpr std::size_t numbers = sizeof(PackedCall), q = numbers + 48;
  expect_refused(offsetof(PackedCall, bytes), std::uint32_t{8}, "is not as docs/worker.md says");
  expect_refused(offsetof(PackedCall, bytes), std::uint32_t{1 << 30}, "is not as docs/worker.md says");
  expect_refused(offsetof(PackedCall, bytes), std::uint32_t{128}, "shorter than docs/worker.md says");
  expect_refused(offsetof(PackedCall, op), std::uint32_t{9}, "no operation 9");
  expect_refused(numbers + 8, std::uint32_t{9000}, "the form is longer than the call");
  expect_refused(q + offsetof(PackedTensor, dtype), std::uint32_t{6}, "no dtype 6");
  expect_refused(q + offsetof(PackedTensor, ndim), std::uint32_t{5}, "q has an impossible shape");
  expect_refused(q + offsetof(PackedTensor, shape), std::int64_t{-1}, "q has an impossible shape");
  expect_refused(q + offsetof(PackedTensor, shape), std::int64_t{1} << 62, "q lies outside the arena");
  expect_refused(q + offsetof(PackedTensor, strides), std::int64_t{-1}, "q has an impossible shape");
  expect_refused(q + offsetof(PackedTensor, offset), std::uint64_t{arena_bytes}, "q lies outside the arena");
  expect_refused(q + offsetof(PackedTensor, offset), ~std::uint64_t{0}, "q lies outside the arena");
}

}  // namespace
}  // namespace attest
