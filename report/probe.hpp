#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/probe/probe.hpp"

namespace attest::report {

struct ProbeText {
  bool all_evidence = false;  // the problem behind every row, not of contradictions alone
  std::string rerun_options;  // further options that `attest check` needs, with a space before each
};

// The text of `attest probe`: the table, the problems that show it, speeds, and the contract to paste.
std::string probe_text(const engine::ProbeReport& report, const ProbeText& how);
// The object that its --json writes, but for `exit`.
nlohmann::ordered_json probe_json(const engine::ProbeReport& report);

// The text of `attest probe --tree`: the order of each call, and which calls of a dtype differ.
std::string orders_text(const std::string& subject, const SubjectInfo& info,
                        const std::vector<engine::DtypeOrders>& all);
// The object that its --json writes, but for `exit`.
nlohmann::ordered_json orders_json(const std::string& subject, const SubjectInfo& info,
                                   const std::vector<engine::DtypeOrders>& all);

}  // namespace attest::report
