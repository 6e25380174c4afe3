// Tables of docs/explain.md: the hypotheses of `attest explain` for every planted fault's stored reproducers.
//
// Usage: explain_tables CORPUS [--slowest]. Two tables in Markdown: with the whole catalogue as hypotheses, and without
// the family of the fault itself. With --slowest, the longest explanation in seconds of processor time, on stderr.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "engine/explain/explain.hpp"
#include "engine/instance.hpp"
#include "engine/replay.hpp"
#include "subjects/builtin.hpp"

namespace {

using namespace attest;
using namespace attest::engine;

struct Tally {
  int entries = 0;
  int named = 0;                    // itself first
  int alike = 0;                    // one of its family first, which gives the same numbers
  int among = 0;                    // neither, and it is one of those that give the same numbers
  int stage = 0;                    // its stage, told without its family
  std::vector<std::string> others;  // the faults or stages named in its place
};

Explanation explained(const Entry& entry, std::set<std::string> families_left_out) {
  const std::string policy = entry.policy_given ? ops::to_text(ops::policy_of(entry.contract)) : std::string();
  const auto factory = builtin_subject(entry.subject, policy);
  const auto peer = builtin_subject("builtin:explicit", {});
  Station station(*factory, peer.get());
  ExplainLimits limits;
  limits.families_left_out = std::move(families_left_out);
  return explain(entry, station.bench(), {factory->info(), entry.problem.op().dtypes(factory->info()), {}}, limits);
}

void add(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("explain_tables CORPUS [--slowest]\n", stderr), 2;
  std::map<std::string, ListedSubject> faults;
  std::vector<std::string> order;
  for (const char* op : {"attention", "layer_norm", "mha"})
    for (const ListedSubject& fault : fault_subjects(op)) {
      faults[fault.name] = fault;
      order.push_back(fault.name);
    }
  std::map<std::string, Tally> with, without;
  double slowest = 0;
  std::string slowest_of;
  for (const auto& file : corpus_files({argv[1]})) {
    const Entry entry = read_entry(file);
    if (!faults.contains(entry.subject)) continue;
    const ListedSubject& fault = faults.at(entry.subject);
    const auto before = std::clock();
    const Explanation all = explained(entry, {});
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    if (seconds > slowest) {
      slowest = seconds;
      slowest_of = file.string();
    }
    const Explanation rest = explained(entry, {fault.family});
    Tally& a = with[fault.name];
    ++a.entries;
    const std::size_t alike = all.alike();
    const auto first = all.hypotheses.begin();
    if (first == all.hypotheses.end())
      add(a.others, "nothing");
    else if (first->name == fault.name)
      ++a.named;
    else if (first->family == fault.family && first->match == Hypothesis::Match::same)
      ++a.alike;
    else
      add(a.others, first->name);
    a.among += std::any_of(first, first + static_cast<std::ptrdiff_t>(alike),
                           [&](const Hypothesis& h) { return h.name == fault.name; });
    Tally& b = without[fault.name];
    ++b.entries;
    if (rest.stage == fault.stage)
      ++b.stage;
    else
      add(b.others, rest.stage.empty() ? "none" : rest.stage + " (" + rest.stage_by + ")");
  }
  int faults_seen = 0, named = 0, alike = 0, stage = 0, entries = 0, entries_right = 0, entries_stage = 0;
  std::string first, second;
  for (const std::string& name : order) {
    const Tally &a = with[name], &b = without[name];
    if (a.entries == 0) continue;
    ++faults_seen;
    entries += a.entries;
    entries_right += a.named + a.alike;
    entries_stage += b.stage;
    named += a.named == a.entries;
    alike += a.named < a.entries && a.named + a.alike == a.entries;
    stage += b.stage == b.entries;
    first += fmt::format("| `{}` | {} | {} | {} | {} |\n", name.substr(6), a.entries, a.named,
                         a.alike == 0 ? "" : std::to_string(a.alike), fmt::join(a.others, ", "));
    second += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", name.substr(6), faults[name].family,
                          faults[name].stage, b.entries, b.stage, fmt::join(b.others, "; "));
  }
  fmt::print(
      "{} faults, {} reproducers: itself named first in all of its own {}, one of its family with the same numbers {}; "
      "of reproducers {}.\n\n| fault | reproducers | itself first | family first | other |\n| --- | --- | --- | --- | "
      "--- |\n{}\n",
      faults_seen, entries, named, alike, entries_right, first);
  fmt::print(
      "{} faults, {} reproducers: the right stage in all of its own {}; of reproducers {}.\n\n"
      "| fault | family | stage | reproducers | stage right | told instead |\n| --- | --- | --- | --- | --- | --- "
      "|\n{}",
      faults_seen, entries, stage, entries_stage, second);
  if (argc > 2) fmt::print(stderr, "slowest {:.3f} s of processor time: {}\n", slowest, slowest_of);
  return 0;
}
