#include <algorithm>
#include <utility>

#include "core/edit.hpp"
#include "core/error.hpp"
#include "core/supports.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// Options of something that the change took away go with it.
void drop_dependents(const Problem& from, Problem& to) {
  static const Problem defaults;
  for (const Field& field : fields())
    if (field.used && field.used(from) && !field.used(to)) copy_field(field, defaults, to);
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

void fit(const Problem& from, Problem& to, const Supports& s) {
  for (const Field& field : fields())
    if (field.extent) field.set(to, (s.*field.extent).nearest(field.get(to)));
  if (s.dv_equals_d) to.dv = to.d;
  if (!s.gqa) to.hkv = to.hq;
  if (to.rows >= to.b * to.hq * to.lq) to.rows = 0;
  drop_dependents(from, to);
  drop_lost_edits(to);
  plain_words(to);
}

}  // namespace attest::ops::of_attention
