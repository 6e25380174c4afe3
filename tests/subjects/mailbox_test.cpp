// Both ends of a mailbox in threads of one process, each of which sleeps now and then: no message is lost, none is seen
// half written, nobody sleeps for ever. The preset `tsan` holds the order of memory.
#include "subjects/mailbox.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace attest {
namespace {

// Knocks at the door of an end, which waits there.
struct Pipes {
  Pipes() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
  ~Pipes() { ::close(ends[0]), ::close(ends[1]); }
  void knock(int end) const { EXPECT_EQ(::write(ends[1 - end], "\n", 1), 1); }
  void wait(int end) const {
    char byte = 0;
    EXPECT_EQ(::read(ends[end], &byte, 1), 1);
  }
  int ends[2];
};

constexpr int attest_end = 0, worker_end = 1;
constexpr std::uint64_t trips = 20'000;

std::uint64_t sum_of(std::span<const std::byte> message) {
  std::uint64_t sum = 0, number = 0;
  for (int i = 0; i < 16; ++i) {
    std::memcpy(&number, message.data() + i * 8, 8);
    sum += number;
  }
  return sum;
}

std::size_t calls_of(std::uint64_t trip) { return 1 + trip % 3; }

// Answers each call by the sum of the message; naps at some trips, so that the other end goes to sleep.
void serve(WorkerMailbox& mailbox, const Pipes& pipes) {
  while (mailbox.trip() < trips) {
    if (!mailbox.spin()) {
      if (!mailbox.begin_sleep()) pipes.wait(worker_end);
      mailbox.end_sleep();
      if (!mailbox.look()) continue;
    }
    const std::uint64_t sum = sum_of(mailbox.take());
    for (std::size_t i = 0; i < calls_of(mailbox.trip()); ++i) {
      if (mailbox.trip() % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      if (mailbox.answer({MailboxRecord::ok, 0, sum + i})) pipes.knock(attest_end);
    }
  }
}

void ask(Mailbox& mailbox, const Pipes& pipes) {
  for (std::uint64_t trip = 1; trip <= trips; ++trip) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      const std::uint64_t number = trip * i;
      std::memcpy(mailbox.message().data() + i * 8, &number, 8);
    }
    if (trip % 777 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (mailbox.ask(trip, calls_of(trip))) pipes.knock(worker_end);
    for (std::size_t i = 0; i < calls_of(trip); ++i) {
      if (mailbox.spin(i) == Mailbox::Answer::none)
        while (mailbox.look(i) == Mailbox::Answer::none) {
          if (!mailbox.begin_sleep(i)) pipes.wait(attest_end);
          mailbox.end_sleep();
        }
      ASSERT_EQ(mailbox.look(i), Mailbox::Answer::given) << trip;
      ASSERT_EQ(mailbox.record(i).ns, trip * 120 + i) << trip;
      ASSERT_EQ(mailbox.record(i).status, MailboxRecord::ok);
    }
  }
}

// `path`: the worker has a mapping of its own, as in another process; else the same, whose races ThreadSanitizer sees.
void ask_and_serve(bool path) {
  Mailbox mailbox;
  const Pipes pipes;
  std::thread worker([&] {
    WorkerMailbox its =
        path ? WorkerMailbox("/proc/self/fd/" + std::to_string(mailbox.file())) : WorkerMailbox(mailbox);
    serve(its, pipes);
  });
  ask(mailbox, pipes);
  worker.join();
}

TEST(Mailbox, LosesNoTrip) { ask_and_serve(true); }
TEST(Mailbox, LosesNoneInOneMapping) { ask_and_serve(false); }

TEST(Mailbox, LosesNoneOnASingleProcessor) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  ask_and_serve(false);
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(Mailbox, TakesNoAnswerOfAnotherTrip) {
  Mailbox mailbox;
  WorkerMailbox worker("/proc/self/fd/" + std::to_string(mailbox.file()));
  mailbox.ask(1, 2);
  worker.take();
  EXPECT_EQ(mailbox.look(0), Mailbox::Answer::none);
  worker.answer({MailboxRecord::ok, 0, 0});
  EXPECT_EQ(mailbox.look(0), Mailbox::Answer::given);
  EXPECT_EQ(mailbox.look(1), Mailbox::Answer::none);
  worker.answer({MailboxRecord::ok, 0, 0});
  worker.answer({MailboxRecord::ok, 0, 0});
  EXPECT_EQ(mailbox.look(1), Mailbox::Answer::nonsense) << "one answer too many";
  mailbox.ask(2, 1);
  EXPECT_EQ(mailbox.look(0), Mailbox::Answer::none) << "what was said before is no answer";
  worker.answer({MailboxRecord::ok, 0, 0});
  EXPECT_EQ(mailbox.look(0), Mailbox::Answer::nonsense) << "an answer to the trip before";
}

// Waiting costs processor time only while it pays.
TEST(Mailbox, RestsWhileNobodyAsks) {
  Spin spin;
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  constexpr int waits = 200;
  for (int i = 0; i < waits; ++i) {
    EXPECT_FALSE(spin.until([] { return false; }));
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    spin.waited();
  }
  EXPECT_LT(used() - before, waits * Spin::longest / 2);
}

}  // namespace
}  // namespace attest
