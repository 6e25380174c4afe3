#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attest::cli {

// One option that a verb takes.
struct Option {
  std::string_view name;   // without dashes; also the key in ATTEST_PARAMS and attest.toml
  std::string_view value;  // its argument, as help shows it; empty: a switch
  std::string_view help;
  std::string_view letter{};  // "o" for -o
  std::string_view group{};   // its heading in help; empty: the first, without a name of its own
};

// A table [[waive]] of attest.toml: failures to live with until a day.
struct WaiverSetting {
  std::string entry;   // a file or folder of reproducers
  std::string reason;  // not empty
  std::string until;   // "2027-03-31"
};

// The options under one heading.
std::vector<Option> under(std::string_view group, std::vector<Option> options);

// The settings of a verb: command line over environment (ATTEST_PARAMS="k=v ...") over the profile that ATTEST_PROFILE
// names over attest.toml over pyproject.toml, each key known to the verb. Every getter throws Error(usage) with one
// sentence that names the key, where it came from and what is allowed.
class Settings {
 public:
  // Registers `options` with `app`, whose name is the verb's; the values arrive when it parses. Tables of attest.toml
  // may have the name of any verb that was declared.
  void declare(CLI::App& app, const std::vector<Option>& options);
  // After parsing: fills what the command line left open. `verb` names the table of attest.toml that goes before its
  // top level.
  void complete(std::string_view verb);
  // The same from the texts of ATTEST_PARAMS, attest.toml and pyproject.toml, whose table [tool.attest] is like a file
  // attest.toml, and the name of a profile: the table [profiles.NAME] of either.
  void complete(std::string_view verb, std::string_view params, std::string_view toml, std::string_view pyproject = {},
                std::string_view profile = {});

  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view key, std::uint64_t lo, std::uint64_t hi) const;
  // "30s", "5m", "2h"; greater than 0.
  [[nodiscard]] std::optional<double> seconds(std::string_view key) const;
  // "512M", "8G", "1.5G": powers of 1024, at least 1 MB.
  [[nodiscard]] std::optional<std::uint64_t> bytes(std::string_view key) const;
  // The table [graph] of attest.toml, what is known of the inputs of models: "size.batch" and its text for each key of
  // each of its tables.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& graph() const noexcept { return graph_; }
  // The tables [[waive]] of attest.toml and pyproject.toml.
  [[nodiscard]] const std::vector<WaiverSetting>& waivers() const noexcept { return waivers_; }
  // "key ATTEST_PARAMS" or "--key": where a value came from, for messages.
  [[nodiscard]] std::string origin(std::string_view key) const;

 private:
  [[nodiscard]] bool has(std::string_view key) const;
  struct Value {
    std::string text;
    std::string source;  // "", "ATTEST_PARAMS", "attest.toml" or "pyproject.toml"
  };
  void take(std::string_view key, const std::string& value, const std::string& source);
  void read_params(std::string_view params);
  struct File;
  void read_profile(std::string_view profile, const std::vector<File>& files);
  void read_toml(std::string_view verb, const File& file);

  std::vector<Option> options_;
  struct Word {
    const CLI::Option* option = nullptr;  // says whether it was given: an empty word is one
    std::string text;
  };
  std::map<std::string, Word, std::less<>> words_;  // CLI11 writes into them
  std::map<std::string, bool, std::less<>> switches_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::pair<std::string, std::string>> graph_;
  std::vector<WaiverSetting> waivers_;
};

// --jobs, or as many as there are cores.
int read_jobs(const Settings& settings);

// "30s", "5m", "1.5h" as seconds; nullopt if it is none or not greater than 0.
std::optional<double> parse_duration(std::string_view text) noexcept;

}  // namespace attest::cli
