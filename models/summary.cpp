#include "models/summary.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"

namespace attest::models {
namespace {

using engine::real_from_json;
using engine::real_to_json;
using nlohmann::json;
using nlohmann::ordered_json;

ordered_json texts(const std::vector<graph::Problem>& problems) {
  ordered_json list = ordered_json::array();
  for (const graph::Problem& problem : problems) list.push_back(to_text(problem));
  return list;
}

VerdictKind kind_from(const json& value) {
  const auto kind = engine::verdict_kind_from_name(value.get<std::string>());
  if (!kind) throw usage_error("no kind of verdict: '" + value.get<std::string>() + "'");
  return *kind;
}

ordered_json to_json(const LawResult& result) {
  ordered_json object{{"kind", name(result.kind)},
                      {"reason", result.reason},
                      {"class", result.failure_class},
                      {"z", real_to_json(result.z)}};
  if (const auto& w = result.witness)
    object["witness"] = {w->output, w->element, real_to_json(w->got), real_to_json(w->expected),
                         real_to_json(w->deviation)};
  for (const Picture& picture : result.pictures) object["pictures"].push_back(to_json(picture));
  return object;
}

std::vector<Picture> pictures_from_json(const json& object) {
  std::vector<Picture> pictures;
  if (const auto found = object.find("pictures"); found != object.end())
    for (const json& picture : *found) pictures.push_back(picture_from_json(picture));
  return pictures;
}

LawResult result_from_json(const json& object) {
  LawResult result;
  result.kind = kind_from(object.at("kind"));
  result.reason = object.at("reason").get<std::string>();
  result.failure_class = object.at("class").get<std::string>();
  result.z = real_from_json(object.at("z"), "z");
  if (const auto found = object.find("witness"); found != object.end())
    result.witness =
        graph::Witness{found->at(0).get<std::string>(), found->at(1).get<Index>(), real_from_json(found->at(2), "got"),
                       real_from_json(found->at(3), "expected"), real_from_json(found->at(4), "deviation")};
  result.pictures = pictures_from_json(object);
  return result;
}

ordered_json to_json(const Place& place) {
  ordered_json object{{"tensor", place.tensor}, {"node", place.node}, {"op", place.op},
                      {"tried", place.tried},   {"of", place.of},     {"explains", place.explains}};
  for (const Picture& picture : place.result.pictures) object["pictures"].push_back(to_json(picture));
  if (place.segment) object["segment"] = place.segment->nodes;
  return object;
}

Place place_from_json(const json& object) {
  Place place;
  place.tensor = object.at("tensor").get<std::string>();
  place.node = object.at("node").get<std::string>();
  place.op = object.at("op").get<std::string>();
  place.tried = object.at("tried").get<std::size_t>();
  place.of = object.at("of").get<std::size_t>();
  place.explains = object.at("explains").get<bool>();
  place.result.pictures = pictures_from_json(object);
  if (object.contains("segment")) {
    place.segment.emplace();
    place.segment->nodes = object.at("segment").get<std::vector<std::string>>();
  }
  return place;
}

}  // namespace

ordered_json to_json(const Finding& finding) {
  ordered_json object{{"law", finding.law},
                      {"key", finding.key},
                      {"runtime", finding.runtime},
                      {"version", finding.version},
                      {"on", finding.on},
                      {"levels", finding.levels},
                      {"passing", finding.passing},
                      {"also", finding.also},
                      {"case", finding.first_case},
                      {"seconds_to_first", finding.seconds_to_first},
                      {"original", to_text(finding.original)},
                      {"problem", to_text(finding.smallest.problem)},
                      {"shrink_calls", finding.smallest.calls},
                      {"minimal", finding.smallest.minimal},
                      {"build", {finding.build.level, finding.build.fixed, finding.build.threads}},
                      {"result", to_json(finding.result)},
                      {"after", texts(finding.smallest.after)},
                      {"flaky", finding.flaky},
                      {"reproducer", finding.reproducer.string()}};
  if (finding.place) object["place"] = to_json(*finding.place);
  return object;
}

Finding finding_from_json(const json& object) {
  Finding finding;
  finding.law = object.at("law").get<std::string>();
  finding.key = object.at("key").get<std::string>();
  finding.runtime = object.at("runtime").get<std::string>();
  finding.version = object.at("version").get<std::string>();
  finding.on = object.at("on").get<std::string>();
  finding.levels = object.at("levels").get<std::set<std::string>>();
  finding.passing = object.at("passing").get<std::set<std::string>>();
  finding.also = object.at("also").get<std::set<std::string>>();
  finding.first_case = object.at("case").get<std::uint64_t>();
  finding.seconds_to_first = object.at("seconds_to_first").get<double>();
  finding.original = graph::problem_from_text(object.at("original").get<std::string>());
  finding.smallest.problem = graph::problem_from_text(object.at("problem").get<std::string>());
  finding.smallest.calls = object.at("shrink_calls").get<std::int64_t>();
  finding.smallest.minimal = object.at("minimal").get<bool>();
  const json& build = object.at("build");
  finding.build = {build.at(0).get<std::string>(), build.at(1).get<bool>(), build.at(2).get<int>()};
  finding.result = result_from_json(object.at("result"));
  if (object.contains("place")) finding.place = place_from_json(object.at("place"));
  for (const json& text : object.at("after"))
    finding.smallest.after.push_back(graph::problem_from_text(text.get<std::string>()));
  finding.flaky = object.at("flaky").get<bool>();
  finding.reproducer = object.at("reproducer").get<std::string>();
  return finding;
}

void count_reason(std::map<std::string, std::uint64_t>& reasons, const std::string& reason) {
  const auto words_of = [](const std::string& text) {
    std::string words;
    for (const char c : text)
      if (std::isdigit(static_cast<unsigned char>(c)) == 0)
        words += c;
      else if (!words.ends_with('0'))
        words += '0';
    return words;
  };
  auto known = reasons.find(reason);
  if (known == reasons.end())
    known = std::ranges::find(reasons, words_of(reason), [&](const auto& one) { return words_of(one.first); });
  if (known == reasons.end()) known = reasons.emplace(reason, 0).first;
  ++known->second;
}

ordered_json state_to_json(const Summary& summary) {
  ordered_json state{{"model", summary.model.string()},
                     {"cases", summary.cases},
                     {"runs", summary.runs},
                     {"seconds", summary.seconds},
                     {"judged", summary.judged},
                     {"untold", summary.untold},
                     {"undetermined", summary.undetermined},
                     {"slow", summary.slow},
                     {"skipped", summary.skipped},
                     {"proven", summary.proven}};
  if (!summary.notes.empty()) state["notes"] = summary.notes;
  state["laws"] = ordered_json::object();
  for (const auto& [law, counts] : summary.laws) {
    ordered_json& one = state["laws"][law];
    for (const auto& [kind, n] : counts.kinds) one["kinds"][std::string(name(kind))] = n;
    one["skipped"] = counts.skipped;
    one["vacuous"] = counts.vacuous;
    one["largest"] = real_to_json(counts.largest);
    one["largest_t"] = real_to_json(counts.largest_t);
  }
  state["findings"] = ordered_json::array();
  for (const Finding& finding : summary.findings)
    state["findings"].push_back({{"failures", finding.failures},
                                 {"levels", finding.levels},
                                 {"also", finding.also},
                                 {"others", finding.others}});
  return state;
}

void state_from_json(const json& state, Summary& summary) {
  using Reasons = std::map<std::string, std::uint64_t>;
  if (summary.model.empty()) summary.model = state.value("model", std::string());
  summary.cases = state.at("cases").get<std::uint64_t>();
  summary.runs = state.at("runs").get<std::uint64_t>();
  summary.seconds = state.at("seconds").get<double>();
  summary.judged = state.at("judged").get<std::int64_t>();
  summary.undetermined = state.at("undetermined").get<std::int64_t>();
  summary.proven = state.value("proven", std::int64_t{0});
  summary.untold = state.at("untold").get<std::uint64_t>();
  summary.slow = state.at("slow").get<std::uint64_t>();
  summary.skipped = state.at("skipped").get<Reasons>();
  summary.notes = state.value("notes", std::map<std::string, std::string>());
  for (const auto& [law, one] : state.at("laws").items()) {
    LawCounts& counts = summary.laws[law];
    for (const auto& [kind, n] : one.at("kinds").items()) counts.kinds[kind_from(json(kind))] = n.get<std::uint64_t>();
    counts.skipped = one.at("skipped").get<Reasons>();
    counts.vacuous = one.at("vacuous").get<Reasons>();
    counts.largest = real_from_json(one.at("largest"), "largest");
    counts.largest_t = real_from_json(one.at("largest_t"), "largest_t");
  }
  const json& findings = state.at("findings");
  for (std::size_t i = 0; i < std::min(findings.size(), summary.findings.size()); ++i) {
    summary.findings[i].failures = findings[i].at("failures").get<std::uint64_t>();
    summary.findings[i].levels = findings[i].at("levels").get<std::set<std::string>>();
    summary.findings[i].also = findings[i].at("also").get<std::set<std::string>>();
    summary.findings[i].others = findings[i].value("others", std::map<std::string, std::string>());
  }
}

Exit Summary::exit() const noexcept {
  if (std::ranges::any_of(findings, [](const Finding& finding) { return finding.known_as.empty(); }))
    return Exit::found;
  if (interrupted) return Exit::interrupted;
  if (!findings.empty()) return Exit::held;
  // A time limit that was passed and not confirmed is no more than what is skipped.
  const bool something =
      std::ranges::any_of(laws, [](const auto& law) { return law.second.kinds.contains(VerdictKind::pass); });
  return something ? Exit::held : Exit::incomplete;
}

}  // namespace attest::models
