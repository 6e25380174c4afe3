#include "subjects/host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/arena.hpp"
#include "subjects/mailbox.hpp"
#include "subjects/message.hpp"
#include "subjects/packed_call.hpp"
#include "subjects/plugin.hpp"
#include "subjects/sanitizer.hpp"

namespace attest {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds orphan_grace{
    5};  // past the caller's own limit, after which a forgotten host ends itself

// Ends a host whose caller has forgotten it. Set and put off seldom: a system call for each call of the plug-in would
// cost more than many of them.
class Watchdog {
 public:
  void watch(std::chrono::seconds limit) {
    const auto now = Clock::now();
    if (until_ >= now + limit) return;
    set(limit + slack);
    until_ = now + limit + slack;
  }
  void rest() {
    if (until_ == Clock::time_point{}) return;
    set(std::chrono::seconds{0});
    until_ = {};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds slack{2};

  static void set(std::chrono::seconds after) {
    itimerval timer{};
    timer.it_value.tv_sec = after.count();
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }

  Clock::time_point until_{};
};

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

  // The next line without its end; empty for one that only knocks.
  std::optional<std::string_view> receive() {
    const ssize_t length = ::getline(&line_, &capacity_, requests_);
    if (length <= 0) return std::nullopt;
    return std::string_view(line_, static_cast<std::size_t>(length - 1));
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

  // Serves until nobody asks any more.
  void serve() {
    for (;;) {
      if (lost_) return;  // attest starts another
      if (mailbox_ && mailbox_->spin()) {
        run_trip();
        continue;
      }
      watchdog_.rest();
      std::optional<std::string_view> line = "";
      if (!mailbox_ || !mailbox_->begin_sleep()) line = channel_.receive();
      if (mailbox_) mailbox_->end_sleep();
      if (!line) return;
      if (line->empty()) {
        if (mailbox_ && mailbox_->look()) run_trip();
      } else if (!answer(parse_json(*line))) {
        return;
      }
    }
  }

 private:
  // False when there is nothing more to do.
  bool answer(const json& request) {
    if (request.at("protocol") != protocol_version) return refuse("this host speaks protocol 1");
    if (request.at("message") == "describe") return describe(request);
    run(request);
    return true;
  }

  bool refuse(const std::string& sentence) {
    channel_.reply(
        json_text(json{{"protocol", protocol_version}, {"message", "error"}, {"error", one_line(sentence)}}));
    return false;
  }

  bool describe(const json& request) {
    arena_.emplace(request.at("arena").get<std::string>());
    watchdog_.watch(limit_of(request.at("timeout_ms").get<std::int64_t>()));  // a plug-in may spin while it loads
    try {
      for (PluginEntry& entry : load_plugin(file_)) entries_.emplace_back(std::move(entry));
    } catch (const Error& error) {
      return refuse(error.what());
    }
    const std::string wanted = request.value("subject", std::string());
    json subjects = json::array();
    for (const PluginEntry& entry : entries_) {
      Offer offer = offer_of(entry);
      if (offer.error.empty() && (entry.name == wanted || entries_.size() == 1)) offer.error = open(entry);
      json subject{{"name", offer.name}, {"version", one_line(offer.version)}};
      if (offer.error.empty())
        subject["describe"] = parse_foreign(offer.describe);
      else
        subject["error"] = offer.error;
      subjects.push_back(std::move(subject));
    }
    watchdog_.rest();
    json reply{{"protocol", protocol_version}, {"message", "describe"}, {"subjects", subjects}};
    if (const auto offered = request.find("mailbox");
        offered != request.end() && offered->at("version") == MailboxLayout::version) {
      mailbox_.emplace(offered->at("path").get<std::string>());
      reply["mailbox"] = MailboxLayout::version;
    }
    channel_.reply(json_text(reply));
    return true;
  }

  // Empty, or why the subject does not open.
  std::string open(const PluginEntry& entry) {
    std::unique_ptr<PluginKernel>& kernel = kernels_[entry.name];
    try {
      if (!kernel) kernel = std::make_unique<PluginKernel>(entry);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }

  static std::chrono::seconds limit_of(std::int64_t timeout_ms) {
    return std::chrono::seconds(timeout_ms / 1000) + orphan_grace;
  }

  void run(const json& request) {
    arena_->map(request.at("arena_bytes").get<std::size_t>());
    const auto limit = limit_of(request.at("timeout_ms").get<std::int64_t>());
    const auto id = request.at("id").get<std::int64_t>();
    std::size_t index = 0;
    for (const json& object : request.at("calls")) {
      watchdog_.watch(limit);
      const CallResult result = run_one(entry_of(request.at("subject").get<std::string>()), object);
      channel_.reply(line_of(result, id, index++));
      if (lost_) return;
    }
  }

  // Runs the trip that the mailbox asks for.
  void run_trip() {
    Unpacker message(mailbox_->take());
    arena_->map(message.trip().arena_bytes);
    const auto limit = limit_of(static_cast<std::int64_t>(message.trip().timeout_ms));
    const PluginEntry* entry = message.trip().subject < entries_.size() ? &entries_[message.trip().subject] : nullptr;
    for (std::size_t index = 0; index < message.trip().calls; ++index) {
      watchdog_.watch(limit);
      const CallResult result = run_one(entry, message.next());
      if (result.status == CallStatus::done && result.message.empty()) {
        const MailboxRecord record{MailboxRecord::ok, 0, static_cast<std::uint64_t>(result.elapsed_ns)};
        if (mailbox_->answer(record)) channel_.reply({});
      } else {
        mailbox_->answer({MailboxRecord::line, 0, 0});
        channel_.reply(line_of(result, static_cast<std::int64_t>(mailbox_->trip()), index));
      }
      if (lost_) return;
    }
  }

  static std::string line_of(const CallResult& result, std::int64_t id, std::size_t index) {
    constexpr const char* statuses[] = {"ok", "unsupported", "error"};
    std::string line =
        fmt::format(R"({{"protocol":{},"message":"run","id":{},"call":{},"status":"{}","ns":{})", protocol_version, id,
                    index, statuses[static_cast<int>(result.status)], result.elapsed_ns);
    if (!result.message.empty()) line += ",\"text\":" + json_text(json(result.message));
    if (result.lost) line += R"(,"ends":true)";
    return line + "}";
  }

  const PluginEntry* entry_of(const std::string& name) const {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.name == name; });
    return entry == entries_.end() ? nullptr : &*entry;
  }

  // `call` is a JSON object or the bytes of a packed call.
  template <class Call>
  CallResult run_one(const PluginEntry* entry, const Call& call) {
    if (entry == nullptr) return {CallStatus::error, "there is no subject of that name"};
    if (const std::string why = open(*entry); !why.empty()) return {CallStatus::error, why};
    try {
      const ReceivedCall received(call, arena_->data(), arena_->size());
      const PoisonedGaps poisoned(received.call, {arena_->data(), arena_->size()});
      CallResult result = kernels_[entry->name]->run(received.call);
      lost_ = result.lost;
      return result;
    } catch (const Error& error) {
      return {CallStatus::error, one_line(error.what())};
    }
  }

  std::string file_;
  Channel& channel_;
  std::optional<Arena> arena_;
  std::optional<WorkerMailbox> mailbox_;
  Watchdog watchdog_;
  std::vector<PluginEntry> entries_;
  bool lost_ = false;                                             // the plug-in can make no further call
  std::map<std::string, std::unique_ptr<PluginKernel>> kernels_;  // opened where it is wanted
};

}  // namespace

int serve_plugin(const char* file) {
  try {
    Channel channel;
    Host host(file, channel);
    host.serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attest-plugin-host: %s\n", error.what());
    return 3;
  }
  return 0;
}

}  // namespace attest
