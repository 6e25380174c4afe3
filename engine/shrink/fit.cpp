#include <algorithm>
#include <utility>

#include "core/edit.hpp"
#include "core/error.hpp"
#include "core/supports.hpp"
#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

// Options of something that the change took away go with it.
void drop_dependents(const Problem& from, Problem& to) {
  static const Problem defaults;
  for (const Field& field : fields())
    if (field.used && field.used(from) && !field.used(to)) copy_field(field, defaults, to);
}

// Rounds up to what the subject takes.
Index within(Index n, const DimRange& range) {
  n = std::clamp(n, range.min, range.max);
  const Index up = (n + range.multiple - 1) / range.multiple * range.multiple;
  return up <= range.max ? up : n / range.multiple * range.multiple;
}

void drop_lost_edits(Problem& p) {
  std::erase_if(p.edits, [&](const Edit& edit) {
    const auto shape = edit_extent(p, edit.tensor);
    if (!shape) return true;
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (edit.index[axis] >= (*shape)[axis]) return true;
    return edit.tensor == Edit::Tensor::kv_lengths && edit.value > static_cast<double>(p.lk);
  });
}

// The same extents of another part of the problem that it was sliced from: no simpler, and there is always one more.
bool cut_elsewhere(const Problem& from, const Problem& to) {
  bool elsewhere = false;
  for (const Field& field : fields()) {
    if (field.origin.empty()) continue;
    if (field.get(to) != field.get(from)) return false;
    const Field& origin = *find_field(field.origin);
    elsewhere = elsewhere || (origin.get(to) != 0 && origin.get(to) != origin.get(from));
  }
  return elsewhere;
}

// Says the same numbers in fewer words.
void plain_words(Problem& p) {
  if (p.values != Values::file) p.values_file.clear();
  for (const auto& [form, tensor] : {std::pair{&p.q_form, Edit::Tensor::q}, std::pair{&p.k_form, Edit::Tensor::k},
                                     std::pair{&p.v_form, Edit::Tensor::v}}) {
    if (*form == Form::one && p.values == Values::constant && p.amplitude == 1) *form = Form::drawn;
    if (*form == Form::zero)
      std::erase_if(p.edits, [of = tensor](const Edit& edit) { return edit.tensor == of && edit.value == 0; });
  }
}

}  // namespace

std::optional<Problem> fit(const Problem& from, Problem to, const ShrinkLimits& limits, const Problem& failing) {
  const Supports& s = limits.supports;
  for (const Field& field : fields())
    if (field.extent) field.set(to, within(field.get(to), s.*field.extent));
  if (s.dv_equals_d) to.dv = to.d;
  if (!s.gqa) to.hkv = to.hq;
  if (to.rows >= to.b * to.hq * to.lq) to.rows = 0;
  drop_dependents(from, to);
  drop_lost_edits(to);
  plain_words(to);
  if (to == from) return std::nullopt;
  if (to.dtype != from.dtype && std::ranges::find(limits.dtypes, to.dtype) == limits.dtypes.end()) return std::nullopt;
  try {
    validate(to);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (cut_elsewhere(from, to) || adds_option(failing, to) || declined(to, s, {&to.dtype, 1})) return std::nullopt;
  if (limits.admissible && !limits.admissible(to)) return std::nullopt;
  return to;
}

}  // namespace attest::engine
