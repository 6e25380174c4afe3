#pragma once
#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/call.hpp"

// The worker protocol's messages (docs/worker.md), for both ends of it.
namespace attest {

inline constexpr int protocol_version = 1;

// The places in the arena where the tensors of a call begin, in the order of its slots.
inline constexpr std::size_t most_tensors = 24;
using TensorOffsets = std::array<std::size_t, most_tensors>;

// The number. Throws Error(internal) if it is none: no message can hold it.
double finite(const Call& call, const ScalarSlot& scalar);
// Appends the JSON object of a call whose tensors begin at `offsets` of the arena.
void append_call(std::string& line, const Call& call, const TensorOffsets& offsets);

// A call read from its JSON object, or from the bytes of a PackedCall, with views into an arena. Not movable: the views
// point into it.
struct ReceivedCall {
  // Throws Error(usage) naming what is wrong with the message.
  ReceivedCall(const nlohmann::json& object, std::byte* arena, std::size_t arena_bytes);
  ReceivedCall(std::span<const std::byte> packed, std::byte* arena, std::size_t arena_bytes);
  ReceivedCall(const ReceivedCall&) = delete;
  ReceivedCall& operator=(const ReceivedCall&) = delete;

  Call call;

 private:
  void place(std::size_t slot, attest_dtype dtype, std::span<const std::int64_t> shape,
             std::span<const std::int64_t> strides, std::size_t offset, std::span<std::byte> arena);

  std::array<std::array<std::int64_t, 8>, most_tensors> axes_{};  // shape and strides of each tensor
  std::string form_;
};

// Parses JSON from a stranger; discarded if it is none. A value that lies deeper than any message of ours is left out,
// since copies and texts of JSON recurse.
nlohmann::json parse_foreign(std::string_view text);

// One line of printable ASCII, cut to a length that fits a report.
std::string one_line(std::string_view text, std::size_t most = 400);

}  // namespace attest
