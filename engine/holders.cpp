#include "engine/holders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

namespace attest::engine {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> gpus{"/dev/nvidia", "/dev/kfd", "/dev/dri/renderD"};

bool holds_a_gpu(const fs::path& process) {
  std::error_code unseen;  // a process of another user's, or one that has just ended
  for (fs::directory_iterator file(process / "fd", unseen), end; !unseen && file != end; file.increment(unseen)) {
    std::error_code closed;
    const std::string target = fs::read_symlink(file->path(), closed).string();
    if (std::ranges::any_of(gpus, [&](std::string_view gpu) { return target.starts_with(gpu); })) return true;
  }
  return false;
}

}  // namespace

std::string holders_of_gpus(const fs::path& proc) {
  std::map<int, std::string> names;
  std::error_code unseen;
  for (fs::directory_iterator process(proc, unseen), end; !unseen && process != end; process.increment(unseen)) {
    const std::string number = process->path().filename().string();
    int pid = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
    if (error != std::errc() || rest != number.data() + number.size() || !holds_a_gpu(process->path())) continue;
    std::ifstream comm(process->path() / "comm");
    std::getline(comm, names[pid]);
  }
  std::string text;
  for (const auto& [pid, name] : names) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", pid, name);
  return text;
}

}  // namespace attest::engine
