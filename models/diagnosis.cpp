#include "models/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "graph/cut.hpp"
#include "models/proven.hpp"

namespace attest::models {
namespace {

constexpr std::size_t most_remembered = 48;  // problems that a process was asked last

std::string tensor_of(const Finding& finding) { return finding.place ? finding.place->tensor : std::string(); }

}  // namespace

Diagnosis::Diagnosis(const Part& model, const graph::Family& family, const CampaignOptions& options,
                     std::function<bool()> late)
    : model_(model), family_(family), options_(options), late_(std::move(late)) {}

Case Diagnosis::case_of(const graph::Problem& problem) const {
  return {model_, family_.feeds(problem), options_.precision, problem.seed};
}

bool Diagnosis::explains(const std::string& tensor, const Law& law, const Asking& asking,
                         const graph::Problem& problem) {
  if (tensor.empty()) return true;
  if (law.ask == proven_bound) return picks_one_like(asking, tensor);
  const graph::Model& model = model_.program->model();
  const auto found = std::ranges::find(model.values, tensor);
  if (found == model.values.end()) return true;
  const int value = static_cast<int>(found - model.values.begin());
  const graph::Node* const giver = graph::giver_of(model, value);
  const auto wrong = [&](int one) {
    const Part& part = prefix_to(one);
    Case cut(part, feeds_of(part.program->model(), asking.problem.feeds()), options_.precision, problem.seed);
    return is_finding(ask(law, {cut, asking.runtime, asking.build, Freshness::kept}).kind);
  };
  if (!wrong(value)) return false;
  return giver == nullptr || std::ranges::none_of(giver->inputs, [&](int one) {
           return one >= 0 && graph::giver_of(model, one) != nullptr && wrong(one);
         });
}

bool Diagnosis::are_one(Subject& subject, const Finding& a, const Finding& b) {
  const auto explained_by = [&](const Finding& one, const Finding& other) {
    if (!one.place || one.flaky || other.flaky || !other.after.empty() || !other.also.contains(one.law)) return false;
    const graph::Problem& problem = other.smallest.problem;
    Case smallest = case_of(problem);
    const Asking asking{smallest, *subject.runtime, other.build, Freshness::kept};
    return explains(one.place->tensor, law_named(one.law), asking, problem);
  };
  return a.law != b.law && (explained_by(a, b) || explained_by(b, a));
}

const Part& Diagnosis::prefix_to(int value) {
  auto& part = prefixes_[value];
  if (!part) part = std::make_unique<Part>(part_of_model(graph::prefix(model_.program->model(), value)));
  return *part;
}

// What a law comes to on a problem, by the build of a finding.
LawResult Diagnosis::asked(Subject& subject, const Law& law, const Build& build, const graph::Problem& problem,
                           Freshness on) {
  Case one = case_of(problem);
  return ask(law, {one, *subject.runtime, build, on, true});
}

bool Diagnosis::understand(Subject& subject, const Law& law, Finding& finding) {
  const auto same = [&](const LawResult& result) { return failure_key(law.name, result) == finding.key; };
  if (!same(asked(subject, law, finding.build, finding.original, Freshness::new_process))) {
    if (finding.result.kind == VerdictKind::timeout) return false;
    find_history(subject, law, finding);
    return true;
  }
  forget(subject, finding.build.level);
  find_place(subject, law, finding, finding.original);
  finding.smallest = shrink(family_, finding.original, options_.shrink_calls, [&](const graph::Problem& candidate) {
    if (late_()) return false;
    Case one = case_of(candidate);
    const Asking asking{one, *subject.runtime, finding.build, Freshness::kept};
    // Another defect that fails alike is another one: the place stays.
    return same(ask(law, asking)) && explains(tensor_of(finding), law, asking, candidate);
  });
  if (late_()) finding.smallest.minimal = false;
  // What only a process shows that was asked others before is no reproducer.
  LawResult fresh = asked(subject, law, finding.build, finding.smallest.problem, Freshness::new_process);
  if (!same(fresh)) {
    finding.smallest = {finding.original, finding.smallest.calls, false};
    fresh = asked(subject, law, finding.build, finding.original, Freshness::new_process);
  }
  finding.result = fresh;
  find_place(subject, law, finding, finding.smallest.problem);
  Case smallest = case_of(finding.smallest.problem);
  const Asking asking{smallest, *subject.runtime, finding.build, Freshness::kept};
  look_around(subject, law, asking, finding);
  return true;
}

void Diagnosis::find_place(Subject& subject, const Law& law, Finding& finding, const graph::Problem& problem) {
  Case one = case_of(problem);
  PlaceLimits limits{.give_up = late_};
  if (finding.result.kind == VerdictKind::error) limits.stops_as = finding.result.failure_class;
  try {
    auto place = localise(law, {one, *subject.runtime, finding.build, Freshness::kept, true}, options_.precision,
                          problem.seed, limits);
    if (place) finding.place = std::move(place);
  } catch (const Error& error) {
    if (error.exit() != Exit::usage) throw;  // a part that no file can hold: the failure stays, without a place
  }
}

// Which other laws, and which levels, see the smallest problem.
void Diagnosis::look_around(Subject& subject, const Law& law, const Asking& asking, Finding& finding) {
  for (const Law& other : all_laws())
    if (other.name != law.name && !late_() && is_finding(ask(other, asking).kind))
      finding.also.insert(std::string(other.name));
  for (const std::string& level : subject.levels) {
    if (level == finding.build.level || late_()) continue;
    Build build = finding.build;
    build.level = level;
    const LawResult result = ask(law, {asking.problem, asking.runtime, build, Freshness::kept});
    if (is_finding(result.kind)) finding.levels.insert(level);
    if (result.kind == VerdictKind::pass) finding.passing.insert(level);
  }
}

// A failure that a fresh process does not show: perhaps one does that was asked what went before.
void Diagnosis::find_history(Subject& subject, const Law& law, Finding& finding) {
  // By the law that failed: what it makes of a problem may be what leaves something behind, in a model of its own.
  const auto shows = [&](const std::vector<graph::Problem>& before) {
    bool first = true;
    for (const graph::Problem& problem : before) {
      asked(subject, law, finding.build, problem, first ? Freshness::new_process : Freshness::kept);
      first = false;
    }
    const LawResult result =
        asked(subject, law, finding.build, finding.original, first ? Freshness::new_process : Freshness::kept);
    const bool same = failure_key(law.name, result) == finding.key;
    if (same) finding.result.pictures = result.pictures;
    return same;
  };
  const auto& asked_before = remembered_[{subject.name, finding.build.level}];
  std::vector<graph::Problem> before(asked_before.begin(), asked_before.end());
  finding.flaky = before.empty() || !shows(before);
  for (std::size_t step = (before.size() + 1) / 2; !finding.flaky && step > 0 && !late_();
       step = step == 1 ? 0 : (step + 1) / 2)
    for (std::size_t at = 0; at < before.size() && !late_();) {
      std::vector<graph::Problem> fewer = before;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(std::min(at + step, fewer.size())));
      if (shows(fewer))
        before = std::move(fewer);
      else
        at += step;
    }
  // Or one whose model was compiled on the way, as the law `history` does, and was first asked one of these.
  for (auto first = before.rbegin(); finding.flaky && first != before.rend() && !late_(); ++first) {
    asked(subject, law, finding.build, *first, Freshness::new_session);
    const LawResult next = asked(subject, law, finding.build, finding.original, Freshness::kept);
    if (failure_key(law.name, next) != finding.key || !shows({*first})) continue;
    finding.flaky = false;
    before = {graph::Problem(*first)};
    break;
  }
  forget(subject, finding.build.level);
  if (finding.flaky) {
    finding.key = fmt::format("{}/flaky/{}", finding.law, finding.result.failure_class);
    finding.result.reason += "; neither a fresh process shows it again, nor one that was asked the problems before it";
  } else {
    finding.after = std::move(before);
  }
}

void Diagnosis::remember(const Subject& subject, const std::string& level, const graph::Problem& problem) {
  auto& last = remembered_[{subject.name, level}];
  last.push_back(problem);
  // The first one stays: by it a runtime may have decided how to go on.
  if (last.size() > most_remembered) last.erase(last.begin() + 1);
}

void Diagnosis::forget(const Subject& subject, const std::string& level) { remembered_[{subject.name, level}].clear(); }

}  // namespace attest::models
