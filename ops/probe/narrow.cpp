#include "ops/probe/narrow.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/rng.hpp"
#include "ops/probe/shown.hpp"
#include "properties/trial.hpp"

namespace attest::ops::probing {

std::vector<Against> against_promise(std::vector<Against> list, Format promised) {
  std::erase_if(list, [promised](const Against& against) {
    return against.bits == 0 ? promised == Format::f16 : against.bits >= precision(promised);
  });
  return list;
}

std::uint64_t narrow_stage_key(std::uint64_t seed) {
  constexpr std::uint64_t stream = 0x6E6172726F77;
  return extend(mix(seed), stream);
}

bool at_usual_sizes(std::uint64_t key) { return (extend(key, 1) & 1) == 0; }

Law narrow_stage_law(const Op* op) {
  return {
      op,
      narrow_stage_name,
      "out in [lo, hi] for inputs of which a stage of few bits loses much",
      "a stage in fewer bits than promised shows: inputs are those of the probe, at the problem's sizes and at usual "
      "ones",
      properties::Kind::bound,
      properties::Asks::anything,
      properties::Claim::none,
      narrow_stage};
}

Verdict check_narrow_stage(const std::vector<NarrowQuestion>& questions, std::uint64_t key, const Contract& contract,
                           Subject& subject, std::int64_t& calls, std::int64_t& elapsed) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < questions.size(); ++n) order.push_back(n);
  std::ranges::sort(order, {}, [key](std::size_t n) { return extend(key, 2 + n); });
  for (const std::size_t n : order) {
    const NarrowQuestion& question = questions[n];
    const auto all = question.calls();
    if (all.empty()) continue;
    const std::optional<Problem> problem = all[below(mix(key), all.size())]();
    if (!problem) continue;
    const Shown shown(*problem, contract, subject);
    ++calls;
    elapsed += shown.call().elapsed_ns;
    if (shown.call().status != CallStatus::done) throw properties::CallFailed(shown.call());
    if (shown.violation()) return Verdict::fail(*shown.violation());
    Verdict verdict = shown.verdict();
    if (verdict.evidence) {
      Problem sizes = *problem;
      problem->op().clear_edits(sizes);
      std::string& note = verdict.evidence->note;
      note += fmt::format("{}{} in {} would show: {}, in a call of its own, {} with elements set by hand",
                          note.empty() ? "" : "; ", question.part, names_of(question.excludes), question.what,
                          to_text(sizes));
    }
    return verdict;
  }
  return Verdict::skip("no stage is promised to be wider than these sizes can show");
}

}  // namespace attest::ops::probing
