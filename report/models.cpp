#include "report/models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/evidence.hpp"
#include "engine/study.hpp"
#include "models/tensors.hpp"
#include "report/progress_line.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::real_to_json;
using models::Finding;
using models::LawCounts;
using models::Summary;
using nlohmann::ordered_json;

constexpr std::size_t most_told = 3, most_in_full = 4;

std::string row(std::string_view label, const std::string& text) {
  return text.empty() ? std::string() : fmt::format("     {:<11}{}\n", label, printable(text));
}

std::uint64_t sum(const std::map<std::string, std::uint64_t>& reasons) {
  std::uint64_t all = 0;
  for (const auto& [reason, n] : reasons) all += n;
  return all;
}

std::uint64_t of_kind(const LawCounts& counts, VerdictKind kind) {
  const auto found = counts.kinds.find(kind);
  return found == counts.kinds.end() ? 0 : found->second;
}

std::uint64_t failed(const LawCounts& counts) {
  std::uint64_t all = 0;
  for (const auto& [kind, n] : counts.kinds)
    if (is_finding(kind)) all += n;
  return all;
}

std::string most_frequent(const std::map<std::string, std::uint64_t>& reasons) {
  const auto most = std::ranges::max_element(reasons, {}, [](const auto& one) { return one.second; });
  return most == reasons.end() ? std::string() : fmt::format("{} {}", printable(most->first), grouped(most->second));
}

std::string law_table(const Summary& summary) {
  std::string text = fmt::format("\n  {:<20}{:>9}{:>9}{:>9}{:>9}{:>10}   mostly because\n", "law", "held", "failed",
                                 "skipped", "vacuous", "largest");
  for (const models::Law& law : models::all_laws()) {
    const auto found = summary.laws.find(std::string(law.name));
    if (found == summary.laws.end()) continue;
    const LawCounts& counts = found->second;
    const auto& why = sum(counts.skipped) >= sum(counts.vacuous) ? counts.skipped : counts.vacuous;
    text += fmt::format("  {:<20}{:>9}{:>9}{:>9}{:>9}{:>10.2g}   {}\n", law.name,
                        grouped(of_kind(counts, VerdictKind::pass)), grouped(failed(counts)),
                        grouped(sum(counts.skipped)), grouped(sum(counts.vacuous)), counts.largest, most_frequent(why));
  }
  return text;
}

std::string place_text(const Finding& finding) {
  if (!finding.place) return {};
  const auto& place = *finding.place;
  const std::string giver = place.node.empty() ? "a node" : "'" + place.node + "'";
  if (finding.law == "proven-bound")
    return fmt::format("{}, that {} gives ({}), is where the part ends, one of {} of which a bound is proven",
                       place.tensor, giver, place.op, place.of);
  return fmt::format("{}, that {} gives ({}), is the first of {} tensors that is wrong as the only output{}",
                     place.tensor, giver, place.op, place.of,
                     finding.law == "spread" && finding.result.kind == VerdictKind::fail
                         ? (place.explains ? "; it explains what came out" : "; it does not explain what came out")
                         : "");
}

std::string segment_text(const Finding& finding) {
  if (!finding.place || !finding.place->segment) return {};
  const auto& nodes = finding.place->segment->nodes;
  std::string text =
      fmt::format("{} {} by {} fed with right tensors: {}", nodes.size(), nodes.size() == 1 ? "node" : "nodes",
                  nodes.size() == 1 ? "itself" : "themselves", fmt::join(nodes, ", "));
  if (!finding.reproducer.empty()) {
    std::filesystem::path file = finding.reproducer;
    text += fmt::format("; as {} and .npz next to the reproducer", file.replace_extension(".onnx").filename().string());
  }
  return text;
}

// "size.length>=5: spread fails 12 of 12, elsewhere 0 of 80".
std::string condition_text(const Finding& finding) {
  if (!finding.condition) return {};
  const auto& [failing, asked, failing_elsewhere, elsewhere] = finding.condition->counts;
  if (finding.condition->text.empty()) {
    const std::string counts = fmt::format("{} fails {} of {}", finding.law, grouped(failing), grouped(asked));
    if (failing == asked) return fmt::format("{}: whatever the problem", counts);
    if (failing < engine::enough_failures)
      return fmt::format(
          "{}, too few to learn a condition: a longer campaign, or check --continue-after-failure, has more", counts);
    return counts + ": no condition on sizes and values holds of these alone";
  }
  return fmt::format("{}: {} fails {} of {}, elsewhere {} of {}", finding.condition->text, finding.law,
                     grouped(failing), grouped(asked), grouped(failing_elsewhere), grouped(elsewhere));
}

std::string rerun(const Summary& summary, const Finding& finding) {
  if (finding.flaky) return {};
  if (!finding.reproducer.empty()) return "attest replay " + shell_quoted(finding.reproducer.string());
  if (!finding.smallest.after.empty()) return {};  // no line says what comes before
  return fmt::format("attest check {} --on {}{}{} --problem {}", shell_quoted(summary.model.string()),
                     shell_quoted(finding.on + ":" + finding.build.level),
                     summary.policy == "literal" ? "" : " --policy " + summary.policy,
                     summary.inputs.empty() ? "" : " --inputs " + shell_quoted(summary.inputs.string()),
                     shell_quoted(to_text(finding.smallest.problem)));
}

// "wrong numbers in logits on onnxruntime 1.31.1, all (law spread)".
std::string headline(const Finding& finding) {
  const models::LawResult& result = finding.result;
  const std::string what = happened(attest::name(result.kind), result.failure_class,
                                    result.witness ? std::string_view(result.witness->output) : "");
  return fmt::format("{} on {} (law {})", what, finding.runtime, finding.law);
}

// Why it fails nothing: "known: ort-attention-14", or its waiver.
std::string known_text(const Finding& finding) {
  const auto waiver = std::ranges::find(finding.waivers, false, &engine::Waiver::over);
  return printable(waiver == finding.waivers.end() ? "known: " + finding.known_as : waiver_text(*waiver));
}

std::string finding_text(const Summary& summary, const Finding& finding, std::size_t number, bool full,
                         const Look& look) {
  const std::string name = look.verbose ? finding.key + ":" + finding.runtime : headline(finding);
  std::string text = fmt::format("{}  {}. {}  in {}", full ? "\n" : "", number,
                                 painted(look, Part::title, printable(name)), counted(finding.failures, "run"));
  if (!full)
    return text + (finding.place ? ", first wrong: " + printable(finding.place->tensor) : std::string()) +
           (finding.known_as.empty() ? "" : ", " + known_text(finding)) + "\n";
  if (look.verbose)
    text += fmt::format(", first in case {} after {}", grouped(finding.first_case), duration(finding.seconds_to_first));
  text += "\n" + row("witness", finding.result.reason);
  text += row("where", place_text(finding));
  text += row("segment", segment_text(finding));
  text += row("problem", to_text(finding.smallest.problem));
  for (const graph::Problem& before : finding.smallest.after) text += row("after", to_text(before));
  text +=
      row("builds",
          fmt::format("{}{}", fmt::join(finding.levels, ", "),
                      finding.passing.empty() ? "" : fmt::format("; passes at {}", fmt::join(finding.passing, ", "))));
  if (look.verbose && !finding.flaky)
    text +=
        row("size", fmt::format("{} after {}", finding.smallest.minimal ? "no change makes it simpler" : "not minimal",
                                counted(static_cast<std::uint64_t>(finding.smallest.calls), "problem")));
  text += row("when", condition_text(finding));
  for (const engine::Waiver& waiver : finding.waivers) text += row("waiver", waiver_text(waiver));
  if (look.verbose) text += row("also fails", fmt::format("{}", fmt::join(finding.also, ", ")));
  const std::string again = rerun(summary, finding);
  return again.empty() ? text
                       : text + fmt::format("     {:<11}{}\n", "rerun", painted(look, Part::command, printable(again)));
}

std::string shape_text(const graph::Input& input) {
  std::string text;
  for (const graph::Dimension& d : input.shape)
    text += (text.empty() ? "" : ", ") + (d.length ? fmt::format("{}", *d.length) : d.symbol.empty() ? "?" : d.symbol);
  return "[" + text + "]";
}

std::string_view in_words(const graph::Use& use) {
  constexpr std::string_view words[] = {
      "numbers", "an addend before a softmax", "flags", "rows of a table", "lengths", "integers", "given"};
  return words[static_cast<int>(use.role)];
}

// Prints the progress and the events of a campaign.
struct Teller {
  explicit Teller(const TerminalOptions& where) : line(where), verbose(where.look.verbose) {}
  ProgressLine line;
  bool verbose;
  std::set<std::string> told;
};

}  // namespace

std::string model_text(const models::Part& model, const graph::Family& family, const std::filesystem::path& file) {
  const graph::Model& graph = model.program->model();
  std::string text = fmt::format("{}: {} nodes", file.filename().string(), graph.nodes.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    text += fmt::format("; {} {} {} as {}", graph.inputs[i].name, graph::name(graph.inputs[i].type),
                        shape_text(graph.inputs[i]), in_words(family.uses()[i]));
  return printable(text) + "\n";
}

std::string parts_text(const std::vector<models::KnownPart>& parts) {
  std::map<std::string, std::uint64_t> asked;
  std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::string>> skipped;  // count, the first
  for (const models::KnownPart& part : parts) {
    if (part.skipped.empty()) {
      ++asked[part.operation];
      continue;
    }
    auto& [count, first] = skipped[{part.operation, part.skipped}];
    if (count++ == 0) first = part.tensor;
  }
  std::string text;
  for (const auto& [operation, count] : asked)
    text += fmt::format("{}{} {}", text.empty() ? "held to proven bounds by themselves: " : ", ", grouped(count),
                        operation);
  if (!text.empty()) text += "\n";
  for (const auto& [what, how] : skipped)
    text += fmt::format("not held to a proven bound: {} {} ({}{}): {}\n", grouped(how.first), what.first,
                        how.first > 1 ? "first " : "", printable(how.second), printable(what.second));
  return text;
}

models::Observer models_observer(const TerminalOptions& options) {
  const auto teller = std::make_shared<Teller>(options);
  models::Observer observer;
  observer.failure = [teller](const std::string& law, const models::LawResult& result, const std::string& where,
                              std::uint64_t case_number, double seconds, const graph::Problem& problem) {
    if (!teller->verbose || teller->told.size() >= most_told || !teller->told.insert(failure_key(law, result)).second)
      return;
    teller->line.say(fmt::format("{} {} at {} in case {} after {}: {}\n", name(result.kind), law, printable(where),
                                 grouped(case_number), duration(seconds), printable(to_text(problem))));
  };
  observer.finding = [teller](const Finding& finding) {
    if (teller->told.contains(finding.key))
      teller->line.say(fmt::format(
          "  shrunk to {}\n",
          printable(finding.reproducer.empty() ? to_text(finding.smallest.problem) : finding.reproducer.string())));
  };
  observer.progress = [teller](const Summary& summary, std::optional<double> left) {
    if (!teller->line.is_due()) return;
    std::string line = fmt::format("{}, {}", counted(summary.cases, "problem"), counted(summary.runs, "run"));
    if (!summary.findings.empty()) line += fmt::format(", {}", counted(summary.findings.size(), "defect"));
    if (left) line += fmt::format(", {} left", duration(*left));
    teller->line.show(line);
  };
  return observer;
}

namespace {

// The statistics of -v: problems that were not judged and why, and each law.
std::string statistics(const Summary& summary) {
  std::string text;
  if (summary.undetermined > 0)
    text +=
        fmt::format("  {} undetermined\n", counted(static_cast<std::uint64_t>(summary.undetermined), "output element"));
  if (!summary.skipped.empty())
    text +=
        fmt::format("  skipped, as the graph does not take them: {}{}\n", most_frequent(summary.skipped),
                    summary.skipped.size() > 1 ? fmt::format(", and {} more reasons", summary.skipped.size() - 1) : "");
  if (summary.cut_short) text += "  cut short by the end of the time: one further problem, of which nothing is known\n";
  if (summary.slow > 0)
    text += fmt::format("  slow: {} passed the time limit, and not when a fresh process ran it again\n",
                        counted(summary.slow, "run"));
  return text + law_table(summary);
}

}  // namespace

std::string summary_text(const Summary& summary, const Look& look) {
  const auto is_new = [](const Finding& finding) { return finding.known_as.empty(); };
  const auto n = static_cast<std::size_t>(std::ranges::count_if(summary.findings, is_new));
  const std::string verdict =
      n > 0                       ? "FAILED, " + counted(n, "defect")
      : !summary.findings.empty() ? "nothing but known failures"
      : summary.exit() == Exit::incomplete
          ? "nothing was judged"
          : fmt::format("every law held{}", summary.interrupted ? " until it was interrupted" : "");
  const Part part = n > 0 ? Part::failed : summary.exit() == Exit::held ? Part::held : Part::title;
  std::string text =
      fmt::format("{}: {}\n", printable(summary.model.filename().string()), painted(look, part, verdict));
  std::size_t told = 0;
  std::string brief;
  for (std::size_t i = 0; i < summary.findings.size(); ++i) {
    const bool full = is_new(summary.findings[i]) && told++ < most_in_full;
    (full ? text : brief) += finding_text(summary, summary.findings[i], i + 1, full, look);
  }
  text += (brief.empty() ? "" : "\n") + brief;
  if (summary.untold > 0)
    text += fmt::format("  and {} of further kinds, not looked at\n", counted(summary.untold, "failure"));
  text +=
      fmt::format("{}  {}, {} in {}, seed {}, {}{}: {} compared with correct evaluations (no proof: docs/graphs.md)",
                  summary.findings.empty() ? "" : "\n", counted(summary.cases, "problem"), counted(summary.runs, "run"),
                  duration(summary.seconds), summary.seed, summary.policy, summary.interrupted ? ", interrupted" : "",
                  counted(static_cast<std::uint64_t>(summary.judged), "output element"));
  if (summary.proven > 0)
    text +=
        fmt::format(", {} of parts with proven bounds", counted(static_cast<std::uint64_t>(summary.proven), "element"));
  text += "\n";
  if (summary.resumed > 0)
    text += fmt::format("  {} of these problems by earlier runs of this campaign\n", grouped(summary.resumed));
  for (const auto& [where, note] : summary.notes) text += fmt::format("  {}: {}\n", printable(where), printable(note));
  return text + (look.verbose ? statistics(summary) : "  -v shows the laws, what could not be judged, and why\n");
}

std::string triage_text(const std::vector<models::EntryDefect>& defects, const Look& look) {
  if (defects.empty()) return {};
  std::size_t entries = 0;
  for (const models::EntryDefect& defect : defects) entries += defect.size();
  std::string text =
      fmt::format("{} of models in {}\n", counted(defects.size(), "defect"), counted(entries, "reproducer"));
  for (std::size_t n = 0; n < defects.size(); ++n) {
    const auto& [entry, file] = defects[n].front();
    const std::string name = fmt::format("{} on {} (law {})", entry.key, entry.runtime, entry.law);
    text += fmt::format("\n  {}. {}  in {}\n", n + 1, painted(look, Part::title, printable(name)),
                        counted(defects[n].size(), "reproducer"));
    text += row("model", entry.model.string()) + row("witness", entry.reason);
    if (!entry.tensor.empty())
      text += row("where", fmt::format("{}, that {} gives ({})", entry.tensor,
                                       entry.node.empty() ? "a node" : "'" + entry.node + "'", entry.op));
    text += row("segment", fmt::format("{}", fmt::join(entry.segment, ", "))) + row("problem", entry.problem);
    text += fmt::format("     {:<11}{}\n", "rerun",
                        painted(look, Part::command, printable("attest replay " + shell_quoted(file.string()))));
  }
  return text;
}

ordered_json triage_json(const std::vector<models::EntryDefect>& defects) {
  ordered_json all = ordered_json::array();
  for (const models::EntryDefect& defect : defects) {
    const models::Entry& entry = defect.front().entry;
    ordered_json object{
        {"model", entry.model.string()}, {"runtime", entry.runtime}, {"law", entry.law}, {"key", entry.key},
        {"tensor", entry.tensor},        {"node", entry.node},       {"op", entry.op},   {"problem", entry.problem},
        {"reason", entry.reason}};
    object["reproducers"] = ordered_json::array();
    for (const models::EntryFile& one : defect) object["reproducers"].push_back(one.file.string());
    all.push_back(std::move(object));
  }
  return all;
}

namespace {

ordered_json json_of(const LawCounts& counts) {
  ordered_json object;
  for (const auto& [kind, n] : counts.kinds)
    if (kind != VerdictKind::skip && kind != VerdictKind::vacuous) object[std::string(name(kind))] = n;
  object["skip"] = counts.skipped;
  object["vacuous"] = counts.vacuous;
  object["largest_z"] = real_to_json(counts.largest);
  if (counts.largest_t > 0) object["largest_t"] = real_to_json(counts.largest_t);
  return object;
}

ordered_json json_of(const Summary& summary, const Finding& finding) {
  ordered_json object{{"key", finding.key},
                      {"law", finding.law},
                      {"verdict", name(finding.flaky ? VerdictKind::flaky : finding.result.kind)},
                      {"runtime", finding.runtime},
                      {"version", finding.version},
                      {"levels", finding.levels},
                      {"passes_at", finding.passing},
                      {"problem", to_text(finding.smallest.problem)},
                      {"original", to_text(finding.original)},
                      {"case", finding.first_case},
                      {"failures", finding.failures},
                      {"seconds_to_first", finding.seconds_to_first},
                      {"shrink_calls", finding.smallest.calls},
                      {"minimal", finding.smallest.minimal},
                      {"reason", finding.result.reason},
                      {"z", real_to_json(finding.result.z)},
                      {"also", finding.also},
                      {"known", !finding.known_as.empty()}};
  if (!finding.known_as.empty()) object["known_as"] = finding.known_as;
  for (const engine::Waiver& waiver : finding.waivers)
    object["waivers"].push_back({{"reason", waiver.reason}, {"until", waiver.until}, {"over", waiver.over}});
  if (finding.result.witness) {
    const graph::Witness& w = *finding.result.witness;
    object["witness"] = {{"output", w.output},
                         {"element", w.element},
                         {"got", real_to_json(w.got)},
                         {"expected", real_to_json(w.expected)},
                         {"deviation", real_to_json(w.deviation)}};
  }
  if (finding.place) {
    ordered_json& place = object["place"];
    place = {{"tensor", finding.place->tensor},
             {"node", finding.place->node},
             {"op", finding.place->op},
             {"explains", finding.place->explains},
             {"words", place_text(finding)}};
    for (const models::Picture& picture : finding.place->result.pictures) place["where"].push_back(to_json(picture));
    if (finding.place->segment) {
      place["segment"] = finding.place->segment->nodes;
      place["segment_words"] = segment_text(finding);
    }
  }
  if (finding.condition)
    object["when"] = {{"predicate", finding.condition->text},
                      {"words", condition_text(finding)},
                      {"failing", finding.condition->counts.failing},
                      {"asked", finding.condition->counts.asked},
                      {"failing_elsewhere", finding.condition->counts.failing_elsewhere},
                      {"elsewhere", finding.condition->counts.elsewhere}};
  for (const models::Picture& picture : finding.result.pictures) object["where"].push_back(to_json(picture));
  for (const graph::Problem& before : finding.smallest.after) object["after"].push_back(to_text(before));
  object["reproducer"] = finding.reproducer.string();
  object["rerun"] = rerun(summary, finding);
  return object;
}

}  // namespace

ordered_json summary_json(const Summary& summary) {
  ordered_json object{{"format", 1},
                      {"kind", "model"},
                      {"model", summary.model.string()},
                      {"subjects", summary.subjects},
                      {"policy", summary.policy},
                      {"seed", summary.seed},
                      {"cases", summary.cases},
                      {"resumed", summary.resumed},
                      {"runs", summary.runs},
                      {"seconds", summary.seconds},
                      {"interrupted", summary.interrupted},
                      {"elements", summary.judged},
                      {"undetermined", summary.undetermined},
                      {"proven", summary.proven}};
  if (!summary.notes.empty()) object["notes"] = summary.notes;
  object["parts"] = ordered_json::array();
  for (const models::KnownPart& part : summary.parts)
    object["parts"].push_back(
        {{"operation", part.operation}, {"tensor", part.tensor}, {"nodes", part.nodes}, {"skipped", part.skipped}});
  object["verdicts"] = ordered_json::object();
  for (const auto& [law, counts] : summary.laws) object["verdicts"][law] = json_of(counts);
  object["findings"] = ordered_json::array();
  for (const Finding& finding : summary.findings) object["findings"].push_back(json_of(summary, finding));
  object["untold"] = summary.untold;
  object["slow"] = summary.slow;
  object["cut_short"] = summary.cut_short;
  object["skipped"] = summary.skipped;
  object["exit"] = static_cast<int>(summary.exit());
  return object;
}

ordered_json coverage_json(const models::Coverage& coverage) {
  ordered_json object{{"problems", coverage.problems}};
  object["fields"] = object["tables"] = ordered_json::array();
  for (const auto& [name, values] : coverage.fields) {
    ordered_json field{{"name", name}};
    for (const auto& [value, count] : values) field["values"].push_back({{"value", value}, {"count", count}});
    object["fields"].push_back(std::move(field));
  }
  for (const models::Coverage::Table& table : coverage.tables) {
    ordered_json cells = ordered_json::array();
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      for (std::size_t c = 0; c < table.columns.size(); ++c)
        cells.push_back({{"row", table.rows[r]}, {"column", table.columns[c]}, {"count", table.cells[r][c]}});
    object["tables"].push_back({{"name", table.name}, {"cells", std::move(cells)}});
  }
  return object;
}

namespace {

std::string witness_text(const graph::Witness& w, std::span<const Index> shape) {
  const std::string place = models::element_text(w.output, shape, w.element);
  return w.deviation > 0 ? fmt::format("{} = {}, expected {} +- {:.3g}", place, w.got, w.expected, w.deviation)
                         : fmt::format("{} = {}, expected {}", place, w.got, w.expected);
}

}  // namespace

std::string judged_text(const models::JudgedOutputs& judged, const graph::Precision& precision, const Look& look) {
  using Outcome = graph::Judgement::Outcome;
  const graph::Judgement& verdict = judged.verdict;
  std::string text =
      fmt::format("  {} under {}, against an ensemble of {} correct evaluations (no proof: docs/graphs.md)\n",
                  verdict.outcome == Outcome::held     ? painted(look, Part::held, "held")
                  : verdict.outcome == Outcome::failed ? painted(look, Part::failed, "FAILED")
                                                       : "nothing judged",
                  precision.name, verdict.members);
  for (const models::JudgedOutput& one : judged.outputs) {
    text += fmt::format("  {} {}: {} of {} judged", printable(one.name), graph::shape_text(one.shape),
                        grouped(static_cast<std::uint64_t>(one.judged)),
                        counted(static_cast<std::uint64_t>(one.elements), "element"));
    if (one.wrong > 0) text += fmt::format(", {} wrong", grouped(static_cast<std::uint64_t>(one.wrong)));
    text += fmt::format("; {:.3g} deviations at most, of {} that are permitted\n", one.z, graph::failing_z);
    if (one.first) text += row("first", witness_text(*one.first, one.shape));
    if (one.worst && one.z > 0) text += row(one.wrong > 0 ? "worst" : "farthest", witness_text(*one.worst, one.shape));
  }
  if (verdict.outcome == Outcome::failed && !(verdict.z > graph::failing_z))
    text += fmt::format("  all elements together are {:.3g} deviations off in the mean, of {:.3g} that are permitted\n",
                        verdict.t.value_or(0), verdict.t_limit);
  for (const std::string& name : judged.absent) text += fmt::format("  {}: not given\n", printable(name));
  return text;
}

ordered_json judged_json(const models::JudgedOutputs& judged, const graph::Precision& precision) {
  constexpr std::string_view outcomes[] = {"pass", "fail", "vacuous"};
  ordered_json object{{"format", 1},
                      {"kind", "model"},
                      {"policy", precision.name},
                      {"verdict", outcomes[static_cast<int>(judged.verdict.outcome)]},
                      {"basis", "statistic"},
                      {"z", real_to_json(judged.verdict.z)},
                      {"members", judged.verdict.members}};
  if (judged.verdict.t) object["t"] = real_to_json(*judged.verdict.t);
  object["t_limit"] = real_to_json(judged.verdict.t_limit);
  object["tensors"] = ordered_json::array();
  for (const models::JudgedOutput& one : judged.outputs) {
    ordered_json output{{"name", one.name},     {"shape", one.shape}, {"elements", one.elements},
                        {"judged", one.judged}, {"wrong", one.wrong}, {"z", real_to_json(one.z)}};
    for (const auto& [key, witness] : {std::pair("first", &one.first), std::pair("worst", &one.worst)})
      if (*witness)
        output[key] = {{"element", (*witness)->element},
                       {"got", real_to_json((*witness)->got)},
                       {"expected", real_to_json((*witness)->expected)},
                       {"deviation", real_to_json((*witness)->deviation)}};
    object["tensors"].push_back(std::move(output));
  }
  object["absent"] = judged.absent;
  return object;
}

std::string_view name(models::Outcome outcome) noexcept {
  constexpr std::string_view names[] = {"as_expected", "unexpected", "mended", "damaged", "not_run"};
  return names[static_cast<int>(outcome)];
}

}  // namespace attest::report
