#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "subjects/arena.hpp"
#include "subjects/spin.hpp"

namespace attest {

// The short way between attest and a worker (docs/worker.md, "The mailbox"): memory of its own in which trips are asked
// and their calls answered, while both ends look. An end that goes to sleep says so, and is knocked up by an empty line
// in its pipe.
//
// Each word has one writer. Data behind a word are written before it (release) and read after it (acquire). An end that
// is about to sleep writes that it waits and then looks once more; the other writes its word and then looks whether
// somebody waits: both with a full fence in between, so that one of them sees the other.
struct MailboxLayout {
  static constexpr int version = 1;
  static constexpr std::size_t asked = 64;          // u64 of attest: the trip
  static constexpr std::size_t answered = 128;      // u64 of the worker: the trip * 65536 + how many of its calls
  static constexpr std::size_t attest_waits = 192;  // u64 of attest: 1 while it sleeps
  static constexpr std::size_t worker_waits = 256;  // u64 of the worker
  static constexpr std::size_t message = 4096;      // the trip's (packed_call.hpp)
  static constexpr std::size_t records = 65536;     // one a call
  static constexpr std::size_t most_calls = 256;
  static constexpr std::size_t bytes = records + most_calls * 16;
  static constexpr std::size_t longest_message = records - message;
};

// The answer to a call. `line`: one in the pipe has it.
struct MailboxRecord {
  static constexpr std::uint32_t ok = 1, line = 2;
  std::uint32_t status = 0, reserved = 0;
  std::uint64_t ns = 0;
};
static_assert(sizeof(MailboxRecord) == 16);

// attest's end.
class Mailbox {
 public:
  Mailbox();  // Throws Error(internal) if the system gives no shared memory

  [[nodiscard]] int file() const noexcept { return memory_.file(); }
  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  // The memory of the next trip's message.
  [[nodiscard]] std::span<std::byte> message() const noexcept {
    return {memory_.data() + MailboxLayout::message, MailboxLayout::longest_message};
  }
  // Hands the message over, of `calls` calls. True if the worker sleeps, and must be knocked up.
  bool ask(std::uint64_t trip, std::size_t calls);

  enum class Answer : std::uint8_t { none, given, nonsense };
  // The state of call `index` of the trip: after a spin, or at this moment.
  Answer spin(std::size_t index);
  [[nodiscard]] Answer look(std::size_t index) const;
  // Begins a sleep, and ends it. True if it is not needed: the answer has come.
  bool begin_sleep(std::size_t index);
  void end_sleep();
  // The record of a call; look() must have said `given`.
  [[nodiscard]] MailboxRecord record(std::size_t index) const;

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::size_t offset) const;

  Arena memory_;
  Spin spin_;
  std::uint64_t trip_ = 0, answered_before_ = 0;
  std::size_t calls_ = 0;
};

// The worker's.
class WorkerMailbox {
 public:
  explicit WorkerMailbox(const std::string& path);
  // Works in the mapping of the other end, which outlives this one.
  explicit WorkerMailbox(const Mailbox& other);

  // Tells whether a new trip is asked: after a spin, or at this moment.
  bool spin();
  [[nodiscard]] bool look() const;
  // Begins a sleep, and ends it. True if it is not needed: a trip is asked.
  bool begin_sleep();
  void end_sleep();
  // Takes the trip that look() saw.
  std::span<const std::byte> take();
  [[nodiscard]] std::uint64_t trip() const noexcept { return trip_; }
  // Answers the next call of it. True if attest sleeps, and must be knocked up.
  bool answer(MailboxRecord record);

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::size_t offset) const;

  std::optional<Arena> arena_;
  std::byte* memory_;
  Spin spin_;
  std::uint64_t trip_ = 0, answered_ = 0;
};

}  // namespace attest
