// Errors in a script with @attest.subject, or in finding one, end as a result or a sentence, and as no accident.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "core/error.hpp"
#include "tests/subjects/python_scripts.hpp"

namespace attest {
namespace {

using testing::options;
using testing::Python;
using testing::run;
using testing::script;
using testing::SmallCall;

struct Case {
  const char* name;
  CallStatus status;
  const char* message;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class PythonMisbehaves : public Python, public ::testing::WithParamInterface<Case> {};

TEST_P(PythonMisbehaves, IsAResultAndNoAccident) {
  ResolveOptions how = options();
  if (GetParam().status == CallStatus::timeout) how.limits.call = std::chrono::milliseconds(500);
  const auto subject = script(std::string("kernels.py:") + GetParam().name, how)->open();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const CallResult result = run(*subject, SmallCall().call());
    EXPECT_EQ(result.status, GetParam().status);
    EXPECT_TRUE(std::regex_search(result.message, std::regex(GetParam().message))) << result.message;
    EXPECT_EQ(result.message.find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, PythonMisbehaves,
    ::testing::Values(
        Case{"raises", CallStatus::error,
             "^ValueError: on purpose and in two lines .*\\(at kernels.py:[0-9]+, traceback in .*txt\\)$"},
        Case{"refuses", CallStatus::unsupported, "^head width 7$"},
        Case{"quits", CallStatus::error, "^SystemExit: bye"},
        Case{"wrong_shape", CallStatus::error, "shape \\(1, 2, 3\\) instead of \\(1, 1, 1, 8\\)"},
        Case{"wrong_dtype", CallStatus::error, "returned out as f64 instead of f32"},
        Case{"returns_nothing", CallStatus::error, "returned NoneType for out"},
        Case{"returns_list", CallStatus::error, "returned list for out"},
        Case{"hangs_holding_the_lock", CallStatus::timeout, "no answer within 0.5 s"},
        Case{"segfaults", CallStatus::crash, "killed by SIGSEGV"}),
    [](const auto& one) { return one.param.name; });

TEST_F(Python, ALostDeviceIsTheErrorOfItsCallAlone) {
  const auto subject = script("kernels.py:loses_its_device")->open();
  const SmallCall small;
  const auto results = subject->run(std::vector<Call>(4, small.call()));
  ASSERT_EQ(results.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(results[i].status, i % 2 == 1 ? CallStatus::error : CallStatus::done) << i << results[i].message;
  EXPECT_TRUE(results[1].message.starts_with("Broken: the device is lost")) << results[1].message;
}

TEST_F(Python, AMissingLseIsAnError) {
  SmallCall small;
  EXPECT_EQ(run_once("no_lse", small).status, CallStatus::done);
  small.lse = Tensor(DType::f32, std::array<Index, 3>{1, 1, 1});
  const CallResult result = run_once("no_lse", small);
  EXPECT_EQ(result.status, CallStatus::error);
  EXPECT_NE(result.message.find("did not return (out, lse)"), std::string::npos) << result.message;
}

TEST_F(Python, ATracebackLiesInTheFileThatTheMessageNames) {
  const CallResult result = run_once("raises");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(result.message, match, std::regex("traceback in (.*)\\)")));
  std::stringstream text;
  text << std::ifstream(match[1].str()).rdbuf();
  EXPECT_NE(text.str().find("Traceback"), std::string::npos);
  EXPECT_NE(text.str().find("in raises"), std::string::npos) << text.str();
  const std::filesystem::path folder = std::filesystem::path(match[1].str()).parent_path();
  const auto kept = [&] {
    return std::ranges::count_if(std::filesystem::directory_iterator(folder), [](const auto& file) {
      return file.path().filename().string().starts_with("traceback-");
    });
  };
  const auto before = kept();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run_once("raises").message, result.message);
  EXPECT_EQ(kept(), before);
}

TEST_F(Python, WhatAScriptPrintsLiesInItsLog) {
  run_once("prints");
  std::stringstream text;
  for (const auto& file : std::filesystem::directory_iterator("python_test-logs"))
    if (file.path().native().ends_with("kernels-py-prints.log")) text << std::ifstream(file.path()).rdbuf();
  EXPECT_NE(text.str().find("a script may print while it is imported"), std::string::npos);
}

struct Refused {
  const char* name;
  const char* text;
  Exit exit;
  const char* sentence;
};
void PrintTo(const Refused& one, std::ostream* out) { *out << one.name; }

class PythonRefuses : public Python, public ::testing::WithParamInterface<Refused> {};

TEST_P(PythonRefuses, WithOneSentence) {
  try {
    script(GetParam().text);
    FAIL() << "resolved";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), GetParam().exit) << error.what();
    EXPECT_TRUE(std::regex_search(error.what(), std::regex(GetParam().sentence))) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scripts, PythonRefuses,
    ::testing::Values(
        Refused{"NoFile", "absent.py", Exit::no_subject, "there is no file .*absent.py"},
        Refused{"NoSubject", "no_subject.py", Exit::no_subject, "declares no subject: put @attest.subject"},
        Refused{"Several", "kernels.py", Exit::usage, "subjects, name one as .*: echo, writes_out"},
        Refused{"NoSuchName", "kernels.py:ecko", Exit::no_subject, "no subject ecko: did you mean echo"},
        Refused{"Syntax", "syntax_error.py", Exit::no_subject, "cannot be imported: SyntaxError.*\\(more in "},
        Refused{"Raises", "raises_at_import.py", Exit::no_subject, "RuntimeError: licence server is down"},
        Refused{"Quits", "quits_at_import.py", Exit::no_subject, "SystemExit: 0"},
        Refused{"Dies", "dies_at_import.py", Exit::no_subject, "was killed by SIGABRT before it described itself"},
        Refused{"NoModule", "no_module.py", Exit::no_subject, "No module named 'a_package_that_nobody_has'"},
        Refused{"BadDtype", "bad_dtype.py", Exit::no_subject, "dtype 'int8' is none of float16"},
        Refused{"BadParameter", "bad_parameter.py", Exit::no_subject, "did you mean 'causal'"},
        Refused{"FormsUnsaid", "forms_unsaid.py", Exit::no_subject, "has no parameter `form` to be told which"},
        Refused{"OneWindow", "one_window.py", Exit::no_subject, "take both or none"},
        Refused{"NoQkv", "no_qkv.py", Exit::no_subject, "must take q, k, v first, and takes query, key, value"},
        Refused{"Twice", "twice.py", Exit::no_subject, "declares the subject 'f' twice"},
        Refused{"ContractTypo", "kernels.py:contract_typo", Exit::no_subject, "no key 'batch_invarient'"}),
    [](const auto& refused) { return refused.param.name; });

TEST_F(Python, APythonThatIsNotThereIsNamed) {
  ResolveOptions how = options();
  how.python = "/nowhere/python3";
  try {
    script("one_subject.py", how);
    FAIL() << "resolved";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::no_subject);
    EXPECT_NE(std::string(error.what()).find("/nowhere/python3 cannot be run"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace attest
