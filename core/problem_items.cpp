#include "core/problem_items.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"

namespace attest {

void read_problem_line(std::string_view line,
                       const std::function<void(std::string_view key, std::string_view value)>& item) {
  constexpr std::string_view blank = " \t\n";
  std::set<std::string_view> seen;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
    if (line.empty()) return;
    const std::string_view one = line.substr(0, std::min(line.find_first_of(blank), line.size()));
    line.remove_prefix(one.size());
    const auto equals = one.find('=');
    if (equals == std::string_view::npos) throw usage_error(fmt::format("problem: '{}' is not key=value", one));
    const std::string_view key = one.substr(0, equals);
    if (!seen.insert(key).second) throw usage_error(fmt::format("problem: {} is given twice", key));
    item(key, one.substr(equals + 1));
  }
}

nlohmann::ordered_json problem_json(std::string_view op, const std::vector<ProblemItem>& items,
                                    const std::vector<std::string>& edits) {
  nlohmann::ordered_json object{{"op", op}};
  for (const auto& [field, text, number] : items) {
    auto& value = object[std::string(field->name)];
    if (field->kind == FieldKind::label || field->kind == FieldKind::real)
      value = text;
    else if (field->kind == FieldKind::integer)
      value = number;
    else if (field->kind == FieldKind::flag)
      value = number != 0;
    else
      value = std::bit_cast<std::uint64_t>(number);
  }
  for (const std::string& edit : edits) object["edits"].push_back(edit);
  return object;
}

std::optional<Index> field_value(const FieldFacts& field, std::string_view text) {
  switch (field.kind) {
    case FieldKind::label: {
      const auto found = std::ranges::find(field.labels, text);
      return found == field.labels.end() ? std::nullopt : std::optional<Index>(found - field.labels.begin());
    }
    case FieldKind::seed: {
      const auto seed = parse_whole<std::uint64_t>(text);
      return seed ? std::optional(std::bit_cast<Index>(*seed)) : std::nullopt;
    }
    case FieldKind::integer:
    case FieldKind::flag: {
      const auto number = parse_whole<Index>(text);
      return number && *number >= field.lo && *number <= field.hi ? number : std::nullopt;
    }
    case FieldKind::real:
      break;
  }
  throw internal_error("a real is no integer");
}

std::string field_text(const FieldFacts& field, Index value) {
  if (field.kind == FieldKind::label) return std::string(field.labels[static_cast<std::size_t>(value)]);
  return field.kind == FieldKind::seed ? std::to_string(std::bit_cast<std::uint64_t>(value)) : std::to_string(value);
}

void refuse_field_value(const FieldFacts& field, std::string_view text) {
  const auto refuse = [&](const std::string& allowed) {
    throw usage_error(fmt::format("problem: {}={} must be {}", field.name, text, allowed));
  };
  if (field.kind == FieldKind::label) refuse(fmt::format("one of {}", fmt::join(field.labels, ", ")));
  if (field.kind == FieldKind::real) refuse("a finite number, hexadecimal or decimal");
  if (field.kind == FieldKind::seed) refuse("an integer in 0..2^64-1");
  refuse(fmt::format("an integer in {}..{}", field.lo, field.hi));
  throw internal_error("a value that is none was taken");
}

void read_problem_items(const nlohmann::json& object, std::string_view example,
                        const std::function<void(std::string_view key, const std::string& value)>& item,
                        const std::function<void(const std::string& text)>& edit) {
  if (!object.is_object()) throw usage_error("problem: it must be a JSON object");
  for (const auto& [key, value] : object.items()) {
    if (key == "edits" && value.is_array()) {
      for (const auto& text : value) {
        if (!text.is_string())
          throw usage_error(fmt::format("problem: an edit must be a text such as \"{}\"", example));
        edit(text.get_ref<const std::string&>());
      }
    } else if (value.is_string()) {
      item(key, value.get_ref<const std::string&>());
    } else if (value.is_boolean()) {
      item(key, value.get<bool>() ? "1" : "0");
    } else if (value.is_number()) {
      item(key, value.dump());
    } else {
      throw usage_error(fmt::format("problem: {} must be a text, a number or a flag", key));
    }
  }
}

}  // namespace attest
