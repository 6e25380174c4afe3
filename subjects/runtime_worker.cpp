#include "subjects/runtime_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/message.hpp"
#include "subjects/traceback.hpp"

namespace attest {
namespace {

using nlohmann::json;
using Clock = Process::Clock;
using Type = NamedArray::Type;

constexpr std::size_t alignment = 64, guard = 64;
constexpr std::byte guard_byte{0xFF};
constexpr std::size_t most_axes = 64;
constexpr std::chrono::milliseconds moment_at_end{1000};

constexpr std::size_t aligned(std::size_t at) noexcept { return (at + alignment - 1) / alignment * alignment; }

std::size_t width(Type type) noexcept {
  constexpr std::array<std::size_t, 7> widths{2, 2, 4, 8, 4, 8, 1};  // f16, bf16, f32, f64, i32, i64, boolean
  return type <= Type::boolean ? widths[static_cast<std::size_t>(type)] : 0;
}

Type type_named(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Type::boolean); ++i)
    if (name(static_cast<Type>(i)) == text) return static_cast<Type>(i);
  return Type::other;
}

std::string json_word(std::string_view text) { return json_text(json(std::string(text))); }

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

// An answer that is none.
struct Nonsense {
  std::string what;
};

// What describe says of the one runtime that it has.
RuntimeInfo info_from(const std::vector<Offer>& offers, const std::string& target) {
  if (offers.size() != 1)
    throw Error(Exit::no_subject,
                fmt::format("{} declares {} runtimes of models: one is asked", target, offers.size()));
  RuntimeInfo info{offers[0].name, offers[0].version, {}};
  const json describe = parse_foreign(offers[0].describe);
  const auto builds = describe.is_object() ? describe.find("builds") : describe.end();
  if (describe.is_object() && builds != describe.end() && builds->is_array())
    for (const json& one : *builds)
      if (one.is_string() && !one.get_ref<const std::string&>().empty())
        info.builds.push_back(one_line(one.get<std::string>()));
  if (info.builds.empty())
    throw Error(Exit::no_subject, target + " does not say how it builds a model (\"builds\", docs/worker.md)");
  return info;
}

}  // namespace

RuntimeWorker::RuntimeWorker(WorkerCommand command) : command_(std::move(command)) {
  const auto deadline = Clock::now() + command_.limits.start;
  process_ = std::make_unique<Process>(command_.argv, Process::Shared{arena_.file(), mailbox_.file()}, command_.log,
                                       command_.limits.memory);
  const std::string request =
      fmt::format(R"({{"protocol":{},"message":"describe","arena":"/proc/self/fd/{}","subject":"","timeout_ms":{}}})"
                  "\n",
                  protocol_version, Process::arena_file, command_.limits.start.count());
  Process::Received state = process_->send(request, deadline);
  if (state == Process::Received::line) state = process_->receive(line_, deadline);
  const auto fail = [&](const std::string& why) {
    return Error(Exit::no_subject, command_.target + " could not be started: its worker " + why);
  };
  if (state == Process::Received::timeout)
    throw fail("took longer than " + in_seconds(command_.limits.start) + " to load it");
  if (state == Process::Received::closed) throw fail(process_->end() + " before it described itself");
  if (state != Process::Received::line) throw fail("did not describe itself");
  const Description description = read_description(line_, command_.target);
  if (!description.error.empty())
    throw Error(Exit::no_subject,
                description.error + (description.logged ? " (more in " + command_.log.string() + ")" : ""));
  info_ = info_from(description.offers, command_.target);
  usable_ = true;
}

RuntimeWorker::~RuntimeWorker() {
  if (!usable_) return;
  process_->hang_up();
  process_->has_ended_by(Clock::now() + moment_at_end);
}

CallResult RuntimeWorker::lost(Process::Received how, std::chrono::milliseconds limit) {
  usable_ = false;
  if (how == Process::Received::timeout) return {CallStatus::timeout, "no answer within " + in_seconds(limit)};
  if (how == Process::Received::too_much_memory)
    return {CallStatus::crash, "the worker ran out of the memory that it may hold"};
  if (how == Process::Received::too_long) return {CallStatus::error, "the worker answered with a line without an end"};
  return {CallStatus::crash, "the worker " + process_->end()};
}

CallResult RuntimeWorker::trip(const std::string& request, std::chrono::milliseconds limit, std::string* line) {
  const auto deadline = Clock::now() + limit;
  Process::Received state = process_->send(request, deadline);
  if (state == Process::Received::line) state = process_->receive(line_, deadline);
  if (state != Process::Received::line) return lost(state, limit);
  RunReply reply = read_run_reply(line_, trip_, 0);
  if (!reply.valid || reply.ends) usable_ = false;
  std::string where = reply.at.empty() ? std::string() : "at " + reply.at;
  if (const std::string file = keep_traceback(command_.log.parent_path(), reply.traceback); !file.empty())
    where += (where.empty() ? "traceback in " : ", traceback in ") + file;
  if (!where.empty()) reply.result.message += " (" + where + ")";
  if (line != nullptr) *line = line_;
  return reply.result;
}

CallResult RuntimeWorker::load(std::string_view bytes, const ModelBuild& build, int& model) {
  model = ++models_;
  ++trip_;
  const std::chrono::milliseconds limit =
      std::max(command_.limits.start, command_.limits.call);  // a compiler takes its time
  arena_.grow(aligned(bytes.size() + 1));
  std::memcpy(arena_.data(), bytes.data(), bytes.size());
  const std::string request = fmt::format(
      R"({{"protocol":{},"message":"load","id":{},"subject":{},"timeout_ms":{},"arena_bytes":{},"model":{},"file":{{"offset":0,"bytes":{}}},"build":{},"threads":{}}})"
      "\n",
      protocol_version, trip_, json_word(info_.name), limit.count(), arena_.size(), model, bytes.size(),
      json_word(build.build), build.threads);
  return trip(request, limit, nullptr);
}

void RuntimeWorker::unload(int model) {
  if (!usable_) return;
  const std::string request =
      fmt::format(R"({{"protocol":{},"message":"unload","subject":{},"arena_bytes":{},"model":{}}})"
                  "\n",
                  protocol_version, json_word(info_.name), arena_.size(), model);
  if (process_->send(request, Clock::now() + command_.limits.call) != Process::Received::line) usable_ = false;
}

ModelAnswer RuntimeWorker::ask(int model, std::span<const NamedArray> inputs, std::span<const std::string> outputs,
                               std::size_t room) {
  ++trip_;
  std::vector<std::size_t> begins;
  std::size_t at = guard;
  for (const NamedArray& input : inputs) {
    begins.push_back(at);
    at = aligned(at + input.bytes.size()) + guard;
  }
  room = aligned(room) + alignment * (outputs.size() + 1);
  arena_.grow(at + room);
  std::memset(arena_.data(), static_cast<int>(guard_byte), at + room);
  std::string feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].bytes.empty())
      std::memcpy(arena_.data() + begins[i], inputs[i].bytes.data(), inputs[i].bytes.size());
    feeds += fmt::format(R"({}{}:{{"offset":{},"dtype":"{}","shape":{}}})", i ? "," : "", json_word(inputs[i].name),
                         begins[i], name(inputs[i].type), json_text(json(inputs[i].shape)));
  }
  const std::string request = fmt::format(
      R"({{"protocol":{},"message":"ask","id":{},"subject":{},"timeout_ms":{},"arena_bytes":{},"model":{},"inputs":{{{}}},"outputs":{},"room":{{"offset":{},"bytes":{}}}}})"
      "\n",
      protocol_version, trip_, json_word(info_.name), command_.limits.call.count(), arena_.size(), model, feeds,
      json_text(json(std::vector<std::string>(outputs.begin(), outputs.end()))), at, room);
  ModelAnswer answer;
  std::string line;
  answer.result = trip(request, command_.limits.call, &line);
  if (answer.result.status != CallStatus::done) return answer;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::byte* const from = arena_.data() + begins[i];
    if (!inputs[i].bytes.empty() && std::memcmp(from, inputs[i].bytes.data(), inputs[i].bytes.size()) != 0)
      answer.result = {CallStatus::error, "its input '" + one_line(inputs[i].name) + "' was changed by the run"};
    const std::byte* const end = from + inputs[i].bytes.size();
    const std::byte* const next = i + 1 < inputs.size() ? arena_.data() + begins[i + 1] : arena_.data() + at;
    if (std::any_of(end, next, [](std::byte b) { return b != guard_byte; }))
      answer.result = {CallStatus::error, "it wrote behind its input '" + one_line(inputs[i].name) + "'"};
  }
  if (answer.result.status == CallStatus::done) {
    try {
      answer.outputs = outputs_of(line, outputs);
    } catch (const Nonsense& wrong) {
      usable_ = false;
      answer.result = nonsense(wrong.what).result;
    }
  }
  return answer;
}

// Throws Nonsense where the line does not say what it should.
std::vector<NamedArray> RuntimeWorker::outputs_of(std::string_view line, std::span<const std::string> names) const {
  const json reply = parse_foreign(line);
  const auto said = reply.find("outputs");
  if (said == reply.end() || !said->is_array() || said->size() != names.size())
    throw Nonsense{"another number of outputs than it was asked for"};
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const json& one = (*said)[i];
    NamedArray array;
    array.name = names[i];
    const json shape = one.is_object() ? one.value("shape", json()) : json();
    if (!shape.is_array() || shape.size() > most_axes) throw Nonsense{"an output without a shape"};
    std::size_t count = 1;
    for (const json& length : shape) {
      if (!length.is_number_unsigned() || length.get<std::uint64_t>() > (std::uint64_t{1} << 32))
        throw Nonsense{"a shape that is none"};
      array.shape.push_back(length.get<Index>());
      const auto factor = length.get<std::uint64_t>();
      if (factor != 0 && count > arena_.size() / factor)
        count = arena_.size() + 1;  // more than could be here
      else
        count *= factor;
    }
    const json dtype = one.value("dtype", json());
    if (dtype.is_string()) array.type = type_named(dtype.get<std::string>());
    array.descr = dtype.is_string() ? one_line(dtype.get<std::string>()) : "a type that attest does not read";
    if (const auto offset = one.find("offset"); offset != one.end() && array.type != Type::other) {
      const std::size_t bytes = count > arena_.size() ? arena_.size() + 1 : count * width(array.type);
      if (!offset->is_number_unsigned() || offset->get<std::size_t>() > arena_.size() ||
          bytes > arena_.size() - offset->get<std::size_t>())
        throw Nonsense{"an output that lies outside of the shared memory"};
      const std::byte* const from = arena_.data() + offset->get<std::size_t>();
      array.bytes.assign(from, from + bytes);
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace attest
