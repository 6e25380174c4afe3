#include "generators/layer_norm/domain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace attest::layer_norm {
namespace {

constexpr Index most_rows = Index{1} << 20;

Range range_of(const Field& field, const Supports& supports) {
  Range range{field.lo, field.hi};
  if (field.extent) {
    const DimRange& dim = supports.*field.extent;
    range = intersect(range, {dim.min, dim.max, dim.multiple});
  }
  if (field.offered && !(supports.*field.offered)) range.hi = field.lo;
  return range;
}

}  // namespace

Domain::Domain(const Supports& supports, std::vector<Format> dtypes) : supports_(supports), dtypes_(std::move(dtypes)) {
  for (const Field& field : fields()) ranges_.push_back(range_of(field, supports));
  of("rows").hi = std::min(of("rows").hi, most_rows);
  if (!supports.layer) of("norm").lo = 1;
  if (!supports.rms) of("norm").hi = 0;
  if (!supports.no_gamma) of("gamma").lo = 1;
  if (!supports.no_beta) of("beta").lo = 1;
  if (!supports.param_same) of("param_type").lo = 1;
  if (!supports.param_f32) of("param_type").hi = 0;
  if (dtypes_.empty()) throw usage_error("the subject offers no dtype for layer_norm");
  for (const Field& field : fields())
    if (field.drawn && range(field).empty())
      throw usage_error(fmt::format("what the subject supports of layer_norm leaves no value of {}", field.name));
}

bool Domain::narrows(std::string_view field) noexcept {
  const Field* const found = find_field(field);
  return found != nullptr && found->drawn && found->kind != FieldKind::real && found->kind != FieldKind::seed;
}

void Domain::narrow(std::string_view field, Index lo, Index hi) {
  if (!narrows(field)) throw usage_error(fmt::format("'{}' is no field that can be narrowed", field));
  Range& range = of(field);
  range = intersect(range, {lo, hi});
  if (range.empty()) throw usage_error(fmt::format("no value of {} is left", field));
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

}  // namespace attest::layer_norm
