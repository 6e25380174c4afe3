// Prints, for the graphs of tests/graph/models, how far emulated runtimes and planted faults lie from the reference.
// The thresholds and docs/graphs.md rest on it.
// Usage: graph_survey [PROBLEMS [SEED [LONGEST [PRECISION]]]]; LONGEST is the length of every open axis, where errors
// are few and shared. Under `inner=f32` graphs in f16 alone are asked, by runtimes that keep it; a runtime that keeps
// f16 inside, as the file has it, is a fault, too. Under run=bf16 and run=f16 graphs in f32 are asked, by runtimes that
// store everything so, and by those that store less.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "graph/emulated.hpp"
#include "graph/ensemble.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/faults.hpp"
#include "tests/graph/runtimes.hpp"

using namespace attest::graph;

int main(int count, char** words) {
  const std::uint64_t problems = count > 1 ? std::strtoull(words[1], nullptr, 10) : 20;
  constexpr attest::Index most = 2048;  // elements of an input
  const std::uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
  const attest::Index longest = count > 3 ? std::strtoll(words[3], nullptr, 10) : longest_size;
  const Precision precision = precision_from_text(count > 4 ? words[4] : "literal");
  const bool inner = precision.name == "inner=f32";
  std::vector<Precision> ways = precision.that_store_less();
  const bool narrowed = !ways.empty();
  ways.insert(ways.begin(), precision);
  for (const std::string& name : test::models()) {
    const Program program(test::model(name));
    if (inner && program.model().inputs[0].type != Type::f16) continue;
    if (narrowed && program.model().inputs[0].type == Type::f16) continue;
    const Family family(program);
    struct Worst {
      double z = 0, t = 0, of_limit = 0;
      int runs = 0, failed = 0, by_many = 0, changed = 0, vacuous = 0;
    };
    std::map<std::string, Worst> conforming, faulty;
    double seconds = 0;
    const auto take = [](Worst& worst, const Judgement& judged) {
      worst.z = std::max(worst.z, judged.z);
      worst.t = std::max(worst.t, judged.t.value_or(0));
      worst.of_limit = std::max(worst.of_limit, judged.t.value_or(0) / judged.t_limit);
      ++worst.runs;
      worst.failed += judged.outcome == Judgement::Outcome::failed;
      worst.vacuous += judged.outcome == Judgement::Outcome::vacuous;
      worst.by_many += judged.members == many_members;
    };
    for (std::uint64_t i = 0; i < problems; ++i) {
      Problem problem = family.draw(seed, i, most);
      for (auto& axis : problem.sizes) axis.second = 1 + (axis.second - 1) % longest;
      const Feeds feeds = family.feeds(problem);
      Ensemble ensemble(program, feeds, precision, i);
      for (const Precision& way : ways)
        for (const auto& [kind, how] : test::runtimes()) {
          const auto out = results_by(program, feeds, *careless(how), way);
          const auto before = std::chrono::steady_clock::now();
          const auto judged = ensemble.judge(out);
          seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
          take(conforming[narrowed ? way.name + ", " + kind : kind], judged);
        }
      const auto sound = results_by(program, feeds, *nearest(), precision);
      const auto plant = [&](const std::string& fault, const std::vector<Array>& out) {
        bool changed = false;
        for (std::size_t o = 0; o < out.size(); ++o) changed = changed || out[o].floats != sound[o].floats;
        faulty[fault].changed += changed;
        if (changed) take(faulty[fault], ensemble.judge(out));
      };
      for (const auto& fault : test::faults())
        if (const auto planted = fault.plant(program.model()))
          plant(fault.name, results_by(Program(*planted), feeds, *nearest(), precision));
      if (inner) plant("f16-inside", results_by(program, feeds, *nearest(), {}));
    }
    fmt::print("{}: {:.2f} ms a problem for all ensembles\n", name, 1e3 * seconds / static_cast<double>(problems));
    for (const auto& [kind, w] : conforming)
      fmt::print("  {:22} z {:9.3g}  T {:6.3g}, {:.2f} of its limit  {} runs, {} failed, {} vacuous, {} by many\n",
                 kind, w.z, w.t, w.of_limit, w.runs, w.failed, w.vacuous, w.by_many);
    for (const auto& [kind, w] : faulty)
      fmt::print("  {:22} z {:9.3g}  T {:6.3g}  found {} of {} that change anything\n", kind, w.z, w.t, w.failed,
                 w.changed);
  }
}
