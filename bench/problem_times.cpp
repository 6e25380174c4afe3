// Measures the cost of attest's own problems, one by one: each is drawn and held against its laws as a campaign holds
// it.
//
//   problem_times SUBJECT POLICY CASES LAWS [ASSUMPTION]    the first CASES problems of seed 1; LAWS beside the bound,
//   as --laws
//
// Prints a line of JSON for each: the problem as in reproducers, its multiply-adds w, and processor seconds of the
// whole (`seconds`, the draw with it) and of its parts. The time of reading the processor's clock, 0.4 us where a whole
// problem may take 15, is left out. Wall clocks, which other programs disturb, tell the parts alone: their shares are
// those of the whole. The problems are those of `attest check SUBJECT --policy POLICY --seed 1 --cases CASES --laws
// LAWS [--assume ASSUMPTION]`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "bench/processor_time.hpp"
#include "engine/assume.hpp"
#include "engine/check.hpp"
#include "engine/stream.hpp"
#include "subjects/builtin.hpp"

namespace attest::bench {
namespace {

constexpr std::uint64_t seed = 1;

// Returns the least time between two readings of the clock, in seconds.
double clock_seconds() {
  double least = 1;
  for (int n = 0; n < 1000; ++n) {
    const double start = processor_seconds();
    least = std::min(least, processor_seconds() - start);
  }
  return least;
}

int main_of(int count, char** arguments) {
  if (count != 5 && count != 6) {
    std::fprintf(stderr, "usage: problem_times SUBJECT POLICY CASES LAWS [ASSUMPTION]\n");
    return 2;
  }
  const auto cases = std::strtoull(arguments[3], nullptr, 10);
  engine::LawChoice choice;
  choice.further = std::strtoull(arguments[4], nullptr, 10);
  std::optional<engine::Assumption> assume;
  if (count == 6) assume.emplace(arguments[5]);

  const auto factory = builtin_subject(arguments[1], arguments[2]);
  if (!factory) {
    std::fprintf(stderr, "problem_times: no kernel %s\n", arguments[1]);
    return 2;
  }
  const auto peer_factory = builtin_subject("builtin:explicit", {});
  const auto subject = factory->open(), peer = peer_factory->open();
  const engine::Op& op = *ops::all_ops().front();
  const std::optional<engine::Policy> policy = op.policy_from_text(arguments[2]);
  const auto domain = engine::domain_for(factory->info(), op, policy, assume);

  using Clock = std::chrono::steady_clock;
  const double of_clock = clock_seconds();
  for (std::uint64_t number = 0; number < cases; ++number) {
    const double start = processor_seconds();
    const auto first = Clock::now();
    const engine::Problem problem = domain->draw(seed, number, 1).problem;
    const double drawing = std::chrono::duration<double>(Clock::now() - first).count();
    const engine::Contract contract = engine::contract_for_problem(factory->info(), policy, problem);
    const auto laws = engine::choose_laws(choice, problem, contract, factory->info(), seed, number);
    const engine::CaseOutcome outcome = engine::check(problem, contract, {*subject, peer.get()}, laws);
    const double spent = processor_seconds() - start - of_clock;

    const engine::Seconds& wall = outcome.seconds;
    const double whole = drawing + wall.values + wall.subject + wall.oracle + wall.laws;
    const double share = whole > 0 ? spent / whole : 0;
    nlohmann::ordered_json line{{"problem", engine::to_json(problem)},
                                {"w", engine::work_of(problem)},
                                {"seconds", spent},
                                {"draw", drawing * share},
                                {"values", wall.values * share},
                                {"subject", wall.subject * share},
                                {"oracle", wall.oracle * share},
                                {"laws", wall.laws * share}};
    std::puts(line.dump().c_str());
  }
  return 0;
}

}  // namespace
}  // namespace attest::bench

int main(int count, char** arguments) {
  try {
    return attest::bench::main_of(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "problem_times: %s\n", error.what());
    return 1;
  }
}
