// attest/attest.hpp apart from attest: views, types, and what a table does with what a callable throws.
#include <attest/attest.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

struct MyHalf {
  std::uint16_t bits;
};
template <>
struct attest::Element<MyHalf> {
  static constexpr int code = ATTEST_BFLOAT;
};

namespace {

// A tensor over memory of its own; `offset` in bytes, strides in elements.
struct Owned {
  std::array<char, 4096> memory{};
  std::array<std::int64_t, 4> shape, strides;
  attest_tensor tensor{};
  Owned(std::uint8_t code, std::uint8_t bits, std::array<std::int64_t, 4> sizes, std::array<std::int64_t, 4> steps,
        std::uint64_t offset = 0)
      : shape(sizes), strides(steps) {
    tensor.data = memory.data();
    tensor.device.type = ATTEST_CPU;
    tensor.ndim = 4;
    tensor.dtype = {code, bits, 1};
    tensor.shape = shape.data();
    tensor.strides = strides.data();
    tensor.byte_offset = offset;
  }
};

TEST(View, FollowsStridesAndTheByteOffset) {
  const Owned owned(ATTEST_FLOAT, 32, {2, 3, 4, 5}, {100, 1, 20, 3}, 8);
  const attest::TensorView tensor(owned.tensor);
  const auto view = tensor.as<float>();
  view(1, 2, 3, 4) = 7;
  EXPECT_EQ(*reinterpret_cast<const float*>(owned.memory.data() + 8 + 4 * (100 + 2 + 60 + 12)), 7);
  EXPECT_EQ(tensor.load(1, 2, 3, 4), 7);
  EXPECT_EQ(&view(0), view.data());
  EXPECT_EQ(view.size(3), 5);
  EXPECT_EQ(view.stride(2), 20);
  tensor.store(-1.5, 1, 2, 3, 4);
  EXPECT_EQ(view(1, 2, 3, 4), -1.5F);
}

TEST(View, KnowsWhatIsPacked) {
  const auto packed = [](std::array<std::int64_t, 4> shape, std::array<std::int64_t, 4> strides) {
    const Owned owned(ATTEST_FLOAT, 32, shape, strides);
    return attest::TensorView(owned.tensor).contiguous();
  };
  EXPECT_TRUE(packed({2, 3, 4, 5}, {60, 20, 5, 1}));
  EXPECT_TRUE(packed({2, 1, 4, 5}, {20, 999, 5, 1}));  // no second element along the second axis
  EXPECT_TRUE(packed({2, 0, 4, 5}, {1, 2, 3, 4}));
  EXPECT_FALSE(packed({2, 3, 4, 5}, {60, 5, 15, 1}));  // heads behind rows
  EXPECT_FALSE(packed({2, 3, 4, 5}, {0, 20, 5, 1}));   // broadcast
  EXPECT_FALSE(packed({2, 3, 4, 5}, {64, 20, 5, 1}));
  EXPECT_FALSE(packed({2, 3, 4, 5}, {120, 40, 10, 2}));
}

TEST(View, RefusesAnotherType) {
  const Owned half(ATTEST_FLOAT, 16, {1, 1, 1, 1}, {1, 1, 1, 1}), bias(ATTEST_BFLOAT, 16, {1, 1, 1, 1}, {1, 1, 1, 1}),
      flag(ATTEST_BOOL, 8, {1, 1, 1, 1}, {1, 1, 1, 1}), length(ATTEST_INT, 32, {1, 1, 1, 1}, {1, 1, 1, 1});
  EXPECT_TRUE(attest::TensorView(half.tensor).holds<const attest::f16>());
  EXPECT_FALSE(attest::TensorView(half.tensor).holds<attest::bf16>());
  EXPECT_FALSE(attest::TensorView(half.tensor).holds<float>());
  EXPECT_TRUE(attest::TensorView(bias.tensor).holds<MyHalf>());
  EXPECT_FALSE(attest::TensorView(half.tensor).holds<MyHalf>());
  EXPECT_TRUE(attest::TensorView(flag.tensor).holds<bool>());
  EXPECT_FALSE(attest::TensorView(flag.tensor).holds<std::uint8_t>());
  EXPECT_TRUE(attest::TensorView(length.tensor).holds<const std::int32_t>());
  EXPECT_FALSE(attest::TensorView(length.tensor).holds<std::uint32_t>());
  EXPECT_FALSE(attest::TensorView(length.tensor).holds<std::int64_t>());
  EXPECT_THROW((void)attest::TensorView(half.tensor).as<float>(), std::logic_error);
  const attest_tensor absent{};
  EXPECT_FALSE(attest::TensorView(absent));
  EXPECT_FALSE(attest::TensorView(absent).holds<float>());
  EXPECT_THROW((void)attest::TensorView(absent).as<float>(), std::logic_error);
}

TEST(Element, HalvesRoundToNearestEven) {
  EXPECT_EQ(attest::f16(1.0F).bits, 0x3c00);
  EXPECT_EQ(attest::f16(2049.0F), 2048.0F);
  EXPECT_EQ(attest::f16(2051.0F), 2052.0F);
  EXPECT_EQ(attest::bf16(257.0F), 256.0F);
  EXPECT_EQ(attest::bf16(259.0F), 260.0F);
  EXPECT_EQ(attest::f16(65520.0F), std::numeric_limits<float>::infinity());
  // A number is rounded once: a double just above a tie is no tie, though as a float it is one.
  EXPECT_EQ(attest::f16(2049 + 0x1p-40), 2050.0F);
  EXPECT_EQ(attest::bf16(257 + 0x1p-40), 258.0F);
  EXPECT_EQ(attest::f16(3), 3.0F);
}

TEST(TensorView, StoresADoubleRoundedOnce) {
  for (const std::uint8_t code : {ATTEST_FLOAT, ATTEST_BFLOAT}) {
    const Owned owned(code, 16, {1, 1, 1, 1}, {1, 1, 1, 1});
    const attest::TensorView tensor(owned.tensor);
    const double tie = code == ATTEST_FLOAT ? 2049 : 257;
    tensor.store(tie + 0x1p-40, 0);
    EXPECT_EQ(tensor.load(0), tie + 1);
  }
}

int call(const attest::Plugin& plugin, std::size_t index, char* message, std::size_t size) {
  std::size_t count = 0;
  const attest_subject* table = plugin.table(ATTEST_ABI, &count);
  const attest_attention nothing{};
  return table[index].attention(table[index].self, &nothing, message, size);
}

TEST(Attention, SaysInWhichForm) {
  attest_attention raw{};
  raw.struct_size = sizeof raw;
  raw.form = R"({"mask":"1d","ask":"full","x":"y-z.0"})";
  const attest::Attention call(raw);
  EXPECT_EQ(call.form("mask", "full"), "1d");
  EXPECT_EQ(call.form("ask", "none"), "full");
  EXPECT_EQ(call.form("x", ""), "y-z.0");
  EXPECT_EQ(call.form("past", "none"), "none");
  raw.struct_size = offsetof(attest_attention, form);  // the size in an older attest
  EXPECT_EQ(call.form("mask", "full"), "full");
  raw = {};
  EXPECT_EQ(call.form("mask", "full"), "full");
}

TEST(Plugin, SpeaksItsAbiAlone) {
  const attest::Plugin plugin{attest::subject(
                                  "a", "{}", [](const attest::Attention&) {}, "2"),
                              attest::subject("b", "{}", [](const attest::Attention&) {})};
  std::size_t count = 77;
  EXPECT_EQ(plugin.table(ATTEST_ABI + 1, &count), nullptr);
  EXPECT_EQ(count, 77u);
  const attest_subject* table = plugin.table(ATTEST_ABI, &count);
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(table[0].name, "a");
  EXPECT_STREQ(table[0].version, "2");
  EXPECT_STREQ(table[1].name, "b");
  EXPECT_EQ(table[1].struct_size, sizeof(attest_subject));
  EXPECT_EQ(table[1].layer_norm, nullptr);
}

TEST(Plugin, TellsWhatACallableThrowsInTheRoomThereIs) {
  const attest::Plugin plugin{
      attest::subject("done", "{}", [](const attest::Attention&) {}),
      attest::subject("declines", "{}", [](const attest::Attention&) { throw attest::Unsupported("no"); }),
      attest::subject("long", "{}", [](const attest::Attention&) { throw std::runtime_error(std::string(100, 'x')); }),
      attest::subject("number", "{}", [](const attest::Attention&) { throw 1; }),
      attest::subject("lost", "{}", [](const attest::Attention&) { throw attest::Lost("gone"); })};
  char message[32] = "untouched";
  EXPECT_EQ(call(plugin, 0, message, sizeof message), ATTEST_DONE);
  EXPECT_STREQ(message, "untouched");
  EXPECT_EQ(call(plugin, 1, message, sizeof message), ATTEST_UNSUPPORTED);
  EXPECT_STREQ(message, "no");
  EXPECT_EQ(call(plugin, 2, message, 20), ATTEST_ERROR);
  EXPECT_EQ(std::string(message).size(), 19u);
  EXPECT_EQ(call(plugin, 3, message, sizeof message), ATTEST_ERROR);
  EXPECT_EQ(call(plugin, 4, message, sizeof message), ATTEST_LOST);
  EXPECT_STREQ(message, "gone");
}

TEST(Plugin, OpensWhereItCan) {
  const auto opened = [](const std::function<void()>& open) {
    attest::Subject subject = attest::subject("opens", "{}", [](const attest::Attention&) {});
    subject.open = open;
    const attest::Plugin plugin{subject};
    std::size_t count = 0;
    const attest_subject* const row = plugin.table(ATTEST_ABI, &count);
    char message[32] = "";
    const int code = row->open(row->self, "{}", message, sizeof message);
    return std::to_string(code) + message;
  };
  EXPECT_EQ(opened(nullptr), "0");
  EXPECT_EQ(opened([] {}), "0");
  EXPECT_EQ(opened([] { throw std::runtime_error("no licence"); }), "2no licence");
  EXPECT_EQ(opened([] { throw 1; }), "2it threw something that is no s");
}

// ---- layer_norm -----------------------------------------------------------------------------------------------------

TEST(LayerNorm, ReadsWhatTheCallSays) {
  const Owned x(ATTEST_FLOAT, 16, {2, 3, 1, 1}, {3, 1, 1, 1}), gamma(ATTEST_FLOAT, 32, {3, 1, 1, 1}, {1, 1, 1, 1});
  attest_layer_norm raw{};
  raw.struct_size = sizeof raw;
  raw.x = x.tensor;
  raw.x.ndim = 2;
  raw.gamma = gamma.tensor;
  raw.gamma.ndim = 1;
  raw.epsilon = 0x1p-20;
  raw.rms = 1;
  raw.threads = 3;
  const attest::LayerNorm call(raw);
  EXPECT_TRUE(call.x && call.gamma);
  EXPECT_FALSE(call.residual || call.beta || call.sum_out);
  EXPECT_EQ(call.rows(), 2);
  EXPECT_EQ(call.hidden(), 3);
  EXPECT_EQ(call.epsilon, 0x1p-20);
  EXPECT_TRUE(call.rms);
  EXPECT_EQ(call.threads, 3);
  EXPECT_EQ(&call.raw(), &raw);
  EXPECT_TRUE(call.gamma.holds<const float>());
  bool half = false;
  call.visit_dtype([&](auto element) { half = std::is_same_v<decltype(element), attest::f16>; });
  EXPECT_TRUE(half);
}

TEST(LayerNorm, ACallableBecomesItsFunctionAlone) {
  const attest::Plugin plugin{attest::subject<attest::LayerNorm>(
                                  "done", "{}", [](const attest::LayerNorm&) {}, "3"),
                              attest::subject<attest::LayerNorm>(
                                  "declines", "{}", [](const attest::LayerNorm&) { throw attest::Unsupported("no"); }),
                              attest::subject("attends", "{}", [](const attest::Attention&) {})};
  std::size_t count = 0;
  const attest_subject* table = plugin.table(ATTEST_ABI, &count);
  ASSERT_EQ(count, 3u);
  EXPECT_STREQ(table[0].version, "3");
  EXPECT_EQ(table[0].attention, nullptr);
  EXPECT_EQ(table[2].layer_norm, nullptr);
  char message[32] = "untouched";
  const attest_layer_norm nothing{};
  EXPECT_EQ(table[0].layer_norm(table[0].self, &nothing, message, sizeof message), ATTEST_DONE);
  EXPECT_STREQ(message, "untouched");
  EXPECT_EQ(table[1].layer_norm(table[1].self, &nothing, message, sizeof message), ATTEST_UNSUPPORTED);
  EXPECT_STREQ(message, "no");
}

TEST(Mha, ReadsWhatTheCallSays) {
  const Owned x(ATTEST_FLOAT, 16, {2, 3, 4, 1}, {12, 4, 1, 1}), w(ATTEST_FLOAT, 16, {6, 4, 1, 1}, {4, 1, 1, 1});
  attest_mha raw{};
  raw.struct_size = sizeof raw;
  raw.flags = ATTEST_SCALE_IS_DEFAULT;
  raw.x = x.tensor;
  raw.x.ndim = 3;
  raw.w_q = w.tensor;
  raw.w_q.ndim = 2;
  raw.heads = 2;
  raw.kv_heads = 1;
  raw.head_dim = 3;
  raw.scale = 0.5;
  raw.causal = 1;
  raw.align = ATTEST_BOTTOM_RIGHT;
  raw.threads = 3;
  const attest::Mha call(raw);
  EXPECT_TRUE(call.self() && call.memory && call.w_q && call.scale_is_default() && call.causal && call.bottom_right);
  EXPECT_FALSE(call.b_q || call.keep || call.q || call.heads_out);
  EXPECT_EQ(call.memory.raw().data, x.tensor.data);
  EXPECT_EQ(call.batch(), 2);
  EXPECT_EQ(call.queries(), 3);
  EXPECT_EQ(call.keys(), 3);
  EXPECT_EQ(call.width(), 4);
  EXPECT_EQ(call.kv_head(1), 0);
  EXPECT_EQ(call.threads, 3);
  EXPECT_TRUE(call.takes_part(0, 0, 1, 1));
  EXPECT_FALSE(call.takes_part(0, 0, 1, 2));
  raw.memory = x.tensor;
  raw.memory.ndim = 3;
  EXPECT_FALSE(attest::Mha(raw).self());
}

TEST(Mha, ACallableBecomesItsFunctionAlone) {
  const attest::Plugin plugin{attest::subject<attest::Mha>(
                                  "done", "{}", [](const attest::Mha&) {}, "3"),
                              attest::subject<attest::LayerNorm>("normalises", "{}", [](const attest::LayerNorm&) {})};
  std::size_t count = 0;
  const attest_subject* table = plugin.table(ATTEST_ABI, &count);
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(table[0].attention, nullptr);
  EXPECT_EQ(table[0].layer_norm, nullptr);
  EXPECT_EQ(table[1].mha, nullptr);
  char message[32] = "untouched";
  attest_mha nothing{};
  EXPECT_EQ(table[0].mha(table[0].self, &nothing, message, sizeof message), ATTEST_DONE);
  EXPECT_STREQ(message, "untouched");
}

TEST(LayerNorm, OneSubjectMayHaveBoth) {
  attest::Subject both = attest::subject("both", "{}", [](const attest::Attention&) {});
  int rows = -1;
  both.layer_norm = [&](const attest::LayerNorm& call) { rows = call.x ? 1 : 0; };
  const attest::Plugin plugin{both};
  std::size_t count = 0;
  const attest_subject* row = plugin.table(ATTEST_ABI, &count);
  ASSERT_TRUE(row->attention != nullptr && row->layer_norm != nullptr);
  char message[32] = "";
  const attest_layer_norm nothing{};
  EXPECT_EQ(row->layer_norm(row->self, &nothing, message, sizeof message), ATTEST_DONE);
  EXPECT_EQ(rows, 0);
}

}  // namespace
