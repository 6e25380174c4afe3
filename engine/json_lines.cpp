#include "engine/json_lines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/file.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t largest_log = std::uintmax_t{1} << 32;

int open_or_throw(const fs::path& file, int flags) {
  // A subject may have put a link or a pipe there, at which opening would wait for ever.
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (descriptor < 0) throw usage_error(fmt::format("{} cannot be written: {}", file.string(), std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return descriptor;
  ::close(descriptor);
  throw usage_error(fmt::format("{} cannot be written: it is no plain file", file.string()));
}

// Says where a last line without an end begins, if there is one.
std::optional<std::size_t> each_line(const fs::path& file,
                                     const std::function<void(const json&, std::string_view)>& read,
                                     std::string_view advice) {
  if (!fs::exists(file)) return std::nullopt;
  const std::string text = read_file(file, largest_log);
  std::size_t number = 0, begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    ++number;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    try {
      read(parse_json(line), line);
    } catch (const json::exception&) {
      throw usage_error(fmt::format("{}:{}: the line is damaged{}", file.string(), number, advice));
    }
    begin = end + 1;
  }
  if (begin == text.size()) return std::nullopt;
  return begin;
}

}  // namespace

void read_lines(const fs::path& file, const std::function<void(const json&, std::string_view)>& read) {
  each_line(file, read, "");
}

void for_each_line(const fs::path& file, const std::function<void(const json&)>& read) {
  const auto whole = each_line(
      file, [&](const json& line, std::string_view) { read(line); }, ": start a new campaign folder");
  std::error_code error;
  if (whole) fs::resize_file(file, *whole, error);
  if (error) throw usage_error(fmt::format("{} cannot be written: {}", file.string(), error.message()));
}

void for_last_line(const fs::path& file, const std::function<void(const json&)>& read) {
  json last;
  for_each_line(file, [&](const json& line) { last = line; });
  try {
    if (!last.is_null()) read(last);
  } catch (const json::exception&) {
    throw usage_error(file.string() + ": its last line is damaged: start a new campaign folder");
  }
}

JsonLines::JsonLines(fs::path file)
    : file_(std::move(file)), descriptor_(open_or_throw(file_, O_WRONLY | O_CREAT | O_APPEND)) {}
JsonLines::~JsonLines() { ::close(descriptor_); }

void JsonLines::append(const std::string& lines) {
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  std::string_view rest = lines;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string why = std::strerror(errno);
      [[maybe_unused]] const int undone =
          ::ftruncate(descriptor_, end);  // half a line would damage the one that follows
      throw usage_error(fmt::format("{} cannot be written: {}: is the disk full?", file_.parent_path().string(), why));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

FolderLock::FolderLock(const fs::path& folder) : descriptor_(-1) {
  require_writable(folder);
  descriptor_ = open_or_throw(folder / "lock", O_RDWR | O_CREAT);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw usage_error(folder.string() + " is in use by another campaign: wait for it, or name another folder");
}
FolderLock::~FolderLock() { ::close(descriptor_); }

FolderHold::FolderHold(const fs::path& folder) : descriptor_(::open((folder / "lock").c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_SH | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw usage_error(folder.string() + " is in use by a campaign: wait for it");
}
FolderHold::~FolderHold() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
FolderHold::FolderHold(FolderHold&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
FolderHold& FolderHold::operator=(FolderHold&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void keep_identity(const fs::path& folder, const ordered_json& given) {
  const fs::path file = folder / "campaign.json";
  const ordered_json ours = parse_ordered_json(json_text(given));  // as it comes back from a file
  if (!fs::exists(file)) return write_file(file, json_text(ours, 2) + "\n");
  ordered_json theirs;
  try {
    theirs = parse_ordered_json(read_file(file, 1 << 20));
  } catch (const json::exception&) {
    throw usage_error(file.string() + " is damaged: start a new campaign folder");
  }
  for (const auto& [key, value] : ours.items())
    if (!theirs.contains(key) || theirs[key] != value)
      throw usage_error(fmt::format(
          "{} holds another campaign: its {} is {}, here it is {}: name another folder, or the "
          "same options",
          folder.string(), key, theirs.contains(key) ? json_text(theirs[key]) : "absent", json_text(value)));
}

}  // namespace attest::engine
