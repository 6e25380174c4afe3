#pragma once
#include <memory>
#include <ostream>
#include <vector>

#include "engine/campaign.hpp"
#include "report/look.hpp"

namespace attest::report {

// The terminal: failures and the summary on `out`, progress on `progress`: one live line where that is a terminal, a
// line every ten seconds elsewhere.
struct TerminalOptions {
  std::ostream& out;
  std::ostream& progress;
  bool live = false;
  bool quiet = false;  // nothing on `out`: it belongs to --json -
  Look look{};
};
std::unique_ptr<engine::Observer> terminal_observer(TerminalOptions options);

// --events: the same facts as JSON lines while they happen; each line is flushed.
std::unique_ptr<engine::Observer> events_observer(std::ostream& out);

// Tells each in turn.
std::unique_ptr<engine::Observer> tee(std::vector<std::unique_ptr<engine::Observer>> observers);

// The summary as the terminal shows it.
std::string summary_text(const engine::Summary& summary, const Look& look = {});
// The defects alone, of a summary that is of no campaign.
std::string triage_text(const engine::Summary& summary, const Look& look = {});

}  // namespace attest::report
