#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "core/policy_stages.hpp"
#include "engine/check.hpp"
#include "ops/op.hpp"

namespace attest::cli {
namespace {

using nlohmann::ordered_json;

ordered_json policies_of(const ops::Op& op) {
  ordered_json rows = ordered_json::array();
  for (const ops::NamedPolicy& row : op.named_policies()) {
    ordered_json stages;
    const auto& names = stages_of(op.name());
    for (std::size_t i = 0; i < names.size(); ++i) stages[std::string(names[i])] = name(op.stage(row.policy, i));
    rows.push_back({{"name", row.name}, {"doc", row.doc}, {"stages", stages}});
  }
  return rows;
}

// The laws that a subject is asked alone: those that `attest compare` holds two subjects to are no laws of one.
ordered_json laws_of(const ops::Op& op) {
  ordered_json rows = ordered_json::array();
  for (const ops::Law& law : op.laws())
    if (law.name != engine::compare_bound_name && law.name != engine::compare_bits_name)
      rows.push_back({{"name", law.name}, {"doc", law.doc}, {"kind", name(law.kind)}, {"statement", law.statement}});
  return rows;
}

// The dimensions of the domain: the field table.
ordered_json generators_of(const ops::Op& op) {
  ordered_json rows = ordered_json::array();
  for (const ops::Field& field : op.fields()) {
    ordered_json row{{"name", field.name}, {"doc", field.doc}};
    if (field.kind == FieldKind::label)
      row["labels"] = field.labels;
    else if (field.kind == FieldKind::integer)
      row["range"] = {field.lo, field.hi};
    rows.push_back(row);
  }
  return rows;
}

ordered_json ops() {
  return ordered_json::array(
      {{{"name", "attention"}, {"doc", "scaled-dot-product attention over [B,H,L,D], as attest/plugin.h defines it"}},
       {{"name", "layer_norm"}, {"doc", "LayerNorm and RMSNorm over [rows,hidden], with residual, gamma and beta"}},
       {{"name", "mha"}, {"doc", "attention blocks over [B,L,E]: projections, attention and the output projection"}}});
}

// Lists of an operation, and those of all.
constexpr std::pair<std::string_view, ordered_json (*)(const ops::Op&)> lists_of_one[] = {
    {"properties", laws_of}, {"policies", policies_of}, {"generators", generators_of}};
constexpr std::pair<std::string_view, ordered_json (*)()> lists[] = {
    {"subjects", list_subjects}, {"faults", list_faults}, {"ops", ops}};

ordered_json rows_of(const std::string& what, const Settings& settings) {
  const auto op_name = settings.text("op");
  for (const auto& [name, list] : lists_of_one) {
    if (name != what) continue;
    const ops::Op* const op = op_name ? ops::find_op(*op_name) : ops::all_ops().front();
    if (op == nullptr)
      throw usage_error(fmt::format("--op {}: there is no such operation: `attest list ops` names them", *op_name));
    return list(*op);
  }
  for (const auto& [name, list] : lists) {
    if (name != what) continue;
    if (op_name) throw usage_error("--op is of `attest list properties`, `policies` and `generators` alone");
    return list();
  }
  throw usage_error(
      fmt::format("there is no list '{}': subjects, properties, faults, policies, generators or ops", what));
}

int print(const std::string& what, const Settings& settings) {
  const ordered_json rows = rows_of(what, settings);
  if (const auto path = settings.text("json")) {
    OutputFile file(*path, "--json");
    write_json(file, rows);
    if (file.is_stdout()) return 0;
  }
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row["name"].get_ref<const std::string&>().size());
  for (const auto& row : rows)
    std::cout << fmt::format("{:<{}}  {}\n", row["name"].get<std::string>(), width, row["doc"].get<std::string>());
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("list", "what there is: subjects, properties, faults, policies, generators, ops");
  auto what = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("WHAT", *what, "subjects, properties, faults, policies, generators or ops")
      ->type_name("")
      ->required();
  settings->declare(*verb, {{"op", "OP", "whose properties, policies or fields: attention, layer_norm or mha (attention)"},
                            {"json", "FILE", "an array of {name, doc, ...}; - is stdout"}});
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("list");
      return print(*what, *settings);
    };
  });
}

}  // namespace attest::cli
