#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/edit.hpp"
#include "core/error.hpp"
#include "core/field.hpp"

namespace attest {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Reals are hexadecimal strings in JSON too: they must survive any reader.
double real_from_json(const json& value, std::string_view name) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string())
    if (const auto real = parse_double(value.get_ref<const std::string&>())) return *real;
  throw usage_error(fmt::format("problem JSON: {} must be a number or a string such as \"0x1p-3\"", name));
}

Index integer_from_json(const json& value, const Field& field) {
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() >> 63 == 0);
  if (!fits || value.get<Index>() < field.lo || value.get<Index>() > field.hi)
    throw usage_error(fmt::format("problem JSON: {} must be an integer in {}..{}", field.name, field.lo, field.hi));
  return value.get<Index>();
}

void read_field(Problem& problem, const Field& field, const json& value) {
  switch (field.kind) {
    case FieldKind::integer:
      return field.set(problem, integer_from_json(value, field));
    case FieldKind::flag:
      if (!value.is_boolean()) throw usage_error(fmt::format("problem JSON: {} must be true or false", field.name));
      return field.set(problem, value.get<bool>());
    case FieldKind::real:
      return field.set_real(problem, real_from_json(value, field.name));
    case FieldKind::seed:
      if (!value.is_number_unsigned())
        throw usage_error(fmt::format("problem JSON: {} must be an integer in 0..2^64-1", field.name));
      return field.set(problem, std::bit_cast<Index>(value.get<std::uint64_t>()));
    case FieldKind::label: {
      const auto found = value.is_string()
                             ? std::find(field.labels.begin(), field.labels.end(), value.get_ref<const std::string&>())
                             : field.labels.end();
      if (found == field.labels.end())
        throw usage_error(fmt::format("problem JSON: {} must be one of {}", field.name, fmt::join(field.labels, ", ")));
      return field.set(problem, found - field.labels.begin());
    }
  }
}

Edit edit_from_json(const json& object) {
  const auto fail = []() -> Edit {
    throw usage_error(
        "problem JSON: each entry of edits must be {\"tensor\": name, \"index\": [b,h,i,j], \"value\": number}");
  };
  if (!object.is_object() || object.size() != 3 || !object.contains("tensor") || !object.contains("index") ||
      !object.contains("value") || !object["tensor"].is_string() || !object["index"].is_array() ||
      object["index"].size() != 4)
    return fail();
  const auto tensor = edit_tensor_named(object["tensor"].get_ref<const std::string&>());
  if (!tensor) return fail();
  Edit edit;
  edit.tensor = *tensor;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const json& index = object["index"][axis];
    if (!index.is_number_unsigned() || index.get<std::uint64_t>() > (std::uint64_t{1} << 40)) return fail();
    edit.index[axis] = index.get<Index>();
  }
  edit.value = real_from_json(object["value"], "the value of an edit");
  return edit;
}

// Only a regular file of that folder itself: a stranger's problem must not make us read what lies elsewhere.
std::string file_in(const std::string& folder, const json& value) {
  const std::string name = value.is_string() ? value.get<std::string>() : std::string();
  if (name.empty() || name.find('/') != std::string::npos || name == "..")
    throw usage_error(
        fmt::format("problem JSON: values_file must be the plain name of a file in {}: a path comes from "
                    "the command line alone, as values=file:PATH",
                    folder));
  const std::filesystem::path file = std::filesystem::path(folder) / name;
  std::error_code error;
  if (std::filesystem::is_symlink(file, error))
    throw usage_error(fmt::format("problem JSON: values_file {} is a symbolic link: copy the file it leads to", name));
  return folder == "." ? name : file.string();
}

}  // namespace

ordered_json to_json(const Problem& problem) {
  static const Problem defaults;
  ordered_json object;
  object["op"] = "attention";
  for (const Field& field : fields()) {
    const std::string key(field.name);
    if (field.kind == FieldKind::real) {
      const auto value = field.get_real(problem);
      if (value && (value != field.get_real(defaults) || !field.joined_to.empty())) object[key] = hex_float(*value);
      continue;
    }
    const Index value = field.get(problem);
    if (!field.always_printed && value == field.get(defaults)) continue;
    if (field.kind == FieldKind::label)
      object[key] = field.labels[static_cast<std::size_t>(value)];
    else if (field.kind == FieldKind::flag)
      object[key] = value != 0;
    else if (field.kind == FieldKind::seed)
      object[key] = std::bit_cast<std::uint64_t>(value);
    else
      object[key] = value;
  }
  if (problem.values == Values::file) object["values_file"] = problem.values_file;
  for (const FormChoice& form : problem.forms) object["form"][form.name] = form.value;
  for (const Edit& edit : problem.edits)
    object["edits"].push_back({{"tensor", name(edit.tensor)}, {"index", edit.index}, {"value", hex_float(edit.value)}});
  return object;
}

Problem problem_from_json(const json& object, const std::string& folder) {
  if (!object.is_object()) throw usage_error("problem JSON: the problem must be an object");
  Problem problem;
  for (const auto& [key, value] : object.items()) {
    if (key == "op") {
      if (value != "attention") throw usage_error("problem JSON: op must be \"attention\" in this version");
    } else if (key == "edits") {
      if (!value.is_array()) throw usage_error("problem JSON: edits must be an array");
      for (const json& edit : value) problem.edits.push_back(edit_from_json(edit));
    } else if (key == "form") {
      problem.forms = forms_from_json(value);
    } else if (key == "values_file") {
      problem.values_file = file_in(folder, value);
    } else if (const Field* field = find_field(key)) {
      read_field(problem, *field, value);
    } else {
      throw usage_error(fmt::format("problem JSON: there is no field '{}'", key));
    }
  }
  validate(problem);
  return problem;
}

}  // namespace attest
