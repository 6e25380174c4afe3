// The gate of the law ensemble-error: conforming results in any number, of which none may be blamed (docs/bounds.md,
// "The ensemble").
//
// Usage: ensemble_gate --results N [--seed S] [--op attention|layer_norm|mha]. Prints its progress; ends with 1 if any
// is blamed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/ensemble/cases.hpp"

namespace {

using attest::testing::EnsembleCase;

struct Tally {
  std::uint64_t results = 0, redrawn = 0, deep = 0, blamed = 0;
  double r = 0;  // the largest that all three draws had

  void add(const EnsembleCase& one) {
    const auto& o = one.outcome;
    ++results;
    redrawn += o.r.size() > 1;
    deep += o.members > attest::ensemble::few_members;
    blamed += o.found;
    if (o.r.size() == attest::ensemble::draws) r = std::max(r, *std::ranges::min_element(o.r));
    if (o.found) fmt::print("BLAMED {} | {} | {} | {}\n", one.subject, one.contract, one.problem, in_words(o));
  }
  void print(const char* op) const {
    fmt::print(
        "{:10} {:8} results, {} drawn again, {} asked of more than {} members, {} blamed; largest R of three draws "
        "{:.3f}\n",
        op, results, redrawn, deep, attest::ensemble::few_members, blamed, r);
    std::fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t results = 1000, seed = 1;
  std::string_view op;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    if (word == "--results") results = std::strtoull(argv[i + 1], nullptr, 10);
    if (word == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (word == "--op") op = argv[i + 1];
  }
  const struct {
    const char* name;
    void (*run)(std::uint64_t, std::uint64_t, attest::testing::Subjects, const attest::testing::EnsembleTold&);
  } all[] = {{"attention", attest::testing::attention_case},
             {"layer_norm", attest::testing::layer_norm_case},
             {"mha", attest::testing::mha_case}};
  std::uint64_t blamed = 0;
  for (const auto& [name, run] : all) {
    if (!op.empty() && op != name) continue;
    Tally tally;
    const std::uint64_t own = op.empty() ? results / 3 : results;
    for (std::uint64_t n = 0; tally.results < own; ++n) {
      run(seed, n, attest::testing::Subjects::conforming, [&](const EnsembleCase& one) { tally.add(one); });
      if (n % 1000 == 999) tally.print(name);
    }
    tally.print(name);
    blamed += tally.blamed;
  }
  return blamed > 0 ? 1 : 0;
}
