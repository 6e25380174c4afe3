#include "tests/report/python.hpp"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace attest {
namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }  // our own paths hold no quote

std::string python() {
  const char* given = std::getenv("ATTEST_PYTHON");
  return quoted(given != nullptr && *given != '\0' ? given : "python3");
}

}  // namespace

void need_python_with(const std::string& module) {
  if (std::system((python() + " -c 'import " + module + "' 2>/dev/null").c_str()) == 0) return;
  std::cerr << "skipped: " << python() << " has no " << module
            << "; ./run test installs it, or ATTEST_PYTHON names a Python that has it\n";
  std::exit(125);
}

std::string run_python(const std::string& script, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "script.py";
  std::ofstream(file) << script;
  const std::string command = "cd " + quoted(folder.string()) + " && " + python() + " script.py 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no shell");
  std::string output;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) output.append(block.data(), n);
  const int status = ::pclose(pipe);
  if (status != 0) output += "status " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1) + "\n";
  return output;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "attest-export-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace attest
