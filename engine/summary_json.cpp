#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"
#include "engine/summary.hpp"

namespace attest::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Reasons = std::map<std::string, std::uint64_t>;

constexpr int json_format = 1;

ordered_json reasons_to_json(const Reasons& reasons) {
  ordered_json object = ordered_json::object();
  for (const auto& [reason, count] : reasons) object[reason] = count;
  return object;
}

ordered_json property_to_json(const PropertyCounts& counts) {
  ordered_json object;
  using enum VerdictKind;
  for (const VerdictKind kind : {pass, warn, fail, error, crash, timeout, poisoned, flaky})
    object[std::string(name(kind))] = counts.of(kind);
  object["skip"] = reasons_to_json(counts.skipped);
  object["vacuous"] = reasons_to_json(counts.vacuous);
  return object;
}

PropertyCounts counts_from_json(const json& object) {
  PropertyCounts counts;
  for (const auto& [key, value] : object.items()) {
    if (key == "skip")
      counts.skipped = value.get<Reasons>();
    else if (key == "vacuous")
      counts.vacuous = value.get<Reasons>();
    else if (const auto kind = verdict_kind_from_name(key); kind && value.get<std::uint64_t>() > 0)
      counts.verdicts[*kind] = value.get<std::uint64_t>();
  }
  return counts;
}

ordered_json seconds_to_json(const Seconds& s) {
  return {{"draw", s.draw},     {"values", s.values}, {"subject", s.subject},
          {"oracle", s.oracle}, {"laws", s.laws},     {"shrink", s.shrink}};
}

// `about`: the key that a warning is told by.
ordered_json warned_to_json(const std::map<std::string, Warned>& warned, const char* about) {
  ordered_json list = ordered_json::array();
  for (const auto& [name, seen] : warned)
    list.push_back(
        {{about, name}, {"problems", seen.problems}, {"problem", seen.problem}, {"witness", to_json(seen.evidence)}});
  return list;
}

// The counts, under the same names in the report and in a campaign folder.
void write_counts(const Summary& s, ordered_json& object) {
  object["cases"] = s.cases;
  object["executed"] = s.executed;
  object["judged"] = s.judged;
  object["judged_long"] = s.judged_long;
  object["verdicts"] = ordered_json::object();
  for (const auto& [property, counts] : s.verdicts) object["verdicts"][property] = property_to_json(counts);
  object["elements"] = s.elements;
  object["elements_long"] = s.elements_long;
  object["undetermined"] = s.undetermined;
  object["wide"] = s.wide;
  object["skipped"] = reasons_to_json(s.skipped);
  object["vacuous"] = reasons_to_json(s.vacuous);
  object["rejected"] = s.rejected;
  object["redrawn"] = s.redrawn;
  object["laws_left_out"] = s.laws_left_out;
  object["failing_cases"] = s.failing_cases;
  const bool two = !s.subject_b.empty();
  object[two ? "open" : "warnings"] = warned_to_json(s.warned, two ? "question" : "law");
  object["refused"] = s.refused;
  object["cut_off"] = s.cut_off;
  object["slow"] = s.slow;
  object["seconds"] = s.seconds;
  object["seconds_in"] = seconds_to_json(s.seconds_in);
}

ordered_json finding_to_json(const Finding& f, const std::function<std::string(const Finding&)>& rerun) {
  ordered_json object;
  object["bucket"] = f.entry.bucket;
  object["property"] = f.entry.property;
  object["verdict"] = name(f.entry.seen);
  object["basis"] = basis(f.entry.property);
  if (!f.entry.reason.empty()) object["reason"] = f.entry.reason;
  object["problem"] = to_text(f.entry.problem);
  if (!f.entry.after.empty()) object["after"] = to_json(f.entry.after);
  if (f.entry.shown) object["shown"] = {{"seen", f.entry.shown->seen}, {"runs", f.entry.shown->runs}};
  object["original"] = f.entry.original;
  object["case"] = f.case_number;
  object["multiply_adds"] = work_of(f.entry.problem);
  object["subject_calls"] = f.entry.shrink_calls;
  object["minimal"] = f.entry.minimal;
  object["neighbours"] = f.entry.neighbours;
  object["failures"] = f.failures;
  object["also"] = f.also;
  object["known"] = f.known;
  if (f.known) object["known_as"] = f.known_as;
  object["seconds_to_first"] = f.seconds_to_first;
  object["cases_to_first"] = f.cases_to_first;
  object["witness"] = f.entry.evidence ? to_json(*f.entry.evidence) : ordered_json(nullptr);
  object["reproducer"] = f.reproducer;
  object["rerun"] = rerun(f);
  return object;
}

ordered_json effective_to_json(const Effective& effective) {
  ordered_json fits = ordered_json::array();
  for (const Policy& policy : effective.fits) fits.push_back(to_text(policy));
  return {{"requested", to_text(effective.requested)}, {"fits", std::move(fits)}, {"otherwise", effective.otherwise}};
}

ordered_json defect_to_json(const Summary& s, const Defect& defect,
                            const std::function<std::string(const Finding&)>& rerun) {
  const Finding& finding = s.findings[defect.findings.front()];
  const Finding& first = s.first_of(defect);
  ordered_json object;
  object["property"] = finding.entry.property;
  object["problem"] = to_text(finding.entry.problem);
  object["reproducer"] = finding.reproducer;
  object["rerun"] = rerun(finding);
  object["minimal"] = finding.entry.minimal;
  object["buckets"] = ordered_json::array();
  for (const std::size_t i : defect.findings) object["buckets"].push_back(s.findings[i].entry.bucket);
  object["failures"] = defect.failures;
  object["case"] = first.case_number;
  object["seconds_to_first"] = first.seconds_to_first;
  object["cases_to_first"] = first.cases_to_first;
  object["known"] = defect.known;
  if (!defect.waivers.empty()) object["waivers"] = ordered_json::array();
  for (const Waiver& waiver : defect.waivers)
    object["waivers"].push_back({{"reason", waiver.reason}, {"until", waiver.until}, {"over", waiver.over}});
  if (defect.known) object["known_as"] = s.known_as(defect);
  if (defect.effective) object["effective"] = effective_to_json(*defect.effective);
  object["explained"] = to_json(Explained{defect.key, to_text(defect.predicate), defect.counts});
  if (defect.explanation) object["explanation"] = to_json(*defect.explanation);
  return object;
}

}  // namespace

ordered_json to_json(const Summary& s, const std::function<std::string(const Finding&)>& rerun) {
  ordered_json object;
  object["format"] = json_format;
  object["verb"] = s.verb;
  object["subject"] = s.subject;
  object["version"] = s.subject_version;
  if (!s.subject_b.empty()) {
    object["subject_b"] = s.subject_b;
    object["version_b"] = s.subject_b_version;
  }
  object["policy"] = s.policy;
  object["policy_declared"] = s.policy_declared;
  for (const auto& [dtype, policy] : s.assumed) object["assumed"][std::string(name(dtype))] = policy;
  object["seed"] = s.seed;
  object["repeat"] = s.repeat;
  object["interrupted"] = s.interrupted;
  if (!s.silent.empty()) object["silent"] = s.silent;
  object["earlier_cases"] = s.earlier_cases;
  object["shard"] = s.shard;
  object["assume"] = s.assume;
  object["given_up"] = s.given_up;
  write_counts(s, object);
  object["findings"] = ordered_json::array();
  for (const Finding& finding : s.findings) object["findings"].push_back(finding_to_json(finding, rerun));
  object["defects"] = ordered_json::array();
  for (const Defect& defect : s.defects) object["defects"].push_back(defect_to_json(s, defect, rerun));
  object["avoided"] = ordered_json::array();
  for (const Avoided& avoided : s.avoided)
    object["avoided"].push_back({{"predicate", avoided.predicate},
                                 {"failing", avoided.failing},
                                 {"asked", avoided.asked},
                                 {"defect", avoided.defect}});
  object["unshrunk"] = s.unshrunk;
  object["exit"] = static_cast<int>(s.exit());
  if (s.exit() == Exit::incomplete) object["unjudged"] = s.unjudged();
  return object;
}

ordered_json state_to_json(const Summary& s) {
  ordered_json object;
  object["next_case"] = s.next_case;
  write_counts(s, object);
  return object;
}

void state_from_json(const json& object, Summary& s) {
  s.next_case = object.at("next_case").get<std::uint64_t>();
  s.cases = object.at("cases").get<std::uint64_t>();
  s.executed = object.at("executed").get<std::uint64_t>();
  s.judged = object.at("judged").get<std::uint64_t>();
  s.judged_long = object.at("judged_long").get<std::uint64_t>();
  for (const auto& [property, counts] : object.at("verdicts").items()) s.verdicts[property] = counts_from_json(counts);
  s.elements = object.at("elements").get<std::int64_t>();
  s.elements_long = object.at("elements_long").get<std::int64_t>();
  s.undetermined = object.at("undetermined").get<std::int64_t>();
  s.wide = object.at("wide").get<std::int64_t>();
  s.skipped = object.at("skipped").get<Reasons>();
  s.vacuous = object.at("vacuous").get<Reasons>();
  s.rejected = object.at("rejected").get<std::uint64_t>();
  s.redrawn = object.at("redrawn").get<std::uint64_t>();
  s.laws_left_out = object.at("laws_left_out").get<std::uint64_t>();
  s.failing_cases = object.at("failing_cases").get<std::uint64_t>();
  s.refused = object.value("refused", std::uint64_t{0});
  s.cut_off = object.value("cut_off", std::uint64_t{0});
  s.slow = object.value("slow", std::uint64_t{0});
  for (const auto& [key, about] : {std::pair("open", "question"), std::pair("warnings", "law")})
    for (const json& seen : object.value(key, json::array()))
      s.warned[seen.at(about).get<std::string>()] = {seen.at("problems").get<std::uint64_t>(),
                                                     seen.at("problem").get<std::string>(),
                                                     evidence_from_json(seen.at("witness"))};
  s.seconds = object.at("seconds").get<double>();
  const json& in = object.at("seconds_in");
  s.seconds_in = {in.at("draw").get<double>(),   in.at("values").get<double>(), in.at("subject").get<double>(),
                  in.at("oracle").get<double>(), in.at("laws").get<double>(),   in.at("shrink").get<double>()};
}

}  // namespace attest::engine
