#pragma once
#include <filesystem>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attest::report {

// The names of verdicts under which the counts of a law have its failures: is_finding() of verdict.hpp.
inline constexpr std::string_view failure_kinds[] = {"fail", "error", "crash", "timeout", "poisoned", "flaky"};

// Writes the record of a campaign folder at the end of a run: summary.json, the object of --json with `coverage` as
// `attest stats --json` has it. It is written whole or not at all. Throws Error(usage) if it cannot be written.
void write_record(const std::filesystem::path& folder, const nlohmann::ordered_json& record);

// Reads a campaign folder's record without starting its subject: summary.json; where the campaign was killed since, or
// before it wrote one, its counts and reproducers, and `unfinished`, which says so. Throws Error(usage) for a folder
// that holds no campaign of problems, or a damaged one.
nlohmann::json read_record(const std::filesystem::path& folder);

}  // namespace attest::report
