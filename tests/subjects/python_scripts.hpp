#pragma once
// Scripts with @attest.subject as the tests of Python subjects ask them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "subjects/resolve.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest::testing {

inline const std::string scripts = ATTEST_SOURCE_DIR "/tests/subjects/scripts/";

inline bool python_can_import(const std::string& package) {
  const char* python = std::getenv("ATTEST_PYTHON");
  const std::string command = (python != nullptr && *python != '\0' ? std::string(python) : "python3") +
                              " -c 'import " + package + "' 2>/dev/null";
  return std::system(command.c_str()) == 0;
}

inline ResolveOptions options() {
  ResolveOptions options;
  options.log_folder = "python_test-logs";
  return options;
}

inline std::unique_ptr<SubjectFactory> script(const std::string& text, const ResolveOptions& how = options()) {
  return resolve(scripts + text, Trust::command_line, how);
}

inline CallResult run(Subject& subject, const attest_attention& call) { return subject.run_one(call); }

class Python : public ::testing::Test {
 protected:
  static CallResult run_once(const std::string& name, const SmallCall& small = SmallCall()) {
    return run(*script("kernels.py:" + name)->open(), small.call());
  }
};

}  // namespace attest::testing
