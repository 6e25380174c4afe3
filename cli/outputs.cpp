#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace attest::cli {

OutputFile::OutputFile(const std::string& path, std::string_view option) : option_(option) {
  if (path == "-") return;
  file_ = std::make_unique<std::ofstream>(path);
  if (!*file_) throw usage_error(fmt::format("{} {}: the file cannot be written; check its folder", option, path));
}

std::ostream& OutputFile::stream() noexcept { return file_ ? *file_ : std::cout; }

void write_text(OutputFile& file, std::string_view text) {
  file.stream() << text << std::flush;
  if (!file.stream())
    throw usage_error(
        fmt::format("{}: the file could not be written whole; check the space on its disk", file.option()));
}

void write_json(OutputFile& file, const nlohmann::ordered_json& object) {
  write_text(file, object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

bool progress_is_live() noexcept { return isatty(STDERR_FILENO) != 0; }

}  // namespace attest::cli
