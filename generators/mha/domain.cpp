#include "generators/mha/domain.hpp"

#include <algorithm>
#include <utility>

namespace attest::mha {
namespace {

// Keeps the labels of an option that a subject may not take. The first label is `without`.
void keep(Range& range, bool with, bool without) {
  if (!without) range.lo = 1;
  if (!with) range.hi = 0;
}

}  // namespace

Domain::Domain(const Supports& supports, std::vector<Format> dtypes) : FieldDomain(supports, std::move(dtypes)) {
  keep(of("self"), supports.self, supports.cross);
  if (!supports.top_left && !supports.bottom_right) of("causal").hi = 0;
  if (!supports.top_left && supports.bottom_right) of("align").lo = 1;
  if (!supports.bottom_right) of("align").hi = 0;
  // The last regime of weights asks for a scale of its own.
  if (supports.scale == Supports::Scale::only_default) of("weights").hi = static_cast<Index>(Weights::uniform);
  check("mha");
}

bool Domain::offers(std::string_view field, Index label) const {
  const Supports& takes = supports();
  const bool contiguous = takes.strides == Strides::contiguous;
  Problem alone;
  if (field == "padding") {
    alone.padding = static_cast<Padding>(label);
    return (takes.keep || !alone.has_keep()) && (takes.kv_lengths || !alone.has_lengths()) &&
           !(contiguous && alone.padding == Padding::scattered);
  }
  if (field == "bias") return !contiguous || label <= static_cast<Index>(Bias::normal);
  if (field != "biases") return true;
  alone.biases = static_cast<Biases>(label);
  return (alone.has_in_biases() ? takes.in_biases : takes.no_in_biases) &&
         (alone.has_out_bias() ? takes.out_bias : takes.no_out_bias);
}

bool Domain::is_left(const Field& field) const {
  const Range& left = range(field);
  if (field.kind != FieldKind::label) return !left.empty();
  for (Index label = left.lo; label <= left.hi; ++label)
    if (offers(field.name, label)) return true;
  return false;
}

}  // namespace attest::mha
