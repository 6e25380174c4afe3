#include "subjects/reply.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

using nlohmann::json;

std::string excerpt(std::string_view line) { return "'" + one_line(line.substr(0, 60)) + "'"; }

// The value of a key; null where there is none, or the message is no object.
json field_of(const json& message, const char* key) {
  return message.is_object() ? message.value(key, json()) : json();
}

std::string text_of(const json& message, const char* key, std::size_t most = 400) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? one_line(found->get_ref<const std::string&>(), most)
                                                      : std::string();
}

Offer read_offer(const json& subject) {
  Offer offer{text_of(subject, "name"), text_of(subject, "version"), {}, text_of(subject, "error")};
  offer.libraries = text_of(subject, "libraries");
  if (const json line = field_of(subject, "line"); line.is_number_unsigned() && line < 1'000'000'000)
    offer.line = line.get<std::int64_t>();
  if (const auto describe = subject.find("describe"); describe != subject.end()) offer.describe = describe->dump();
  return offer;
}

std::int64_t nanoseconds(std::uint64_t ns) {
  constexpr std::uint64_t longest = 1'000'000'000'000'000'000;  // a worker that claims more does not know
  return ns <= longest ? static_cast<std::int64_t>(ns) : 0;
}

}  // namespace

RunReply nonsense(const std::string& what) {
  return {{CallStatus::error, "the worker answered a call with " + what}, false};
}

Description read_description(std::string_view line, const std::string& target) {
  const auto fail = [&](const std::string& why) {
    return Error(Exit::no_subject, target + " could not be started: its worker " + why);
  };
  const json reply = parse_foreign(line);
  if (!reply.is_object()) throw fail("answered " + excerpt(line) + " instead of a JSON object");
  if (field_of(reply, "protocol") != protocol_version)
    throw fail(fmt::format("speaks protocol {} instead of {} (docs/worker.md)",
                           one_line(json_text(field_of(reply, "protocol"))), protocol_version));
  Description description;
  description.error = text_of(reply, "error");
  description.logged = field_of(reply, "logged") == true;
  if (!description.error.empty()) return description;
  if (const json mailbox = field_of(reply, "mailbox"); !mailbox.is_null()) {
    if (mailbox != MailboxLayout::version)
      throw fail(fmt::format("wants the mailbox {} and was offered {} (docs/worker.md)", one_line(json_text(mailbox)),
                             MailboxLayout::version));
    description.mailbox = true;
  }
  description.nursery = field_of(reply, "nursery") == true;
  const auto subjects = reply.find("subjects");
  if (subjects == reply.end() || !subjects->is_array() || subjects->empty()) throw fail("described no subject");
  for (const json& offered : *subjects) {
    description.offers.push_back(read_offer(offered));
    if (description.offers.back().name.empty()) throw fail("described a subject without a name");
  }
  return description;
}

std::optional<RunReply> read_record(const MailboxRecord& record) {
  if (record.status == MailboxRecord::line) return std::nullopt;
  if (record.status != MailboxRecord::ok)
    return nonsense(fmt::format("the status {} in its mailbox, which is none of 1 and 2", record.status));
  return RunReply{{CallStatus::done, {}, nanoseconds(record.ns)}};
}

RunReply read_run_reply(std::string_view line, std::int64_t trip, std::size_t index) {
  const json reply = parse_foreign(line);
  if (!reply.is_object()) return nonsense(excerpt(line) + ", which is no JSON object");
  const auto field = [&](const char* key) { return field_of(reply, key); };
  if (field("protocol") != protocol_version)
    return nonsense(fmt::format("protocol {} instead of {}", one_line(json_text(field("protocol"))), protocol_version));
  if (field("message") != "run") {
    const std::string error = text_of(reply, "error");
    return nonsense(error.empty() ? "the message " + one_line(json_text(field("message"))) : "an error: " + error);
  }
  if (field("id") != trip || field("call") != index)
    return nonsense(fmt::format("a result for call {} of trip {} instead of call {} of trip {}",
                                one_line(json_text(field("call"))), one_line(json_text(field("id"))), index, trip));
  RunReply answer;
  const json status = field("status");
  if (status == "ok")
    answer.result.status = CallStatus::done;
  else if (status == "unsupported")
    answer.result.status = CallStatus::unsupported;
  else if (status == "error")
    answer.result.status = CallStatus::error;
  else
    return nonsense("the status " + one_line(json_text(status)) + ", which is none of ok, unsupported and error");
  answer.result.elapsed_ns = field("ns").is_number_unsigned() ? nanoseconds(field("ns").get<std::uint64_t>()) : 0;
  if (answer.result.status == CallStatus::done) return answer;
  constexpr std::size_t longest_message = std::size_t{1} << 14;  // a message stays whole; a longer one is a flood
  answer.result.message = text_of(reply, "text", longest_message);
  if (answer.result.message.empty())
    answer.result.message =
        answer.result.status == CallStatus::error ? "an error without a message" : "no reason given";
  answer.logged = field("logged") == true;
  if (answer.result.status != CallStatus::error) return answer;
  answer.ends = field("ends") == true;
  answer.at = text_of(reply, "at");
  if (const json traceback = field("traceback"); traceback.is_string()) answer.traceback = traceback.get<std::string>();
  return answer;
}

}  // namespace attest
