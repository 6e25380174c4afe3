#include "ops/probe/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <utility>

#include "core/policy_stages.hpp"
#include "ops/op.hpp"

namespace attest::ops::probing {
namespace {

// The result of one shot.
struct Seen {
  Shown shown;
  Read read;
  double got = 0;
  bool kept = false;
  std::size_t question = 0;
};

struct Told {
  std::vector<Seen> lost, kept;
  std::vector<std::string> refusals;
  std::vector<Format> excluded;  // narrow formats that are not it
  int bits = 0;
};

Told ask_all(const Asked& asked, const StageQuestions& of) {
  Told told;
  std::size_t number = 0;
  for (const Question& question : of.questions) {
    ++number;
    bool all = true;
    for (const Shot& shot : question.shots) {
      Seen seen{asked.ask(shot.problem), shot.read, 0, false, number};
      if (!seen.shown.done() && seen.shown.broken().empty() && shot.further) continue;
      if (!seen.shown.done()) {
        told.refusals.push_back(seen.shown.refusal());
        all = false;
        if (!seen.shown.broken().empty()) told.lost.push_back(std::move(seen));
        break;  // the others are alike
      }
      seen.got = shot.read(seen.shown.elements());
      seen.kept = seen.got >= shot.lo && seen.got <= shot.hi;
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
std::optional<Format> at_least(const std::vector<Format>& excluded, std::span<const Format> formats, Format most) {
  for (const Format format : formats) {
    if (!holds(most, format)) continue;
    const bool all = std::ranges::all_of(
        formats, [&](Format narrow) { return holds(narrow, format) || std::ranges::count(excluded, narrow) != 0; });
    if (all) return format;
  }
  return std::nullopt;
}

// The widest format of the stage under which a kernel could have returned all that was lost; nullopt if that is f32 or
// more, or none.
std::optional<Format> at_most(const Asked& asked, std::size_t stage, std::span<const Format> formats,
                              const std::vector<Seen>& lost) {
  for (const Format format : formats) {
    const auto contract = with_stage(asked.contract, stage, format);
    if (!contract) continue;
    const bool fits =
        std::ranges::all_of(lost, [&](const Seen& seen) { return !seen.shown.done() || seen.shown.fits(*contract); });
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

Format promised(const Asked& asked, std::size_t stage) {
  const Op& op = asked.contract.op();
  return op.stage(op.policy(asked.contract), stage);
}

ProbeRow row_of_stage(const Asked& asked, const StageQuestions& of, std::span<const Format> formats, const Told& told) {
  const Format promise = promised(asked, of.stage);
  ProbeRow row;
  row.stage = of.part;
  row.of_stage = of.stage;
  row.promised = asked.policy_declared ? std::string(attest::name(promise)) : "not said";
  row.note = of.what;
  row.bits = told.bits;
  row.at_least = at_least(told.excluded, formats, of.stored ? asked.dtype : widest_told(asked.dtype));
  if (!told.lost.empty()) row.at_most = at_most(asked, of.stage, formats, told.lost);
  if (row.at_least && row.at_most && !holds(*row.at_most, *row.at_least)) row.at_most.reset();
  row.observed = format_in_words(row.at_least, row.at_most, reason(told, of));
  const Seen* example = !told.lost.empty() ? &told.lost.front() : !told.kept.empty() ? &told.kept.front() : nullptr;
  if (example != nullptr) row.evidence = example->shown.problem();
  row.standing = !asked.policy_declared                          ? Standing::unsaid
                 : row.at_least && holds(*row.at_least, promise) ? Standing::agrees
                                                                 : Standing::open;
  return row;
}

// ---- who is to blame for answers outside the bound ------------------------------------------------------------------

// One part's answers outside the bound, of the shortest problems; and its row.
struct Strange {
  std::size_t stage;
  std::size_t row;
  std::vector<Seen> seen;
};

class Blame {
 public:
  Blame(const Model& model, const Policy& promised) : model_(model), promised_(promised) {}

  // The distance of an answer from the result of a kernel of `real`, as a share of its distance from that of
  // `promised`: 0 to 1.
  [[nodiscard]] double unexplained(const Seen& seen, const Policy& real, std::size_t scheme) const {
    if (!seen.shown.done()) return 1;
    const double made = read(seen, real, scheme), right = promised(seen, scheme);
    if (std::isfinite(seen.got) != std::isfinite(made)) return 1;
    if (!std::isfinite(seen.got) || seen.got == made) return 0;
    return std::isfinite(right)
               ? std::min(1.0, std::fabs(seen.got - made) / std::max(std::fabs(seen.got - right), 1e-300))
               : 1;
  }
  // The number of answers that such a kernel leaves unexplained, or `most` if it is no less.
  [[nodiscard]] double unexplained(const std::vector<Strange>& strange, const std::vector<Seen>& right,
                                   const Policy& real, std::size_t scheme, double most) const {
    double all = 0;
    for (const Strange& each : strange)
      for (const Seen& seen : each.seen) all += unexplained(seen, real, scheme);
    for (const Seen& seen : right) {  // as it is if nothing is lost, and lost by such a kernel
      if (all >= most) return most;
      const double made = read(seen, real, scheme), kept = promised(seen, scheme);
      const bool loses = !(std::fabs(made - kept) <= 4 * std::fabs(seen.got - kept) + 1e-6 * std::fabs(kept));
      all += loses ? 1 : 0;
    }
    return all;
  }

 private:
  [[nodiscard]] double read(const Seen& seen, const Policy& policy, std::size_t scheme) const {
    return seen.read(model_.run(seen.shown.problem().value(), policy, scheme));
  }
  [[nodiscard]] double promised(const Seen& seen, std::size_t scheme) const {
    const auto [known, is_new] = kept_.try_emplace({&seen, scheme});
    if (is_new) known->second = read(seen, promised_, scheme);
    return known->second;
  }
  const Model& model_;
  const Policy& promised_;
  mutable std::map<std::pair<const Seen*, std::size_t>, double> kept_;
};

// A stage, among those whose own rows are strange, and the format of it that explains most.
struct Culprit {
  std::size_t stage;
  Format format;
  std::size_t scheme;
  double left;
  Contract contract;
};
std::optional<Culprit> culprit(const Contract& permitting, const std::vector<Strange>& strange,
                               const std::vector<Seen>& right, const std::vector<ProbeRow>& rows, const Model& model) {
  constexpr double better = 0.75;  // answers: the first of those that explain about as much counts
  const Op& op = permitting.op();
  const Policy policy = op.policy(permitting);
  const Blame blame(model, policy);
  std::optional<Culprit> found;
  for (const Strange& each : strange) {
    const Format promise = op.stage(policy, each.stage);
    const auto& least = rows[each.row].at_least;
    if (least && holds(*least, promise)) continue;  // its own calls clear it
    for (const Format format : model.formats(each.stage)) {
      if (holds(format, promise)) continue;
      const auto contract = with_stage(permitting, each.stage, format);
      // It must permit what its own row shows.
      const bool permits = contract && std::ranges::all_of(each.seen, [&](const Seen& seen) {
                             return seen.shown.done() && seen.shown.fits(*contract);
                           });
      if (!permits) continue;
      for (std::size_t scheme = 0; scheme < model.schemes(); ++scheme) {
        const double most = found ? found->left - better : std::numeric_limits<double>::infinity();
        const double left = blame.unexplained(strange, right, op.policy(*contract), scheme, most);
        if (left < most) found = {each.stage, format, scheme, left, *contract};
      }
    }
  }
  return found;
}

// Some of each question, where they lie outside the bound, or where nothing was lost.
std::vector<Seen> some_of(Told& told, bool outside) {
  const std::size_t most = outside ? 3 : 4;
  std::vector<Seen> found;
  std::vector<std::size_t> taken(16);
  const auto take = [&](std::vector<Seen>& seen) {
    for (Seen& each : seen)
      if (each.shown.done() && each.shown.outside() == outside && each.shown.broken().empty() &&
          taken.at(each.question)++ < most)
        found.push_back(std::move(each));
  };
  if (outside) take(told.lost);
  take(told.kept);
  return found;
}

// ---- what is kept, and no more --------------------------------------------------------------------------------------

// Tells whether nothing is lost in any shot. One that is refused at other sizes says nothing. The first is asked alone:
// `died` if an instance ended.
bool is_kept(const Question& question, Subject& subject, bool& died) {
  const SubjectInfo& info = subject.info();
  const Supports supports(info);
  std::vector<const Shot*> shots;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<Call> calls;
  for (const Shot& shot : question.shots) {
    const Op& op = shot.problem.op();
    if (op.declined(shot.problem, supports, op.dtypes(info))) {
      if (shot.further) continue;
      return false;
    }
    shots.push_back(&shot);
    exchanges.push_back(op.exchange(shot.problem));
    calls.push_back(exchanges.back()->call());
  }
  if (calls.empty()) return false;
  std::vector<CallResult> results = subject.run({calls.data(), 1});
  const bool done = results.front().status == CallStatus::done;
  if (done && calls.size() > 1)
    std::ranges::move(subject.run(std::span(calls).subspan(1)), std::back_inserter(results));
  died = std::ranges::any_of(results, [](const CallResult& result) {
    return result.status == CallStatus::crash || result.status == CallStatus::timeout || result.lost;
  });
  for (std::size_t n = 0; done && n < results.size(); ++n) {
    if (results[n].status == CallStatus::unsupported && shots[n]->further) continue;
    if (results[n].status != CallStatus::done) return false;
    const Elements elements = [&](std::string_view output, const Place& index) {
      return element_of(*exchanges[n], index, output);
    };
    const double got = shots[n]->read(elements);
    if (!(got >= shots[n]->lo && got <= shots[n]->hi)) return false;
  }
  return done;
}

// The hardest questions come first, since they may exclude what others do.
ProbeRow kept_row(const StageQuestions& of, Subject& subject, std::span<const Format> formats, Format most,
                  bool& died) {
  std::vector<Format> excluded;
  const auto is_excluded = [&](Format format) { return std::ranges::count(excluded, format) != 0; };
  for (const Question& question : std::views::reverse(of.questions))
    if (!died && !question.vetoes && !std::ranges::all_of(question.excludes, is_excluded) &&
        is_kept(question, subject, died))
      excluded.insert(excluded.end(), question.excludes.begin(), question.excludes.end());
  ProbeRow row;
  for (const Question& question : of.questions) {
    if (died || excluded.empty() || !(question.vetoes || question.excludes.empty())) continue;
    if (is_kept(question, subject, died)) {
      excluded.insert(excluded.end(), question.excludes.begin(), question.excludes.end());
      row.bits = std::max(row.bits, question.bits);
    } else {
      std::erase_if(excluded, [&](Format format) { return std::ranges::count(question.excludes, format) != 0; });
    }
  }
  row.stage = of.part;
  row.of_stage = of.stage;
  if (!died) row.at_least = at_least(excluded, formats, most);
  return row;
}

}  // namespace

std::vector<ProbeRow> kept_rows(const ProbeTarget& target, const std::vector<StageQuestions>& questions,
                                const Model& model, const AsksStage& asks) {
  std::vector<ProbeRow> rows;
  bool died = false;
  for (const StageQuestions& of : questions)
    if (asks(of.stage))
      rows.push_back(kept_row(of, target.subject, model.formats(of.stage),
                              of.stored ? target.dtype : widest_told(target.dtype), died));
  return rows;
}

StageRows stage_rows(const Asked& asked, const std::vector<StageQuestions>& questions, const Model& model) {
  StageRows told{{}, asked.contract};
  const Op& op = asked.contract.op();
  const Policy promise = op.policy(asked.contract);
  std::vector<Strange> strange;
  std::vector<Seen> right;
  for (const StageQuestions& of : questions) {
    Told answers = ask_all(asked, of);
    told.rows.push_back(row_of_stage(asked, of, model.formats(of.stage), answers));
    for (const std::vector<Seen>* seen : {&answers.lost, &answers.kept})
      for (const Seen& each : *seen)
        if (!each.shown.broken().empty()) contradict(told.rows.back(), each.shown);
    if (std::vector<Seen> shown = some_of(answers, true); !shown.empty())
      strange.push_back({of.stage, told.rows.size() - 1, std::move(shown)});
    for (Seen& seen : some_of(answers, false)) right.push_back(std::move(seen));
  }
  // One stage after the other, as long as something is left that those found do not permit.
  const auto& names = stages_of(op.name());
  for (std::size_t round = 0; round < names.size() && !strange.empty(); ++round) {
    const auto found = culprit(told.permitting, strange, right, told.rows, model);
    if (!found) break;
    told.permitting = found->contract;
    told.guilty = true;
    const Policy permitted = op.policy(told.permitting);
    const Blame blame(model, promise);
    const auto is_explained = [&](const Seen& seen) {
      constexpr double little = 0.1;
      return seen.shown.fits(told.permitting) || blame.unexplained(seen, permitted, found->scheme) < little;
    };
    std::vector<Strange> others;
    for (Strange& each : strange) {
      ProbeRow& row = told.rows[each.row];
      const bool explained = std::ranges::all_of(each.seen, is_explained);
      if (each.stage == found->stage) {
        contradict(row, each.seen.front().shown);
        row.at_most = found->format;
        row.observed = format_in_words(row.at_least, row.at_most, "");
      } else if (explained) {
        row.at_most.reset();
        row.observed = format_in_words(row.at_least, {}, fmt::format("{} hides it", names[found->stage]));
      } else {
        others.push_back(std::move(each));
      }
    }
    strange = std::move(others);
  }
  if (!strange.empty()) {
    ProbeRow row;
    row.stage = "policy";
    row.promised = asked.policy_declared ? to_text(promise) : "not said";
    row.observed = fmt::format("something else, in calls that ask for {}", told.rows[strange.front().row].stage);
    contradict(row, strange.front().seen.front().shown);
    told.rows.push_back(std::move(row));
  }
  return told;
}

}  // namespace attest::ops::probing
