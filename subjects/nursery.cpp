#include "subjects/nursery.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "subjects/descendants.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

constexpr std::chrono::seconds patience{60};  // forks of large processes take a while, and it makes one after the other

std::string message(const char* kind, const std::string& rest) {
  return fmt::format(R"({{"protocol":{},"message":"{}"{}}})", protocol_version, kind, rest) + "\n";
}

std::int64_t number_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

bool says(const nlohmann::json& object, const char* kind) {
  return object.is_object() && object.value("message", nlohmann::json()) == kind;
}

}  // namespace

bool Nursery::is_possible() {
  static const bool possible = [] {
    const int file = open_process(::getpid());
    if (file >= 0) ::close(file);
    return file >= 0 && stat_of(::getpid());
  }();
  return possible;
}

void Nursery::bear(int socket, Process::Shared memory) {
  const std::lock_guard guard(lock_);
  process_->wake();
  const std::array files{socket, memory.arena, memory.mailbox};
  if (process_->send(message("life", ""), files, Process::Clock::now() + patience) != Process::Received::line)
    gone_ = true;
}

bool Nursery::tell(const std::string& message) {
  process_->wake();  // a child may have stopped it
  if (process_->send(message, Process::Clock::now() + patience) != Process::Received::line) gone_ = true;
  return !gone_;
}

std::optional<Ended> Nursery::reap(pid_t child) {
  const std::lock_guard guard(lock_);
  std::string line;
  if (!tell(message("reap", fmt::format(R"(,"pid":{})", child)))) return std::nullopt;
  if (process_->receive(line, Process::Clock::now() + patience) != Process::Received::line) {
    gone_ = true;
    return std::nullopt;
  }
  const nlohmann::json reply = parse_foreign(line);
  if (!says(reply, "reaped") ||
      number_in(reply, "pid") != child) {  // it says no other line: somebody else speaks for it
    gone_ = true;
    return std::nullopt;
  }
  if (number_in(reply, "status") < 0) return std::nullopt;
  return Ended{static_cast<int>(number_in(reply, "status")),
               static_cast<std::uint64_t>(std::max<std::int64_t>(number_in(reply, "held"), 0))};
}

void Nursery::bury(pid_t child) {
  const std::lock_guard guard(lock_);
  tell(message("bury", fmt::format(R"(,"pid":{})", child)));
}

bool Nursery::says_born(std::string_view line) { return says(parse_foreign(line), "born"); }

}  // namespace attest
