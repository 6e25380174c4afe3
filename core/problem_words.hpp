#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"
#include "core/problem_items.hpp"

namespace attest {

// The line and the JSON of an operation's problems P, which have a member `edits`, over its field table; S is what a
// subject supports of it. Nothing that is read is validated.
template <class P, class S>
struct ProblemWords {
  using Edit = typename decltype(P::edits)::value_type;

  std::string_view op;
  std::span<const FieldRow<P, S>> (*fields)() noexcept;
  std::string (*edit_text)(const Edit&);
  Edit (*read_edit)(std::string_view);  // throws Error(usage)
  std::string_view example;             // an edit

  [[nodiscard]] std::string to_text(const P& problem) const {
    std::string text = fmt::format("op={}", op);
    for (const ProblemItem& item : items(problem)) text += fmt::format(" {}={}", item.field->name, item.value);
    const std::vector<std::string> all = edits(problem);
    return all.empty() ? text : fmt::format("{} edits={}", text, fmt::join(all, ";"));
  }
  // Returns the fields that are always printed or are not at their default, and the edits. problem_json() takes them.
  [[nodiscard]] std::vector<ProblemItem> items(const P& problem) const {
    std::vector<ProblemItem> all;
    for (const auto& field : fields())
      if (field.always_printed || !is_default(field, problem))
        all.push_back({&field, value_text(field, problem), field.kind == FieldKind::real ? 0 : field.get(problem)});
    return all;
  }
  [[nodiscard]] std::vector<std::string> edits(const P& problem) const {
    std::vector<std::string> all;
    for (const Edit& edit : problem.edits) all.push_back(edit_text(edit));
    return all;
  }

  [[nodiscard]] P from_text(std::string_view line) const {
    P problem;
    read_problem_line(line, [&](std::string_view key, std::string_view value) { read_item(problem, key, value); });
    return problem;
  }

  [[nodiscard]] P from_json(const nlohmann::json& object) const {
    P problem;
    read_problem_items(
        object, example, [&](std::string_view key, const std::string& value) { read_item(problem, key, value); },
        [&](const std::string& text) { problem.edits.push_back(read_edit(text)); });
    return problem;
  }

 private:
  void read_item(P& problem, std::string_view key, std::string_view value) const {
    if (key == "op") {
      if (value != op)
        throw usage_error(fmt::format("problem: op={} is another operation: here it must be {}", value, op));
      return;
    }
    if (key == "edits") {
      while (!value.empty()) {
        const auto end = std::min(value.find(';'), value.size());
        problem.edits.push_back(read_edit(value.substr(0, end)));
        value.remove_prefix(std::min(end + 1, value.size()));
      }
      return;
    }
    std::vector<std::string_view> names;
    for (const auto& field : fields()) {
      if (field.name == key) return read_value(field, problem, value);
      names.push_back(field.name);
    }
    throw usage_error(fmt::format("problem: {} has no field '{}': it has {}", op, key, fmt::join(names, ", ")));
  }
};

}  // namespace attest
