#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "report/wrap.hpp"

namespace attest::cli {

namespace {

// Device and inode of the plain file that a path names; zeros for anything else.
std::pair<dev_t, ino_t> plain_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return {status.st_dev, status.st_ino};
}

}  // namespace

OutputFile::OutputFile(const std::string& path, std::string_view option, Before before) : path_(path), option_(option) {
  if (is_stdout()) return;
  std::error_code error;
  const bool was_there = std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::not_found;
  const bool holds_something = was_there && std::filesystem::is_regular_file(path, error);  // a pipe is opened once
  const bool at_once = before == Before::nothing || (was_there && !holds_something);
  open(at_once ? std::ios::out : std::ios::app);
  made_ = at_once && !was_there;
  if (at_once) return;
  file_.reset();
  if (!was_there) std::filesystem::remove(path, error);
}

OutputFile::~OutputFile() {
  std::error_code error;
  if (made_ && plain_file(path_) == opened_) std::filesystem::remove(path_, error);
}

void OutputFile::open(std::ios::openmode mode) {
  file_ = std::make_unique<std::ofstream>(path_, mode);
  if (!*file_) throw usage_error(fmt::format("{} {}: the file cannot be written; check its folder", option_, path_));
  opened_ = plain_file(path_);
}

void OutputFile::require_in_place() const {
  if (opened_ != std::pair<dev_t, ino_t>{} && plain_file(path_) != opened_)
    throw usage_error(
        fmt::format("{} {}: another file was put there in the meantime, and the report is not in it", option_, path_));
}

std::ostream& OutputFile::stream() {
  if (is_stdout()) return report::verbatim_stdout();
  if (!file_) open(std::ios::out);
  made_ = false;
  return *file_;
}

bool OutputFile::holds_all() const {
  std::error_code error;
  return !file_ || *file_ || std::filesystem::is_fifo(path_, error);
}

void write_text(OutputFile& file, std::string_view text) {
  file.stream() << text << std::flush;
  if (!file.stream())
    throw usage_error(
        fmt::format("{}: the file could not be written whole; check the space on its disk", file.option()));
  file.require_in_place();
}

void write_json(OutputFile& file, const nlohmann::ordered_json& object) {
  write_text(file, json_text(object, 2) + "\n");
}

Option color_option() {
  return {"color", "auto|always|never", "bold and colours (auto: where stdout is a terminal, without NO_COLOR)"};
}

std::vector<Option> look_options() {
  return {{"verbose", "", "statistics behind the findings: laws, reasons, times", "v"}, color_option()};
}

report::Look read_look(const Settings& settings) {
  const auto set = [](const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? std::string_view() : std::string_view(text);
  };
  report::Look look;
  look.verbose = settings.flag("verbose");
  const std::string when = settings.text("color").value_or("auto");
  if (when != "auto" && when != "always" && when != "never")
    throw usage_error(fmt::format("{} {}: it must be auto, always or never", settings.origin("color"), when));
  look.colour = when == "always" ||
                (when == "auto" && isatty(STDOUT_FILENO) != 0 && set("NO_COLOR").empty() && set("TERM") != "dumb");
  return look;
}

bool progress_is_live() noexcept { return isatty(STDERR_FILENO) != 0; }

}  // namespace attest::cli
