#include "subjects/mailbox.hpp"

#include <cstring>

namespace attest {
namespace {

using Words = MailboxLayout;

constexpr std::uint64_t calls_of_a_trip = 65536;
static_assert(Words::most_calls < calls_of_a_trip);

std::atomic_ref<std::uint64_t> word_at(std::byte* memory, std::size_t offset) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory + offset));
}

// Writes `value` for the other end to see, and tells whether that sleeps.
bool publish(std::atomic_ref<std::uint64_t> word, std::uint64_t value, std::atomic_ref<std::uint64_t> waits) {
  word.store(value, std::memory_order_seq_cst);
  return waits.load(std::memory_order_seq_cst) != 0;
}

}  // namespace

Mailbox::Mailbox() { memory_.grow(Words::bytes); }

std::atomic_ref<std::uint64_t> Mailbox::word(std::size_t offset) const { return word_at(data(), offset); }

bool Mailbox::ask(std::uint64_t trip, std::size_t calls) {
  answered_before_ = word(Words::answered).load(std::memory_order_acquire);
  trip_ = trip;
  calls_ = calls;
  return publish(word(Words::asked), trip, word(Words::worker_waits));
}

Mailbox::Answer Mailbox::look(std::size_t index) const {
  const std::uint64_t answered = word(Words::answered).load(std::memory_order_seq_cst);
  if (answered == answered_before_) return Answer::none;
  const std::uint64_t count = answered % calls_of_a_trip;
  if (answered / calls_of_a_trip != trip_ || count > calls_) return Answer::nonsense;
  return count > index ? Answer::given : Answer::none;
}

Mailbox::Answer Mailbox::spin(std::size_t index) {
  Answer answer = Answer::none;
  spin_.until([&] { return (answer = look(index)) != Answer::none; });
  return answer;
}

bool Mailbox::begin_sleep(std::size_t index) {
  word(Words::attest_waits).store(1, std::memory_order_seq_cst);
  return look(index) != Answer::none;
}

void Mailbox::end_sleep() {
  word(Words::attest_waits).store(0, std::memory_order_relaxed);
  spin_.waited();
}

MailboxRecord Mailbox::record(std::size_t index) const {
  MailboxRecord record;
  std::memcpy(&record, memory_.data() + Words::records + index * sizeof record, sizeof record);
  return record;
}

WorkerMailbox::WorkerMailbox(const std::string& path) : arena_(path) {
  arena_->map(Words::bytes);
  memory_ = arena_->data();
}

WorkerMailbox::WorkerMailbox(const Mailbox& other) : memory_(other.data()) {}

std::atomic_ref<std::uint64_t> WorkerMailbox::word(std::size_t offset) const { return word_at(memory_, offset); }

bool WorkerMailbox::look() const { return word(Words::asked).load(std::memory_order_seq_cst) != trip_; }

bool WorkerMailbox::spin() {
  return spin_.until([&] { return look(); });
}

bool WorkerMailbox::begin_sleep() {
  word(Words::worker_waits).store(1, std::memory_order_seq_cst);
  return look();
}

void WorkerMailbox::end_sleep() {
  word(Words::worker_waits).store(0, std::memory_order_relaxed);
  spin_.waited();
}

std::span<const std::byte> WorkerMailbox::take() {
  trip_ = word(Words::asked).load(std::memory_order_acquire);
  answered_ = 0;
  return {memory_ + Words::message, Words::longest_message};
}

bool WorkerMailbox::answer(MailboxRecord record) {
  std::memcpy(memory_ + Words::records + answered_ * sizeof record, &record, sizeof record);
  return publish(word(Words::answered), trip_ * calls_of_a_trip + ++answered_, word(Words::attest_waits));
}

}  // namespace attest
