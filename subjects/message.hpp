#pragma once
#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attest/plugin.h"

// The worker protocol's messages (docs/worker.md), for both ends of it.
namespace attest {

inline constexpr int protocol_version = 1;

// The tensors of a call by their names in the protocol, in order.
struct TensorField {
  const char* name;
  attest_tensor attest_attention::*member;
  bool written;  // by the subject
};
inline constexpr std::array tensor_fields{
    TensorField{"q", &attest_attention::q, false},
    TensorField{"k", &attest_attention::k, false},
    TensorField{"v", &attest_attention::v, false},
    TensorField{"bias", &attest_attention::bias, false},
    TensorField{"keep", &attest_attention::keep, false},
    TensorField{"kv_lengths", &attest_attention::kv_lengths, false},
    TensorField{"out", &attest_attention::out, true},
    TensorField{"lse", &attest_attention::lse, true},
    TensorField{"scores", &attest_attention::scores, true},
    TensorField{"weights", &attest_attention::weights, true},
};

using TensorOffsets = std::array<std::size_t, tensor_fields.size()>;

// Appends the JSON object of a call whose tensors begin at `offsets` of the arena, in tensor_fields' order.
void append_call(std::string& line, const attest_attention& call, const TensorOffsets& offsets);

// A call read from its JSON object, or from the bytes of a PackedCall, with views into an arena. Not movable: the views point
// into it.
struct ReceivedCall {
  // Throws Error(usage) naming what is wrong with the message.
  ReceivedCall(const nlohmann::json& object, std::byte* arena, std::size_t arena_bytes);
  ReceivedCall(std::span<const std::byte> packed, std::byte* arena, std::size_t arena_bytes);
  ReceivedCall(const ReceivedCall&) = delete;
  ReceivedCall& operator=(const ReceivedCall&) = delete;

  attest_attention call{};

 private:
  void place(std::size_t field, attest_dtype dtype, std::span<const std::int64_t> shape,
             std::span<const std::int64_t> strides, std::size_t offset, std::span<std::byte> arena);

  std::array<std::array<std::int64_t, 8>, tensor_fields.size()> axes_{};  // shape and strides of each tensor
  std::string form_;
};

// JSON from a stranger; discarded if it is none. What lies deeper than any message of ours is left out, since copies and
// texts of JSON recurse.
nlohmann::json parse_foreign(std::string_view text);

// One line of printable ASCII, cut to a length that fits a report.
std::string one_line(std::string_view text);

}  // namespace attest
