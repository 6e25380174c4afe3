// A file of the corpus. The digest would stop nearly every input, so each is also read with the digest that it needs.
#include "engine/corpus.hpp"

#include "core/digest.hpp"
#include "fuzz/target.hpp"

using namespace attest;

namespace {

// The text up to its last member, with a true digest behind it.
std::string with_digest(std::string_view text) {
  constexpr std::string_view member = "  \"digest\": \"";
  std::string body(text.substr(0, text.rfind(member)));
  const std::string digest = hex64(digest_of(body));
  return body + std::string(member) + digest + "\"\n}\n";
}

void read(std::string_view text) {
  engine::Entry entry;
  if (!fuzz::accepts([&] { entry = engine::entry_from_file_text(text, "entry.json"); })) return;
  const std::string written = engine::to_file_text(entry);
  const std::string again = engine::to_file_text(engine::entry_from_file_text(written, "entry.json"));
  fuzz::require(again == written, "the entry does not come back: " + written);
  const std::string path = engine::entry_path(entry).string();
  fuzz::require(path.find("..") != 0 && path.front() != '/' && path.find("/../") == std::string::npos,
                "the entry would be written to " + path);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::as_text(data, size);
  read(text);
  read(with_digest(text));
  return 0;
}
