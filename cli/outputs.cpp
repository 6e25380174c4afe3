#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace attest::cli {

OutputFile::OutputFile(const std::string& path, std::string_view option) {
  if (path == "-") return;
  file_ = std::make_unique<std::ofstream>(path);
  if (!*file_) throw usage_error(fmt::format("{} {}: the file cannot be written; check its folder", option, path));
}

std::ostream& OutputFile::stream() noexcept { return file_ ? *file_ : std::cout; }

void write_json(OutputFile& file, const nlohmann::ordered_json& object) {
  file.stream() << object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << std::endl;
  if (!file.stream()) throw usage_error("--json: the file could not be written whole; check the space on its disk");
}

bool progress_is_live() noexcept { return isatty(STDERR_FILENO) != 0; }

}  // namespace attest::cli
