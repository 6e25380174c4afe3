#include "subjects/runtime_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

using nlohmann::json;
using Type = NamedArray::Type;

constexpr std::size_t alignment = 64, guard = 64;
constexpr std::byte guard_byte{0xFF};
constexpr std::size_t most_axes = 64;

constexpr std::size_t aligned(std::size_t at) noexcept { return (at + alignment - 1) / alignment * alignment; }

Type type_named(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(NamedArray::last_of_models); ++i)
    if (name(static_cast<Type>(i)) == text) return static_cast<Type>(i);
  return Type::other;
}

std::string json_word(std::string_view text) { return json_text(json(std::string(text))); }

// An answer that is none.
struct Nonsense {
  std::string what;
};

// Reads the describe of the one runtime that it has.
RuntimeInfo info_from(const std::vector<Offer>& offers, const std::string& target) {
  if (offers.size() != 1)
    throw Error(Exit::no_subject,
                fmt::format("{} declares {} runtimes of models: one is asked", target, offers.size()));
  RuntimeInfo info{offers[0].name, offers[0].version, {}, {}};
  const json describe = parse_foreign(offers[0].describe);
  const auto builds = describe.is_object() ? describe.find("builds") : describe.end();
  if (describe.is_object() && builds != describe.end() && builds->is_array())
    for (const json& one : *builds)
      if (one.is_string() && !one.get_ref<const std::string&>().empty())
        info.builds.push_back(one_line(one.get<std::string>()));
  if (info.builds.empty())
    throw Error(Exit::no_subject, target + " does not say how it builds a model (\"builds\", docs/worker.md)");
  if (const auto layouts = describe.find("layouts"); layouts != describe.end()) {
    const auto refusal = [&target](const std::string& what) {
      return Error(Exit::no_subject, fmt::format("{} says in \"layouts\" {} (docs/worker.md)", target, what));
    };
    if (!layouts->is_array()) throw refusal("what is no list");
    for (const json& one : *layouts) {
      const auto known = one.is_string() ? other_layout_named(one.get_ref<const std::string&>()) : std::nullopt;
      if (!known) throw refusal(one_line(json_text(one)) + ", which is none");
      if (std::ranges::find(info.layouts, *known) == info.layouts.end()) info.layouts.push_back(*known);
    }
  }
  return info;
}

}  // namespace

RuntimeWorker::RuntimeWorker(WorkerCommand command) : command_(std::move(command)) {
  command_.ways.mailbox = false;
  connection_ = std::make_unique<WorkerConnection>(command_, "");
  connection_->await_description();
  info_ = info_from(connection_->offers(), command_.target);
}

CallResult RuntimeWorker::load(std::string_view bytes, const ModelBuild& build, int& model) {
  model = ++models_;
  ++trip_;
  const std::chrono::milliseconds limit =
      std::max(command_.limits.once, command_.limits.call);  // a compiler takes its time
  Arena& arena = connection_->arena();
  arena.grow(aligned(bytes.size() + 1));
  arena.write(bytes);
  const std::string request = fmt::format(
      R"({{"protocol":{},"message":"load","id":{},"subject":{},"timeout_ms":{},"arena_bytes":{},"model":{},"file":{{"offset":0,"bytes":{}}},"build":{},"threads":{}}})"
      "\n",
      protocol_version, trip_, json_word(info_.name), limit.count(), arena.size(), model, bytes.size(),
      json_word(build.build), build.threads);
  CallResult result = exchange(request, limit);
  arena.empty();
  note_.clear();
  if (result.status == CallStatus::done)
    if (const json note = parse_foreign(connection_->line()).value("note", json()); note.is_string())
      note_ = one_line(note.get_ref<const std::string&>());
  return result;
}

CallResult RuntimeWorker::exchange(const std::string& request, std::chrono::milliseconds limit) {
  std::chrono::milliseconds within = limit;
  if (end_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - std::chrono::steady_clock::now());
    within = std::clamp(left, std::chrono::milliseconds(1), limit);
  }
  CallResult result = connection_->exchange(request, trip_, within);
  cut_off_ = within < limit && result.status == CallStatus::timeout;
  return result;
}

void RuntimeWorker::unload(int model) {
  if (!usable()) return;
  const std::string request =
      fmt::format(R"({{"protocol":{},"message":"unload","subject":{},"arena_bytes":{},"model":{}}})"
                  "\n",
                  protocol_version, json_word(info_.name), connection_->arena().size(), model);
  connection_->tell(request);
}

ModelAnswer RuntimeWorker::ask(int model, std::span<const NamedArray> inputs, std::span<const std::string> outputs,
                               std::size_t room, InputLayout layout) {
  ++trip_;
  std::vector<std::size_t> begins;
  std::vector<LaidOut> laid;
  std::size_t at = guard;
  for (const NamedArray& input : inputs) {
    laid.push_back(laid_out(input, layout, guard_byte));
    begins.push_back(at);
    at = aligned(at + laid.back().bytes.size()) + guard;
  }
  room = aligned(room) + alignment * (outputs.size() + 1);
  Arena& arena = connection_->arena();
  arena.grow(at + room);
  std::memset(arena.data(), static_cast<int>(guard_byte), at + room);
  std::string feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!laid[i].bytes.empty()) std::memcpy(arena.data() + begins[i], laid[i].bytes.data(), laid[i].bytes.size());
    const std::string strides =
        layout == InputLayout::packed ? "" : fmt::format(R"(,"strides":{})", json_text(json(laid[i].strides)));
    feeds += fmt::format(R"({}{}:{{"offset":{},"dtype":"{}","shape":{}{}}})", i ? "," : "", json_word(inputs[i].name),
                         begins[i] + laid[i].offset, name(inputs[i].type), json_text(json(inputs[i].shape)), strides);
  }
  const std::string request = fmt::format(
      R"({{"protocol":{},"message":"ask","id":{},"subject":{},"timeout_ms":{},"arena_bytes":{},"model":{},"inputs":{{{}}},"outputs":{},"room":{{"offset":{},"bytes":{}}}}})"
      "\n",
      protocol_version, trip_, json_word(info_.name), command_.limits.call.count(), arena.size(), model, feeds,
      json_text(json(std::vector<std::string>(outputs.begin(), outputs.end()))), at, room);
  ModelAnswer answer;
  answer.result = exchange(request, command_.limits.call);
  if (answer.result.status != CallStatus::done) return answer;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::byte* const from = arena.data() + begins[i];
    const std::byte* const end = from + laid[i].bytes.size();
    if (const auto changed = std::mismatch(from, end, laid[i].bytes.begin()).first; changed != end)
      answer.result = {CallStatus::error,
                       laid[i].is_element(static_cast<std::size_t>(changed - from))
                           ? "its input '" + one_line(inputs[i].name) + "' was changed by the run"
                           : "it wrote between the elements of its input '" + one_line(inputs[i].name) + "'"};
    const std::byte* const next = i + 1 < inputs.size() ? arena.data() + begins[i + 1] : arena.data() + at;
    if (std::any_of(end, next, [](std::byte b) { return b != guard_byte; }))
      answer.result = {CallStatus::error, "it wrote behind its input '" + one_line(inputs[i].name) + "'"};
  }
  if (answer.result.status == CallStatus::done) {
    try {
      answer.outputs = outputs_of(connection_->line(), outputs);
    } catch (const Nonsense& wrong) {
      connection_->give_up();
      answer.result = nonsense(wrong.what).result;
    }
  }
  return answer;
}

// Throws Nonsense where the line does not say what it should.
std::vector<NamedArray> RuntimeWorker::outputs_of(std::string_view line, std::span<const std::string> names) const {
  const Arena& arena = connection_->arena();
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
      if (factor != 0 && count > arena.size() / factor)
        count = arena.size() + 1;  // more than could be here
      else
        count *= factor;
    }
    const json dtype = one.value("dtype", json());
    if (dtype.is_string()) array.type = type_named(dtype.get<std::string>());
    array.descr = dtype.is_string() ? one_line(dtype.get<std::string>()) : "a type that attest does not read";
    if (const auto offset = one.find("offset"); offset != one.end() && array.type != Type::other) {
      const std::size_t bytes = count > arena.size() ? arena.size() + 1 : count * bytes_of(array.type);
      if (!offset->is_number_unsigned() || offset->get<std::size_t>() > arena.size() ||
          bytes > arena.size() - offset->get<std::size_t>())
        throw Nonsense{"an output that lies outside of the shared memory"};
      const std::byte* const from = arena.data() + offset->get<std::size_t>();
      array.bytes.assign(from, from + bytes);
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace attest
