// Plug-ins that behave and that do not, in a host process and in this one. None may take the caller down.
#include "subjects/plugin.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <regex>

#include "core/error.hpp"
#include "subjects/resolve.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest {
namespace {

using testing::SmallCall;

const std::string folder = ATTEST_PLUGIN_FOLDER;

ResolveOptions options(bool in_process = false) {
  ResolveOptions options;
  options.in_process = in_process;
  options.log_folder = "plugin_test-logs";
  options.limits.call = std::chrono::milliseconds(500);
  options.limits.start = std::chrono::seconds(10);
  return options;
}

std::unique_ptr<SubjectFactory> conduct(const std::string& name, bool in_process = false) {
  return resolve(folder + "/conduct.so:" + name, Trust::command_line, options(in_process));
}

CallResult run(Subject& subject, const SmallCall& small) { return subject.run_one(small.call()); }

CallResult run_once(const std::string& name, const SmallCall& small = SmallCall(), bool in_process = false) {
  return run(*conduct(name, in_process)->open(), small);
}

// The error of resolving `text`: its exit and its sentence.
std::pair<Exit, std::string> refusal(const std::string& text, bool in_process = false) {
  try {
    resolve(text, Trust::command_line, options(in_process))->open();
  } catch (const Error& error) {
    return {error.exit(), error.what()};
  }
  return {Exit::held, "no error"};
}

void expect_one_sentence(const std::string& text) {
  EXPECT_FALSE(text.empty());
  EXPECT_LT(text.size(), 600u) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

// ---- what is right --------------------------------------------------------------------------------------------------

class Behaves : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(InHostAndHere, Behaves, ::testing::Bool(),
                         [](const auto& here) { return here.param ? "InProcess" : "Host"; });

TEST_P(Behaves, ReadsInputsAndWritesOutput) {
  const SmallCall small(5);
  const CallResult result = run_once("echo", small, GetParam());
  EXPECT_EQ(result.status, CallStatus::done) << result.message;
  EXPECT_GT(result.elapsed_ns, 0);
  for (Index d = 0; d < 5; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 1);
  EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
}

TEST_P(Behaves, SeesEveryOption) {
  const SmallCall small;
  attest_attention call = small.call();
  call.scale = 0.1;
  call.softcap = 30;
  call.causal = 1;
  call.align = ATTEST_BOTTOM_RIGHT;
  call.window_left = 3;
  call.window_right = 4;
  call.threads = 2;
  call.flags = ATTEST_SCALE_IS_DEFAULT;
  const auto subject = conduct("facts", GetParam())->open();
  EXPECT_EQ(subject->run_one(call).status, CallStatus::done);
  const double phase = static_cast<double>(reinterpret_cast<std::uintptr_t>(call.q.data) % 256);
  const std::array<double, 8> wanted{static_cast<double>(0.1f), 30, 11, 3, 4, 2, 1, phase};
  for (Index d = 0; d < 8; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), wanted[static_cast<std::size_t>(d)]) << d;
}

TEST_P(Behaves, IsToldInWhichForm) {
  const SmallCall small(8);
  attest_attention call = small.call();
  call.form = R"({"mask":"1d"})";
  EXPECT_EQ(conduct("facts", GetParam())->open()->run_one(call).status, CallStatus::done);
  EXPECT_EQ(small.out.at(0, 0, 0, 0), 1);
}

TEST_P(Behaves, KeepsStridesAndMisalignment) {
  SmallCall small(8);
  const std::array<Index, 4> shape{1, 1, 1, 8}, strides{99, 77, 33, 3};
  small.out = Tensor(DType::f32, shape, strides, 1);
  small.out.poison();
  small.v = Tensor(DType::f32, std::array<Index, 4>{1, 1, 2, 8}, std::array<Index, 4>{0, 0, 1, 2}, 3);
  for (Index d = 0; d < 8; ++d) small.v.set(0, 0, 0, d, static_cast<double>(d));
  EXPECT_EQ(run_once("echo", small, GetParam()).status, CallStatus::done);
  for (Index d = 0; d < 8; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 1);
  EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
}

TEST_P(Behaves, TakesTensorsOfSizeZero) {
  SmallCall small(4);
  small.k = Tensor(DType::f32, std::array<Index, 4>{1, 1, 0, 4});
  small.v = Tensor(DType::f32, std::array<Index, 4>{1, 1, 0, 4});
  const CallResult result = run_once("facts-of-empty", small, GetParam());
  EXPECT_EQ(result.status, CallStatus::done) << result.message;
  EXPECT_EQ(small.out.at(0, 0, 0, 0), 1);
  EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
  EXPECT_EQ(small.k.damage(), Tensor::Damage::none);
}

TEST_P(Behaves, RunsListsInOrder) {
  const auto subject = conduct("echo", GetParam())->open();
  std::vector<SmallCall> small(20);
  std::vector<Call> calls;
  for (std::size_t c = 0; c < small.size(); ++c) {
    small[c].q.set(0, 0, 0, 0, static_cast<double>(c));
    calls.push_back(small[c].call());
  }
  EXPECT_EQ(subject->run(calls).size(), small.size());
  for (std::size_t c = 0; c < small.size(); ++c) EXPECT_EQ(small[c].out.at(0, 0, 0, 2), 2.0 + static_cast<double>(c));
}

TEST_P(Behaves, OpensBeforeTheFirstCall) {
  const SmallCall small;
  EXPECT_EQ(run_once("opens", small, GetParam()).status, CallStatus::done);
  EXPECT_EQ(small.out.at(0, 0, 0, 0), 1);
}

TEST_P(Behaves, ClosesAtTheEnd) {
  const std::filesystem::path mark = "plugin_test-closed";
  std::filesystem::remove(mark);
  {
    const auto factory = conduct("closes", GetParam());
    EXPECT_EQ(run(*factory->open(), SmallCall()).status, CallStatus::done);
  }
  EXPECT_TRUE(std::filesystem::exists(mark));
}

TEST_P(Behaves, NamesAndVersionsItself) {
  const auto factory = conduct("echo", GetParam());
  EXPECT_EQ(factory->info().name, folder + "/conduct.so:echo");
  EXPECT_EQ(factory->info().version, "1.2");
}

TEST_P(Behaves, TheExampleIsRight) {
  const SmallCall small(4);  // q.k = 2, scale 0.5: both scores 1, so out is the mean of v
  const auto subject = resolve(folder + "/attention_plugin.so:plain", Trust::command_line, options(GetParam()))->open();
  EXPECT_EQ(run(*subject, small).status, CallStatus::done);
  for (Index d = 0; d < 4; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 0.5);
}

TEST(Plugin, AcceptsALongerTableOfALaterVersion) { EXPECT_EQ(load_plugin(folder + "/table11.so").at(1).name, "b"); }

TEST(Plugin, KeepsStateFromCallToCallAndStartsAfreshAfterADeath) {
  const auto subject = conduct("counts")->open();
  const std::array<double, 7> wanted{1, 2, 3, -1, 1, 2, 3};
  for (const double value : wanted) {
    const SmallCall small;
    const CallResult result = run(*subject, small);
    EXPECT_EQ(result.status, value < 0 ? CallStatus::crash : CallStatus::done) << result.message;
    if (value >= 0) {
      EXPECT_EQ(small.out.at(0, 0, 0, 0), value);
    }
  }
}

TEST(Plugin, ADeathInAListIsTheDeathOfOneCall) {
  const auto subject = conduct("counts")->open();
  std::vector<SmallCall> small(6);
  std::vector<Call> calls;
  for (const SmallCall& each : small) calls.push_back(each.call());
  const std::vector<CallResult> results = subject->run(calls);
  ASSERT_EQ(results.size(), 6u);
  for (std::size_t c = 0; c < 6; ++c)
    EXPECT_EQ(results[c].status, c == 3 ? CallStatus::crash : CallStatus::done) << c << results[c].message;
  EXPECT_TRUE(small[3].out.is_poison(0, 0, 0, 0));
  EXPECT_EQ(small[5].out.at(0, 0, 0, 0), 2);
}

TEST(Plugin, IsAskedNothingMoreOnceItSaysThatItIsLost) {
  const auto subject = conduct("loses")->open();
  for (const bool in_a_list : {false, true}) {
    std::vector<SmallCall> small(7);
    std::vector<Call> calls;
    for (const SmallCall& each : small) calls.push_back(each.call());
    std::vector<CallResult> results;
    if (in_a_list) results = subject->run(calls);
    for (std::size_t c = results.size(); c < small.size(); ++c) results.push_back(subject->run_one(calls[c]));
    for (std::size_t c = 0; c < 6; ++c) {
      EXPECT_EQ(results[c].status, c % 3 == 2 ? CallStatus::error : CallStatus::done) << c << results[c].message;
      if (c % 3 == 2) {
        EXPECT_EQ(results[c].message, "the device is gone");
      }
    }
    EXPECT_TRUE(subject->renew());
  }
}

TEST(Plugin, MayPrintAndReadStdin) {
  const SmallCall printed, read;
  EXPECT_EQ(run_once("prints", printed).status, CallStatus::done);
  EXPECT_EQ(printed.out.at(0, 0, 0, 0), 3);
  EXPECT_EQ(run_once("reads-stdin", read).status, CallStatus::done);
  EXPECT_EQ(read.out.at(0, 0, 0, 0), 4);
}

// ---- what is wrong at a call ----------------------------------------------------------------------------------------

struct Misdeed {
  const char* name;
  CallStatus status;
  const char* message;
};

class Misbehaves : public ::testing::TestWithParam<Misdeed> {};

TEST_P(Misbehaves, IsAResultAndNoAccident) {
  const auto subject = conduct(GetParam().name)->open();
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second call meets a worker that was started again
    const CallResult result = run(*subject, SmallCall());
    EXPECT_EQ(result.status, GetParam().status);
    EXPECT_TRUE(std::regex_search(result.message, std::regex(GetParam().message))) << result.message;
    expect_one_sentence(result.message);
  }
}

INSTANTIATE_TEST_SUITE_P(InHost, Misbehaves,
                         ::testing::Values(Misdeed{"returns-seven", CallStatus::error, "returned 7"},
                                           Misdeed{"unsupported", CallStatus::unsupported, "^no such thing here$"},
                                           Misdeed{"silent-error", CallStatus::error, "without a message"},
                                           Misdeed{"control-characters", CallStatus::error, "^first second"},
                                           Misdeed{"segfault", CallStatus::crash, "killed by SIGSEGV"},
                                           Misdeed{"writes-far", CallStatus::crash, "killed by SIGSEGV"},
                                           Misdeed{"aborts", CallStatus::crash, "killed by SIGABRT"},
                                           Misdeed{"exits", CallStatus::crash, "ended with status 0"},
                                           Misdeed{"hangs", CallStatus::timeout, "no answer within 0.5 s"},
                                           Misdeed{"unterminated", CallStatus::error, "not terminated"},
                                           Misdeed{"unterminated-short", CallStatus::error, "not terminated"},
                                           Misdeed{"message-overflow", CallStatus::error,
                                                   "past the end of its message"},
                                           Misdeed{"throws", CallStatus::error, "exception: thrown on purpose"},
                                           Misdeed{"throws-int", CallStatus::error, "threw an exception"}),
                         [](const auto& misdeed) {
                           std::string name = misdeed.param.name;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Plugin, WritesOutsideAreSeenFromHere) {
  const SmallCall before, after, input;
  EXPECT_EQ(run_once("writes-before", before).status, CallStatus::done);
  EXPECT_EQ(before.out.damage(), Tensor::Damage::before);
  EXPECT_EQ(run_once("writes-after", after).status, CallStatus::done);
  EXPECT_EQ(after.out.damage(), Tensor::Damage::after);
  EXPECT_EQ(run_once("writes-input", input).status, CallStatus::done);
  EXPECT_EQ(input.k.at(0, 0, 0, 0), 42);
}

TEST(Plugin, AHangIsLeftWithinItsLimit) {
  const auto start = std::chrono::steady_clock::now();
  run_once("hangs");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

// ---- what is wrong with the library ---------------------------------------------------------------------------------

struct Refused {
  const char* what;
  const char* file;
  Exit exit;
  const char* sentence;
};

class Refuses : public ::testing::TestWithParam<Refused> {};

TEST_P(Refuses, WithOneClearSentence) {
  const auto [exit, sentence] = refusal(folder + "/" + GetParam().file);
  EXPECT_EQ(exit, GetParam().exit) << sentence;
  EXPECT_TRUE(std::regex_search(sentence, std::regex(GetParam().sentence))) << sentence;
  expect_one_sentence(sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Plugin, Refuses,
    ::testing::Values(Refused{"NoFile", "absent.so", Exit::no_subject, "there is no file .*absent.so"},
                      Refused{"NoSymbol", "table1.so", Exit::no_subject, "exports no symbol attest_plugin"},
                      Refused{"OtherAbi", "table2.so", Exit::no_subject, "does not speak ABI 1"},
                      Refused{"NoName", "table3.so", Exit::no_subject, "name of subject 0 is NULL"},
                      Refused{"AbsurdSize", "table4.so", Exit::no_subject, "struct_size is 12"},
                      Refused{"NoSubjects", "table5.so", Exit::no_subject, "count to 0"},
                      Refused{"NoDescribe", "table6.so", Exit::no_subject, "describe of a is NULL"},
                      Refused{"DiesAtStart", "table7.so", Exit::no_subject, "killed by SIGSEGV before it described"},
                      Refused{"OneNameTwice", "table8.so", Exit::no_subject, "two of its subjects are named a"},
                      Refused{"AbsurdCount", "table9.so", Exit::no_subject, "count to 18446744073709551615"},
                      Refused{"ThrowsAtLoad", "throws_at_load.so", Exit::no_subject,
                              "its attest_plugin threw an exception: there is no file weights.bin"},
                      Refused{"NoWord", "table10.so", Exit::no_subject, "is no word"},
                      Refused{"NoElf", "no_library.so", Exit::no_subject, "invalid ELF header|file too short"},
                      Refused{"SeveralSubjects", "table11.so", Exit::usage, "has 2 subjects.*: a, b"},
                      Refused{"NoSuchName", "conduct.so:ecko", Exit::no_subject, "did you mean echo"},
                      Refused{"Garbage", "conduct.so:garbage", Exit::no_subject, "describe is no JSON"},
                      Refused{"NoOps", "conduct.so:no-ops", Exit::no_subject, "'ops' is missing"},
                      Refused{"NoFunction", "conduct.so:no-function", Exit::no_subject, "function is NULL"},
                      Refused{"NoFunctionOfThatOp", "conduct.so:norm", Exit::no_subject,
                              "offers layer_norm, and the function is NULL"},
                      Refused{"NoFunctionOfBlocks", "conduct.so:block", Exit::no_subject,
                              "offers mha, and the function is NULL"},
                      Refused{"OtherOp", "conduct.so:projection", Exit::usage, "rope alone"},
                      Refused{"OpenRefuses", "conduct.so:refuses-to-open", Exit::no_subject, "no licence found"},
                      Refused{"Typo", "conduct.so:typo", Exit::no_subject, "no key 'supports.casual'"}),
    [](const auto& refused) { return refused.param.what; });

TEST(Plugin, RefusalsReadTheSameInProcess) {
  for (const char* file : {"absent.so", "table1.so", "table2.so", "table4.so", "conduct.so:garbage", "conduct.so:typo"})
    EXPECT_EQ(refusal(folder + "/" + file), refusal(folder + "/" + file, true));
}

}  // namespace
}  // namespace attest
