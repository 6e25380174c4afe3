// Prints, for ONNX files, which parts of them are held to a proven bound, and what that says of emulated runtimes which
// conform: none may be blamed. Usage: models_survey PROBLEMS SEED FILE...
//        models_survey write FOLDER           writes the blocks of blocks.hpp, in f32, f16 and f64, for other runtimes
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>

#include "core/error.hpp"
#include "engine/ops.hpp"
#include "graph/problem.hpp"
#include "graph/read.hpp"
#include "models/proven.hpp"
#include "tests/graph/runtimes.hpp"
#include "tests/models/blocks.hpp"
#include "tests/models/careless.hpp"

using namespace attest;

namespace {

struct Counted {
  int held = 0, vacuous = 0;
  Index proven = 0;
  std::map<std::string, int> skipped, failed;
};

void survey(const std::string& file, std::uint64_t problems, std::uint64_t seed, Counted& all) {
  const models::Part part = models::part_of_model(graph::load_model(file));
  const graph::Model& model = part.program->model();
  const graph::Family family(*part.program);
  const graph::Connections connections(model);
  for (const engine::Op* op : engine::all_ops())
    for (const auto& one : op->subgraphs(connections)) {
      const std::string& tensor = model.values[static_cast<std::size_t>(one->output)];
      Counted counted;
      for (const auto& [kind, how] : graph::test::runtimes())
        for (const char* const name : {"literal", "inner=f32", "stores at times"}) {
          const bool at_times = name[0] == 's';
          if (name[0] != 'l' && !models::test::is_narrow(model)) continue;
          const auto precision = graph::precision_from_text(at_times ? "literal" : name);
          models::test::Careless careless(how, precision);
          models::test::StoresAtTimes stores(how, seed);
          models::Runtime& runtime = at_times ? static_cast<models::Runtime&>(stores) : careless;
          for (std::uint64_t number = 0; number < problems; ++number) {
            const graph::Problem problem = family.draw(seed, number, 512);
            models::Case asked(part, family.feeds(problem), precision, problem.seed);
            const auto result = models::proven_bound_of({asked, runtime, {"only"}}, tensor);
            counted.held += result.kind == VerdictKind::pass;
            counted.vacuous += result.kind == VerdictKind::vacuous;
            counted.proven += result.proven;
            if (result.kind == VerdictKind::skip) ++counted.skipped[result.reason];
            if (is_finding(result.kind) && counted.failed.size() < 3)
              ++counted.failed[kind + ", " + name + ", " + to_text(problem) + ": " + result.reason];
          }
        }
      fmt::print("  {:<10} {:<40} held {} ({} elements), vacuous {}\n", op->name(), tensor, counted.held,
                 counted.proven, counted.vacuous);
      for (const auto& [reason, times] : counted.skipped) fmt::print("      skipped {}: {}\n", times, reason);
      for (const auto& [reason, times] : counted.failed) fmt::print("      BLAMED: {}\n", reason);
      if (op->name() != "mha") continue;
      all.held += counted.held;
      all.vacuous += counted.vacuous;
      for (const auto& [reason, times] : counted.skipped) all.skipped[reason] += times;
      all.failed.insert(counted.failed.begin(), counted.failed.end());
    }
}

}  // namespace

int main(int count, char** words) {
  if (count == 3 && words[1] == std::string("write")) {
    int number = 0;
    for (models::test::BlockSpelling s : models::test::spellings())
      for (const graph::Type type : {graph::Type::f32, graph::Type::f16, graph::Type::f64}) {
        s.type = type;
        std::ofstream(fmt::format("{}/block-{}-{}.onnx", words[2], number++, graph::name(type)), std::ios::binary)
            << models::test::BlockFile(s).file.bytes();
      }
    return 0;
  }
  if (count < 4) return 2;
  Counted all;
  for (int n = 3; n < count; ++n) {
    fmt::print("{}\n", words[n]);
    try {
      survey(words[n], std::strtoull(words[1], nullptr, 10), std::strtoull(words[2], nullptr, 10), all);
    } catch (const std::exception& error) {
      fmt::print("  {}\n", error.what());
    }
  }
  fmt::print("blocks: {} held, {} vacuous, {} blamed or more", all.held, all.vacuous, all.failed.size());
  for (const auto& [reason, times] : all.skipped) fmt::print("; {} skipped: {}", times, reason);
  fmt::print("\n");
  return all.failed.empty() ? 0 : 1;
}
