#include "report/probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::DtypeRow;
using engine::Standing;
using nlohmann::ordered_json;

std::string dtypes_of(const DtypeRow& of) {
  std::vector<std::string_view> names;
  for (const Format dtype : of.dtypes) names.push_back(name(dtype));
  return fmt::format("{}", fmt::join(names, " "));
}

std::string_view mark(Standing standing) {
  switch (standing) {
    case Standing::agrees:
      return "ok";
    case Standing::unsaid:
    case Standing::open:
      return "";
    case Standing::contradicts:
      return "BROKEN";
  }
  return "";
}

// "3.2 M".
std::string per_second(double n) {
  for (const auto& [unit, suffix] : {std::pair{1e9, " G"}, {1e6, " M"}, {1e3, " k"}})
    if (n >= unit) return fmt::format("{:.3g}{}", n / unit, suffix);
  return fmt::format("{:.3g}", n);
}

// Columns as wide as their words; the last as it comes.
class Columns {
 public:
  void add(std::vector<std::string> cells) {
    for (std::size_t n = 0; n + 1 < cells.size(); ++n) {
      if (n >= widths_.size()) widths_.push_back(0);
      widths_[n] = std::max(widths_[n], cells[n].size());
    }
    rows_.push_back(std::move(cells));
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (std::size_t n = 0; n < row.size(); ++n)
        line += n + 1 < row.size() ? fmt::format(" {:<{}} ", row[n], widths_[n]) : " " + row[n];
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    }
    return all;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

std::string evidence_text(const engine::ProbeReport& report, const ProbeText& how) {
  std::string text;
  for (const DtypeRow& of : report.rows) {
    const bool broken = of.row.standing == Standing::contradicts;
    if (!of.row.evidence || (!broken && !how.all_evidence)) continue;
    text += fmt::format("\n  {} ({}): {}\n", of.row.stage, dtypes_of(of),
                        broken ? "contradicts " + of.row.promised : of.row.observed);
    if (!of.row.note.empty()) text += fmt::format("    {}\n", printable(of.row.note));
    text += fmt::format("    attest check {}{} --problem {}\n", shell_quoted(report.subject), how.rerun_options,
                        shell_quoted(engine::to_text(*of.row.evidence)));
  }
  return text;
}

}  // namespace

std::string probe_text(const engine::ProbeReport& report, const ProbeText& how) {
  std::string text = fmt::format("attest probe {}{}{}, {}\n", report.subject, report.version.empty() ? "" : " ",
                                 report.version, report.op->name());
  if (!report.policy_declared) text += undeclared_policy;
  Columns table;
  table.add({"stage", "dtype", "promised", "", "observed"});
  for (const DtypeRow& of : report.rows)
    table.add(
        {of.row.stage, dtypes_of(of), of.row.promised, std::string(mark(of.row.standing)), printable(of.row.observed)});
  text += "\n" + table.text() + evidence_text(report, how);
  if (!report.speeds.empty()) {
    Columns speeds;
    speeds.add({"calls/s", fmt::format("{}/s", report.op->unit_of_work()), "problem"});
    for (const engine::Speed& speed : report.speeds)
      speeds.add({per_second(speed.calls), per_second(speed.work), engine::to_text(speed.problem)});
    text += "\n" + speeds.text();
  }
  const auto broken =
      std::ranges::count_if(report.rows, [](const DtypeRow& of) { return of.row.standing == Standing::contradicts; });
  text += fmt::format("\nwhat was seen, as a contract (not proven for calls that were not made):\n  \"contract\": {}\n",
                      engine::contract_seen(report.seen).dump());
  text += broken == 0 ? "\nnothing seen contradicts the contract\n"
                      : fmt::format("\n{} of {} rows contradict the contract\n", broken, report.rows.size());
  return text;
}

ordered_json probe_json(const engine::ProbeReport& report) {
  ordered_json object{{"format", 1},
                      {"verb", "probe"},
                      {"subject", report.subject},
                      {"version", report.version},
                      {"op", report.op->name()},
                      {"policy_declared", report.policy_declared}};
  object["rows"] = ordered_json::array();
  for (const DtypeRow& of : report.rows) {
    ordered_json& row = object["rows"].emplace_back();
    row["stage"] = of.row.stage;
    row["dtypes"] = ordered_json::array();
    for (const Format dtype : of.dtypes) row["dtypes"].push_back(name(dtype));
    row["promised"] = of.row.promised;
    row["observed"] = of.row.observed;
    row["standing"] = ops::name(of.row.standing);
    if (of.row.at_least) row["at_least"] = name(*of.row.at_least);
    if (of.row.at_most) row["at_most"] = name(*of.row.at_most);
    row["note"] = of.row.note;
    if (of.row.evidence) row["evidence"] = engine::to_text(*of.row.evidence);
  }
  std::string work(report.op->unit_of_work());  // "multiply_adds_per_second"
  std::ranges::replace(work, '-', '_');
  work += "_per_second";
  object["speed"] = ordered_json::array();
  for (const engine::Speed& speed : report.speeds)
    object["speed"].push_back(
        {{"problem", engine::to_text(speed.problem)}, {"calls_per_second", speed.calls}, {work, speed.work}});
  object["contract"] = engine::contract_seen(report.seen);
  return object;
}

std::string orders_text(const std::string& subject, const SubjectInfo& info,
                        const std::vector<engine::DtypeOrders>& all) {
  std::string text = fmt::format("attest probe --tree {}{}{}: the order in which weighted values are added\n\n",
                                 subject, info.version.empty() ? "" : " ", info.version);
  Columns table;
  table.add({"dtype", "keys", "call", "order"});
  std::string differ;
  for (const auto& [dtype, orders] : all)
    for (const ops::SumOrder& order : orders) {
      const ops::SumOrder& first = orders.front();
      table.add({std::string(name(dtype)), std::to_string(order.terms), order.called,
                 order.words.empty() ? ops::cannot_tell(printable(order.reason)) : order.words});
      const bool both_seen = !first.words.empty() && !order.words.empty() && order.terms == first.terms;
      if (both_seen && order.nested != first.nested)
        differ += fmt::format("{}: {} add in another order than {}: their bits may differ for equal numbers\n",
                              name(dtype), order.called, first.called);
    }
  return text + table.text() + (differ.empty() ? "" : "\n" + differ);
}

ordered_json orders_json(const std::string& subject, const SubjectInfo& info,
                         const std::vector<engine::DtypeOrders>& all) {
  ordered_json object{{"format", 1}, {"verb", "probe"}, {"subject", subject}, {"version", info.version}};
  object["orders"] = ordered_json::array();
  for (const auto& [dtype, orders] : all)
    for (const ops::SumOrder& order : orders) {
      ordered_json& one = object["orders"].emplace_back(
          ordered_json{{"dtype", name(dtype)}, {"problem", engine::to_text(order.call)}, {"terms", order.terms}});
      if (order.words.empty())
        one["reason"] = order.reason;
      else
        one.update({{"order", order.words}, {"tree", order.nested}});
    }
  return object;
}

}  // namespace attest::report
