#include "core/problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/attention/call.hpp"
#include "core/captured.hpp"
#include "core/edit.hpp"
#include "core/error.hpp"
#include "core/field.hpp"

namespace attest {
namespace {

constexpr Index most_work = Index{1} << 36;
constexpr Index most_rows = Index{1} << 28;

Index saturating_multiply(Index a, Index b) noexcept {
  Index product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<Index>::max() : product;
}

[[noreturn]] void reject(const std::string& sentence) { throw usage_error("impossible problem: " + sentence); }

void check_ranges(const Problem& problem) {
  for (const Field& field : fields()) {
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) continue;
    const Index value = field.get(problem);
    if (value < field.lo || value > field.hi)
      reject(std::string(field.name) + "=" + std::to_string(value) + " is outside " + std::to_string(field.lo) + ".." +
             std::to_string(field.hi));
  }
}

// Rows and scores cost time and memory even where they hold no element: widths of 0 must not hide them.
void check_size(const Problem& p) {
  const auto rows = [](Index batch, Index heads, Index length) {
    return saturating_multiply(saturating_multiply(batch, heads), length);
  };
  const Index queries = rows(p.b, p.hq, p.lq), keys = rows(p.b, p.hkv, p.lk);
  const Index judged = p.rows == 0 ? queries : std::min(p.rows, queries);
  const Index work = saturating_multiply(saturating_multiply(judged, p.lk), std::max<Index>(p.d + p.dv, 1));
  if (work > most_work)
    reject("it needs " + std::to_string(work) +
           " multiply-adds, past the limit of 2^36: choose smaller dimensions, or fewer rows to judge (rows)");
  if (queries > most_rows || keys > most_rows)
    reject("it has " + std::to_string(std::max(queries, keys)) + " rows of q or k, past the limit of 2^28");
}

void check_edits(const Problem& problem) {
  for (const Edit& edit : problem.edits) {
    const std::string tensor(name(edit.tensor));
    const auto shape = edit_extent(problem, edit.tensor);
    if (!shape) reject("an edit names " + tensor + ", which the problem does not have");
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (edit.index[axis] < 0 || edit.index[axis] >= (*shape)[axis])
        reject("an edit of " + tensor + " has index " + std::to_string(edit.index[axis]) + " on axis " +
               std::to_string(axis) + ", outside 0.." + std::to_string((*shape)[axis] - 1));
    if (edit.tensor == Edit::Tensor::kv_lengths && !(edit.value >= 0 && edit.value <= static_cast<double>(problem.lk)))
      reject("an edit of kv_lengths is outside 0.." + std::to_string(problem.lk));
  }
}

// Captured activations must hold every element that the problem asks for.
void check_captured(const Problem& problem) {
  if (problem.amplitude != 1) reject("captured activations have no amplitude: values=file:PATH stands alone");
  const Problem whole = problem_of(load_captured(problem.values_file));
  for (const Field& field : fields()) {
    if (field.origin.empty()) continue;
    const Index first = find_field(field.origin)->get(problem), count = field.get(problem), there = field.get(whole);
    if (first + count > there)
      reject(std::string(field.name) + "=" + std::to_string(count) + " from " + std::string(field.origin) + "=" +
             std::to_string(first) + " passes the " + std::to_string(there) + " that " + problem.values_file +
             " holds");
  }
}

}  // namespace

std::span<const std::string_view> edit_tensor_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> found;
    for (const TensorSlot& slot : call_shape<attest_attention>().tensors)
      if (!slot.written()) found.push_back(slot.name);
    return found;
  }();
  return names;
}

std::string_view name(Edit::Tensor tensor) { return edit_tensor_names()[static_cast<std::size_t>(tensor)]; }

std::optional<Edit::Tensor> edit_tensor_named(std::string_view name) {
  const auto found = std::ranges::find(edit_tensor_names(), name);
  if (found == edit_tensor_names().end()) return std::nullopt;
  return static_cast<Edit::Tensor>(found - edit_tensor_names().begin());
}

std::optional<std::array<Index, 4>> edit_extent(const Problem& p, Edit::Tensor tensor) noexcept {
  const TensorSlot& slot = call_shape<attest_attention>().tensors[static_cast<std::size_t>(tensor)];
  if (slot.used && !slot.used(p)) return std::nullopt;
  return extents_of(slot, p);
}

double Problem::effective_scale() const noexcept {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(d > 0 ? d : 1));
}

Format Problem::bias_format() const noexcept {
  return bias_type == BiasType::same ? dtype : bias_formats[static_cast<std::size_t>(bias_type) - 1];
}

Index Problem::multiply_adds() const noexcept {
  return saturating_multiply(saturating_multiply(saturating_multiply(b, hq), saturating_multiply(lq, lk)), d + dv);
}

void validate(const Problem& problem) {
  check_ranges(problem);
  if (problem.hkv == 0 ? problem.hq != 0 : problem.hq % problem.hkv != 0)
    reject("hq=" + std::to_string(problem.hq) + " is no multiple of hkv=" + std::to_string(problem.hkv));
  if (!traits(problem.dtype).in_memory())
    reject("dtype=" + std::string(name(problem.dtype)) + " never lies in memory: use f32");
  if (broadcasts(problem.mask_layout))
    reject("mask_layout must not broadcast: keep_axes and bias_axes say where masks do");
  if (broadcasts(problem.out_layout)) reject("out_layout must not broadcast: elements of out would share memory");
  if (problem.scale && !std::isfinite(*problem.scale)) reject("scale must be finite");
  if (!(problem.softcap >= 0) || std::isinf(problem.softcap)) reject("softcap must be finite and not negative");
  if (!(problem.amplitude >= 0) || std::isinf(problem.amplitude))
    reject("the amplitude of values must be finite and not negative");
  check_forms(problem.forms);
  check_size(problem);
  check_edits(problem);
  if (problem.values == Values::file) check_captured(problem);
}

}  // namespace attest
