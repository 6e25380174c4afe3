#include "core/layer_norm/call.hpp"

#include <cstddef>

#include "core/layer_norm/offer.hpp"
#include "core/subject.hpp"

namespace attest::layer_norm {
namespace {

using Role = TensorSlot::Role;
constexpr TensorSlot tensor_slots[] = {
    {"x", Role::input, offsetof(attest_layer_norm, x), {}},
    {"residual", Role::input, offsetof(attest_layer_norm, residual), {}},
    {"gamma", Role::input, offsetof(attest_layer_norm, gamma), {}},
    {"beta", Role::input, offsetof(attest_layer_norm, beta), {}},
    {"out", Role::output, offsetof(attest_layer_norm, out), {}},
    {"sum_out", Role::output, offsetof(attest_layer_norm, sum_out), {}},
};

using Kind = ScalarSlot::Kind;
constexpr ScalarSlot scalar_slots[] = {
    {"epsilon", Kind::real, offsetof(attest_layer_norm, epsilon), 16},
    {"rms", Kind::flag, offsetof(attest_layer_norm, rms), 0},
    {"threads", Kind::small, offsetof(attest_layer_norm, threads), 4},
};

// A call says nothing that its problem did not: whoever asks has seen to that the subject takes the problem.
constexpr CallShape call_shape_of_layer_norm{
    "layer_norm",
    1,
    sizeof(attest_layer_norm),
    0,
    tensor_slots,
    scalar_slots,
    24,
    8,
    [](const attest_subject& table) { return table.layer_norm != nullptr; },
    [](const attest_subject& table, const void* call, char* message, std::size_t size) {
      return table.layer_norm(table.self, static_cast<const attest_layer_norm*>(call), message, size);
    },
    [](const void*, const attest::Supports&, std::span<const Format>) { return std::optional<std::string>(); },
};

}  // namespace
}  // namespace attest::layer_norm

namespace attest {

template <>
const CallShape& call_shape<attest_layer_norm>() noexcept {
  return layer_norm::call_shape_of_layer_norm;
}

}  // namespace attest
