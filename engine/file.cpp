#include "engine/file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "core/error.hpp"

namespace attest::engine {

namespace fs = std::filesystem;

std::string file_name_of(std::string_view text) {
  constexpr std::size_t longest = 120;
  std::string name(text.substr(0, longest));
  std::ranges::replace_if(
      name,
      [](char c) {
        return !std::isalnum(static_cast<unsigned char>(c)) &&
               std::string_view("._+=-").find(c) == std::string_view::npos;
      },
      '_');
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

std::string read_file(const fs::path& file, std::uintmax_t most) {
  std::error_code error;
  if (file.empty()) throw usage_error("the path of a file is empty");
  if (!fs::is_regular_file(file, error)) throw usage_error(file.string() + " is no readable file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw usage_error(file.string() + " cannot be read");
  std::string text;
  char block[65536];
  while (stream.read(block, sizeof block) || stream.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most)
      throw usage_error(
          fmt::format("{} is larger than {} bytes, more than any such file of ours", file.string(), most));
  }
  return text;
}

void write_file(const fs::path& file, std::string_view text) {
  require_writable(file.parent_path());
  const fs::path temporary = file.string() + fmt::format(".{}.tmp", ::getpid());
  std::error_code ignored;
  fs::remove(temporary, ignored);  // left by a killed process of this number, or a link that somebody put there
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    stream.write(text.data(), static_cast<std::streamsize>(text.size()));
    stream.flush();
    if (!stream) {
      fs::remove(temporary, ignored);
      throw usage_error(file.string() + " cannot be written whole: check the space on its disk");
    }
  }
  std::error_code error;
  fs::rename(temporary, file, error);
  if (error) {
    fs::remove(temporary, ignored);
    throw usage_error(fmt::format("{} cannot be written: {}", file.string(), error.message()));
  }
}

void require_writable(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  const fs::path place = folder.empty() ? fs::path(".") : folder;
  if (error || !fs::is_directory(place, error) || ::access(place.c_str(), W_OK | X_OK) != 0)
    throw usage_error(fmt::format("{} cannot be written to: name a folder that can", place.string()));
}

}  // namespace attest::engine
