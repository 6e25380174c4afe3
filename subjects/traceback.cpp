#include "subjects/traceback.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "core/digest.hpp"

namespace attest {
namespace {

constexpr std::size_t longest_traceback = std::size_t{1} << 17;
constexpr int most_tracebacks = 256;  // files of one run: code that is made anew for each call has no line twice

// The digest of the lines `  File "kernel.py", line 12, in f` and of the text before the first colon of the last line.
std::uint64_t identity(std::string_view traceback) {
  std::string told;
  std::string_view last;
  while (!traceback.empty()) {
    const std::string_view line = traceback.substr(0, traceback.find('\n'));
    traceback.remove_prefix(std::min(line.size() + 1, traceback.size()));
    if (line.starts_with("  File \"")) told += line;
    if (!line.empty() && line.front() != ' ') last = line;
  }
  told += last.substr(0, last.find(':'));
  return digest_of(told);
}

// False, and no file, if not all of it could be written.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string keep_traceback(const std::filesystem::path& folder, std::string_view traceback) {
  static std::atomic<int> kept{0};
  if (traceback.empty()) return {};
  traceback = traceback.substr(0, longest_traceback);
  std::string file = (folder / ("traceback-" + hex64(identity(traceback)) + ".txt")).string();
  if (kept >= most_tracebacks) return ::access(file.c_str(), F_OK) == 0 ? file : std::string();
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return errno == EEXIST ? file : std::string();
  ++kept;
  const bool whole = write_all(descriptor, traceback);
  ::close(descriptor);
  if (whole) return file;
  ::unlink(file.c_str());
  return {};
}

}  // namespace attest
