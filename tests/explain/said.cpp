// Holds what `attest explain` says of failures of every planted fault against the numbers: `fits` and `policies` by
// holding every element of every call against them once more, `looks like` by the fault itself.
//
// Usage: explain_said SEEDS CASES [EVERY]. For each EVERY-th fault and each seed from 1 the first failure of a campaign
// of CASES problems is explained twice: as it was shrunk, and as it was drawn. Prints a line for each false sentence,
// and the figures.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/campaign.hpp"
#include "engine/explain/explain.hpp"
#include "engine/explain/parts.hpp"
#include "engine/instance.hpp"
#include "subjects/builtin.hpp"

namespace {

using namespace attest;
using namespace attest::engine;

struct Tally {
  int failures = 0, shrunk = 0;
  int fits = 0, fits_false = 0, policies = 0, policies_false = 0, excluded_false = 0;
  int named = 0, among = 0, family = 0, silent = 0, wrong = 0;
};

// Every element of every call, as `attest judge` would: the call that is outside passes, no other fails, and what is
// not to the bit a right kernel's is no interval of more than eight times the error.
bool holds(const explaining::Evidenced& asked, const ops::Departure& departure, bool exact) {
  double fill = 0;
  for (const explaining::Heard& call : asked.heard) {
    if (!call.reading) continue;
    const VerdictKind kind = call.reading->judge(departure.contract, departure.variant, call.work());
    if (kind == VerdictKind::fail || (call.outside && !exact && kind != VerdictKind::pass)) return false;
    if (call.outside)
      fill =
          std::max(fill, explaining::filled(call.elements, call.reading->elements(departure.contract, departure.variant,
                                                                                  ExplainLimits().oracle_work)));
  }
  return exact || fill >= 1. / 8;
}

bool permits(const explaining::Evidenced& asked, const ops::Departure& departure) {
  return std::ranges::none_of(asked.heard, [&](const explaining::Heard& call) {
    return call.reading && call.reading->judge(departure.contract, departure.variant, call.work()) == VerdictKind::fail;
  });
}

void judge_fits(const Explanation& told, const explaining::Evidenced& asked, const std::string& what, Tally& tally) {
  const std::size_t first = explaining::first_outside(asked.heard);
  if (!told.outside || first == asked.heard.size()) return;
  const ops::Reading& reading = *asked.heard[first].reading;
  const auto among = [&](const std::vector<ops::Departure>& all, const std::string& words) {
    return *std::ranges::find(all, words, &ops::Departure::words);
  };
  const auto departures = reading.departures(asked.contract), policies = reading.policies(asked.contract);
  for (const Fit& fit : told.fits) {
    ++tally.fits;
    if (holds(asked, among(departures, fit.words), fit.exact > 0)) continue;
    ++tally.fits_false;
    fmt::print("false: fits {}: {}\n", fit.words, what);
  }
  for (const std::string& words : told.policies_that_fit) {
    ++tally.policies;
    if (holds(asked, among(policies, words), false)) continue;
    ++tally.policies_false;
    fmt::print("false: it fits {}: {}\n", words, what);
  }
  for (const std::string& words : told.policies_excluded)
    if (permits(asked, among(policies, words))) {
      ++tally.excluded_false;
      fmt::print("false: excluded {}: {}\n", words, what);
    }
}

void judge_name(const Explanation& told, const ListedSubject& fault, const std::string& what, Tally& tally) {
  if (told.hypotheses.empty()) return void(++tally.silent);
  const auto alike = static_cast<std::ptrdiff_t>(told.alike());
  const auto is_it = [&](const Hypothesis& h) { return h.name == fault.name; };
  if (is_it(told.hypotheses.front()))
    ++tally.named;
  else if (std::any_of(told.hypotheses.begin(), told.hypotheses.begin() + alike, is_it))
    ++tally.among;
  else if (told.hypotheses.front().family == fault.family)
    ++tally.family;
  else {
    ++tally.wrong;
    fmt::print("false: looks like {} ({}): {}\n", told.hypotheses.front().name,
               told.hypotheses.front().match == Hypothesis::Match::partly ? "in part" : "alike", what);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("explain_said SEEDS CASES [EVERY]\n", stderr), 2;
  const auto seeds = std::strtoull(argv[1], nullptr, 10), cases = std::strtoull(argv[2], nullptr, 10),
             every = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  Tally all;
  std::uint64_t number = 0;
  int found_never = 0;
  for (const char* op : {"attention", "layer_norm", "mha"})
    for (const ListedSubject& fault : fault_subjects(op)) {
      if (number++ % every != 0) continue;
      const auto subject = builtin_subject(fault.name, {});
      const auto peer = builtin_subject("builtin:explicit", {});
      bool found = false;
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        CampaignOptions options;
        options.subject = fault.name;
        options.op = ops::find_op(op);
        options.seed = seed;
        options.cases = cases;
        options.jobs = 1;
        options.continue_after_failure = false;
        Observer silent;
        const Summary summary = run_campaign(*subject, peer.get(), options, silent);
        const auto finding =
            std::ranges::find(summary.findings, VerdictKind::fail, [](const Finding& f) { return f.entry.seen; });
        if (finding == summary.findings.end()) continue;
        found = true;
        Entry drawn = finding->entry;
        drawn.problem = ops::problem_from_text(drawn.original);
        drawn.minimal = false;
        drawn.neighbours.clear();
        for (const bool shrunk : {true, false}) {
          const Entry& entry = shrunk ? finding->entry : drawn;
          Station station(*subject, peer.get());
          ExplainLimits limits;
          limits.changes = 8;
          const Explanation told = explain(entry, station.bench(),
                                           {subject->info(), entry.problem.op().dtypes(subject->info()), {}}, limits);
          if (!told.fails) continue;  // drawn, it may fail by another law alone
          ++all.failures;
          all.shrunk += shrunk;
          const std::string what =
              fmt::format("{}, seed {}, {}: {}", fault.name, seed, shrunk ? "shrunk" : "drawn", to_text(entry.problem));
          Station again(*subject, peer.get());
          judge_fits(told, explaining::ask(entry, entry.problem, again.bench(), {}), what, all);
          judge_name(told, fault, what, all);
        }
      }
      found_never += !found;
    }
  fmt::print("{} failures, {} of them shrunk; of {} faults none in {} problems\n", all.failures, all.shrunk,
             found_never, cases);
  fmt::print("fits: {} sentences, {} false; policies: {} fit, {} false; {} excluded that fit\n", all.fits,
             all.fits_false, all.policies, all.policies_false, all.excluded_false);
  fmt::print("looks like: {} itself, {} among those alike, {} of its family, {} silent, {} wrong\n", all.named,
             all.among, all.family, all.silent, all.wrong);
  const int false_names = all.wrong + all.family;
  return all.failures == 0 || all.fits_false + all.policies_false + all.excluded_false > 0 ||
         20 * false_names > all.failures;
}
