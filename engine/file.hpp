#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace attest::engine {

// A name that every file system takes: anything outside [A-Za-z0-9._+=-] becomes '_', and no more than 120 characters
// stay.
std::string file_name_of(std::string_view text);

// The whole file. Throws Error(usage) if it cannot be read or holds more than `most` bytes.
std::string read_file(const std::filesystem::path& file, std::uintmax_t most);
// Writes whole or not at all, through a temporary beside it; makes the folders. Throws Error(usage).
void write_file(const std::filesystem::path& file, std::string_view text);
// Throws Error(usage) unless files can be made in the folder, which is made if it is missing.
void require_writable(const std::filesystem::path& folder);

}  // namespace attest::engine
