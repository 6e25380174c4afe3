// A plug-in that answers garbage in each field of its table, of a call's result and of its messages: one sentence each,
// in a host process always, in this one wherever the garbage is no crash.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <regex>

#include "core/error.hpp"
#include "subjects/resolve.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest {
namespace {

using testing::SmallCall;

enum class Where { host, both };  // both: and in this process

struct Garbage {
  const char* what;  // a mode of plugins/garbage.cpp
  Where where;
  const char* sentence;  // in the refusal, or the result; "" if it does no harm
};

std::string name_of(const ::testing::TestParamInfo<Garbage>& info) {
  std::string name = info.param.what;
  std::erase(name, '-');
  return name;
}

std::unique_ptr<SubjectFactory> garbage(const char* what, bool in_process) {
  ::setenv("ATTEST_TEST_GARBAGE", what, 1);
  ResolveOptions options;
  options.in_process = in_process;
  options.log_folder = "garbage_test-logs";
  options.limits.call = std::chrono::milliseconds(500);
  options.limits.start = std::chrono::milliseconds(3000);
  return resolve(ATTEST_PLUGIN_FOLDER "/garbage.so", Trust::command_line, options);
}

void expect_sentence(const std::string& text, const char* wanted) {
  EXPECT_TRUE(std::regex_search(text, std::regex(wanted))) << text;
  EXPECT_FALSE(text.empty());
  EXPECT_LT(text.size(), 600u) << text;
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~') << text;
}

// ---- before the first call ------------------------------------------------------------------------------------------

class AtStart : public ::testing::TestWithParam<Garbage> {};

TEST_P(AtStart, IsRefused) {
  for (const bool in_process : {false, true}) {
    if (in_process && GetParam().where == Where::host) break;
    try {
      garbage(GetParam().what, in_process)->open();
      FAIL() << "started";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::no_subject);
      expect_sentence(error.what(), GetParam().sentence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Garbage, AtStart,
    ::testing::Values(Garbage{"size-zero", Where::both, "struct_size is 0 instead of"},
                      Garbage{"size-huge", Where::both, "struct_size is 4294967295 instead of"},
                      Garbage{"size-odd", Where::both, "struct_size is 81 instead of"},
                      Garbage{"count-untouched", Where::both, "set the count to 0 instead of 1 to 1024"},
                      Garbage{"count-past-the-table", Where::host,
                              "name of subject|killed by SIGSEGV before it described"},
                      Garbage{"name-null", Where::both, "the name of subject 0 is NULL"},
                      Garbage{"name-empty", Where::both, "the name of subject 0 is no word"},
                      Garbage{"name-long", Where::both, "the name of subject 0 does not end within 200 bytes"},
                      Garbage{"name-control", Where::both, "the name of subject 0 is no word"},
                      Garbage{"name-space", Where::both, "the name of subject 0 is no word"},
                      Garbage{"name-no-utf8", Where::both, "the name of subject 0 is no word"},
                      Garbage{"name-wild", Where::host, "killed by SIGSEGV before it described itself"},
                      Garbage{"version-null", Where::both, "the version of a is NULL"},
                      Garbage{"version-long", Where::both, "the version of a does not end within 200 bytes"},
                      Garbage{"version-wild", Where::host, "killed by SIGSEGV before it described itself"},
                      Garbage{"describe-null", Where::both, "the describe of a is NULL"},
                      Garbage{"describe-empty", Where::both, "describe is no JSON"},
                      Garbage{"describe-long", Where::both, "the describe of a does not end within 1048576 bytes"},
                      Garbage{"describe-control", Where::both, "describe is no JSON"},
                      Garbage{"describe-no-utf8", Where::both, "describe is no JSON"},
                      Garbage{"describe-deep", Where::both, "describe is no JSON"},
                      Garbage{"describe-wild", Where::host, "killed by SIGSEGV before it described itself"},
                      Garbage{"table-wild", Where::host, "killed by SIGSEGV before it described itself"},
                      Garbage{"entry-exits", Where::host, "ended with status 3 before it described itself"},
                      Garbage{"entry-hangs", Where::host, "took longer than 3 s to load it"},
                      Garbage{"open-wild", Where::host, "killed by SIGSEGV before it described itself"},
                      Garbage{"open-crashes", Where::host, "killed by SIGSEGV before it described itself"},
                      Garbage{"open-exits", Where::host, "ended with status 0 before it described itself"},
                      Garbage{"open-hangs", Where::host, "took longer than 3 s to load it"},
                      Garbage{"open-code", Where::both, "open refuses: open returned 7, which is none of"},
                      Garbage{"open-unterminated", Where::both, "open refuses: .*message is not terminated"},
                      Garbage{"open-throws", Where::both, "open refuses: open threw an exception: no licence"}),
    name_of);

// ---- at a call and at the end ---------------------------------------------------------------------------------------

class AtACall : public ::testing::TestWithParam<Garbage> {};

TEST_P(AtACall, IsAResult) {
  const std::string wanted = GetParam().sentence;
  for (const bool in_process : {false, true}) {
    if (in_process && GetParam().where == Where::host) break;
    const auto start = std::chrono::steady_clock::now();
    {
      const auto factory = garbage(GetParam().what, in_process);
      const auto subject = factory->open();
      for (int repeat = 0; repeat < 2; ++repeat) {
        const SmallCall small;
        const CallResult result = subject->run_one(small.call());
        if (wanted.empty())
          EXPECT_EQ(result.status, CallStatus::done) << result.message;
        else
          expect_sentence(result.message, GetParam().sentence);
        EXPECT_GE(result.elapsed_ns, 0);
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "its end was waited for";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Garbage, AtACall,
    ::testing::Values(
        Garbage{"behaves", Where::both, ""}, Garbage{"reserved", Where::both, ""},
        Garbage{"self-wild", Where::both, ""}, Garbage{"version-empty", Where::both, ""},
        Garbage{"version-control", Where::both, ""}, Garbage{"version-no-utf8", Where::both, ""},
        Garbage{"function-wild", Where::host, "killed by SIGSEGV"},
        Garbage{"code-least", Where::both, "attention returned -2147483648, which is none of 0, 1, 2 and 3"},
        Garbage{"code-minus-one", Where::both, "attention returned -1, which is none of"},
        Garbage{"message-of-done-unterminated", Where::both, "returned 0, but its message is not terminated"},
        Garbage{"message-of-bytes", Where::both, "!\"#"}, Garbage{"call-written-over", Where::host, ""},
        Garbage{"shape-written-over", Where::host, ""}, Garbage{"close-throws", Where::both, ""},
        Garbage{"close-crashes", Where::host, ""}, Garbage{"close-hangs", Where::host, ""}),
    name_of);

}  // namespace
}  // namespace attest
