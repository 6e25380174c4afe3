#include "core/attention/call.hpp"

#include <bit>
#include <cstddef>

#include "core/field.hpp"
#include "core/supports.hpp"

// A namespace of its own: the names of extents are short.
namespace attest::slots {
namespace {

using Extent = Index (*)(const Problem&);
constexpr Extent b = get_member<&Problem::b>, hq = get_member<&Problem::hq>, hkv = get_member<&Problem::hkv>,
                 lq = get_member<&Problem::lq>, lk = get_member<&Problem::lk>, d = get_member<&Problem::d>,
                 dv = get_member<&Problem::dv>;
constexpr Extent of_q[] = {b, hq, lq, d}, of_k[] = {b, hkv, lk, d}, of_v[] = {b, hkv, lk, dv},
                 of_scores[] = {b, hq, lq, lk}, of_samples[] = {b}, of_out[] = {b, hq, lq, dv}, of_lse[] = {b, hq, lq};

using Role = TensorSlot::Role;
constexpr TensorSlot tensor_slots[] = {
    {"q", Role::input, offsetof(attest_attention, q), of_q},
    {"k", Role::input, offsetof(attest_attention, k), of_k},
    {"v", Role::input, offsetof(attest_attention, v), of_v},
    {"bias", Role::input, offsetof(attest_attention, bias), of_scores,
     [](const Problem& p) { return p.bias != Bias::none; }},
    {"keep", Role::input, offsetof(attest_attention, keep), of_scores,
     [](const Problem& p) { return p.keep != Keep::none; }},
    {"kv_lengths", Role::input, offsetof(attest_attention, kv_lengths), of_samples,
     [](const Problem& p) { return p.lengths != Lengths::none; }},
    {"out", Role::output, offsetof(attest_attention, out), of_out},
    {"lse", Role::output, offsetof(attest_attention, lse), of_lse,
     [](const Problem& p) { return p.lse != LseOutput::none; }},
    {"scores", Role::stage, offsetof(attest_attention, scores), of_scores, [](const Problem&) { return false; }},
    {"weights", Role::stage, offsetof(attest_attention, weights), of_scores, [](const Problem&) { return false; }},
};

using Kind = ScalarSlot::Kind;
constexpr std::size_t default_scale_bit = std::countr_zero(static_cast<std::uint64_t>(ATTEST_SCALE_IS_DEFAULT));
constexpr ScalarSlot scalar_slots[] = {
    {"scale", Kind::real, offsetof(attest_attention, scale), 16},
    {"scale_is_default", Kind::bit, default_scale_bit, 0},
    {"softcap", Kind::real, offsetof(attest_attention, softcap), 24},
    {"causal", Kind::flag, offsetof(attest_attention, causal), 1},
    {"align", Kind::small, offsetof(attest_attention, align), 0},
    {"window_left", Kind::whole, offsetof(attest_attention, window_left), 32},
    {"window_right", Kind::whole, offsetof(attest_attention, window_right), 40},
    {"threads", Kind::small, offsetof(attest_attention, threads), 4},
};

constexpr CallShape attention_shape{
    "attention",
    0,
    sizeof(attest_attention),
    offsetof(attest_attention, form),
    tensor_slots,
    scalar_slots,
    48,
    8,
    [](const attest_subject& table) { return table.attention != nullptr; },
    [](const attest_subject& table, const void* call, char* message, std::size_t size) {
      return table.attention(table.self, static_cast<const attest_attention*>(call), message, size);
    },
    [](const void* call, const Supports& supports, std::span<const Format> dtypes) {
      return declined(*static_cast<const attest_attention*>(call), supports, dtypes);
    },
};

}  // namespace
}  // namespace attest::slots

namespace attest {

template <>
const CallShape& call_shape<attest_attention>() noexcept {
  return slots::attention_shape;
}

}  // namespace attest
