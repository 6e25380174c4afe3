#include "core/mha/call.hpp"

#include <bit>
#include <cstddef>

#include "core/mha/offer.hpp"
#include "core/subject.hpp"

namespace attest::mha {
namespace {

using Role = TensorSlot::Role;
constexpr TensorSlot tensor_slots[] = {
    {"x", Role::input, offsetof(attest_mha, x), {}},
    {"memory", Role::input, offsetof(attest_mha, memory), {}},
    {"w_q", Role::input, offsetof(attest_mha, w_q), {}},
    {"w_k", Role::input, offsetof(attest_mha, w_k), {}},
    {"w_v", Role::input, offsetof(attest_mha, w_v), {}},
    {"w_out", Role::input, offsetof(attest_mha, w_out), {}},
    {"b_q", Role::input, offsetof(attest_mha, b_q), {}},
    {"b_k", Role::input, offsetof(attest_mha, b_k), {}},
    {"b_v", Role::input, offsetof(attest_mha, b_v), {}},
    {"b_out", Role::input, offsetof(attest_mha, b_out), {}},
    {"bias", Role::input, offsetof(attest_mha, bias), {}},
    {"keep", Role::input, offsetof(attest_mha, keep), {}},
    {"kv_lengths", Role::input, offsetof(attest_mha, kv_lengths), {}},
    {"out", Role::output, offsetof(attest_mha, out), {}},
    {"q", Role::stage, offsetof(attest_mha, q), {}},
    {"k", Role::stage, offsetof(attest_mha, k), {}},
    {"v", Role::stage, offsetof(attest_mha, v), {}},
    {"scores", Role::stage, offsetof(attest_mha, scores), {}},
    {"weights", Role::stage, offsetof(attest_mha, weights), {}},
    {"heads_out", Role::stage, offsetof(attest_mha, heads_out), {}},
};

using Kind = ScalarSlot::Kind;
constexpr std::size_t default_scale_bit = std::countr_zero(static_cast<std::uint64_t>(ATTEST_SCALE_IS_DEFAULT));
constexpr ScalarSlot scalar_slots[] = {
    {"scale", Kind::real, offsetof(attest_mha, scale), 16},
    {"scale_is_default", Kind::bit, default_scale_bit, 0},
    {"heads", Kind::small, offsetof(attest_mha, heads), 24},
    {"kv_heads", Kind::small, offsetof(attest_mha, kv_heads), 28},
    {"head_dim", Kind::small, offsetof(attest_mha, head_dim), 32},
    {"causal", Kind::flag, offsetof(attest_mha, causal), 1},
    {"align", Kind::small, offsetof(attest_mha, align), 0},
    {"threads", Kind::small, offsetof(attest_mha, threads), 4},
};

// A call says nothing that its problem did not: whoever asks has seen to that the subject takes the problem.
constexpr CallShape call_shape_of_mha{
    "mha",
    2,
    sizeof(attest_mha),
    0,
    tensor_slots,
    scalar_slots,
    40,
    8,
    [](const attest_subject& table) { return table.mha != nullptr; },
    [](const attest_subject& table, const void* call, char* message, std::size_t size) {
      return table.mha(table.self, static_cast<const attest_mha*>(call), message, size);
    },
    [](const void*, const attest::Supports&, std::span<const Format>) { return std::optional<std::string>(); },
};

}  // namespace

attest_mha as_plugin(const Call& call, bool self) noexcept {
  attest_mha to{};
  to.struct_size = sizeof to;
  to.flags = call.scale_is_default ? ATTEST_SCALE_IS_DEFAULT : 0;
  to.x = call.x;
  if (!self) to.memory = call.memory;
  to.w_q = call.w_q;
  to.w_k = call.w_k;
  to.w_v = call.w_v;
  to.w_out = call.w_out;
  to.b_q = call.b_q;
  to.b_k = call.b_k;
  to.b_v = call.b_v;
  to.b_out = call.b_out;
  to.bias = call.bias;
  to.keep = call.keep;
  to.kv_lengths = call.kv_lengths;
  to.out = call.out;
  to.q = call.stages.q;
  to.k = call.stages.k;
  to.v = call.stages.v;
  to.heads_out = call.stages.heads;
  to.scale = call.scale;
  to.heads = static_cast<std::int32_t>(call.heads);
  to.kv_heads = static_cast<std::int32_t>(call.kv_heads);
  to.head_dim = static_cast<std::int32_t>(call.head_dim);
  to.causal = call.causal ? 1 : 0;
  to.align = call.align == Align::bottom_right ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
  to.threads = static_cast<std::int32_t>(call.threads);
  return to;
}

Call from_plugin(const attest_mha& call) noexcept {
  Call to{};
  to.x = call.x;
  to.memory = attest_present(&call.memory) ? call.memory : call.x;
  to.w_q = call.w_q;
  to.w_k = call.w_k;
  to.w_v = call.w_v;
  to.w_out = call.w_out;
  to.b_q = call.b_q;
  to.b_k = call.b_k;
  to.b_v = call.b_v;
  to.b_out = call.b_out;
  to.bias = call.bias;
  to.keep = call.keep;
  to.kv_lengths = call.kv_lengths;
  to.out = call.out;
  to.stages = {call.q, call.k, call.v, call.heads_out};
  to.scale = call.scale;
  to.scale_is_default = (call.flags & ATTEST_SCALE_IS_DEFAULT) != 0;
  to.heads = call.heads;
  to.kv_heads = call.kv_heads;
  to.head_dim = call.head_dim;
  to.causal = call.causal != 0;
  to.align = call.align == ATTEST_BOTTOM_RIGHT ? Align::bottom_right : Align::top_left;
  to.threads = call.threads;
  return to;
}

}  // namespace attest::mha

namespace attest {

template <>
const CallShape& call_shape<attest_mha>() noexcept {
  return mha::call_shape_of_mha;
}

}  // namespace attest
