#include "subjects/started.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest_list = 1 << 20;

// Empty if the environment names no folder.
fs::path list_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state != nullptr && *state == '/')
    folder = state;
  else if (home != nullptr && *home == '/')
    folder = fs::path(home) / ".local" / "state";
  return folder.empty() ? folder : folder / "attest" / "subjects";
}

// "OWNER PATH"; empty for what is no file, or whose path has a control character and fits no line.
std::string line_of(const fs::path& file) {
  std::error_code error;
  const fs::path path = fs::canonical(file, error);
  struct stat status {};
  if (error || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  for (const char c : path.native())
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return {};
  return fmt::format("{} {}", status.st_uid, path.native());
}

// "build RUNTIME:BUILD", which no line of a file is; empty for what fits no line.
std::string line_of_build(const std::string& build) {
  for (const char c : build)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return {};
  return "build " + build;
}

// A list that somebody else could have written says nothing.
bool lists(const fs::path& list, const std::string& line) {
  struct stat status {};
  if (::stat(list.c_str(), &status) != 0 || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return false;
  std::ifstream stream(list);
  for (std::string noted; std::getline(stream, noted);)
    if (noted == line) return true;
  return false;
}

void note(const std::string& line) {
  const fs::path list = list_file();
  if (list.empty() || line.empty() || lists(list, line)) return;
  std::error_code error;
  fs::create_directories(list.parent_path(), error);
  const std::uintmax_t size = fs::file_size(list, error);
  if (!error && size > largest_list) return;
  const int descriptor = ::open(list.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return;
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());  // one write: whole lines
  ::close(descriptor);
}

bool was_noted(const std::string& line) {
  const fs::path list = list_file();
  return !list.empty() && !line.empty() && lists(list, line);
}

}  // namespace

void note_started(const fs::path& file) { note(line_of(file)); }
bool was_started(const fs::path& file) { return was_noted(line_of(file)); }
void note_build(const std::string& build) { note(line_of_build(build)); }
bool was_build_named(const std::string& build) { return was_noted(line_of_build(build)); }

}  // namespace attest
