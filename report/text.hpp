#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/verdict.hpp"
#include "engine/campaign.hpp"
#include "engine/summary.hpp"

namespace attest::report {

// "12,345".
std::string grouped(std::uint64_t n);
// "1 problem", "12,345 problems", "2 queries".
std::string counted(std::uint64_t n, std::string_view noun);
// "0.21 s", "3 m 05 s".
std::string duration(double seconds);
// Shortest decimal that reads back, "nan", "inf" or "-inf".
std::string number(double value);
// One line that does nothing to a terminal, whatever a file or its name holds: control characters become spaces.
std::string printable(std::string_view text);
// The same of several lines.
std::string printable_lines(std::string_view text);
// One line of printable ASCII, for a comment of a script: whatever else a file holds becomes spaces.
std::string ascii_line(std::string_view text);
// A number as Python reads it back where nan and inf are names. Unlike number(), -0 keeps its sign there.
std::string python_number(double value);
// Quoted for a POSIX shell where needed.
std::string shell_quoted(std::string_view word);

// "out[0,0,3,1]", "lse[0,0,3]".
std::string element_name(const Evidence& evidence);
// "out[0,0,3,1] = 1.25, expected 0.731, permitted 0.7309 .. 0.7312 (1,700 x the permitted distance)".
std::string evidence_line(const Evidence& evidence);

// Said aloud wherever a subject without a policy is tested under none.
inline constexpr std::string_view undeclared_policy =
    "it declares no policy: each dtype is held to its most generous reading (f16-all, bf16-all, f32, f64)\n";

// The policy that a subject that declares none is held to, and how much that can find; empty for one that declares it.
// A probe that came first adds its observations, their source, and the assumption behind them.
std::string policy_text(const engine::CampaignOptions& campaign, const SubjectInfo& info);

// The words for a failure: "wrong numbers in out", "a crash". `verdict`: a verdict's name; `kind`: the class of a wrong
// value, "finite", "nan", "infinity", "memory", "shape", "two" of two that differ, or empty; `tensor`: where it lies, or
// empty.
std::string happened(std::string_view verdict, std::string_view kind, std::string_view tensor);

// The line of one of two subjects: "1: outside its bound, 1 off the exact 0, 8.39e+05 x the radius 1.19e-06".
std::string side_line(const Side& side);

// Said aloud wherever one of two subjects has no policy.
inline constexpr std::string_view undeclared_policies =
    "A or B declares no policy: it is held to the most generous reading of each dtype (f16-all, bf16-all, f32, f64)\n";

// The conditions under which an entry's failure shows, if one call is not enough: the calls that a fresh instance must
// be asked before, a line each, or how often it shows. After `indent`, labels fill `width`.
std::string conditions_text(const engine::Entry& entry, std::string_view indent, std::size_t width);

// "waived until 2027-03-31: REASON", "waived until 2026-01-01, which is over: REASON".
std::string waiver_text(const engine::Waiver& waiver);

// The object that --json writes.
nlohmann::ordered_json summary_json(const engine::Summary& summary);

// The command that goes on with a campaign folder, "attest triage DIR", with the subject where it is a path.
std::string triage_line(const std::filesystem::path& folder, std::string_view subject);

// The command that asks a law of one problem: check, or compare where there are two subjects.
std::string check_line(const engine::Summary& summary, std::string_view law, std::string_view problem);

// The command that shows a finding again: replay of its file, or check --problem where none was written.
std::string rerun_line(const engine::Summary& summary, const engine::Finding& finding);

}  // namespace attest::report
