#include "subjects/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/tensor.hpp"
#include "subjects/memory.hpp"
#include "subjects/message.hpp"
#include "subjects/packed_call.hpp"
#include "subjects/reply.hpp"
#include "subjects/sanitizer.hpp"
#include "subjects/traceback.hpp"

namespace attest {
namespace {

using nlohmann::json;
using Clock = Process::Clock;

constexpr std::size_t kept_of_address = 256;  // tensors keep their address modulo this
constexpr std::chrono::milliseconds patience_at_end{1000};
constexpr int busy = 6;  // times what loading takes where others have the processors, at most

bool overlap(std::span<std::byte> a, std::span<std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

// The text as JSON. The command line may hold bytes that are no text: no worker has a subject of that name, and it says
// so.
std::string quoted(const std::string& text) { return json_text(json(text)); }

}  // namespace

WorkerConnection::WorkerConnection(WorkerCommand command, const std::string& subject, std::shared_ptr<Nursery> nursery,
                                   bool may_be_nursery)
    : command_(std::move(command)), begun_at_(Clock::now()), may_be_nursery_(may_be_nursery) {
  const Process::Shared memory{arena_.file(), mailbox_.file()};
  const std::uint64_t most = command_.limits.memory;
  process_ = nursery ? std::make_unique<Process>(std::move(nursery), memory, most)
                     : std::make_unique<Process>(command_.argv, memory, command_.log, most);
  std::string request =
      fmt::format(R"({{"protocol":{},"message":"describe","arena":"/proc/self/fd/{}","subject":{},"timeout_ms":{})",
                  protocol_version, Process::arena_file, quoted(subject), longest_load().count());
  if (command_.ways.mailbox)
    request += fmt::format(R"(,"mailbox":{{"version":{},"path":"/proc/self/fd/{}","bytes":{}}})",
                           MailboxLayout::version, Process::mailbox_file, MailboxLayout::bytes);
  if (may_be_nursery) request += R"(,"nursery":true)";
  if (!command_.builds.empty()) request += fmt::format(R"(,"builds":{})", json_text(json(command_.builds)));
  request += "}\n";
  begun_ = process_->send(request, begun_at_ + command_.limits.start);
}

std::chrono::milliseconds WorkerConnection::longest_load() const { return busy * command_.limits.start; }

// The time that it waited for a processor of a busy machine does not count, up to a limit.
Process::Received WorkerConnection::while_it_loads(const std::function<Process::Received(Clock::time_point)>& wait) {
  const auto end = [this] {
    return begun_at_ +
           std::min<Clock::duration>(command_.limits.start + process_->waited_for_processor(), longest_load());
  };
  Process::Received state = wait(end());
  while (state == Process::Received::timeout && Clock::now() < end()) state = wait(end());
  return state;
}

void WorkerConnection::await_description() {
  const auto fail = [&](const std::string& why) { return Error(Exit::no_subject, command_.target + " " + why); };
  Process::Received state = begun_;
  if (state == Process::Received::line)
    state = while_it_loads([this](Clock::time_point end) { return process_->born(end); });
  if (state == Process::Received::line)
    state = while_it_loads([this](Clock::time_point end) { return process_->receive(line_, end); });
  if (state == Process::Received::closed)
    throw fail(fmt::format("could not be started: its worker {} before it described itself{}", process_->end(),
                           more_in_log()));
  if (state == Process::Received::timeout)
    throw fail(
        fmt::format("could not be started: its worker took longer than {} to load it; --load-timeout gives it more{}",
                    seconds(command_.limits.start), more_in_log()));
  if (state == Process::Received::too_much_memory) throw fail("could not be started: its worker " + out_of_memory());
  if (state == Process::Received::too_long)
    throw fail("could not be started: its worker answered a line without an end instead of a JSON object");
  Description description = read_description(line_, command_.target);
  if (!description.error.empty())
    throw Error(Exit::no_subject, description.error + (description.logged ? more_in_log() : ""));
  offers_ = std::move(description.offers);
  has_mailbox_ = command_.ways.mailbox && description.mailbox;
  is_nursery_ = may_be_nursery_ && description.nursery;
  usable_ = true;
}

std::unique_ptr<Process> WorkerConnection::take_nursery() {
  if (!is_nursery_) return nullptr;
  usable_ = false;
  return std::move(process_);
}

void WorkerConnection::leave() {
  process_->hang_up();
  left_by_ = Clock::now() + patience_at_end;
}

bool WorkerConnection::has_left() const { return Clock::now() >= left_by_ || process_->has_ended_by({}); }

WorkerConnection::~WorkerConnection() {
  if (!usable_) return;
  if (left_by_ == Clock::time_point{}) leave();
  process_->has_ended_by(left_by_);
}

std::string WorkerConnection::more_in_log() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(command_.log, error);
  return error || size == 0 ? "" : " (more in " + command_.log.string() + ")";
}

std::string WorkerConnection::out_of_memory() const {
  return fmt::format("ran out of memory: it held more than the {} that --memory allows it",
                     memory_text(command_.limits.memory));
}

bool WorkerConnection::copy_in(std::span<const Call> calls) {
  offsets_.assign(calls.size(), {});
  bool far_apart = false;
  std::size_t end = 0;
  // Inputs that follow each other as views of one buffer stay such: where the latest begins, here and there.
  const std::byte* buffer = nullptr;
  std::size_t buffer_begin = 0, buffer_size = 0;
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (std::size_t i = 0; i < calls[c].shape().tensors.size(); ++i) {
      const TensorSlot& slot = calls[c].shape().tensors[i];
      const attest_tensor& view = calls[c].tensor(slot);
      if (!attest_present(&view)) continue;
      const MemoryParts parts = parts_of(view);
      if (i == 0) buffer = nullptr;
      if (buffer != nullptr && !slot.written() && parts.count == 1 && parts.first >= buffer &&
          parts.first < buffer + buffer_size) {
        const auto from_begin = static_cast<std::size_t>(parts.first - buffer);
        offsets_[c][i] = buffer_begin + from_begin + guard_bytes(view);
        buffer_size = std::max(buffer_size, from_begin + parts.size);
        end = std::max(end, buffer_begin + buffer_size);
        continue;
      }
      const std::size_t phase = reinterpret_cast<std::uintptr_t>(parts.first) % kept_of_address;
      const std::size_t begin = end + (phase + kept_of_address - end % kept_of_address) % kept_of_address;
      offsets_[c][i] = begin + guard_bytes(view);
      end = begin + parts.span();
      buffer = parts.count == 1 ? parts.first : nullptr;
      buffer_begin = begin;
      buffer_size = parts.size;
      far_apart = far_apart || parts.count > 1;
    }
  try {
    arena_.grow(end);
  } catch (const Error&) {
    if (!far_apart) throw;
    throw NotReserved(
        "the memory shared with a worker may not be as long as tensors whose parts lie far apart take, though "
        "little of it is used: raise the limit (ulimit -f, ulimit -v)");
  }
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (std::size_t i = 0; i < calls[c].shape().tensors.size(); ++i) {
      const attest_tensor& view = calls[c].tensor(calls[c].shape().tensors[i]);
      if (!attest_present(&view)) continue;
      const MemoryParts parts = parts_of(view);
      std::byte* to = arena_.data() + offsets_[c][i] - guard_bytes(view);
      for (std::size_t n = 0; n < parts.count; ++n) std::memcpy(to + n * parts.step, parts.part(n).data(), parts.size);
    }
  return far_apart;
}

// Everything the subject changed, guards and inputs included. The tensors of a trip may share an input: a change in one
// copy of it must not be overwritten by the next copy, which has none.
void WorkerConnection::copy_out(const Call& call, std::size_t index) {
  const std::span<const TensorSlot> tensors = call.shape().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const attest_tensor& view = call.tensor(tensors[i]);
    if (!attest_present(&view)) continue;
    const MemoryParts parts = parts_of(view);
    const std::byte* there = arena_.data() + offsets_[index][i] - guard_bytes(view);
    for (std::size_t n = 0; n < parts.count; ++n, there += parts.step) {
      const std::span<std::byte> part = parts.part(n);
      if (std::memcmp(part.data(), there, part.size()) == 0) continue;
      if (!tensors[i].written()) {
        if (std::ranges::any_of(changed_inputs_, [&](auto other) { return overlap(part, other); })) continue;
        changed_inputs_.push_back(part);
      }
      std::memcpy(part.data(), there, part.size());
    }
  }
}

std::vector<CallResult> WorkerConnection::run(const std::string& subject, std::span<const Call> calls,
                                              const Patience& patience) {
  changed_inputs_.clear();
  const bool far_apart = copy_in(calls);
  const std::chrono::milliseconds first = is_fresh() ? patience.first_call : patience.call;
  std::vector<CallResult> results;
  const auto asked = Clock::now();
  if (const auto state = ask(subject, calls, first); state != Process::Received::line) {
    results.push_back(lost(state, command_.limits.call, Clock::time_point::max()));
    return results;
  }
  for (std::size_t c = 0; c < calls.size(); ++c) {
    results.push_back(receive(c, c == 0 ? asked + first : Clock::now() + patience.call));
    const CallStatus status = results.back().status;
    if (status == CallStatus::crash || status == CallStatus::timeout || !usable_) break;
    if (status == CallStatus::done) copy_out(calls[c], c);
  }
  if (usable_ && process_->says_more(has_mailbox_)) {
    Process::Received state = Process::Received::line;
    do state = process_->receive(line_, Clock::now());
    while (state == Process::Received::line && line_.empty());
    results.back() =
        result_of(nonsense("one more line than it was asked for" +
                           (state == Process::Received::line ? ": '" + one_line(line_.substr(0, 60)) + "'" : "")));
  }
  if (far_apart) arena_.empty();  // each trip would leave pages elsewhere
  return results;
}

Process::Received WorkerConnection::ask(const std::string& subject, std::span<const Call> calls,
                                        std::chrono::milliseconds limit) {
  ++trip_;
  Process::Received state = Process::Received::line;
  trip_in_mailbox_ = has_mailbox_ && ask_by_mailbox(subject, calls, limit, state);
  if (trip_in_mailbox_) return state;
  std::string request =
      fmt::format(R"({{"protocol":{},"message":"run","id":{},"subject":{},"timeout_ms":{},"arena_bytes":{},"calls":[)",
                  protocol_version, trip_, quoted(subject), limit.count(), arena_.size());
  for (std::size_t c = 0; c < calls.size(); ++c) {
    if (c > 0) request += ',';
    append_call(request, calls[c], offsets_[c]);
  }
  request += "]}\n";
  return process_->send(request, Clock::now() + limit);
}

bool WorkerConnection::ask_by_mailbox(const std::string& subject, std::span<const Call> calls,
                                      std::chrono::milliseconds limit, Process::Received& state) {
  const auto place = std::ranges::find(offers_, subject, &Offer::name);
  if (place == offers_.end() || calls.size() > MailboxLayout::most_calls) return false;
  const PackedTrip trip{0, static_cast<std::uint32_t>(place - offers_.begin()),
                        static_cast<std::uint64_t>(limit.count()), arena_.size(), 0};
  if (pack(trip, calls, offsets_, mailbox_.message()) == 0) return false;
  const bool sleeps = mailbox_.ask(static_cast<std::uint64_t>(trip_), calls.size());
  if (sleeps) state = process_->send("\n", Clock::now() + limit);
  return true;
}

std::string WorkerConnection::script(const std::string& subject, const Call& call, const std::string& beside) {
  copy_in({&call, 1});
  std::string request =
      fmt::format(R"({{"protocol":{},"message":"script","subject":{},"beside":{},"arena_bytes":{},"call":)",
                  protocol_version, quoted(subject), quoted(beside), arena_.size());
  append_call(request, call, offsets_.front());
  request += "}\n";
  const auto deadline = Clock::now() + command_.limits.call;
  Process::Received state = process_->send(request, deadline);
  if (state == Process::Received::line) state = receive_line(deadline);
  const json reply = state == Process::Received::line ? parse_foreign(line_) : json();
  const auto source = reply.is_object() ? reply.find("source") : reply.end();
  if (source == reply.end() || !source->is_string()) {
    usable_ = false;
    throw Error(Exit::no_subject, command_.target + " did not say how to run this call in a script" + more_in_log());
  }
  return source->get<std::string>();
}

CallResult WorkerConnection::exchange(const std::string& request, std::int64_t id, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  Process::Received state = process_->send(request, deadline);
  if (state == Process::Received::line) state = receive_line(deadline);
  if (state != Process::Received::line) return lost(state, limit, deadline);
  return result_of(read_run_reply(line_, id, 0));
}

void WorkerConnection::tell(const std::string& request) {
  if (process_->send(request, Clock::now() + command_.limits.call) != Process::Received::line) usable_ = false;
}

CallResult WorkerConnection::lost(Process::Received how, std::chrono::milliseconds limit, Clock::time_point deadline) {
  usable_ = false;
  if (how == Process::Received::closed && Clock::now() >= deadline) how = Process::Received::timeout;
  switch (how) {
    case Process::Received::timeout:
      return {CallStatus::timeout, "no answer within " + seconds(limit)};
    case Process::Received::too_much_memory:
      return {CallStatus::crash, "the worker " + out_of_memory()};
    case Process::Received::too_long:
      return {CallStatus::error, "the worker answered a call with a line without an end"};
    default:
      break;
  }
  const pid_t process = process_->number();
  std::string how_it_ended = "the worker " + process_->end();
  if (const std::string report = sanitizer_report(command_.log, process); !report.empty())
    how_it_ended += ": " + one_line(report) + more_in_log();
  return {CallStatus::crash, how_it_ended};
}

CallResult WorkerConnection::receive(std::size_t index, Clock::time_point deadline) {
  Process::Received state = Process::Received::line;
  line_.clear();
  if (trip_in_mailbox_) state = await_answer(index, deadline);
  if (state != Process::Received::line) return lost(state, command_.limits.call, deadline);
  if (trip_in_mailbox_ && line_.empty()) {
    if (process_->holds_too_much()) return lost(Process::Received::too_much_memory, command_.limits.call, deadline);
    if (mailbox_.look(index) == Mailbox::Answer::nonsense)
      return result_of(nonsense("a word in its mailbox that answers no call of this trip"));
    if (auto reply = read_record(mailbox_.record(index))) return result_of(std::move(*reply));
  }
  if (line_.empty()) state = receive_line(deadline);
  if (state != Process::Received::line) return lost(state, command_.limits.call, deadline);
  return result_of(read_run_reply(line_, trip_, index));
}

Process::Received WorkerConnection::await_answer(std::size_t index, Clock::time_point deadline) {
  if (mailbox_.spin(index) != Mailbox::Answer::none) return Process::Received::line;
  for (;;) {
    Process::Received state = Process::Received::line;
    if (!mailbox_.begin_sleep(index)) state = process_->receive(line_, deadline);
    mailbox_.end_sleep();
    if (state != Process::Received::line || !line_.empty() || mailbox_.look(index) != Mailbox::Answer::none)
      return state;
    if (Clock::now() >= deadline) return Process::Received::timeout;
  }
}

// Receives a line. A worker with a mailbox knocks by empty lines, of which one may come late.
Process::Received WorkerConnection::receive_line(Clock::time_point deadline) {
  for (;;) {
    const Process::Received state = process_->receive(line_, deadline);
    if (state != Process::Received::line || !has_mailbox_ || !line_.empty()) return state;
    if (Clock::now() >= deadline) return Process::Received::timeout;
  }
}

CallResult WorkerConnection::result_of(RunReply reply) {
  if (!reply.valid || reply.ends) usable_ = false;
  reply.result.lost = reply.ends;
  if (reply.logged) reply.result.message += more_in_log();
  std::string where = reply.at.empty() ? std::string() : "at " + reply.at;
  if (const std::string file = keep_traceback(command_.log.parent_path(), reply.traceback); !file.empty())
    where += (where.empty() ? "traceback in " : ", traceback in ") + file;
  if (!where.empty()) reply.result.message += " (" + where + ")";
  return std::move(reply.result);
}

}  // namespace attest
