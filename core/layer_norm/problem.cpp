#include "core/layer_norm/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/problem.hpp"
#include "core/problem_items.hpp"

namespace attest::layer_norm {
namespace {

constexpr auto edited = std::to_array<std::string_view>({"x", "residual", "gamma", "beta"});
constexpr std::string_view op_name = "layer_norm";

std::string value_text(const Field& field, const Problem& problem) {
  switch (field.kind) {
    case FieldKind::label:
      return std::string(field.labels[static_cast<std::size_t>(field.get(problem))]);
    case FieldKind::real:
      return hex_float(*field.get_real(problem));
    case FieldKind::seed:
      return std::to_string(problem.seed);
    default:
      return std::to_string(field.get(problem));
  }
}

void read_value(Problem& problem, const Field& field, std::string_view text) {
  const auto refuse_value = [&](const std::string& allowed) {
    throw usage_error(fmt::format("{}={}: {} must be {}", field.name, text, field.name, allowed));
  };
  switch (field.kind) {
    case FieldKind::label: {
      const auto found = std::ranges::find(field.labels, text);
      if (found == field.labels.end()) refuse_value(fmt::format("one of {}", fmt::join(field.labels, ", ")));
      return field.set(problem, found - field.labels.begin());
    }
    case FieldKind::real: {
      const auto real = parse_double(text);
      if (!real) refuse_value("a number");
      return field.set_real(problem, real);
    }
    case FieldKind::seed: {
      const auto seed = parse_whole<std::uint64_t>(text);
      if (!seed) refuse_value("an integer in 0..2^64-1");
      return field.set(problem, std::bit_cast<Index>(*seed));
    }
    default: {
      const auto integer = parse_whole<Index>(text);
      if (!integer || *integer < field.lo || *integer > field.hi)
        refuse_value(fmt::format("an integer in {}..{}", field.lo, field.hi));
      return field.set(problem, *integer);
    }
  }
}

std::string edit_text(const Edit& edit) {
  return fmt::format("{}[{},{}]:{}", edited[static_cast<std::size_t>(edit.tensor)], edit.row, edit.column,
                     hex_float(edit.value));
}

Edit read_edit(std::string_view text) {
  const auto open = text.find('['), comma = text.find(','), close = text.find("]:");
  const auto tensor = std::ranges::find(edited, text.substr(0, std::min(open, text.size())));
  if (open < comma && comma < close && close < text.size() && tensor != edited.end()) {
    const auto row = parse_whole<Index>(text.substr(open + 1, comma - open - 1));
    const auto column = parse_whole<Index>(text.substr(comma + 1, close - comma - 1));
    const auto value = parse_double(text.substr(close + 2));
    if (row && column && value) return {static_cast<Edit::Tensor>(tensor - edited.begin()), *row, *column, *value};
  }
  throw usage_error(
      fmt::format("edit '{}' is not TENSOR[row,column]:VALUE with TENSOR one of {}", text, fmt::join(edited, ", ")));
}

std::string edits_as_text(const std::vector<Edit>& edits) {
  std::string text;
  for (const Edit& edit : edits) text += (text.empty() ? "" : ";") + edit_text(edit);
  return text;
}

void read_edits(Problem& problem, std::string_view text) {
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    problem.edits.push_back(read_edit(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void read_item(Problem& problem, std::string_view key, std::string_view value) {
  if (key == "op") {
    if (value != op_name) throw usage_error(fmt::format("op={}: this is a problem of {}", value, op_name));
  } else if (key == "edits") {
    read_edits(problem, value);
  } else if (const Field* field = find_field(key)) {
    read_value(problem, *field, value);
  } else {
    throw usage_error(fmt::format("{}={}: {} has no field '{}'", key, value, op_name, key));
  }
}

}  // namespace

std::string to_text(const Problem& problem) {
  std::string text = fmt::format("op={}", op_name);
  for (const Field& field : fields())
    if (field.always_printed || !is_default(field, problem))
      text += fmt::format(" {}={}", field.name, value_text(field, problem));
  if (!problem.edits.empty()) text += " edits=" + edits_as_text(problem.edits);
  return text;
}

Problem problem_from_text(std::string_view line) {
  Problem problem;
  std::set<std::string_view> seen;
  while (!line.empty()) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::string_view item = line.substr(0, std::min(line.find_first_of(" \t"), line.size()));
    line.remove_prefix(item.size());
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) throw usage_error(fmt::format("problem item '{}' is not key=value", item));
    const std::string_view key = item.substr(0, equals);
    if (!seen.insert(key).second) throw usage_error(fmt::format("problem: {} is given twice", key));
    read_item(problem, key, item.substr(equals + 1));
  }
  validate(problem);
  return problem;
}

nlohmann::ordered_json to_json(const Problem& problem) {
  nlohmann::ordered_json object;
  object["op"] = op_name;
  for (const Field& field : fields()) {
    if (!field.always_printed && is_default(field, problem)) continue;
    if (field.kind == FieldKind::integer)
      object[std::string(field.name)] = field.get(problem);
    else if (field.kind == FieldKind::flag)
      object[std::string(field.name)] = field.get(problem) != 0;
    else if (field.kind == FieldKind::seed)
      object[std::string(field.name)] = problem.seed;
    else
      object[std::string(field.name)] = value_text(field, problem);
  }
  for (const Edit& edit : problem.edits) object["edits"].push_back(edit_text(edit));
  return object;
}

Problem problem_from_json(const nlohmann::json& object) {
  Problem problem;
  read_problem_items(
      object, "x[0,1]:0x1p+0", [&](std::string_view key, const std::string& value) { read_item(problem, key, value); },
      [&](const std::string& text) { problem.edits.push_back(read_edit(text)); });
  validate(problem);
  return problem;
}

void validate(const Problem& problem) {
  const auto fail = [](const std::string& sentence) { throw usage_error("problem: " + sentence); };
  for (const Field& field : fields()) {
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) continue;
    const Index value = field.get(problem);
    if (value < field.lo || value > field.hi)
      fail(fmt::format("{} {} is outside {}..{}", field.name, value, field.lo, field.hi));
  }
  if (problem.dtype == Format::tf32) fail("dtype tf32 never lies in memory: use f32");
  if (!(problem.epsilon >= 0) || std::isinf(problem.epsilon))
    fail(fmt::format("epsilon {} must be a number of at least 0", problem.epsilon));
  if (!std::isfinite(problem.amplitude)) fail(fmt::format("amplitude {} must be finite", problem.amplitude));
  if (!std::isfinite(problem.offset)) fail(fmt::format("offset {} must be finite", problem.offset));
  if (problem.sum_out && problem.residual == Residual::none)
    fail("sum_out is x + residual: without a residual leave it out");
  if (problem.out_layout == Layout::broadcast) fail("out_layout broadcast would let all rows write one: use another");
  if (problem.rows > (Index{1} << 30) / problem.hidden)
    fail(fmt::format("{} rows of {} elements are more than 2^30 elements", problem.rows, problem.hidden));
  for (const Edit& edit : problem.edits) {
    const bool row_of = edit.tensor == Edit::Tensor::x || edit.tensor == Edit::Tensor::residual;
    const bool absent = (edit.tensor == Edit::Tensor::residual && problem.residual == Residual::none) ||
                        (edit.tensor == Edit::Tensor::gamma && problem.gamma == Weights::none) ||
                        (edit.tensor == Edit::Tensor::beta && problem.beta == Weights::none);
    if (absent) fail(fmt::format("edit {} is of a tensor that is not there", edit_text(edit)));
    if (edit.row < 0 || edit.row >= (row_of ? problem.rows : 1) || edit.column < 0 || edit.column >= problem.hidden)
      fail(fmt::format("edit {} lies outside its tensor", edit_text(edit)));
  }
}

}  // namespace attest::layer_norm
