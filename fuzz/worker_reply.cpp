// A line from a worker: the first byte says what it answers.
#include "subjects/reply.hpp"

#include "fuzz/target.hpp"

using namespace attest;

namespace {

void require_one_line(const std::string& text) {
  for (const char c : text) fuzz::require(c >= ' ' && c <= '~', "not one line of ASCII: " + text);
  fuzz::require(text.size() < 2000, "a message of " + std::to_string(text.size()) + " bytes");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view line = fuzz::as_text(data + 1, size - 1);
  if (data[0] == 'd') {
    Description description;
    if (!fuzz::accepts([&] { description = read_description(line, "./worker"); })) return 0;
    fuzz::require(description.offers.empty() != description.error.empty(), "neither an offer nor an error, or both");
    require_one_line(description.error);
    for (const Offer& offer : description.offers) {
      fuzz::require(!offer.name.empty(), "an offer without a name");
      require_one_line(offer.name);
      require_one_line(offer.error);
      fuzz::accepts([&] { subject_info(offer, "./worker:" + offer.name); });
    }
    return 0;
  }
  const RunReply reply = read_run_reply(line, 7, 2);
  require_one_line(reply.result.message);
  fuzz::require(reply.result.elapsed_ns >= 0, "negative time");
  fuzz::require(reply.result.message.empty() == (reply.result.status == CallStatus::done), "a message out of place");
  fuzz::require(reply.valid || reply.result.status == CallStatus::error, "nonsense is no error");
  return 0;
}
