// attest-plugin-host PLUGIN: a worker (docs/worker.md) that serves the subjects of a plug-in, so that what the plug-in
// does to memory ends with this process.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/arena.hpp"
#include "subjects/message.hpp"
#include "subjects/plugin.hpp"

namespace {

using attest::Arena;
using attest::CallResult;
using attest::CallStatus;
using attest::PluginEntry;
using attest::PluginKernel;
using nlohmann::json;

constexpr int orphan_grace_s = 5;  // past the caller's own limit, after which a forgotten host ends itself

void alarm_after(std::int64_t seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// The two ends of the protocol. The plug-in gets /dev/null and stderr in their place.
class Channel {
 public:
  Channel()
      : requests_(::fdopen(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10), "r")),
        replies_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10)) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }

  ~Channel() {
    std::free(line_);
    std::fclose(requests_);
    ::close(replies_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  std::optional<json> receive() {
    const ssize_t length = ::getline(&line_, &capacity_, requests_);
    if (length <= 0) return std::nullopt;
    return attest::parse_json({line_, static_cast<std::size_t>(length)});
  }

  void reply(std::string line) const {
    line += '\n';
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t written = ::write(replies_, line.data() + done, line.size() - done);
      if (written <= 0) std::_Exit(1);  // nobody listens
      done += static_cast<std::size_t>(written);
    }
  }

 private:
  std::FILE* requests_;
  int replies_;
  char* line_ = nullptr;
  std::size_t capacity_ = 0;
};

class Host {
 public:
  Host(std::string file, Channel& channel) : file_(std::move(file)), channel_(channel) {}

  // False when there is nothing more to do.
  bool answer(const json& request) {
    if (request.at("protocol") != attest::protocol_version) return refuse("this host speaks protocol 1");
    if (request.at("message") == "describe") return describe(request);
    run(request);
    return true;
  }

 private:
  bool refuse(const std::string& sentence) {
    channel_.reply(attest::json_text(
        json{{"protocol", attest::protocol_version}, {"message", "error"}, {"error", attest::one_line(sentence)}}));
    return false;
  }

  bool describe(const json& request) {
    arena_.emplace(request.at("arena").get<std::string>());
    alarm_after(request.at("timeout_ms").get<std::int64_t>() / 1000 +
                orphan_grace_s);  // a plug-in may spin while it loads
    try {
      for (PluginEntry& entry : attest::load_plugin(file_)) entries_.emplace_back(std::move(entry));
    } catch (const attest::Error& error) {
      return refuse(error.what());
    }
    const std::string wanted = request.value("subject", std::string());
    json subjects = json::array();
    for (const PluginEntry& entry : entries_) {
      attest::Offer offer = attest::offer_of(entry);
      if (offer.error.empty() && (entry.name == wanted || entries_.size() == 1)) offer.error = open(entry);
      json subject{{"name", offer.name}, {"version", attest::one_line(offer.version)}};
      if (offer.error.empty())
        subject["describe"] = attest::parse_foreign(offer.describe);
      else
        subject["error"] = offer.error;
      subjects.push_back(std::move(subject));
    }
    alarm_after(0);
    channel_.reply(attest::json_text(
        json{{"protocol", attest::protocol_version}, {"message", "describe"}, {"subjects", subjects}}));
    return true;
  }

  // Empty, or why the subject does not open.
  std::string open(const PluginEntry& entry) {
    std::unique_ptr<PluginKernel>& kernel = kernels_[entry.name];
    try {
      if (!kernel) kernel = std::make_unique<PluginKernel>(entry);
      return {};
    } catch (const attest::Error& error) {
      return error.what();
    }
  }

  void run(const json& request) {
    arena_->map(request.at("arena_bytes").get<std::size_t>());
    const std::int64_t limit = request.at("timeout_ms").get<std::int64_t>() / 1000 + orphan_grace_s;
    const auto id = request.at("id").get<std::int64_t>();
    std::size_t index = 0;
    for (const json& object : request.at("calls")) {
      alarm_after(limit);
      const CallResult result = run_one(request.at("subject").get<std::string>(), object);
      alarm_after(0);
      constexpr const char* statuses[] = {"ok", "unsupported", "error"};
      std::string line = fmt::format(R"({{"protocol":{},"message":"run","id":{},"call":{},"status":"{}","ns":{})",
                                     attest::protocol_version, id, index++, statuses[static_cast<int>(result.status)],
                                     result.elapsed_ns);
      if (!result.message.empty()) line += ",\"text\":" + attest::json_text(json(result.message));
      channel_.reply(line + "}");
    }
  }

  CallResult run_one(const std::string& name, const json& object) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.name == name; });
    if (entry == entries_.end()) return {CallStatus::error, "there is no subject " + attest::one_line(name)};
    if (const std::string why = open(*entry); !why.empty()) return {CallStatus::error, why};
    try {
      const attest::ReceivedCall received(object, arena_->data(), arena_->size());
      return kernels_[name]->run(received.call);
    } catch (const attest::Error& error) {
      return {CallStatus::error, attest::one_line(error.what())};
    }
  }

  std::string file_;
  Channel& channel_;
  std::optional<Arena> arena_;
  std::vector<PluginEntry> entries_;
  std::map<std::string, std::unique_ptr<PluginKernel>> kernels_;  // opened where it is wanted
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: attest-plugin-host PLUGIN, started by attest: it speaks the protocol of docs/worker.md\n",
               stderr);
    return 2;
  }
  try {
    Channel channel;
    Host host(argv[1], channel);
    while (const std::optional<json> request = channel.receive())
      if (!host.answer(*request)) break;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attest-plugin-host: %s\n", error.what());
    return 3;
  }
  return 0;
}
