#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "core/captured.hpp"
#include "core/edit.hpp"
#include "core/error.hpp"
#include "core/field.hpp"
#include "core/number_text.hpp"

namespace attest {
namespace {

std::string joined(std::span<const std::string_view> labels) { return fmt::format("{}", fmt::join(labels, ", ")); }

std::string edits_text(const std::vector<Edit>& edits) {
  std::string text;
  for (const Edit& edit : edits)
    text += fmt::format("{}{}[{}]:{}", text.empty() ? "" : ";", name(edit.tensor), fmt::join(edit.index, ","),
                        hex_float(edit.value));
  return text;
}

Edit parse_edit(std::string_view text) {
  const auto fail = [&]() -> Edit {
    throw usage_error(
        fmt::format("edit '{}' is not TENSOR[b,h,i,j]:VALUE with TENSOR one of {}", text, joined(edit_tensor_names())));
  };
  const auto open = text.find('['), close = text.find("]:");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return fail();
  const auto tensor = edit_tensor_named(text.substr(0, open));
  const auto value = parse_double(text.substr(close + 2));
  if (!tensor || !value) return fail();
  Edit edit;
  edit.tensor = *tensor;
  edit.value = *value;
  std::string_view rest = text.substr(open + 1, close - open - 1);
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto index = parse_whole<Index>(rest.substr(0, comma));
    if (!index || (axis == 3) != (comma == rest.size())) return fail();
    edit.index[axis] = *index;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return edit;
}

void parse_edits(Problem& problem, std::string_view text) {
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    problem.edits.push_back(parse_edit(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The field printed behind `field` after a colon, if any.
const Field* joined_field(const Field& field) {
  for (const Field& other : fields())
    if (other.joined_to == field.name) return &other;
  return nullptr;
}

void parse_value(Problem& problem, const Field& field, std::string_view value) {
  const auto fail = [&](const std::string& allowed) {
    throw usage_error(fmt::format("{}={}: {} must be {}", field.name, value, field.name, allowed));
  };
  switch (field.kind) {
    case FieldKind::label: {
      const auto found = std::find(field.labels.begin(), field.labels.end(), value);
      if (found == field.labels.end()) fail("one of " + joined(field.labels));
      return field.set(problem, found - field.labels.begin());
    }
    case FieldKind::seed: {
      const auto seed = parse_whole<std::uint64_t>(value);
      if (!seed) fail("an integer in 0..2^64-1");
      return field.set(problem, std::bit_cast<Index>(*seed));
    }
    case FieldKind::real: {
      const auto real = parse_double(value);
      if (!real) fail("a number");
      return field.set_real(problem, *real);
    }
    case FieldKind::integer:
    case FieldKind::flag: {
      const auto integer = parse_whole<Index>(value);
      if (!integer || *integer < field.lo || *integer > field.hi)
        fail(fmt::format("an integer in {}..{}", field.lo, field.hi));
      return field.set(problem, *integer);
    }
  }
}

// Takes the parts of the shape that the line leaves out from the captured activations behind the origin.
void take_captured_defaults(Problem& problem, const std::set<std::string_view>& given) {
  const Captured& captured = load_captured(problem.values_file);
  const Problem whole = problem_of(captured);
  for (const Field& field : fields()) {
    if (field.origin.empty() || given.contains(field.name)) continue;
    const Index first = find_field(field.origin)->get(problem), there = field.get(whole);
    if (first > 0 && first >= there)
      throw usage_error(fmt::format("{}={} leaves nothing of the {} that {} holds along {}", field.origin, first, there,
                                    problem.values_file, field.name));
    field.set(problem, there - first);
  }
  if (!given.contains("dtype")) problem.dtype = whole.dtype;
}

}  // namespace

std::string to_text(const Problem& problem) {
  static const Problem defaults;
  std::string text = "op=attention";
  for (const Field& field : fields()) {
    if (!field.joined_to.empty()) continue;
    if (field.kind == FieldKind::real) {
      if (const auto value = field.get_real(problem); value != field.get_real(defaults))
        text += fmt::format(" {}={}", field.name, hex_float(*value));
      continue;
    }
    const Index value = field.get(problem);
    if (!field.always_printed && value == field.get(defaults)) continue;
    if (field.kind == FieldKind::label)
      text += fmt::format(" {}={}", field.name, field.labels[static_cast<std::size_t>(value)]);
    else if (field.kind == FieldKind::seed)
      text += fmt::format(" {}={}", field.name, std::bit_cast<std::uint64_t>(value));
    else
      text += fmt::format(" {}={}", field.name, value);
    if (const Field* suffix = joined_field(field))
      text +=
          problem.values == Values::file ? ":" + problem.values_file : fmt::format(":{}", *suffix->get_real(problem));
  }
  for (const FormChoice& form : problem.forms) text += fmt::format(" form.{}={}", form.name, form.value);
  if (!problem.edits.empty()) text += " edit=" + edits_text(problem.edits);
  return text;
}

Problem problem_from_text(std::string_view line) {
  Problem problem;
  std::set<std::string_view> seen;
  while (!line.empty()) {
    const auto begin = std::min(line.find_first_not_of(" \t"), line.size());
    line.remove_prefix(begin);
    if (line.empty()) break;
    const auto end = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view item = line.substr(0, end);
    line.remove_prefix(end);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) throw usage_error(fmt::format("problem text: '{}' is not key=value", item));
    const std::string_view key = item.substr(0, equals);
    std::string_view value = item.substr(equals + 1);
    if (!seen.insert(key).second) throw usage_error(fmt::format("problem text: {} is given twice", key));
    if (key == "op") {
      if (value != "attention")
        throw usage_error(fmt::format("op={} is not offered by this version: use attention", value));
      continue;
    }
    if (key == "edit") {
      parse_edits(problem, value);
      continue;
    }
    if (key.starts_with(form_prefix)) {
      problem.forms.push_back({std::string(key.substr(form_prefix.size())), std::string(value)});
      continue;
    }
    const Field* field = find_field(key);
    if (field == nullptr || !field->joined_to.empty())
      throw usage_error(fmt::format("problem text: there is no field '{}': `attest list generators` names them", key));
    if (const Field* suffix = joined_field(*field)) {
      if (const auto colon = value.find(':'); colon != std::string_view::npos) {
        if (value.starts_with("file:"))
          problem.values_file = value.substr(colon + 1);
        else
          parse_value(problem, *suffix, value.substr(colon + 1));
        value = value.substr(0, colon);
      }
    }
    parse_value(problem, *field, value);
  }
  if (seen.empty()) throw usage_error("problem text: it is empty: write key=value, such as lq=1 lk=2");
  std::ranges::sort(problem.forms, {}, &FormChoice::name);
  if (problem.values == Values::file) take_captured_defaults(problem, seen);
  validate(problem);
  return problem;
}

}  // namespace attest
