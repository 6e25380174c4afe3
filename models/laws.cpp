#include "models/laws.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "graph/cut.hpp"
#include "graph/laws.hpp"
#include "graph/raw.hpp"
#include "graph/roles.hpp"
#include "models/proven.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

using graph::Array;
using graph::BatchChange;
using graph::Difference;

constexpr std::size_t longest_class = 60;

// A run that a law makes of its own, and that did not come back with results.
struct NoResult {
  CallResult run;
};

// Results in the sizes that they have: one that did not fit has no elements.
std::vector<Array> results(const Asking& asking, const Build& build, const graph::Feeds& feeds, std::size_t room,
                           Freshness on = Freshness::kept) {
  Answer answer = asking.runtime.run(asking.problem.part(), build, feeds, room, on);
  if (answer.result.status != CallStatus::done) throw NoResult{answer.result};
  return std::move(answer.outputs);
}

std::string class_of(double got, double expected, bool integers) {
  if (integers) return "integers";
  return std::isfinite(got) || !std::isfinite(expected) ? "finite" : "nan";
}

bool is_of_integers(const Asking& asking, const graph::Witness& witness) {
  const auto& outputs = asking.problem.part().program->model().outputs;
  const auto output = std::ranges::find(outputs, witness.output, &graph::Output::name) - outputs.begin();
  return !graph::is_floating(
      asking.problem.ensemble().spreads(graph::few_members).at(static_cast<std::size_t>(output)).reference.type);
}

// "logit[2,0]".
std::string element_of(const Asking& asking, const graph::Witness& witness, const std::vector<Array>& whole) {
  const auto& outputs = asking.problem.part().program->model().outputs;
  const auto output = std::ranges::find(outputs, witness.output, &graph::Output::name) - outputs.begin();
  const std::vector<Index> shape =
      output < std::ssize(whole) ? whole[static_cast<std::size_t>(output)].shape : std::vector<Index>{};
  return element_text(witness.output, shape, witness.element);
}

std::string witness_text(const Asking& asking, const graph::Witness& witness, const std::vector<Array>& whole,
                         std::string_view beside) {
  return fmt::format("{} = {}, {} {}", element_of(asking, witness, whole), witness.got, beside, witness.expected);
}

// The verdict on two results that should agree.
LawResult agreement(const Asking& asking, const Difference& difference, const std::vector<Array>& other,
                    const std::vector<Array>& whole, std::string_view beside) {
  LawResult result;
  result.z = difference.deviations;
  if (agrees(difference)) return result;
  result.kind = VerdictKind::fail;
  if (!difference.mismatch.empty()) {
    result.reason = difference.mismatch;
    result.failure_class = "shape";
    return result;
  }
  if (asking.pictures)
    result.pictures =
        pictures_of(asking.problem.part().program->model(), asking.problem.ensemble().spreads(graph::many_members),
                    other, whole, graph::agreeing_deviations);
  result.witness = difference.witness;
  if (result.witness) {
    result.reason = fmt::format("{}: {:.3g} deviations apart, of {} that are permitted",
                                witness_text(asking, *result.witness, whole, beside), difference.deviations,
                                graph::agreeing_deviations);
    result.failure_class =
        class_of(result.witness->got, result.witness->expected, is_of_integers(asking, *result.witness));
  }
  return result;
}

LawResult spread(const Asking& asking, const std::vector<Array>& whole) {
  const graph::Judgement judged = asking.problem.ensemble().judge(whole);
  LawResult result{VerdictKind::pass, {}, {}, judged.witness, judged.z, judged.t, judged.judged, judged.undetermined};
  switch (judged.outcome) {
    case graph::Judgement::Outcome::held:
      return result;
    case graph::Judgement::Outcome::vacuous:
      result.kind = VerdictKind::vacuous;
      result.reason =
          judged.judged == 0 ? "no element is determined" : "conforming results are spread wider than they are large";
      return result;
    case graph::Judgement::Outcome::failed:
      break;
  }
  result.kind = VerdictKind::fail;
  if (!judged.mismatch.empty()) {
    result.reason = judged.mismatch;
    result.failure_class = "shape";
  } else if (judged.witness && !(judged.z <= graph::failing_z)) {
    const graph::Witness& w = *judged.witness;
    const bool integers = is_of_integers(asking, w);
    result.failure_class = class_of(w.got, w.expected, integers);
    result.reason = witness_text(asking, w, whole, "expected");
    if (!integers)
      result.reason += fmt::format(" +- {:.3g}: {:.3g} deviations, of {} that are permitted", w.deviation, judged.z,
                                   graph::failing_z);
  } else {
    result.failure_class = "finite";
    result.reason =
        fmt::format("all {} elements together are {:.3g} deviations off in the mean, of {:.3g} that are permitted",
                    judged.judged, judged.t.value_or(0), judged.t_limit);
  }
  if (asking.pictures) {
    const auto& spreads = asking.problem.ensemble().spreads(graph::many_members);
    std::vector<Array> expected;
    for (const graph::Spread& one : spreads) expected.push_back(one.reference);
    result.pictures = pictures_of(asking.problem.part().program->model(), spreads, whole, expected, graph::failing_z);
  }
  return result;
}

// Holds another run of the same problem against the first.
LawResult other_run(const Asking& asking, const std::vector<Array>& whole, const Build& build, Freshness on,
                    std::string_view beside) {
  const auto other = results(asking, build, asking.problem.feeds(), asking.problem.room(), on);
  return agreement(asking, difference(asking.problem.ensemble(), other, whole), other, whole, beside);
}

LawResult repeat(const Asking& asking, const std::vector<Array>& whole) {
  return other_run(asking, whole, asking.build, Freshness::kept, "once more");
}

LawResult history(const Asking& asking, const std::vector<Array>& whole) {
  return other_run(asking, whole, asking.build, Freshness::new_session, "compiled anew");
}

LawResult threads(const Asking& asking, const std::vector<Array>& whole) {
  constexpr int others = 3;  // work that is divided by 3 is divided unevenly
  Build build = asking.build;
  build.threads = build.threads == others ? 1 : others;
  return other_run(asking, whole, build, Freshness::kept, fmt::format("with {} threads", build.threads));
}

LawResult levels_agree(const Asking& asking, const std::vector<Array>& whole) {
  Build build = asking.build;
  build.level = asking.runtime.info().builds.front();
  if (build.level == asking.build.level) return skipped("the first level is what others are held against");
  try {
    return other_run(asking, whole, build, Freshness::kept, "at " + build.level);
  } catch (const NoResult&) {
    return skipped("the first level gives no results");
  }
}

LawResult static_dynamic(const Asking& asking, const std::vector<Array>& whole) {
  const auto& inputs = asking.problem.part().program->model().inputs;
  if (std::ranges::all_of(inputs, [](const graph::Input& input) {
        return std::ranges::all_of(input.shape, [](const graph::Dimension& d) { return d.length.has_value(); });
      }))
    return skipped("no axis is open");
  Build build = asking.build;
  build.fixed = !build.fixed;
  return other_run(asking, whole, build, Freshness::kept,
                   build.fixed ? "built for these lengths" : "built for any lengths");
}

LawResult input_layout(const Asking& asking, const std::vector<Array>& whole) {
  const auto& layouts = asking.runtime.info().layouts;
  if (layouts.empty()) return skipped("the runtime takes packed inputs alone");
  LawResult worst;
  for (const InputLayout layout : layouts) {
    Build build = asking.build;
    build.layout = layout;
    LawResult one = other_run(asking, whole, build, Freshness::kept, fmt::format("with {} inputs", name(layout)));
    if (is_finding(one.kind)) return one;
    if (one.z > worst.z) worst = std::move(one);
  }
  return worst;
}

// The same graph with its weights handed over at each run, of which a runtime cannot make anything beforehand.
LawResult constants_as_inputs(const Asking& asking, const std::vector<Array>& whole) {
  constexpr std::size_t most_elements = std::size_t{1} << 25;
  graph::Model model = asking.problem.part().program->model();
  graph::Feeds feeds = asking.problem.feeds();
  std::size_t elements = 0;
  for (auto constant = model.constants.begin(); constant != model.constants.end();) {
    const auto& [value, array] = *constant;
    const bool is_output = std::ranges::find(model.outputs, value, &graph::Output::value) != model.outputs.end();
    if (!graph::is_floating(array.type) || array.size() == 0 || is_output) {
      ++constant;
      continue;
    }
    graph::Input input{model.values[static_cast<std::size_t>(value)], array.type, {}, value};
    for (const Index length : array.shape) input.shape.push_back({length, {}});
    elements += static_cast<std::size_t>(array.size());
    if (elements > most_elements) return skipped("its weights are too many to be handed over at each run");
    feeds.emplace(input.name, array.array());
    model.inputs.push_back(std::move(input));
    constant = model.constants.erase(constant);
  }
  if (elements == 0) return skipped("it has no constants of floats");
  const Part other = part_of_model(model);
  Answer answer = asking.runtime.run(other, asking.build, feeds, asking.problem.room(), Freshness::kept);
  // A graph that a runtime does not build is no wrong number.
  if (answer.result.status == CallStatus::unsupported || answer.result.status == CallStatus::error)
    return skipped("not built with weights as inputs: " + answer.result.message);
  if (answer.result.status != CallStatus::done) throw NoResult{answer.result};
  return agreement(asking, difference(asking.problem.ensemble(), answer.outputs, whole), answer.outputs, whole,
                   "with weights as inputs");
}

template <BatchChange change>
LawResult batch(const Asking& asking, const std::vector<Array>& whole) {
  if (asking.build.fixed) return skipped("it is built for one batch size");
  constexpr std::size_t times = change == BatchChange::duplicated ? 2
                                : change == BatchChange::padded   ? 1 + graph::padding_samples
                                                                  : 1;
  const std::size_t room = asking.problem.room() * times;
  auto law = batch_law(change, *asking.problem.part().program, asking.problem.ensemble(), asking.problem.feeds(), whole,
                       [&](const graph::Feeds& feeds) { return results(asking, asking.build, feeds, room); });
  if (!law.not_applicable.empty()) return skipped(law.not_applicable);
  constexpr std::string_view beside[] = {"the sample alone", "in another order", "in a batch of twice the samples",
                                         "in a batch with padding behind it"};
  if (auto& witness = law.difference.witness) std::swap(witness->got, witness->expected);  // the whole first
  return agreement(asking, law.difference, law.other, whole, beside[static_cast<int>(change)]);
}

// Tells whether each axis of `flags` is, in order, one of the first of `input`.
bool has_axes_of(const graph::Input& input, const graph::Input& flags) {
  if (flags.shape.empty() || flags.shape.size() > input.shape.size()) return false;
  for (std::size_t k = 0; k < flags.shape.size(); ++k) {
    const graph::Dimension &a = input.shape[k], &b = flags.shape[k];
    if (a.length != b.length || a.symbol != b.symbol || (!a.length && a.symbol.empty())) return false;
  }
  return true;
}

// `given` with other contents where `flags` is 0; nullopt where it is so nowhere.
std::optional<Array> masked_otherwise(const Array& given, const Array& flags, const graph::Use& use) {
  Array other = given;
  bool any = false;
  const auto inner = static_cast<std::size_t>(given.size() / std::max<Index>(flags.size(), 1));
  const std::size_t flagged = flags.integers.empty() ? flags.floats.size() : flags.integers.size();
  for (std::size_t i = 0; i < flagged; ++i) {
    if (flags.integers.empty() ? flags.floats[i] != 0 : flags.integers[i] != 0) continue;
    for (std::size_t k = i * inner; k < (i + 1) * inner; ++k) {
      if (!other.floats.empty()) other.floats[k] = 3 - std::clamp(other.floats[k], -1e3, 1e3);
      if (!other.integers.empty()) other.integers[k] = (other.integers[k] + 1) % std::max<Index>(use.count, 1);
      any = true;
    }
  }
  if (!any) return std::nullopt;
  if (!other.floats.empty())
    for (double& x : other.floats) x = round_to(graph::format_of(other.type), x);
  return other;
}

// Ids and numbers that a mask leaves out do not matter, where the reference says so.
LawResult masked_positions(const Asking& asking, const std::vector<Array>& whole) {
  const graph::Program& program = *asking.problem.part().program;
  const auto& inputs = program.model().inputs;
  std::vector<graph::Use> uses;
  try {
    uses = graph::uses_of_inputs(program);
  } catch (const Error&) {
    return skipped("the graph does not show what its inputs stand for");
  }
  graph::Feeds feeds = asking.problem.feeds();
  bool changes = false, has_mask = false;
  for (std::size_t m = 0; m < inputs.size(); ++m) {
    if (uses[m].role != graph::Role::flags) continue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool content = uses[i].role == graph::Role::ids || uses[i].role == graph::Role::floats;
      if (!content || !has_axes_of(inputs[i], inputs[m])) continue;
      has_mask = true;
      const auto other = masked_otherwise(feeds.at(inputs[i].name), feeds.at(inputs[m].name), uses[i]);
      if (other) feeds.insert_or_assign(inputs[i].name, *other);
      changes = changes || other.has_value();
    }
  }
  if (!has_mask) return skipped("no input has the axes of its mask");
  if (!changes) return skipped("nothing is masked");

  const auto before = program.run(asking.problem.feeds());
  const auto after = program.run(feeds);
  const auto& spreads = asking.problem.ensemble().spreads(graph::few_members);
  std::vector<Array> other = results(asking, asking.build, feeds, asking.problem.room());
  if (other.size() != whole.size())
    return agreement(asking, difference(asking.problem.ensemble(), other, whole), other, whole, "");
  // Elements that do depend on them, of masked tokens' own outputs, are left out.
  bool any = false;
  for (std::size_t o = 0; o < whole.size(); ++o) {
    if (other[o].shape != whole[o].shape || other[o].type != whole[o].type || !has_its_elements(other[o])) continue;
    for (std::size_t k = 0; k < whole[o].floats.size(); ++k) {
      const bool same =
          std::fabs(before[o].floats[k] - after[o].floats[k]) <= graph::no_deviation * spreads[o].deviation[k];
      any = any || same;
      if (!same) other[o].floats[k] = whole[o].floats[k];
    }
    for (std::size_t k = 0; k < whole[o].integers.size(); ++k) {
      const bool same = before[o].integers[k] == after[o].integers[k];
      any = any || same;
      if (!same) other[o].integers[k] = whole[o].integers[k];
    }
  }
  if (!any) return skipped("every result depends on what is masked");
  return agreement(asking, difference(asking.problem.ensemble(), other, whole), other, whole,
                   "with other contents where it is masked");
}

constexpr Law laws[] = {
    {"spread", "results lie where an ensemble of correct evaluations does", Law::Asked::always, spread},
    {"batch-alone", "a sample gives the same by itself", Law::Asked::in_turn, batch<BatchChange::alone>},
    {"batch-permuted", "samples in another order give the same", Law::Asked::in_turn, batch<BatchChange::permuted>},
    {"batch-duplicated", "a batch given twice gives the same twice", Law::Asked::in_turn,
     batch<BatchChange::duplicated>},
    {"batch-padded", "samples of zeros behind a batch change nothing", Law::Asked::in_turn, batch<BatchChange::padded>},
    {"masked-positions", "what stands where a mask leaves it out changes nothing", Law::Asked::in_turn,
     masked_positions},
    {"repeat", "the same run gives the same again", Law::Asked::in_turn, repeat},
    {"history", "a model that has answered other shapes gives what one compiled anew does", Law::Asked::in_turn,
     history},
    {"threads", "another number of threads gives the same", Law::Asked::in_turn, threads},
    {"levels-agree", "every level of optimisation gives what the first gives", Law::Asked::in_turn, levels_agree},
    {"static-dynamic", "a model built for these lengths gives what one built for any does", Law::Asked::in_turn,
     static_dynamic},
    {"constants-as-inputs", "weights handed over at each run give what weights in the file give", Law::Asked::in_turn,
     constants_as_inputs},
    {"input-layout", "inputs that lie otherwise in memory give the same", Law::Asked::in_turn, input_layout},
    {"proven-bound", "parts that are an operation, by themselves, lie within its proven bound", Law::Asked::beside,
     proven_bound},
};
static_assert(std::size(laws) <= 32, "condition.hpp keeps a bit of 32 for each");

}  // namespace

Case::Case(const Part& part, graph::Feeds feeds, graph::Precision precision, std::uint64_t seed,
           std::function<bool()> stop)
    : part_(part),
      feeds_(std::move(feeds)),
      precision_(std::move(precision)),
      seed_(seed),
      ensemble_(*part.program, feeds_, precision_, seed, std::move(stop)) {}

std::size_t Case::room() {
  std::size_t bytes = 0;
  for (const graph::Spread& one : ensemble_.spreads(graph::few_members))
    bytes += graph::bytes_of(one.reference.type, one.reference.size()) + 64;
  return bytes;
}

bool has_its_elements(const Array& array) {
  // An Array that lost its elements does not fit its shape: a product past all bounds differs from it, too.
  double elements = 1;
  for (const Index length : array.shape) elements *= static_cast<double>(length);
  return elements == static_cast<double>(array.floats.size() + array.integers.size());
}

LawResult skipped(std::string reason) {
  LawResult result;
  result.kind = VerdictKind::skip;
  result.reason = std::move(reason);
  return result;
}

std::string failure_key(std::string_view law, const LawResult& result) {
  return fmt::format("{}/{}/{}", law, name(result.kind), result.failure_class);
}

std::span<const Law> all_laws() noexcept { return laws; }

const Law& law_named(std::string_view name) {
  const auto* const found = std::ranges::find(laws, name, &Law::name);
  if (found != std::end(laws)) return *found;
  std::vector<std::string_view> names;
  for (const Law& law : laws) names.push_back(law.name);
  throw usage_error(fmt::format("there is no law '{}' of models: there are {}", name, fmt::join(names, ", ")));
}

LawResult result_of(const CallResult& run) {
  LawResult result;
  result.reason = run.message;
  switch (run.status) {
    case CallStatus::done:
      return result;
    case CallStatus::unsupported:
      result.kind = VerdictKind::skip;
      return result;
    case CallStatus::error:
      result.kind = VerdictKind::error;
      break;
    case CallStatus::crash:
      result.kind = VerdictKind::crash;
      break;
    case CallStatus::timeout:
      result.kind = VerdictKind::timeout;
      break;
  }
  for (const char c : run.message.substr(0, longest_class)) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (letter)
      result.failure_class += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!result.failure_class.ends_with('-'))
      result.failure_class += '-';
  }
  return result;
}

std::vector<LawResult> ask(std::span<const Law* const> laws, const Asking& asking) {
  std::vector<LawResult> told;
  std::vector<Array> whole;
  bool whole_sizes = false;
  for (const Law* law : laws) {
    bool takes = false;  // the problem itself
    try {
      if (told.empty()) {
        whole = results(asking, asking.build, asking.problem.feeds(), asking.problem.room(), asking.on);
        if (asking.whole != nullptr) *asking.whole = whole;
        const auto& expected = asking.problem.ensemble().spreads(graph::few_members);
        // Whatever has not the size of the reference is for `spread` to tell.
        whole_sizes = whole.size() == expected.size() && std::ranges::all_of(whole, has_its_elements);
      }
      takes = true;
      told.push_back(whole_sizes || law->ask == &spread ? law->ask(asking, whole)
                                                        : skipped("its results have other sizes than they should"));
    } catch (const NoResult& none) {
      told.push_back(result_of(none.run));
      if (told.back().kind == VerdictKind::error)
        if (const std::string why = asking.problem.contradiction(); !why.empty())
          told.back() = skipped("the runtime refuses what the file's own shapes exclude: " + why);
      // A process that ended may have taken along what the whole is to be held against.
      while (told.size() < laws.size()) told.push_back(skipped("a run before it gave no results"));
      break;
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;
      // Lengths that do not go together; or the graph takes the problem, and not what a law makes of it: integers are
      // divided by samples of zeros.
      told.push_back(skipped(takes ? "the graph does not take what the law makes of the problem" : error.what()));
      while (!takes && told.size() < laws.size()) told.push_back(told.front());
    }
  }
  return told;
}

LawResult ask(const Law& law, const Asking& asking) {
  const Law* const one = &law;
  return ask(std::span(&one, 1), asking).front();
}

}  // namespace attest::models
