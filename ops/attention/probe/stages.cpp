// The questions of stages as a subject is asked them.
#include <algorithm>
#include <array>

#include "ops/attention/probe/model.hpp"
#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// Questions that the subject takes in no way have no shots left.
std::vector<probing::StageQuestions> said(const std::vector<StageQuestions>& all, const Way& way) {
  std::vector<probing::StageQuestions> asked;
  for (const StageQuestions& of : all) {
    const bool is_stored = of.stage == Stage::operand || of.stage == Stage::output;
    probing::StageQuestions& stage = asked.emplace_back(
        probing::StageQuestions{static_cast<std::size_t>(of.stage), of.part, of.what, {}, of.blind, is_stored});
    for (const Question& question : of.questions) {
      probing::Question as{question.excludes, {}, question.vetoes, question.bits};
      for (const Shot& shot : question.shots)
        if (auto problem = way.said(shot.problem))
          as.shots.push_back(
              {std::move(*problem), shot.lo, shot.hi, probing::element(way.place(shot.problem, {0, 0, 0, 0}))});
      if (as.shots.size() == question.shots.size()) stage.questions.push_back(std::move(as));
    }
  }
  return asked;
}

class AsItIs final : public Way {
 public:
  [[nodiscard]] std::optional<ops::Problem> said(const Problem& problem) const override { return problem; }
  [[nodiscard]] probing::Place place(const Problem&, const probing::Place& index) const override { return index; }
};

}  // namespace

const Way& as_it_is() {
  static const AsItIs way;
  return way;
}

std::span<const Format> formats_of(Stage stage) noexcept {
  return stage == Stage::output ? std::span<const Format>(stored_finest_first) : std::span<const Format>(finest_first);
}

std::vector<probing::StageQuestions> asked_stages(const Asking& asking) {
  std::vector<probing::StageQuestions> all = said(stage_questions(asking.maker), asking.way);
  probing::ask_further(all, said(stage_questions(asking.further), asking.way));
  return all;
}

Shown Asking::ask(const Problem& problem) const {
  const auto put = way.said(problem);
  if (!put) return {probing::Shown::refused("the subject takes no such sizes"), problem, way};
  return {asked.ask(*put), problem, way};
}

}  // namespace attest::ops::of_attention
