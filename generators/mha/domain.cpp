#include "generators/mha/domain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace attest::mha {
namespace {

Range range_of(const Field& field, const Supports& supports) {
  Range range{field.lo, field.hi};
  if (field.extent) {
    const DimRange& dim = supports.*field.extent;
    range = intersect(range, {dim.min, dim.max, dim.step()});
  }
  if (field.offered && !(supports.*field.offered)) range.hi = field.lo;
  return range;
}

// What is left of labels of which the first is `without`: those of an option that a subject may not take.
void keep(Range& range, bool with, bool without) {
  if (!without) range.lo = 1;
  if (!with) range.hi = 0;
}

}  // namespace

Domain::Domain(const Supports& supports, std::vector<Format> dtypes) : supports_(supports), dtypes_(std::move(dtypes)) {
  for (const Field& field : fields()) ranges_.push_back(range_of(field, supports));
  keep(of("self"), supports.self, supports.cross);
  if (!supports.top_left && !supports.bottom_right) of("causal").hi = 0;
  if (!supports.top_left && supports.bottom_right) of("align").lo = 1;
  if (!supports.bottom_right) of("align").hi = 0;
  // The last regime of weights asks for a scale of its own.
  if (supports.scale == Supports::Scale::only_default) of("weights").hi = static_cast<Index>(Weights::uniform);
  if (dtypes_.empty()) throw usage_error("the subject offers no dtype for mha");
  for (const Field& field : fields())
    if (field.drawn && !is_left(field))
      throw usage_error(fmt::format("what the subject supports of mha leaves no value of {}", field.name));
}

bool Domain::narrows(std::string_view field) noexcept {
  const Field* const found = find_field(field);
  return found != nullptr && found->drawn && found->kind != FieldKind::real && found->kind != FieldKind::seed;
}

void Domain::narrow(std::string_view field, Index lo, Index hi) {
  if (!narrows(field)) throw usage_error(fmt::format("'{}' is no field that can be narrowed", field));
  Range& range = of(field);
  range = intersect(range, {lo, hi});
  if (!is_left(*find_field(field))) throw usage_error(fmt::format("no value of {} is left", field));
}

bool Domain::offers(std::string_view field, Index label) const {
  const bool contiguous = supports_.strides == Strides::contiguous;
  Problem alone;
  if (field == "padding") {
    alone.padding = static_cast<Padding>(label);
    return (supports_.keep || !alone.has_keep()) && (supports_.kv_lengths || !alone.has_lengths()) &&
           !(contiguous && alone.padding == Padding::scattered);
  }
  if (field == "bias") return !contiguous || label <= static_cast<Index>(Bias::normal);
  if (field != "biases") return true;
  alone.biases = static_cast<Biases>(label);
  return (alone.has_in_biases() ? supports_.in_biases : supports_.no_in_biases) &&
         (alone.has_out_bias() ? supports_.out_bias : supports_.no_out_bias);
}

bool Domain::is_left(const Field& field) const {
  const Range& left = range(field);
  if (field.kind != FieldKind::label) return !left.empty();
  for (Index label = left.lo; label <= left.hi; ++label)
    if (offers(field.name, label)) return true;
  return false;
}

bool Domain::accepts(const Problem& problem) const {
  return std::ranges::all_of(predicates_, [&](const auto& holds) { return holds(problem); });
}

const Range& Domain::range(const Field& field) const noexcept {
  return ranges_[static_cast<std::size_t>(&field - fields().data())];
}
Range& Domain::of(std::string_view field) noexcept {
  return ranges_[static_cast<std::size_t>(find_field(field) - fields().data())];
}

}  // namespace attest::mha
