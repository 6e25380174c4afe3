#pragma once
#include <fstream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attest::cli {

// A file named by --json or --events; "-" is stdout. Opened at once, so that a path that cannot be written is an error
// before the work starts.
class OutputFile {
 public:
  // Throws Error(usage) naming the option and the path if it cannot be written.
  OutputFile(const std::string& path, std::string_view option);
  [[nodiscard]] std::ostream& stream() noexcept;
  [[nodiscard]] bool is_stdout() const noexcept { return file_ == nullptr; }
  [[nodiscard]] std::string_view option() const noexcept { return option_; }

 private:
  std::string option_;
  std::unique_ptr<std::ofstream> file_;
};

// Writes all of it. Throws Error(usage) naming the option if the disk is full.
void write_text(OutputFile& file, std::string_view text);
// Writes one object and a newline.
void write_json(OutputFile& file, const nlohmann::ordered_json& object);

// Whether file descriptor 2 is a terminal.
bool progress_is_live() noexcept;

}  // namespace attest::cli
