#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "ops/attention/probe/model.hpp"
#include "ops/attention/probe/parts.hpp"
#include "ops/attention/probe/questions.hpp"

namespace attest::ops::of_attention {
namespace {

constexpr std::array formats{Format::f64, Format::f32, Format::tf32, Format::f16, Format::bf16};  // the widest first

Contract with_stage(Contract contract, Stage stage, Format format) {
  contract.policy.set(stage, format);
  return contract;
}

bool may_have(const Contract& contract) {
  try {
    check_numbers(contract);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What one shot showed.
struct Seen {
  Shown shown;
  bool kept;
  std::size_t question;
};

struct Told {
  std::vector<Seen> lost, kept;
  std::vector<std::string> refusals;
  std::vector<Format> excluded;  // narrow formats that are not it
  int bits = 0;
};

Told ask_all(const Asking& asking, const StageQuestions& of) {
  Told told;
  std::size_t number = 0;
  for (const Question& question : of.questions) {
    ++number;
    bool all = true;
    for (const Shot& shot : question.shots) {
      Seen seen{asking.ask(shot.problem), false, number};
      if (!seen.shown.done() && seen.shown.broken().empty() && shot.further) continue;
      if (!seen.shown.done()) {
        told.refusals.push_back(seen.shown.refusal());
        all = false;
        if (!seen.shown.broken().empty()) told.lost.push_back(std::move(seen));
        break;  // the others are alike
      }
      const double out = seen.shown.out();
      seen.kept = out >= shot.lo && out <= shot.hi;
      all = all && seen.kept;
      (seen.kept ? told.kept : told.lost).push_back(std::move(seen));
    }
    if (all) told.bits = std::max(told.bits, question.bits);
    for (const Format format : question.excludes)
      if (all)
        told.excluded.push_back(format);
      else if (question.vetoes)
        std::erase(told.excluded, format);
  }
  return told;
}

// The widest format of which every narrower one is excluded.
std::optional<Format> at_least(const std::vector<Format>& excluded, Format most) {
  for (const Format format : formats) {
    if (!holds(most, format)) continue;
    const bool all = std::ranges::all_of(
        formats, [&](Format narrow) { return holds(narrow, format) || std::ranges::count(excluded, narrow) != 0; });
    if (all) return format;
  }
  return std::nullopt;
}

// The widest format of the stage under which a kernel could have returned all that was lost; nullopt if that is f32 or more, or
// none.
std::optional<Format> at_most(const Asking& asking, Stage stage, const std::vector<Seen>& lost) {
  for (const Format format : formats) {
    const Contract contract = with_stage(asking.contract, stage, format);
    if (!may_have(contract)) continue;
    const bool fits =
        std::ranges::all_of(lost, [&](const Seen& seen) { return !seen.shown.done() || seen.shown.fits(contract); });
    if (fits) return format == formats.front() ? std::nullopt : std::optional(format);
  }
  return std::nullopt;
}

std::string reason(const Told& told, const StageQuestions& of) {
  if (!told.refusals.empty() && told.kept.empty() && told.lost.empty()) return told.refusals.front();
  if (of.questions.empty()) return of.blind.empty() ? "the subject takes no call that would show it" : of.blind;
  return fmt::format("{} of {} calls lose what a narrower format would, which the contract permits", told.lost.size(),
                     told.lost.size() + told.kept.size());
}

ProbeRow row_of_stage(const Asking& asking, const StageQuestions& of, const Told& told) {
  const Format promise = asking.contract.policy[of.stage];
  ProbeRow row;
  row.stage = of.part;
  row.promised = asking.policy_declared ? std::string(attest::name(promise)) : "not said";
  row.note = of.what;
  row.bits = told.bits;
  const Format most = asking.maker.dtype() == Format::f64 ? Format::f64 : Format::f32;
  const bool stored = of.stage == Stage::operand || of.stage == Stage::output;
  row.at_least = at_least(told.excluded, stored ? asking.maker.dtype() : most);
  if (!told.lost.empty()) row.at_most = at_most(asking, of.stage, told.lost);
  if (row.at_least && row.at_most && !holds(*row.at_most, *row.at_least)) row.at_most.reset();
  row.observed = format_in_words(row.at_least, row.at_most, reason(told, of));
  const Seen* example = !told.lost.empty() ? &told.lost.front() : !told.kept.empty() ? &told.kept.front() : nullptr;
  if (example != nullptr) row.evidence = example->shown.problem();
  row.standing = !asking.policy_declared                         ? Standing::unsaid
                 : row.at_least && holds(*row.at_least, promise) ? Standing::agrees
                                                                 : Standing::open;
  return row;
}

void contradict(ProbeRow& row, const Shown& shown) {
  row.standing = Standing::contradicts;
  row.evidence = shown.problem();
  row.note = shown.broken().empty() ? shown.witness() : shown.broken();
}

}  // namespace

Shown Asking::ask(const Problem& problem) const {
  Shown shown(problem, contract, subject);
  if (guilty) shown.forgive();
  if (!meaning || !shown.done() || !shown.outside()) return shown;
  // What a row of stages tells is no other meaning.
  for (const Format format : {Format::f16, Format::bf16}) {
    Contract coarse = contract;
    coarse.policy = Policy(format).set(Stage::storage, contract.policy[Stage::storage]);
    if (may_have(coarse) && shown.passes(coarse)) shown.forgive();
  }
  return shown;
}

ProbeRow refused_row(std::string stage, std::string promised, const Shown& shown) {
  ProbeRow row{std::move(stage), std::move(promised), cannot_tell(shown.refusal()), Standing::open, "", {}, {}, {}, 0};
  row.evidence = shown.problem();
  if (!shown.broken().empty()) row.standing = Standing::contradicts;
  return row;
}

ProbeRow row_of(std::string stage, std::string promised, std::string observed, const Shown& shown, Standing standing) {
  if (!shown.done()) return refused_row(std::move(stage), std::move(promised), shown);
  ProbeRow row{std::move(stage), std::move(promised), std::move(observed), standing, "", {}, {}, {}, 0};
  row.evidence = shown.problem();
  if (shown.outside() || !shown.broken().empty()) contradict(row, shown);
  return row;
}

namespace {

// ---- who is to blame for answers outside the bound ---------------------------------------------------------------------

// One part's answers outside the bound, of the shortest problems; and its row.
struct Strange {
  Stage stage;
  std::size_t row;
  std::vector<Shown> shown;
};

// How far an answer is from what a kernel of `real` gives, in how far it is from what one of `promised` gives: 0 to 1.
double unexplained(const Shown& shown, const Policy& promised, const Policy& real, const Scheme& scheme) {
  if (!shown.done()) return 1;
  const double got = shown.out(), made = modelled(shown.problem(), real, scheme);
  const double right = modelled(shown.problem(), promised, scheme);
  if (std::isfinite(got) != std::isfinite(made)) return 1;
  if (!std::isfinite(got) || got == made) return 0;
  return std::isfinite(right) ? std::min(1.0, std::fabs(got - made) / std::max(std::fabs(got - right), 1e-300)) : 1;
}
double unexplained(const std::vector<Strange>& strange, const std::vector<Shown>& right, const Policy& promised,
                   const Policy& real, const Scheme& scheme) {
  double all = 0, answers = 0;
  for (const Strange& each : strange)
    for (const Shown& shown : each.shown) {
      all += unexplained(shown, promised, real, scheme);
      ++answers;
    }
  for (const Shown& shown : right) {  // as it is if nothing is lost, and lost by such a kernel
    const double made = modelled(shown.problem(), real, scheme), kept = modelled(shown.problem(), promised, scheme);
    const bool loses = !(std::fabs(made - kept) <= 4 * std::fabs(shown.out() - kept) + 1e-6 * std::fabs(kept));
    all += loses ? 1 : 0;
    ++answers;
  }
  return answers > 0 ? all / answers : 1;
}

// A stage, among those whose own rows are strange, and the format of it that explains most.
struct Culprit {
  Stage stage;
  Format format;
  Scheme scheme;
  double left;
};
std::optional<Culprit> culprit(const Asking& asking, const std::vector<Strange>& strange,
                               const std::vector<Shown>& right, const std::vector<ProbeRow>& rows) {
  constexpr double better = 0.02;
  std::optional<Culprit> found;
  for (const Strange& each : strange) {
    const Format promised = asking.contract.policy[each.stage];
    const auto& least = rows[each.row].at_least;
    if (least && holds(*least, promised)) continue;  // its own calls clear it
    for (const Format format : formats) {
      if (holds(format, promised) || (format == Format::tf32 && each.stage == Stage::output)) continue;
      const Contract contract = with_stage(asking.contract, each.stage, format);
      // It must permit what its own row shows.
      const bool permits = may_have(contract) && std::ranges::all_of(each.shown, [&](const Shown& shown) {
                             return shown.done() && shown.fits(contract);
                           });
      if (!permits) continue;
      for (const Scheme& scheme : schemes) {
        const double left = unexplained(strange, right, asking.contract.policy, contract.policy, scheme);
        if (!found || left < found->left - better) found = {each.stage, format, scheme, left};
      }
    }
  }
  return found;
}

// Some of each question, where they lie outside the bound, or where nothing was lost.
std::vector<Shown> some_of(Told& told, bool outside) {
  const std::size_t most = outside ? 3 : 4;
  std::vector<Shown> found;
  std::vector<std::size_t> taken(16);
  const auto take = [&](std::vector<Seen>& seen) {
    for (Seen& each : seen)
      if (each.shown.done() && each.shown.outside() == outside && each.shown.broken().empty() &&
          taken.at(each.question)++ < most)
        found.push_back(std::move(each.shown));
  };
  if (outside) take(told.lost);
  take(told.kept);
  return found;
}

}  // namespace

StageRows stage_rows(const Asking& asking) {
  StageRows told{{}, asking.contract};
  std::vector<Strange> strange;
  std::vector<Shown> right;
  for (const StageQuestions& of : stage_questions(asking.maker, asking.further)) {
    Told answers = ask_all(asking, of);
    told.rows.push_back(row_of_stage(asking, of, answers));
    for (const std::vector<Seen>* seen : {&answers.lost, &answers.kept})
      for (const Seen& each : *seen)
        if (!each.shown.broken().empty()) contradict(told.rows.back(), each.shown);
    if (std::vector<Shown> shown = some_of(answers, true); !shown.empty())
      strange.push_back({of.stage, told.rows.size() - 1, std::move(shown)});
    for (Shown& shown : some_of(answers, false)) right.push_back(std::move(shown));
  }
  // One stage after the other, as long as something is left that those found do not permit.
  for (std::size_t round = 0; round < stage_count && !strange.empty(); ++round) {
    const Asking now{asking.subject, told.permitting, asking.policy_declared, asking.maker, asking.further};
    const auto found = culprit(now, strange, right, told.rows);
    if (!found) break;
    told.permitting = with_stage(told.permitting, found->stage, found->format);
    told.guilty = true;
    const auto is_explained = [&](const Shown& shown) {
      constexpr double little = 0.1;
      return shown.fits(told.permitting) ||
             unexplained(shown, asking.contract.policy, told.permitting.policy, found->scheme) < little;
    };
    std::vector<Strange> others;
    for (Strange& each : strange) {
      ProbeRow& row = told.rows[each.row];
      const bool explained = std::ranges::all_of(each.shown, is_explained);
      if (each.stage == found->stage) {
        contradict(row, each.shown.front());
        row.at_most = found->format;
        row.observed = format_in_words(row.at_least, row.at_most, "");
      } else if (explained) {
        row.at_most.reset();
        row.observed = format_in_words(row.at_least, {}, fmt::format("{} hides it", attest::name(found->stage)));
      } else {
        others.push_back(std::move(each));
      }
    }
    strange = std::move(others);
  }
  if (!strange.empty()) {
    ProbeRow row;
    row.stage = "policy";
    row.promised = asking.policy_declared ? attest::to_text(asking.contract.policy) : "not said";
    row.observed = fmt::format("something else, in calls that ask for {}", told.rows[strange.front().row].stage);
    contradict(row, strange.front().shown.front());
    told.rows.push_back(std::move(row));
  }
  return told;
}

}  // namespace attest::ops::of_attention
