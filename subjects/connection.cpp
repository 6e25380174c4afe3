#include "subjects/connection.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/tensor.hpp"

namespace attest {
namespace {

using nlohmann::json;
using Clock = Process::Clock;

constexpr std::size_t kept_of_address = 256;  // tensors keep their address modulo this
constexpr std::chrono::milliseconds patience_at_end{1000};

// A view with the guards around it: what travels to the worker and back.
struct Window {
  std::byte* first;
  std::size_t before, size;

  explicit Window(const attest_tensor& view)
      : first(static_cast<std::byte*>(view.data) + view.byte_offset),
        before(guard_bytes(view)),
        size(before + span_of(view) + before) {
    first -= before;
  }
};

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

std::string excerpt(std::string_view line) { return "'" + one_line(line.substr(0, 60)) + "'"; }

std::string text_of(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? one_line(found->get_ref<const std::string&>()) : std::string();
}

Offer read_offer(const json& subject) {
  Offer offer{text_of(subject, "name"), text_of(subject, "version"), {}, text_of(subject, "error")};
  if (const auto describe = subject.find("describe"); describe != subject.end()) offer.describe = describe->dump();
  return offer;
}

}  // namespace

WorkerConnection::WorkerConnection(WorkerCommand command, const std::string& subject)
    : command_(std::move(command)), process_(command_.argv, arena_.file(), command_.log) {
  const auto fail = [&](const std::string& why) { return Error(Exit::no_subject, command_.target + " " + why); };
  const auto deadline = Clock::now() + command_.limits.start;
  const std::string request =
      fmt::format(R"({{"protocol":{},"message":"describe","arena":"/proc/self/fd/{}","subject":{}}})", protocol_version,
                  Process::arena_file, json(subject).dump()) +
      "\n";
  Process::Received state = process_.send(request, deadline);
  if (state == Process::Received::line) state = process_.receive(line_, deadline);
  if (state == Process::Received::closed)
    throw fail(
        fmt::format("could not be started: its worker {} before it described itself{}", process_.end(), more_in_log()));
  if (state == Process::Received::timeout)
    throw fail(fmt::format("could not be started: its worker did not describe itself within {}{}",
                           seconds(command_.limits.start), more_in_log()));
  const json reply = parse_foreign(line_);
  if (state == Process::Received::too_long || !reply.is_object())
    throw fail("could not be started: its worker answered " + excerpt(line_) + " instead of a JSON object");
  if (reply.value("protocol", json()) != protocol_version)
    throw fail(fmt::format("could not be started: its worker speaks protocol {} instead of {} (docs/worker.md)",
                           one_line(reply.value("protocol", json()).dump()), protocol_version));
  if (const std::string error = text_of(reply, "error"); !error.empty())
    throw Error(Exit::no_subject, error + (reply.value("logged", json()) == true ? more_in_log() : ""));
  const auto subjects = reply.find("subjects");
  if (subjects == reply.end() || !subjects->is_array() || subjects->empty())
    throw fail("could not be started: its worker described no subject");
  for (const json& offered : *subjects) {
    offers_.push_back(read_offer(offered));
    if (offers_.back().name.empty()) throw fail("could not be started: its worker described a subject without a name");
  }
}

WorkerConnection::~WorkerConnection() {
  if (usable_) process_.finish(patience_at_end);
}

std::string WorkerConnection::more_in_log() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(command_.log, error);
  return error || size == 0 ? "" : " (more in " + command_.log.string() + ")";
}

void WorkerConnection::copy_in(std::span<const attest_attention> calls) {
  offsets_.assign(calls.size(), {});
  std::size_t end = 0;
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
      const attest_tensor& view = calls[c].*tensor_fields[i].member;
      if (!attest_present(&view)) continue;
      const Window window(view);
      const std::size_t phase = reinterpret_cast<std::uintptr_t>(window.first) % kept_of_address;
      const std::size_t begin = end + (phase + kept_of_address - end % kept_of_address) % kept_of_address;
      offsets_[c][i] = begin + window.before;
      end = begin + window.size;
    }
  arena_.grow(end);
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
      const attest_tensor& view = calls[c].*tensor_fields[i].member;
      if (!attest_present(&view)) continue;
      const Window window(view);
      std::memcpy(arena_.data() + offsets_[c][i] - window.before, window.first, window.size);
    }
}

// Everything the subject changed, guards and inputs included.
void WorkerConnection::copy_out(const attest_attention& call, std::size_t index) const {
  for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
    const attest_tensor& view = call.*tensor_fields[i].member;
    if (!attest_present(&view)) continue;
    const Window window(view);
    const std::byte* there = arena_.data() + offsets_[index][i] - window.before;
    if (std::memcmp(window.first, there, window.size) != 0) std::memcpy(window.first, there, window.size);
  }
}

std::vector<CallResult> WorkerConnection::run(const std::string& subject, std::span<const attest_attention> calls) {
  copy_in(calls);
  std::string request =
      fmt::format(R"({{"protocol":{},"message":"run","id":{},"subject":{},"timeout_ms":{},"arena_bytes":{},"calls":[)",
                  protocol_version, ++trip_, json(subject).dump(), command_.limits.call.count(), arena_.size());
  for (std::size_t c = 0; c < calls.size(); ++c) {
    if (c > 0) request += ',';
    append_call(request, calls[c], offsets_[c]);
  }
  request += "]}\n";
  std::vector<CallResult> results;
  if (const auto state = process_.send(request, Clock::now() + command_.limits.call);
      state != Process::Received::line) {
    results.push_back(lost(state));
    return results;
  }
  for (std::size_t c = 0; c < calls.size(); ++c) {
    results.push_back(receive(c));
    const CallStatus status = results.back().status;
    if (status == CallStatus::crash || status == CallStatus::timeout || !usable_) break;
    if (status == CallStatus::done) copy_out(calls[c], c);
  }
  return results;
}

std::string WorkerConnection::script(const std::string& subject, const attest_attention& call) {
  copy_in({&call, 1});
  std::string request = fmt::format(R"({{"protocol":{},"message":"script","subject":{},"arena_bytes":{},"call":)",
                                    protocol_version, json(subject).dump(), arena_.size());
  append_call(request, call, offsets_.front());
  request += "}\n";
  const auto deadline = Clock::now() + command_.limits.call;
  Process::Received state = process_.send(request, deadline);
  if (state == Process::Received::line) state = process_.receive(line_, deadline);
  const json reply = state == Process::Received::line ? parse_foreign(line_) : json();
  const auto source = reply.is_object() ? reply.find("source") : reply.end();
  if (source == reply.end() || !source->is_string()) {
    usable_ = false;
    throw Error(Exit::no_subject, command_.target + " did not say how to run this call in a script" + more_in_log());
  }
  return source->get<std::string>();
}

CallResult WorkerConnection::lost(Process::Received how) {
  usable_ = false;
  switch (how) {
    case Process::Received::timeout:
      return {CallStatus::timeout, "no answer within " + seconds(command_.limits.call)};
    case Process::Received::too_long:
      return nonsense("a line without an end");
    default:
      return {CallStatus::crash, "the worker " + process_.end()};
  }
}

CallResult WorkerConnection::nonsense(const std::string& what) {
  usable_ = false;
  return {CallStatus::error, "the worker answered a call with " + what};
}

CallResult WorkerConnection::receive(std::size_t index) {
  if (const auto state = process_.receive(line_, Clock::now() + command_.limits.call); state != Process::Received::line)
    return lost(state);
  const json reply = parse_foreign(line_);
  if (!reply.is_object()) return nonsense(excerpt(line_) + ", which is no JSON object");
  const auto field = [&](const char* key) { return reply.value(key, json()); };
  if (field("protocol") != protocol_version)
    return nonsense("protocol " + one_line(field("protocol").dump()) + " instead of 1");
  if (field("message") != "run") {
    const std::string error = text_of(reply, "error");
    return nonsense(error.empty() ? "the message " + one_line(field("message").dump()) : "an error: " + error);
  }
  if (field("id") != trip_ || field("call") != index)
    return nonsense(fmt::format("a result for call {} of trip {} instead of call {} of trip {}",
                                one_line(field("call").dump()), one_line(field("id").dump()), index, trip_));
  CallResult result;
  const json status = field("status");
  if (status == "ok")
    result.status = CallStatus::done;
  else if (status == "unsupported")
    result.status = CallStatus::unsupported;
  else if (status == "error")
    result.status = CallStatus::error;
  else
    return nonsense("the status " + one_line(status.dump()) + ", which is none of ok, unsupported and error");
  if (const json ns = field("ns"); ns.is_number_integer()) result.elapsed_ns = ns.get<std::int64_t>();
  if (result.status == CallStatus::done) return result;
  result.message = text_of(reply, "text");
  if (result.message.empty()) result.message = status == "error" ? "an error without a message" : "no reason given";
  if (field("logged") == true) result.message += more_in_log();
  return result;
}

}  // namespace attest
