#include "cli/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "cli/system_name.hpp"
#include "engine/failure.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

// The value of the first line `key<separator>value` of a file of the system; empty where there is none.
std::string value_in(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || !line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \"", at + 1), end = line.find_last_not_of(" \"");
    return begin == std::string::npos ? std::string() : line.substr(begin, end + 1 - begin);
  }
  return {};
}

// The command line of this process, as a shell takes it, with the program by its name alone.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');)
    line += line.empty() ? word.substr(word.rfind('/') + 1) : " " + report::shell_quoted(word);
  return line;
}

std::string user() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

std::string system() {
  const std::string release = value_in("/etc/os-release", "PRETTY_NAME", '=');
  return release.empty() ? system_name() : release + ", " + system_name();
}

std::string processor() {
  const std::string model = value_in("/proc/cpuinfo", "model name", ':');
  return fmt::format("{}{} threads", model.empty() ? "" : model + ", ", std::thread::hardware_concurrency());
}

}  // namespace

nlohmann::ordered_json provenance() {
  static const std::string ended = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return {{"ended", ended},
          {"user", user()},
          {"system", system()},
          {"processor", processor()},
          {"command", command_line()},
          {"attest", engine::attest_version()}};
}

nlohmann::ordered_json provenance(const SubjectInfo& subject) {
  nlohmann::ordered_json run = provenance();
  if (!subject.libraries.empty()) run["libraries"] = subject.libraries;
  if (subject.line > 0) run["line"] = subject.line;
  return run;
}

}  // namespace attest::cli
