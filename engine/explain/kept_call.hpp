#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/call.hpp"
#include "engine/passed_on.hpp"

namespace attest::engine {

// A call on memory of its own: each tensor in a block with its guards, at the address modulo 256 that it had.
class CallCopy {
 public:
  [[nodiscard]] const Call& call() const noexcept { return call_; }

 private:
  friend class KeptCall;
  explicit CallCopy(const Call& call) : call_(call) {}
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<std::array<std::int64_t, 8>> dims;  // shape and strides
    std::byte* first = nullptr;
    std::size_t size = 0;
  };
  Call call_;
  std::vector<Block> blocks_;  // one per tensor that is present, in the order of the slots
};

// A subject's call and its answer: every byte of every tensor, before and after.
class KeptCall {
 public:
  // nullopt where some tensor's memory is not in one part, or the tensors take more than `most_bytes`.
  static std::optional<KeptCall> before(const Call& call, std::size_t most_bytes);
  // Keeps the subject's answer: `call` is the one that before() took.
  void after(const Call& call, CallResult result);

  [[nodiscard]] const CallShape& shape() const noexcept { return call_.shape(); }
  [[nodiscard]] const CallResult& result() const noexcept { return result_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  // The call as it was asked; with other bytes before and behind its tensors, if `around` is given.
  [[nodiscard]] CallCopy again(std::optional<std::byte> around = std::nullopt) const;
  // Inputs as they were asked, outputs as the subject left them.
  [[nodiscard]] CallCopy answered() const { return copy(true); }
  // Tells whether `other`, which was made by again() and answered since, holds what the subject left: the same
  // elements, NaN for NaN, and the same bytes around them.
  [[nodiscard]] bool same(const CallCopy& other) const;
  // The same of two such copies, of which same_elements() looks at elements alone.
  static bool same(const CallCopy& a, const CallCopy& b);
  static bool same_elements(const CallCopy& a, const CallCopy& b);
  // Tells whether both ask the same in every byte.
  [[nodiscard]] bool asks_as(const KeptCall& other) const;

 private:
  struct Kept {
    const TensorSlot* slot;
    attest_tensor view;                // points to memory that is the caller's, and no longer there
    std::array<std::int64_t, 8> dims;  // shape and strides
    std::size_t offset;                // place of its first element in the block
    std::size_t phase;                 // the block's address, modulo 256
    std::vector<std::byte> before, after;
  };
  explicit KeptCall(const Call& call) : call_(call) {}
  [[nodiscard]] CallCopy copy(bool answered) const;
  static attest_tensor view_of(const Kept& kept, std::array<std::int64_t, 8>& dims);

  Call call_;
  std::string form_;
  bool has_form_ = false;
  std::vector<Kept> tensors_;
  CallResult result_;
  std::size_t bytes_ = 0;
};

// Passes calls on to a subject and keeps them, as far as there is room.
class Witnessing final : public PassedOn {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20, most_calls = 64;

  using PassedOn::PassedOn;
  std::vector<CallResult> run(std::span<const Call> calls) override;
  // The calls in order. `left_out`: calls that there was no room for.
  [[nodiscard]] const std::vector<KeptCall>& calls() const noexcept { return calls_; }
  [[nodiscard]] std::size_t left_out() const noexcept { return left_out_; }

 private:
  std::vector<KeptCall> calls_;
  std::size_t bytes_ = 0, left_out_ = 0;
};

}  // namespace attest::engine
