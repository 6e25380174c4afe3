#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"
#include "report/grade.hpp"

namespace attest::report {
namespace {

using engine::GradeOptions;
using engine::Hunt;
using engine::LawPower;
using engine::RuleTable;
using nlohmann::ordered_json;

template <class T>
ordered_json maybe(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

// "multiply_adds", "elements": a key for the operation's unit of work.
std::string unit_key(const GradeOptions& options) {
  std::string key(options.op->unit_of_work());
  std::ranges::replace(key, '-', '_');
  return key;
}

ordered_json hunt_json(const Hunt& hunt, const std::string& unit) {
  ordered_json object{{"seed", hunt.seed}, {"found", hunt.found}, {"problems", hunt.drawn}};
  if (!hunt.found) return object;
  object["seconds"] = hunt.seconds;
  object["law"] = hunt.law;
  object["credited"] = hunt.credited;
  object["proof"] = hunt.proof;
  object[unit] = hunt.work;
  object["subject_calls"] = hunt.subject_calls;
  object["minimal"] = hunt.minimal;
  object["problem"] = hunt.problem;
  return object;
}

ordered_json law_json(const LawPower& law) {
  return {{"law", engine::all_laws()[law.law].name},
          {"judged", law.judged},
          {"failed", law.failed},
          {"beyond_bound", law.beyond_bound},
          {"first", maybe(law.first)},
          {"first_beyond_bound", maybe(law.first_beyond_bound)}};
}

ordered_json cases_json(const std::vector<engine::BeyondCase>& cases) {
  ordered_json list = ordered_json::array();
  for (const engine::BeyondCase& each : cases) {
    ordered_json rules = ordered_json::object();
    for (const auto& rule : each.rules) rules[rule.name] = engine::real_to_json(rule.multiple);
    list.push_back({{"number", each.number}, {"problem", each.problem}, {"rules", rules}});
  }
  return list;
}

ordered_json multiples_json(const std::map<Format, double>& multiples) {
  ordered_json object = ordered_json::object();
  for (const auto& [type, x] : multiples) object[std::string(name(type))] = engine::real_to_json(x);
  return object;
}

ordered_json rules_json(const RuleTable& table) {
  ordered_json object{{"set", table.set},
                      {"doc", table.doc},
                      {"problems", table.problems},
                      {"conforming_cases", table.conforming_cases},
                      {"emulated_cases", table.emulated_cases},
                      {"widening_cases", table.widening_cases},
                      {"columns", ordered_json::array()},
                      {"wider", ordered_json::array()},
                      {"faults", ordered_json::array()},
                      {"alarms", table.alarms}};
  for (const engine::RuleColumn& column : table.columns) {
    object["columns"].push_back({{"name", column.name},
                                 {"doc", column.doc},
                                 {"own", column.own},
                                 {"false_alarms", column.false_alarms},
                                 {"multiple", multiples_json(column.multiple)}});
  }
  for (const engine::WiderSetting& wider : table.wider) {
    ordered_json multiples = ordered_json::object();
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      if (!table.columns[c].own) multiples[table.columns[c].name] = multiples_json(wider.multiples[c]);
    object["wider"].push_back({{"parent", wider.parent}, {"cases", wider.cases}, {"multiples", multiples}});
  }
  for (const engine::FaultRules& fault : table.faults) {
    ordered_json row{{"fault", fault.fault}, {"acts", fault.acts}, {"columns", ordered_json::array()}};
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const engine::RulePower& power = fault.columns[c];
      row["columns"].push_back({{"name", table.columns[c].name},
                                {"detected", power.detected},
                                {"detected_at_zero", power.detected_at_zero},
                                {"beyond", power.beyond},
                                {"first", maybe(power.first)},
                                {"first_at_zero", maybe(power.first_at_zero)}});
    }
    row["beyond"] = cases_json(fault.beyond);
    row["owed"] = cases_json(fault.owed);
    object["faults"].push_back(row);
  }
  return object;
}

}  // namespace

ordered_json grade_json(const engine::Grade& grade, const engine::GradeOptions& options) {
  ordered_json object{{"format", 1}, {"verb", "grade"}};
  if (options.op != ops::all_ops().front()) object["op"] = options.op->name();
  object.update(ordered_json{{"policy", options.policy_text},
                             {"seeds", options.seeds},
                             {"cases", options.cases},
                             {"paired", options.paired},
                             {"emulated", options.emulated},
                             {"clean", options.clean},
                             {"jobs", options.jobs},
                             {"interrupted", grade.interrupted},
                             {"faults_asked", options.faults.size()},
                             {"median_problems", engine::real_to_json(grade.median_problems())},
                             {"worst_problems", engine::real_to_json(grade.worst_problems())},
                             {"missed", grade.missed()},
                             {"faults", ordered_json::array()},
                             {"rules", ordered_json::array()}});
  const std::string unit = unit_key(options);
  for (const engine::FaultGrade& fault : grade.faults) {
    ordered_json row{{"name", fault.fault.name},
                     {"parent", fault.fault.parent},
                     {"report", fault.fault.report},
                     {"campaigns", ordered_json::array()},
                     {"laws", ordered_json::array()}};
    for (const Hunt& hunt : fault.hunts) row["campaigns"].push_back(hunt_json(hunt, unit));
    for (const LawPower& law : fault.laws) row["laws"].push_back(law_json(law));
    object["faults"].push_back(row);
  }
  for (const RuleTable& table : grade.rules) object["rules"].push_back(rules_json(table));
  ordered_json conforming{{"campaigns", grade.clean.campaigns},       {"asked", grade.clean.asked},
                          {"problems", grade.clean.problems},         {"elements", grade.clean.elements},
                          {"undetermined", grade.clean.undetermined}, {"alarms", ordered_json::array()}};
  for (const auto& alarm : grade.clean.alarms)
    conforming["alarms"].push_back(
        {{"subject", alarm.subject}, {"policy", alarm.policy}, {"law", alarm.law}, {"problem", alarm.problem}});
  object["conforming"] = conforming;
  object["seconds"] = grade.seconds;
  return object;
}

}  // namespace attest::report
