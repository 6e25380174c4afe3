// The worker client against workers that misbehave: each is one clear sentence and the right status, none takes the
// caller down, and the next call finds a worker that was started again.
#include "subjects/worker.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "core/error.hpp"
#include "subjects/resolve.hpp"
#include "subjects/worker_source.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest {
namespace {

using testing::SmallCall;

const std::string fake = ATTEST_SOURCE_DIR "/tests/subjects/workers/fake.py";

std::unique_ptr<WorkerFactory> factory(const std::string& mode,
                                       std::chrono::milliseconds start = std::chrono::seconds(20)) {
  std::filesystem::create_directories("worker_test-logs");
  WorkerCommand command{{"python3", fake, mode}, "fake", "worker_test-logs/" + mode + ".log", {}};
  const bool soon = mode.ends_with("hangs") || mode.starts_with("warms-up") || mode == "plans";
  command.limits.call = std::chrono::milliseconds(soon ? 400 : 10000);
  command.limits.start = start;
  return std::make_unique<WorkerFactory>(command, "", "fake");
}

CallResult run(Subject& subject) {
  const SmallCall small;
  const CallResult result = subject.run_one(small.call());
  if (result.status == CallStatus::done) {
    EXPECT_EQ(small.out.at(0, 0, 0, 7), 1.5);
  }
  return result;
}

void expect_one_sentence(const std::string& text, const char* pattern) {
  EXPECT_TRUE(std::regex_search(text, std::regex(pattern))) << text;
  EXPECT_LT(text.size(), 600u) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(Worker, BehavesFromItsDocumentAlone) {
  const auto subject = factory("behaves")->open();
  EXPECT_EQ(subject->info().version, "7");
  for (int i = 0; i < 3; ++i) {
    const CallResult result = run(*subject);
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_EQ(result.elapsed_ns, 5);
  }
}

TEST(Worker, OutlivesItsFactoryAndRunsBesideOthers) {
  auto made = factory("behaves");
  const auto first = made->open(), second = made->open();
  made.reset();
  EXPECT_EQ(run(*first).status, CallStatus::done);
  EXPECT_EQ(run(*second).status, CallStatus::done);
}

TEST(Worker, GrowsItsArena) {
  const auto subject = factory("behaves")->open();
  EXPECT_EQ(run(*subject).status, CallStatus::done);
  const SmallCall large(1 << 20);
  EXPECT_EQ(subject->run_one(large.call()).status, CallStatus::done);
  EXPECT_EQ(large.out.at(0, 0, 0, (1 << 20) - 1), 1.5);
  EXPECT_EQ(large.out.damage(), Tensor::Damage::none);
}

// Calls of a trip, and the tensors of a call, share inputs: each has its own copy in the arena.
TEST(Worker, AnInputThatOneCallChangedStaysChanged) {
  const SmallCall small;
  const SmallCall other;  // for its output
  attest_attention first = small.call(), second = small.call();
  second.out = other.out.view();
  first.k = second.k = small.v.view();
  const auto subject = factory("writes-q-and-k-once")->open();
  for (const CallResult& result : subject->run(std::array<Call, 2>{first, second}))
    EXPECT_EQ(result.status, CallStatus::done);
  EXPECT_EQ(small.q.at(0, 0, 0, 0), 1.5);
  EXPECT_EQ(small.q.at(0, 0, 0, 1), 1);
  EXPECT_EQ(small.v.at(0, 0, 0, 0), 1.5) << "v, the same memory as k, has a copy that nobody changed";
  EXPECT_EQ(other.out.at(0, 0, 0, 7), 1.5);
}

TEST(Worker, AProgramIsASubject) {
  ResolveOptions options;
  options.log_folder = "worker_test-logs";
  std::filesystem::copy_file(fake, "fake_worker", std::filesystem::copy_options::overwrite_existing);
  for (const char* text : {"./fake_worker", "./fake_worker:fake"}) {
    const auto found = resolve(text, Trust::command_line, options);
    EXPECT_EQ(found->info().name, text);
    EXPECT_EQ(run(*found->open()).status, CallStatus::done);
  }
}

TEST(Worker, ADeathNowAndThenIsCountedAndSurvived) {
  const auto subject = factory("dies-now-and-then")->open();
  int crashes = 0;
  for (int i = 0; i < 300; ++i) {
    const CallResult result = run(*subject);
    if (result.status == CallStatus::crash)
      ++crashes;
    else
      EXPECT_EQ(result.status, CallStatus::done) << result.message;
  }
  EXPECT_EQ(crashes, 6);  // at the 50th call of each life
}

TEST(Worker, OneThatSaysThatItEndsIsNotBlamedForIt) {
  const auto subject = factory("ends-behind-an-error")->open();
  SmallCall calls[5];
  std::vector<Call> views;
  for (const SmallCall& call : calls) views.emplace_back(call.call());
  const std::vector<CallResult> results = subject->run(views);
  ASSERT_EQ(results.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {  // each life fails its second call
    EXPECT_EQ(results[i].status, i % 2 == 1 ? CallStatus::error : CallStatus::done) << i << ": " << results[i].message;
    EXPECT_EQ(results[i].lost, i % 2 == 1);
    if (i % 2 == 1) {
      EXPECT_EQ(results[i].message, "the device is lost");
    }
  }
}

// Work that is done once, or once for a shape, is no part of the time limit; a second call like the first is.
TEST(Worker, WarmUpAndPlansTakeNothingFromTheTimeLimit) {
  const auto second_call = [](const char* mode) {
    const auto subject = factory(mode)->open();
    EXPECT_EQ(run(*subject).status, CallStatus::done) << mode;
    return run(*subject).status;
  };
  EXPECT_EQ(second_call("warms-up"), CallStatus::done);
  EXPECT_EQ(second_call("warms-up-once-more"), CallStatus::timeout);
  EXPECT_EQ(second_call("plans"), CallStatus::done);
  EXPECT_EQ(run(*factory("warms-up-said-not-to")->open()).status, CallStatus::timeout);
}

// A machine that slept, or a terminal that stopped both: the alarm by which a worker ends that nobody asks rings at
// once.
TEST(Worker, WhatEndsForgottenIsAskedOnceMore) {
  const std::string mark = "worker_test-logs/was-forgotten.mark";
  std::filesystem::create_directories("worker_test-logs");
  std::filesystem::remove(mark);
  WorkerCommand command{{"python3", fake, "was-forgotten", mark}, "fake", "worker_test-logs/was-forgotten.log", {}};
  command.limits.start = std::chrono::seconds(20);
  EXPECT_EQ(run(*WorkerFactory(command, "", "fake").open()).status, CallStatus::done);
  EXPECT_TRUE(std::filesystem::exists(mark));
  const CallResult always = run(*factory("alarms")->open());
  EXPECT_EQ(always.status, CallStatus::crash);
  EXPECT_EQ(always.message, "the worker was killed by SIGALRM");
}

TEST(Worker, WaitsLongerWhereItIsToldTo) {
  const auto subject = factory("warms-up-said-not-to")->open();
  subject->wait_longer(6);
  EXPECT_EQ(run(*subject).status, CallStatus::done);
  subject->renew();
  subject->wait_longer(1);
  EXPECT_EQ(run(*subject).status, CallStatus::timeout);
}

// A subject that states no time has ten times that of loading; and once a first call was answered, four times that of
// the call.
TEST(Worker, WarmUpIsJudgedByLoadingUnlessItIsSaid) {
  const std::chrono::milliseconds limit(400);
  const WorkerCommand command{{"python3", fake, "warms-up-unsaid"}, "fake", "worker_test-logs/source.log", {}};
  WorkerSource source(command, "fake");
  EXPECT_GT(source.warm_up().count(), 0);
  EXPECT_LE(source.warm_up(), command.limits.once);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(source.warm_up().count(), 0);
    source.did_not_warm_up();
  }
  EXPECT_EQ(source.warm_up().count(), 0) << "it hangs, as it seems, and nobody waits so long each time";
  source.was_warmed_up_in(limit);
  EXPECT_EQ(source.warm_up(), 4 * limit);
  source.was_warmed_up_in(limit / 2);
  EXPECT_EQ(source.warm_up(), 4 * limit);
  source.was_warmed_up_in(command.limits.once);
  EXPECT_EQ(source.warm_up(), command.limits.once);
}

TEST(Worker, ACrashIsNoticedAtOnce) {
  const auto subject = factory("dies-leaving-a-child")->open();
  const auto start = std::chrono::steady_clock::now();
  const CallResult result = run(*subject);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
  EXPECT_EQ(result.status, CallStatus::crash);
  expect_one_sentence(result.message,
                      "^the worker was killed by SIGKILL, perhaps by the system .* it held up to \\d+ MB$");
}

struct Case {
  const char* mode;
  CallStatus status;
  const char* message;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.mode; }
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::regex_replace(std::string(info.param.mode), std::regex("-"), "_");
}

class AtACall : public ::testing::TestWithParam<Case> {};

TEST_P(AtACall, IsAResultAndTheNextCallAnother) {
  const auto subject = factory(GetParam().mode)->open();
  for (int i = 0; i < 2; ++i) {
    const CallResult result = run(*subject);
    EXPECT_EQ(result.status, GetParam().status);
    expect_one_sentence(result.message, GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worker, AtACall,
    ::testing::Values(Case{"hangs", CallStatus::timeout, "^no answer within 0.4 s$"},
                      Case{"closes-stdout", CallStatus::crash, "^the worker closed its output$"},
                      Case{"half-a-line", CallStatus::crash, "^the worker ended with status 3$"},
                      Case{"prints", CallStatus::error, "'debug: entering kernel', which is no JSON object"},
                      Case{"no-json", CallStatus::error, "'ok', which is no JSON object"},
                      Case{"binary", CallStatus::error, "which is no JSON object"},
                      Case{"endless-line", CallStatus::error, "a line without an end"},
                      Case{"deep", CallStatus::error, "call 0 of trip \\[\\["},
                      Case{"wrong-id", CallStatus::error, "call 0 of trip 0 instead of call 0 of trip 1"},
                      Case{"wrong-call", CallStatus::error, "call 1 of trip 1 instead of call 0 of trip 1"},
                      Case{"wrong-status", CallStatus::error, "the status \"fine\""},
                      Case{"wrong-protocol", CallStatus::error, "protocol \"1\" instead of 1"},
                      Case{"wrong-types", CallStatus::error, "an error without a message"},
                      Case{"error-message", CallStatus::error, "an error: lost the device"},
                      Case{"mailbox-hangs", CallStatus::timeout, "^no answer within 0.4 s$"},
                      Case{"mailbox-knocks-for-ever-and-hangs", CallStatus::timeout, "^no answer within 0.4 s$"},
                      Case{"mailbox-dies", CallStatus::crash, "^the worker was killed by SIGSEGV$"},
                      Case{"mailbox-line", CallStatus::unsupported, "^too small$"},
                      Case{"mailbox-line-alone", CallStatus::unsupported, "^too small$"},
                      Case{"mailbox-trip", CallStatus::error,
                           "a word in its mailbox that answers no call of this trip$"},
                      Case{"mailbox-count", CallStatus::error, "a word in its mailbox that answers no call"},
                      Case{"mailbox-status", CallStatus::error, "the status 7 in its mailbox"}),
    name_of);

TEST(Worker, AnswersByTheMailbox) {
  for (const char* mode : {"mailbox", "mailbox-knocks"}) {
    const auto subject = factory(mode)->open();
    for (int i = 0; i < 200; ++i) {
      const CallResult result = run(*subject);
      EXPECT_EQ(result.status, CallStatus::done) << result.message;
      EXPECT_EQ(result.elapsed_ns, 5);
    }
    const SmallCall small, other;
    for (const CallResult& result : subject->run(std::array<Call, 3>{small.call(), other.call(), small.call()}))
      EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_EQ(other.out.at(0, 0, 0, 7), 1.5);
    const SmallCall large(1 << 20);
    EXPECT_EQ(subject->run_one(large.call()).status, CallStatus::done);
    EXPECT_EQ(large.out.at(0, 0, 0, (1 << 20) - 1), 1.5);
  }
}

TEST(Worker, ADeathOfWhoHasAMailboxIsOneOfItsCall) {
  const auto subject = factory("mailbox-dies-late")->open();
  const SmallCall small;
  const std::array<Call, 5> calls{small.call(), small.call(), small.call(), small.call(), small.call()};
  const auto results = subject->run(calls);
  const std::array wanted{CallStatus::done, CallStatus::done, CallStatus::crash, CallStatus::done, CallStatus::done};
  ASSERT_EQ(results.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(results[i].status, wanted[i]) << i << results[i].message;
}

// Trips of more calls than the mailbox holds go by the pipe, in between others.
TEST(Worker, WhatDoesNotFitTheMailboxGoesByThePipe) {
  const char* python = std::getenv("ATTEST_PYTHON");
  ResolveOptions options;
  options.log_folder = "worker_test-logs";
  if (python == nullptr) GTEST_SKIP() << "needs numpy: name a Python that has it with ATTEST_PYTHON";
  const auto subject =
      resolve(ATTEST_SOURCE_DIR "/tests/subjects/scripts/kernels.py:echo", Trust::command_line, options)->open();
  const SmallCall small;
  for (const std::size_t calls : {std::size_t{1}, std::size_t{300}, std::size_t{2}}) {
    const auto results = subject->run(std::vector<Call>(calls, small.call()));
    ASSERT_EQ(results.size(), calls);
    for (const CallResult& result : results) EXPECT_EQ(result.status, CallStatus::done) << result.message;
  }
}

// It may be there when the call is over, or when the next one is.
TEST(Worker, AnAnswerTooManyEndsAWorker) {
  const auto subject = factory("answers-twice")->open();
  CallResult result = run(*subject);
  if (result.status == CallStatus::done) result = run(*subject);
  EXPECT_EQ(result.status, CallStatus::error);
  expect_one_sentence(result.message,
                      "call 0 of trip 1 instead of call 0 of trip 2|one more line than it was asked for: '\\{");
}

// A caller that was stopped past the limit, and goes on when its worker has ended because nobody asked.
TEST(Worker, AStoppedCallerSeesATimeOut) {
  const auto subject = factory("is-forgotten-and-hangs")->open();
  const pid_t caller = ::getpid();
  const pid_t stops = ::fork();
  if (stops == 0) {
    ::usleep(100'000);
    ::kill(caller, SIGSTOP);
    ::usleep(1'300'000);
    ::kill(caller, SIGCONT);
    ::_exit(0);
  }
  const CallResult result = run(*subject);
  EXPECT_EQ(result.status, CallStatus::timeout);
  EXPECT_EQ(result.message, "no answer within 0.4 s");
  EXPECT_EQ(::waitpid(stops, nullptr, 0), stops);
}

class AtStart : public ::testing::TestWithParam<Case> {};

TEST_P(AtStart, IsRefusedWithOneSentence) {
  try {
    factory(GetParam().mode, std::chrono::seconds(GetParam().mode == std::string("silent") ? 1 : 20));
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::no_subject);
    expect_one_sentence(error.what(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worker, AtStart,
    ::testing::Values(Case{"dies-at-start", {}, "ended with status 1 before it described itself.*dies-at-start.log"},
                      Case{"silent", {}, "took longer than 1 s to load it"},
                      Case{"nonsense-at-start", {}, "'Welcome to my kernel 1.0!' instead of a JSON object"},
                      Case{"array-at-start", {}, "instead of a JSON object"},
                      Case{"other-protocol", {}, "speaks protocol 2 instead of 1"},
                      Case{"deep-at-start", {}, "speaks protocol \\[\\["},
                      Case{"mailbox-of-tomorrow", {}, "wants the mailbox 2 and was offered 1"},
                      Case{"no-subjects", {}, "described no subject"},
                      Case{"subject-is-number", {}, "a subject without a name"},
                      Case{"no-name", {}, "a subject without a name"},
                      Case{"endless-line-at-start", {}, "a line without an end instead of a JSON object"}),
    name_of);

TEST(Worker, AProgramThatIsNotThereIsNoSubject) {
  try {
    WorkerFactory(WorkerCommand{{"no-such-python"}, "x.py", "no-such.log", {}}, "", "x.py");
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::no_subject);
    expect_one_sentence(error.what(), "no-such-python cannot be run: No such file");
  }
}

}  // namespace
}  // namespace attest
