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

// What an entry's model is, read from its path or another that the user names; and who runs it. Throw Error, one sentence: status 4 where it is
// not there or not this user's to start.
struct Resolvers {
  std::function<std::string(const Entry&)> model_bytes;
  std::function<std::unique_ptr<Runtime>(const Entry&)> runtime;
};

// Asks what an entry says of a fresh process. `expect_pass`: it must pass, whatever it says.
Replayed replay_entry(const std::filesystem::path& file, const Resolvers& resolvers, bool expect_pass);

}  // namespace attest::models
