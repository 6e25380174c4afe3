#pragma once
#include <filesystem>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attest::report {

// Under which names of verdicts the counts of a law have its failures: is_finding() of verdict.hpp.
inline constexpr std::string_view failure_kinds[] = {"fail", "error", "crash", "timeout", "poisoned", "flaky"};

// What a campaign folder says at the end of a run: summary.json, the object of --json with `coverage` as `attest stats --json` has it.
// Written whole or not at all. Throws Error(usage) if it cannot be written.
void write_record(const std::filesystem::path& folder, const nlohmann::ordered_json& record);

// What the files of a campaign folder tell, without starting its subject: summary.json; where the campaign was killed since, or before
// it wrote one, its counts and reproducers, and `unfinished`, which says so. Throws Error(usage) for a folder that holds no campaign
// of problems, or a damaged one.
nlohmann::json read_record(const std::filesystem::path& folder);

}  // namespace attest::report
