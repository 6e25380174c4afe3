// The lives of Python subjects: forked from a process that has imported the script, or started anew where that cannot
// be. Needs a Python with numpy ($ATTEST_PYTHON).
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "subjects/resolve.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest {
namespace {

using testing::SmallCall;

ResolveOptions options() {
  ResolveOptions options;
  options.log_folder = "nursery_test-logs";
  return options;
}

std::unique_ptr<SubjectFactory> script(const std::string& text, const ResolveOptions& how = options()) {
  return resolve(ATTEST_SOURCE_DIR "/tests/subjects/scripts/" + text, Trust::command_line, how);
}

constexpr double plain = 0.5, ends_itself = 2, ends_its_parent = 3;

CallResult ask(Subject& subject, double scale, const SmallCall& small) {
  attest_attention call = small.call();
  call.scale = scale;
  return subject.run_one(call);
}

struct Life {
  pid_t process, parent, group;
  double calls;
};

Life life_of(Subject& subject) {
  const SmallCall small(8, DType::f32);
  const CallResult result = ask(subject, plain, small);
  EXPECT_EQ(result.status, CallStatus::done) << result.message;
  const auto number = [&](Index d) { return small.out.at(0, 0, 0, d); };
  return {static_cast<pid_t>(number(0)), static_cast<pid_t>(number(1)), static_cast<pid_t>(number(2)), number(3)};
}

void expect_crash(Subject& subject, double scale, const std::string& message) {
  const CallResult result = ask(subject, scale, SmallCall());
  EXPECT_EQ(result.status, CallStatus::crash);
  EXPECT_EQ(result.message, message);
}

// Tells whether a process is there; one that has ended and only waits to be asked for its status does not count.
bool is_there(pid_t process) {
  std::stringstream text;
  text << std::ifstream("/proc/" + std::to_string(process) + "/stat").rdbuf();
  const std::string stat = text.str();
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end, 3) != ") Z";
}

void expect_gone(pid_t process) {
  for (int i = 0; i < 200 && is_there(process); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(is_there(process)) << process;
}

TEST(Nursery, EachLifeIsAChildOfTheSameProcessAndBeginsAnew) {
  const auto subject = script("kernels.py:life")->open();
  const Life first = life_of(*subject);
  EXPECT_NE(first.parent, ::getpid());
  for (int i = 0; i < 5; ++i) {
    const Life before = life_of(*subject);
    EXPECT_EQ(before.group, before.process) << "which ends with it";
    EXPECT_EQ(life_of(*subject).calls, before.calls + 1);
    if (i % 2 == 0)
      expect_crash(*subject, ends_itself, "the worker ended with status 7");
    else
      EXPECT_TRUE(subject->renew());
    const Life after = life_of(*subject);
    EXPECT_EQ(after.parent, first.parent);
    EXPECT_NE(after.process, before.process);
    EXPECT_EQ(after.calls, 1);
    EXPECT_TRUE(i % 2 != 0 || !is_there(before.process));
  }
}

TEST(Nursery, InstancesShareIt) {
  const auto factory = script("kernels.py:life");
  const auto one = factory->open(), other = factory->open();
  const Life left = life_of(*one), right = life_of(*other);
  EXPECT_EQ(left.parent, right.parent);
  EXPECT_NE(left.process, right.process);
  expect_crash(*one, ends_itself, "the worker ended with status 7");
  EXPECT_EQ(life_of(*other).process, right.process);
}

TEST(Nursery, ThreadsMayAskItAtOnce) {
  const auto factory = script("kernels.py:life");
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      const auto subject = factory->open();
      for (int i = 0; i < 8; ++i) {
        expect_crash(*subject, ends_itself, "the worker ended with status 7");
        EXPECT_EQ(life_of(*subject).calls, 1);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Nursery, IsReplacedWhenItEnds) {
  const auto subject = script("kernels.py:life")->open();
  const Life before = life_of(*subject);
  for (int i = 0; i < 2; ++i) {
    expect_crash(*subject, ends_its_parent, "the worker ended, and so did the process that it was forked from");
    const Life after = life_of(*subject);
    EXPECT_NE(after.parent, before.parent);
    EXPECT_EQ(after.calls, 1);
  }
}

TEST(Nursery, ItsEndIsNoFaultOfACall) {
  const auto factory = script("kernels.py:life");
  const auto one = factory->open(), other = factory->open();
  for (int i = 0; i < 3; ++i) {
    const Life left = life_of(*one), right = life_of(*other);
    for (const pid_t parent : {left.parent, right.parent}) ::kill(parent, SIGKILL);
    expect_gone(left.process);
    for (Subject* subject : {one.get(), other.get()}) {
      const Life after = life_of(*subject);
      EXPECT_EQ(after.calls, 1);
      EXPECT_NE(after.parent, left.parent);
    }
  }
}

TEST(Nursery, NothingIsLeftBehind) {
  Life life{};
  {
    const auto subject = script("kernels.py:life")->open();
    life_of(*subject);
    expect_crash(*subject, ends_itself, "the worker ended with status 7");
    life = life_of(*subject);
    subject->renew();
    life_of(*subject);
  }
  expect_gone(life.process);
  expect_gone(life.parent);
}

TEST(Nursery, LibrariesHaveTheirThreadsInEachLife) {
  const auto subject = script("kernels.py:products")->open();
  for (int i = 0; i < 3; ++i) {
    const SmallCall small;
    const CallResult result = ask(*subject, plain, small);
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_EQ(small.out.at(0, 0, 0, 0), 600);
    subject->renew();
  }
}

TEST(Nursery, WhatIsPrintedBeforeAForkIsPrintedOnce) {
  std::filesystem::remove_all("nursery_test-logs/once");
  ResolveOptions how = options();
  how.log_folder /= "once";
  {
    const auto subject = script("kernels.py:life", how)->open();
    for (int i = 0; i < 3; ++i) {
      life_of(*subject);
      subject->renew();
    }
  }
  std::string text;
  for (const auto& file : std::filesystem::directory_iterator(how.log_folder)) {
    std::stringstream all;
    all << std::ifstream(file.path()).rdbuf();
    text += all.str();
  }
  const std::string printed = "a script may print while it is imported";
  ASSERT_NE(text.find(printed), std::string::npos);
  EXPECT_EQ(text.find(printed), text.rfind(printed)) << text;
}

class NotForked : public ::testing::TestWithParam<const char*> {};

TEST_P(NotForked, EachLifeIsAProcessOfItsOwn) {
  const auto subject = script(GetParam())->open();
  Life before = life_of(*subject);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(before.parent, ::getpid());
    expect_crash(*subject, ends_itself, "the worker ended with status 7");
    const Life after = life_of(*subject);
    EXPECT_NE(after.process, before.process);
    EXPECT_EQ(after.group, before.group) << "as many threads as before";
    before = after;
  }
}

INSTANTIATE_TEST_SUITE_P(Nursery, NotForked, ::testing::Values("not_forked.py", "not_to_be_forked.py"),
                         [](const auto& one) {
                           return std::string(one.param).substr(0, std::string(one.param).find('.'));
                         });

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* python = std::getenv("ATTEST_PYTHON");
  const std::string command =
      (python != nullptr && *python != '\0' ? std::string(python) : "python3") + " -c 'import numpy'";
  if (std::system((command + " 2>/dev/null").c_str()) != 0) {
    std::puts("skipped: no numpy here; name a Python that has it with ATTEST_PYTHON");
    return 125;
  }
  return RUN_ALL_TESTS();
}
