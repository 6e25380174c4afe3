#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/subject.hpp"
#include "subjects/describe.hpp"
#include "subjects/mailbox.hpp"

// The answers of a worker (docs/worker.md): a stranger's lines, read apart from the process that sent them.
namespace attest {

// The answer to `describe`: the subjects it serves, at least one and each with a name, or why it can serve nothing.
struct Description {
  std::vector<Offer> offers;
  std::string error;     // its own sentence; empty if there are offers
  bool logged = false;   // its log says more of the error
  bool mailbox = false;  // it looks into the mailbox
  bool nursery = false;  // it forks others that serve, and serves no calls itself
};

// Throws Error(no_subject), a sentence about the worker named `target`, if the line is no such answer.
Description read_description(std::string_view line, const std::string& target);

// The answer to call `index` of trip `trip`.
struct RunReply {
  CallResult result;
  bool valid = true;        // false: the line is no answer to this call, and the result, an error, says so
  bool logged = false;      // its log says more
  bool ends = false;        // it ends behind this answer
  std::string at{};         // file and line where an error arose: "kernel.py:12"
  std::string traceback{};  // the error's, lines as the worker wrote them
};

RunReply read_run_reply(std::string_view line, std::int64_t trip, std::size_t index);

// The reply in place of one that is none: "the worker answered a call with `what`".
RunReply nonsense(const std::string& what);

// The same from the record in a mailbox; nullopt: its line has the answer.
std::optional<RunReply> read_record(const MailboxRecord& record);

}  // namespace attest
