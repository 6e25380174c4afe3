#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/probe/probe.hpp"

namespace attest::report {

struct ProbeText {
  bool all_evidence = false;  // the problem behind every row, not of contradictions alone
  std::string rerun_options;  // what `attest check` needs besides the subject and the problem, with a space before each
};

// What `attest probe` prints: the table, the problems that show it, speeds, and the contract to paste.
std::string probe_text(const engine::ProbeReport& report, const ProbeText& how);
// The object that its --json writes, but for `exit`.
nlohmann::ordered_json probe_json(const engine::ProbeReport& report);

}  // namespace attest::report
