#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "models/campaign.hpp"

namespace attest::models {

enum class Outcome : std::uint8_t { as_expected, unexpected, mended, damaged, not_run };

struct Replayed {
  std::filesystem::path file;
  Outcome outcome = Outcome::not_run;
  std::string sentence;
  LawResult result;  // if it ran
};

// Finds an entry's model, read from its path or another that the user names, and its runtime. Both throw Error, one
// sentence: status 4 where it is not there or not this user's to start.
struct Resolvers {
  std::function<std::string(const Entry&)> model_bytes;
  std::function<std::unique_ptr<Runtime>(const Entry&)> runtime;
};

// Asks what an entry says of a fresh process. `expect_pass`: it must pass, whatever it says.
Replayed replay_entry(const std::filesystem::path& file, const Resolvers& resolvers, bool expect_pass);

// Asks the problem of an entry once more and looks for the first wrong tensor, as a campaign does; no finding where it
// holds now. Throws as read_entry and resolvers, and Error(usage) for entries of a build for one problem's lengths.
Summary explain_entry(const std::filesystem::path& file, const Resolvers& resolvers);

// The result of shrinking an entry once more.
struct ShrunkEntry {
  bool fails = false;  // still, on a fresh process; else `sentence` says what it does
  std::string sentence;
  Entry entry;  // has the smallest problem; seed, case and original problem are the old one's
  std::optional<Place> place;
  std::filesystem::path written;  // empty where nothing became simpler
};
// Shrinks what an entry says by at most `calls` further problems, and writes it beside the old one, into `corpus`, if
// it became simpler. Throws as read_entry and resolvers, and Error(usage) for entries of a build for one problem's
// lengths.
ShrunkEntry shrink_entry(const std::filesystem::path& file, const Resolvers& resolvers, std::int64_t calls,
                         const std::filesystem::path& corpus);

// The model of an entry. Throws Error(no_subject) where its contents have changed, and as `resolvers`.
Part model_of(const Entry& entry, const Resolvers& resolvers);

}  // namespace attest::models
