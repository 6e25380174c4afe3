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
#include "core/field.hpp"
#include "core/policy.hpp"
#include "engine/check.hpp"
#include "ops/op.hpp"

namespace attest::cli {
namespace {

using nlohmann::ordered_json;

ordered_json policies() {
  ordered_json rows = ordered_json::array();
  for (const NamedPolicy& row : named_policies()) {
    ordered_json stages;
    for (std::size_t i = 0; i < stage_count; ++i)
      stages[std::string(name(static_cast<Stage>(i)))] = name(row.policy[static_cast<Stage>(i)]);
    rows.push_back({{"name", row.name}, {"doc", row.doc}, {"stages", stages}});
  }
  return rows;
}

// Those that a subject is asked alone: what `attest compare` holds two subjects to is no law of one.
ordered_json laws_of(const ops::Op& op) {
  ordered_json rows = ordered_json::array();
  for (const ops::Law& law : op.laws())
    if (law.name != engine::compare_bound_name && law.name != engine::compare_bits_name)
      rows.push_back({{"name", law.name}, {"doc", law.doc}, {"kind", name(law.kind)}, {"statement", law.statement}});
  return rows;
}

ordered_json laws() { return laws_of(*ops::all_ops().front()); }

// The dimensions of the domain: the field table.
ordered_json generators() {
  ordered_json rows = ordered_json::array();
  for (const Field& field : fields()) {
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

constexpr std::pair<std::string_view, ordered_json (*)()> lists[] = {
    {"subjects", list_subjects}, {"properties", laws},       {"faults", list_faults},
    {"policies", policies},      {"generators", generators}, {"ops", ops},
};

int print(const std::string& what, const Settings& settings) {
  const auto found =
      std::find_if(std::begin(lists), std::end(lists), [&](const auto& row) { return row.first == what; });
  if (found == std::end(lists))
    throw usage_error(
        fmt::format("there is no list '{}': subjects, properties, faults, policies, generators or ops", what));
  const auto op_name = settings.text("op");
  if (op_name && what != "properties") throw usage_error("--op is of `attest list properties` alone");
  const ops::Op* const op = op_name ? ops::find_op(*op_name) : nullptr;
  if (op_name && op == nullptr)
    throw usage_error(fmt::format("--op {}: there is no such operation: `attest list ops` names them", *op_name));
  const ordered_json rows = op != nullptr ? laws_of(*op) : found->second();
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
  settings->declare(*verb, {{"op", "OP", "whose properties: attention, layer_norm or mha (attention)"},
                            {"json", "FILE", "an array of {name, doc, ...}; - is stdout"}});
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("list");
      return print(*what, *settings);
    };
  });
}

}  // namespace attest::cli
