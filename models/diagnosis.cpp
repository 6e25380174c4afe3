#include "models/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "graph/cut.hpp"
#include "models/proven.hpp"

namespace attest::models {
namespace {

std::string tensor_of(const Finding& finding) { return finding.place ? finding.place->tensor : std::string(); }

// A runtime, and what it is asked of one graph.
class Listener final : public Runtime {
 public:
  Listener(Runtime& runtime, const Part& part) : runtime_(runtime), part_(part) {}
  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return runtime_.info(); }
  Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, Freshness on) override {
    if (&part == &part_) heard.push_back(feeds);
    return runtime_.run(part, build, feeds, room, on);
  }
  std::vector<graph::Feeds> heard;

 private:
  Runtime& runtime_;
  const Part& part_;
};

}  // namespace

Diagnosis::Diagnosis(const Part& model, const graph::Family& family, const CampaignOptions& options,
                     std::function<bool()> late, std::function<bool()> over)
    : model_(model), family_(family), options_(options), late_(std::move(late)), over_(std::move(over)) {}

Case Diagnosis::case_of(const graph::Problem& problem) const {
  return {model_, family_.feeds(problem), options_.precision, problem.seed, over_};
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
    if (!one.place || one.flaky || other.flaky || !other.smallest.after.empty()) return false;
    const graph::Problem& problem = other.smallest.problem;
    const Law& law = law_named(one.law);
    try {
      Case smallest = case_of(problem);
      Listener calls(runtime(subject), model_);
      ask(law_named(other.law), {smallest, calls, other.build, Freshness::kept});
      return std::ranges::any_of(calls.heard, [&](const graph::Feeds& feeds) {
        Case call(model_, feeds, options_.precision, problem.seed, over_);
        const Asking asking{call, runtime(subject), other.build, Freshness::kept};
        return is_finding(ask(law, asking).kind) && explains(one.place->tensor, law, asking, problem);
      });
    } catch (const graph::Stopped&) {
      return false;
    }
  };
  return a.law != b.law && (explained_by(a, b) || explained_by(b, a));
}

const Part& Diagnosis::prefix_to(int value) {
  auto& part = prefixes_[value];
  if (!part) part = std::make_unique<Part>(part_of_model(graph::prefix(model_.program->model(), value)));
  return *part;
}

Recorder& Diagnosis::runtime(Subject& subject) {
  return recorders_.try_emplace(subject.runtime.get(), *subject.runtime, over_).first->second;
}

// The verdict of a law on a problem after those before it, by the build of a finding.
LawResult Diagnosis::asked(Subject& subject, const Law& law, const Build& build, const Shrunk& what, Freshness on) {
  Recorder& recorder = runtime(subject);
  for (const graph::Problem& before : what.after) {
    recorder.at(before);
    Case earlier = case_of(before);
    ask(law, {earlier, recorder, build, std::exchange(on, Freshness::kept)});
  }
  recorder.at(what.problem);
  Case one = case_of(what.problem);
  return ask(law, {one, recorder, build, on, true});
}

bool Diagnosis::understand(Subject& subject, const Law& law, Finding& finding,
                           const std::vector<std::vector<graph::Problem>>& histories) {
  bool confirmed = false;
  try {
    return looked_into(subject, law, finding, histories, confirmed);
  } catch (const graph::Stopped&) {
    if (finding.result.kind == VerdictKind::timeout && !confirmed) throw;  // a busy machine's, perhaps
    finding.smallest.minimal = false;  // facts unknown by now are told as they were seen
    return true;
  }
}

bool Diagnosis::looked_into(Subject& subject, const Law& law, Finding& finding,
                            const std::vector<std::vector<graph::Problem>>& histories, bool& confirmed) {
  const auto same = [&](const LawResult& result) { return failure_key(law.name, result) == finding.key; };
  if (!same(asked(subject, law, finding.build, finding.smallest, Freshness::new_process))) {
    if (finding.result.kind == VerdictKind::timeout) return false;
    find_history(subject, law, finding, histories);
    if (finding.flaky) return true;
  }
  confirmed = true;
  // While it is shrunk a process may have seen others, unless it fails after these alone.
  const Freshness on = finding.smallest.after.empty() ? Freshness::kept : Freshness::new_process;
  find_place(subject, law, finding);
  const Shrunk original = finding.smallest;
  Shrunk shrunk = shrink(family_, original, options_.shrink_calls, [&](const Shrunk& candidate) {
    if (late_()) return false;
    const LawResult result = asked(subject, law, finding.build, candidate, on);
    // Another defect that fails alike is another one: the place stays.
    return same(result) && stays(subject, law, finding, candidate, result);
  });
  if (late_()) shrunk.minimal = false;
  // A failure that only a process shows that was asked others before is no reproducer.
  if (LawResult fresh = asked(subject, law, finding.build, shrunk, Freshness::new_process); same(fresh)) {
    finding.smallest = shrunk;
    finding.result = std::move(fresh);
  } else {
    finding.smallest.calls = shrunk.calls;
    fresh = asked(subject, law, finding.build, original, Freshness::new_process);
    if (same(fresh)) finding.result = std::move(fresh);
  }
  find_place(subject, law, finding);
  look_around(subject, law, finding);
  return true;
}

// True if a candidate, just seen to fail in the same way, fails at the place of the finding too.
bool Diagnosis::stays(Subject& subject, const Law& law, const Finding& finding, const Shrunk& candidate,
                      const LawResult& result) {
  if (!candidate.after.empty())
    return !result.witness || !finding.result.witness || law.ask != proven_bound ||
           parts_are_alike(model_.program->model(), result.witness->output, finding.result.witness->output);
  Case one = case_of(candidate.problem);
  return explains(tensor_of(finding), law, {one, runtime(subject), finding.build, Freshness::kept}, candidate.problem);
}

void Diagnosis::find_place(Subject& subject, const Law& law, Finding& finding) {
  Case one = case_of(finding.smallest.problem);
  PlaceLimits limits{.give_up = late_};
  for (const graph::Problem& before : finding.smallest.after)
    limits.before.push_back({family_.feeds(before), before.seed});
  if (finding.result.kind == VerdictKind::error) limits.stops_as = finding.result.failure_class;
  try {
    auto place = localise(law, {one, runtime(subject), finding.build, Freshness::kept, true}, options_.precision,
                          finding.smallest.problem.seed, limits);
    if (place) finding.place = std::move(place);
  } catch (const Error& error) {
    if (error.exit() != Exit::usage) throw;  // a part that no file can hold: the failure stays, without a place
  }
}

// Finds the other laws, and the levels, that see the smallest problem.
void Diagnosis::look_around(Subject& subject, const Law& law, Finding& finding) {
  const bool alone = finding.smallest.after.empty();
  Case smallest = case_of(finding.smallest.problem);
  for (const Law& other : all_laws())
    if (alone && other.name != law.name && !late_() &&
        is_finding(ask(other, {smallest, runtime(subject), finding.build, Freshness::kept}).kind))
      finding.also.insert(std::string(other.name));
  for (const std::string& level : subject.levels) {
    if (level == finding.build.level || late_()) continue;
    Build build = finding.build;
    build.level = level;
    const LawResult result =
        asked(subject, law, build, finding.smallest, alone ? Freshness::kept : Freshness::new_process);
    if (is_finding(result.kind)) finding.levels.insert(level);
    if (result.kind == VerdictKind::pass) finding.passing.insert(level);
  }
}

// A failure that a fresh process does not show: perhaps one does that was asked what went before.
void Diagnosis::find_history(Subject& subject, const Law& law, Finding& finding,
                             const std::vector<std::vector<graph::Problem>>& histories) {
  // Asks the law that failed: its own model of a problem may be the one that leaves something behind.
  const auto shows = [&](const std::vector<graph::Problem>& before) {
    const LawResult result =
        asked(subject, law, finding.build, {finding.original, 0, false, before}, Freshness::new_process);
    const bool same = failure_key(law.name, result) == finding.key;
    if (same) finding.result = result;
    return same;
  };
  const auto shown = std::ranges::find_if(histories, [&](const auto& before) { return !late_() && shows(before); });
  finding.flaky = shown == histories.end();
  if (finding.flaky) {
    finding.key = fmt::format("{}/flaky/{}", finding.law, finding.result.failure_class);
    finding.result.reason +=
        late_() ? "; a fresh process does not show it, and the time was over before one was asked what came before it"
                : "; neither a fresh process shows it again, nor one that was asked the problems before it";
    return;
  }
  std::vector<graph::Problem> before = *shown;
  for (std::size_t step = (before.size() + 1) / 2; step > 0 && !late_(); step = step == 1 ? 0 : (step + 1) / 2)
    for (std::size_t at = 0; at < before.size() && !late_();) {
      std::vector<graph::Problem> fewer = before;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(std::min(at + step, fewer.size())));
      if (shows(fewer))
        before = std::move(fewer);
      else
        at += step;
    }
  finding.smallest.after = std::move(before);
}

}  // namespace attest::models
