#include "core/mha/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.hpp"
#include "core/mha/offer.hpp"
#include "core/problem_words.hpp"

namespace attest::mha {
namespace {

using Label = std::string_view;
constexpr auto tensor_names = std::to_array<Label>(
    {"x", "memory", "w_q", "w_k", "w_v", "w_out", "b_q", "b_k", "b_v", "b_out", "bias", "keep", "kv_lengths"});
static_assert(tensor_names.size() == edit_tensor_count);

std::string joined(std::span<const Label> labels) { return fmt::format("{}", fmt::join(labels, ", ")); }

// ---- edits ----------------------------------------------------------------------------------------------------------

std::size_t axes_of(Edit::Tensor tensor) {
  using enum Edit::Tensor;
  switch (tensor) {
    case x:
    case memory:
      return 3;
    case w_q:
    case w_k:
    case w_v:
    case w_out:
      return 2;
    case bias:
    case keep:
      return 4;
    case b_q:
    case b_k:
    case b_v:
    case b_out:
    case kv_lengths:
      break;
  }
  return 1;
}

std::string edit_text(const Edit& edit) {
  return fmt::format("{}[{}]:{}", name(edit.tensor),
                     fmt::join(edit.index.begin(), edit.index.begin() + static_cast<int>(axes_of(edit.tensor)), ","),
                     hex_float(edit.value));
}

Edit read_edit(std::string_view text) {
  const auto open = std::min(text.find('['), text.size()), close = text.find("]:");
  const auto found = std::ranges::find(tensor_names, text.substr(0, open));
  if (found != tensor_names.end() && close != std::string_view::npos && close > open) {
    Edit edit{static_cast<Edit::Tensor>(found - tensor_names.begin()), {}, 0};
    std::string_view indices = text.substr(open + 1, close - open - 1);
    std::size_t count = 0;
    bool good = true;
    for (bool more = true; more && good; ++count) {
      const auto end = std::min(indices.find(','), indices.size());
      const auto index = parse_whole<Index>(indices.substr(0, end));
      good = index.has_value() && count < edit.index.size();
      if (good) edit.index[count] = *index;
      more = end < indices.size();
      indices.remove_prefix(std::min(end + 1, indices.size()));
    }
    const auto value = parse_double(text.substr(close + 2));
    if (good && value && count == axes_of(edit.tensor)) {
      edit.value = *value;
      return edit;
    }
  }
  throw usage_error(
      fmt::format("problem: edit '{}' is not TENSOR[i,j,..]:VALUE with TENSOR one of {}, and an index for each of "
                  "its axes",
                  text, joined(tensor_names)));
}

constexpr ProblemWords<Problem, Supports> words{"mha", fields, edit_text, read_edit, "x[0,0,1]:0x1p+0"};

Problem validated(Problem problem) {
  validate(problem);
  return problem;
}

Index saturating(Index a, Index b) {
  Index product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<Index>::max() : product;
}
Index saturating_sum(Index a, Index b) {
  Index sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<Index>::max() : sum;
}

void check_edit(const Problem& p, const Edit& edit) {
  const std::vector<Index> shape = extents(p, edit.tensor);
  if (shape.empty())
    throw usage_error(fmt::format("problem: edit {} is of a tensor that is not there", edit_text(edit)));
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (edit.index[axis] < 0 || edit.index[axis] >= shape[axis])
      throw usage_error(fmt::format("problem: edit {} lies outside its tensor", edit_text(edit)));
  if (edit.tensor == Edit::Tensor::keep && edit.value != 0 && edit.value != 1)
    throw usage_error(fmt::format("problem: edit {}: keep holds 0 or 1", edit_text(edit)));
  const bool length = edit.value >= 0 && edit.value <= static_cast<double>(p.m) && edit.value == std::floor(edit.value);
  if (edit.tensor == Edit::Tensor::kv_lengths && !length)
    throw usage_error(fmt::format("problem: edit {}: a length is an integer in 0..{}", edit_text(edit), p.m));
}

}  // namespace

std::string_view name(Edit::Tensor tensor) noexcept { return tensor_names[static_cast<std::size_t>(tensor)]; }

std::vector<Index> extents(const Problem& p, Edit::Tensor tensor) {
  using enum Edit::Tensor;
  const auto if_there = [](bool there, std::vector<Index> shape) { return there ? shape : std::vector<Index>(); };
  switch (tensor) {
    case x:
      return {p.b, p.l, p.e};
    case memory:
      return if_there(!p.self, {p.b, p.m, p.e});
    case w_q:
      return {p.q_width(), p.e};
    case w_k:
    case w_v:
      return {p.kv_width(), p.e};
    case w_out:
      return {p.e, p.q_width()};
    case b_q:
      return if_there(p.has_in_biases(), {p.q_width()});
    case b_k:
    case b_v:
      return if_there(p.has_in_biases(), {p.kv_width()});
    case b_out:
      return if_there(p.has_out_bias(), {p.e});
    case bias:
      return if_there(p.bias != Bias::none, {p.b, p.heads, p.l, p.m});
    case keep:
      return if_there(p.has_keep(), {p.b, p.heads, p.l, p.m});
    case kv_lengths:
      return if_there(p.has_lengths(), {p.b});
  }
  return {};
}

double Problem::effective_scale() const noexcept {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(head_dim));
}

Index Problem::multiply_adds() const noexcept {
  const Index projections =
      saturating(saturating(saturating_sum(saturating(2 * l, q_width()), saturating(2 * m, kv_width())), e), b);
  const Index attention = saturating(saturating(saturating(b, q_width()), saturating(l, m)), 2);
  return saturating_sum(projections, attention);
}

std::string to_text(const Problem& problem) { return words.to_text(problem); }
Problem problem_from_text(std::string_view line) { return validated(words.from_text(line)); }
nlohmann::ordered_json to_json(const Problem& problem) {
  return problem_json(words.op, words.items(problem), words.edits(problem));
}
Problem problem_from_json(const nlohmann::json& object) { return validated(words.from_json(object)); }

void validate(const Problem& p) {
  for (const Field& field : fields()) {
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) continue;
    const Index value = field.get(p);
    if (value < field.lo || value > field.hi)
      throw usage_error(
          fmt::format("problem: {}={} must be an integer in {}..{}", field.name, value, field.lo, field.hi));
  }
  if (!traits(p.dtype).in_memory())
    throw usage_error(
        fmt::format("problem: dtype={} never lies in memory: use {}", name(p.dtype), stored_format_names()));
  if (p.heads % p.kv_heads != 0)
    throw usage_error(fmt::format("problem: heads={} must be a multiple of kv_heads={}", p.heads, p.kv_heads));
  if (p.self && p.m != p.l)
    throw usage_error(fmt::format("problem: self=1 makes memory x: m={} must be l={}", p.m, p.l));
  if (p.out_layout == Layout::broadcast)
    throw usage_error("problem: out_layout=broadcast would let all samples write one: use another");
  if (p.scale && !std::isfinite(*p.scale)) throw usage_error("problem: scale must be finite");
  if (!(p.amplitude > 0) || !std::isfinite(p.amplitude)) throw usage_error("problem: amplitude must be above 0");
  constexpr Index most_work = Index{1} << 34, most_elements = Index{1} << 30;
  if (p.multiply_adds() > most_work)
    throw usage_error(fmt::format("problem: {} multiply-adds are more than {}", p.multiply_adds(), most_work));
  for (const Index elements :
       {saturating(saturating(p.b, std::max(p.l, p.m)), std::max({p.e, p.q_width(), p.kv_width()})),
        saturating(p.q_width() + 2 * p.kv_width(), p.e),
        p.has_keep() || p.bias != Bias::none ? saturating(saturating(p.b, p.heads), saturating(p.l, p.m)) : Index{0}})
    if (elements > most_elements)
      throw usage_error(fmt::format("problem: a tensor of {} elements is larger than {}", elements, most_elements));
  for (const Edit& edit : p.edits) check_edit(p, edit);
}

}  // namespace attest::mha
