#pragma once
#include <sys/types.h>

#include <fstream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/settings.hpp"
#include "report/look.hpp"

namespace attest::cli {

// A file named by --json or --events; "-" is stdout. Opened at once, so that a path that cannot be written is an error
// before the work starts.
class OutputFile {
 public:
  // The content that an existing file keeps until stream() is asked for.
  enum class Before { nothing, what_it_held };

  // Throws Error(usage) naming the option and the path if it cannot be written. Where it is to hold what it held, a
  // file that was not there is not there afterwards.
  OutputFile(const std::string& path, std::string_view option, Before before = Before::nothing);
  // Leaves no empty file behind where none was: without stream() there is nothing to say.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // The stream of a file that is empty at first. Throws as the constructor does.
  [[nodiscard]] std::ostream& stream();
  [[nodiscard]] bool is_stdout() const noexcept { return path_ == "-"; }
  // False if a file does not hold all that was written. Says nothing about stdout, nor a pipe whose reader had enough.
  [[nodiscard]] bool holds_all() const;
  [[nodiscard]] std::string_view option() const noexcept { return option_; }
  // Throws Error(usage) if the path names another file than the one that was opened: a subject may have put it there.
  void require_in_place() const;

 private:
  void open(std::ios::openmode mode);

  std::string path_, option_;
  bool made_ = false;                    // by the constructor, and still empty
  std::unique_ptr<std::ofstream> file_;  // null: stdout, or not open yet
  std::pair<dev_t, ino_t> opened_{};     // a plain file's
};

// Writes all of it. Throws Error(usage) naming the option if the disk is full.
void write_text(OutputFile& file, std::string_view text);
// Writes one object and a newline.
void write_json(OutputFile& file, const nlohmann::ordered_json& object);

// --color and --verbose, of verbs that print findings.
std::vector<Option> look_options();
// --color alone, of verbs that print a verdict.
Option color_option();
// Reads them. Colour is left out where stdout is no terminal or the environment has NO_COLOR (https://no-color.org) or
// TERM=dumb, unless --color says otherwise. Throws Error(usage).
report::Look read_look(const Settings& settings);

// Tells whether file descriptor 2 is a terminal.
bool progress_is_live() noexcept;

}  // namespace attest::cli
