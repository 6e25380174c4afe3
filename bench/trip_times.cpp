// Counts the trips of a campaign to a subject in another process, and measures their time beside its kernel.
//
//   trip_times SUBJECT CASES LAWS [ASSUMPTION]    the first CASES problems of seed 1; LAWS beside the bound, as --laws
//
// The problems are those of `attest check SUBJECT --seed 1 --cases CASES --laws LAWS --jobs 1 [--assume ASSUMPTION]`.
// The time of a trip beyond the time that the subject reports for its calls (copies, packing, both hand-overs, views)
// is given as the median of trips of one call and of two. The second of two calls costs no trip, so that the extra cost
// of the first is that of a trip itself (all of it, where no law asks two calls). From that follows the most that could
// be gained if the laws of a problem asked in one trip, or in that of its base call: in percent of this process's own
// processor time, which is less than a problem takes with its kernels.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bench/processor_time.hpp"
#include "core/error.hpp"
#include "engine/assume.hpp"
#include "engine/check.hpp"
#include "engine/passed_on.hpp"
#include "engine/stream.hpp"
#include "subjects/builtin.hpp"
#include "subjects/resolve.hpp"

namespace attest::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t seed = 1;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Trip {
  std::size_t calls;
  double kernels, beside;  // us in all
};

class Watched final : public engine::PassedOn {
 public:
  using PassedOn::PassedOn;
  std::vector<CallResult> run(std::span<const Call> calls) override {
    const auto start = Clock::now();
    std::vector<CallResult> results = PassedOn::run(calls);
    const double wall = microseconds_since(start);
    double kernels = 0;
    for (const CallResult& result : results) kernels += static_cast<double>(result.elapsed_ns) * 1e-3;
    trips.push_back({calls.size(), kernels, wall - kernels});
    return results;
  }

  std::vector<Trip> trips;
};

double median(std::vector<double> values) {
  if (values.empty()) throw usage_error("no trip was made: CASES must be more");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns the median time of trips of so many calls whose kernels are among the quicker half, so that neither copies
// nor naps disturb it; nothing if there are none.
std::optional<double> beside_kernels(const std::vector<Trip>& trips, std::size_t calls) {
  const auto kernel = [](const Trip& trip) { return trip.kernels / static_cast<double>(trip.calls); };
  std::vector<double> kernels, beside;
  for (const Trip& trip : trips) kernels.push_back(kernel(trip));
  const double quick = median(kernels);
  for (const Trip& trip : trips)
    if (trip.calls == calls && kernel(trip) <= quick) beside.push_back(trip.beside);
  return beside.empty() ? std::nullopt : std::optional(median(beside));
}

int main_of(int count, char** arguments) {
  if (count != 4 && count != 5) {
    std::fprintf(stderr, "usage: trip_times SUBJECT CASES LAWS [ASSUMPTION]\n");
    return 2;
  }
  const auto cases = std::strtoull(arguments[2], nullptr, 10);
  engine::LawChoice choice;
  choice.further = std::strtoull(arguments[3], nullptr, 10);
  std::optional<engine::Assumption> assume;
  if (count == 5) assume.emplace(arguments[4]);

  const auto factory = resolve(arguments[1], Trust::command_line, ResolveOptions{});
  const auto subject = factory->open(), peer = builtin_subject("builtin:explicit", {})->open();
  const auto ops = ops::all_ops();
  const auto op = std::ranges::find_if(ops, [&](const engine::Op* one) { return one->offered(factory->info()); });
  if (op == ops.end()) throw usage_error(std::string(arguments[1]) + " offers no operation");
  const auto domain = engine::domain_for(factory->info(), **op, std::nullopt, assume);

  Watched watched(*subject);
  std::size_t behind_base = 0, with_laws = 0;  // trips, and problems that make any
  const double start = processor_seconds();
  for (std::uint64_t number = 0; number < cases; ++number) {
    const engine::Problem problem = domain->draw(seed, number, 1).problem;
    const engine::Contract contract = engine::contract_for_problem(factory->info(), std::nullopt, problem);
    const auto laws = engine::choose_laws(choice, problem, contract, factory->info(), seed, number);
    const std::size_t before = watched.trips.size();
    engine::check(problem, contract, {watched, peer.get()}, laws);
    const std::size_t made = watched.trips.size() - before;
    if (made < 2) continue;
    behind_base += made - 1;
    ++with_laws;
  }
  const auto problems = static_cast<double>(cases);
  const double own = 1e6 * (processor_seconds() - start) / problems;

  double kernels = 0;
  for (const Trip& trip : watched.trips) kernels += trip.kernels / problems;
  const double one = beside_kernels(watched.trips, 1).value(), two = beside_kernels(watched.trips, 2).value_or(one),
               trip = 2 * one - two;
  const double laws_in_one = static_cast<double>(behind_base - with_laws) / problems,
               all_in_one = static_cast<double>(behind_base) / problems;
  fmt::print("{}: {} problems, {:.0f} us of attest's each and {:.0f} of kernels; {:.2f} trips, {:.2f} of them laws'\n",
             arguments[1], cases, own, kernels, static_cast<double>(watched.trips.size()) / problems, all_in_one);
  fmt::print("beside kernels: {:.1f} us a trip of one call, {:.1f} of two: {:.1f} a trip itself\n", one, two, trip);
  fmt::print("gained at most: {:.2f} trips, {:.1f} % if laws share one; {:.2f}, {:.1f} % if the base call shares it\n",
             laws_in_one, 100 * laws_in_one * trip / own, all_in_one, 100 * all_in_one * trip / own);
  return 0;
}

}  // namespace
}  // namespace attest::bench

int main(int count, char** arguments) {
  try {
    return attest::bench::main_of(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trip_times: %s\n", error.what());
    return 1;
  }
}
