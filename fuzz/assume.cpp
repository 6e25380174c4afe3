// A predicate for --assume.
#include "engine/assume.hpp"

#include <optional>

#include "core/field.hpp"
#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Problem problems[] = {
      Problem{},
      problem_from_text("b=2 hq=4 hkv=2 lq=3 lk=65 d=8 dv=4 dtype=f16 scale=-0x1p-3 causal=1 align=bottom_right "
                        "keep=half bias=alibi lengths=ragged values=wide:0.5 seed=18446744073709551615"),
  };
  std::optional<engine::Assumption> assumption;
  if (!fuzz::accepts([&] { assumption.emplace(fuzz::as_text(data, size)); })) return 0;
  const engine::Assumption again(assumption->text());
  const auto intervals = assumption->intervals();
  for (const Problem& problem : problems) {
    const bool holds = assumption->holds(problem);
    fuzz::require(again.holds(problem) == holds, "the same text holds and does not hold");
    if (!holds) continue;
    for (const auto& [name, interval] : intervals) {
      const Index value = find_field(name)->get(problem);
      fuzz::require(interval.lo <= value && value <= interval.hi, "narrowing " + name + " loses a problem that holds");
    }
  }
  return 0;
}
