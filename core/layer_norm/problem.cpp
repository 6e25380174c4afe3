#include "core/layer_norm/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/layer_norm/offer.hpp"
#include "core/problem_words.hpp"

namespace attest::layer_norm {
namespace {

constexpr auto edited = std::to_array<std::string_view>({"x", "residual", "gamma", "beta"});

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

constexpr ProblemWords<Problem, Supports> words{"layer_norm", fields, edit_text, read_edit, "x[0,1]:0x1p+0"};

Problem validated(Problem problem) {
  validate(problem);
  return problem;
}

}  // namespace

std::string to_text(const Problem& problem) { return words.to_text(problem); }
Problem problem_from_text(std::string_view line) { return validated(words.from_text(line)); }
nlohmann::ordered_json to_json(const Problem& problem) {
  return problem_json(words.op, words.items(problem), words.edits(problem));
}
Problem problem_from_json(const nlohmann::json& object) { return validated(words.from_json(object)); }

void validate(const Problem& problem) {
  const auto fail = [](const std::string& sentence) { throw usage_error("problem: " + sentence); };
  for (const Field& field : fields()) {
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) continue;
    const Index value = field.get(problem);
    if (value < field.lo || value > field.hi)
      fail(fmt::format("{} {} is outside {}..{}", field.name, value, field.lo, field.hi));
  }
  if (!traits(problem.dtype).in_memory())
    fail(fmt::format("dtype {} never lies in memory: use f32", name(problem.dtype)));
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
