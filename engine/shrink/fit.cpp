#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

// The same extents of another part of the problem that it was sliced from: no simpler, and there is always one more.
bool cut_elsewhere(const Problem& from, const Problem& to) {
  bool elsewhere = false;
  for (const Field& field : to.op().fields()) {
    if (field.origin.empty()) continue;
    if (field.get(to) != field.get(from)) return false;
    const Field& origin = *to.op().find_field(field.origin);
    elsewhere = elsewhere || (origin.get(to) != 0 && origin.get(to) != origin.get(from));
  }
  return elsewhere;
}

}  // namespace

std::optional<Problem> fit(const Problem& from, Problem to, const ShrinkLimits& limits, const Problem& failing) {
  const Op& op = to.op();
  op.fit(from, to, limits.supports);
  if (to == from) return std::nullopt;
  const Format dtype = storage_of(to);
  if (dtype != storage_of(from) && std::ranges::find(limits.dtypes, dtype) == limits.dtypes.end()) return std::nullopt;
  try {
    validate(to);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (cut_elsewhere(from, to) || adds_option(failing, to) || op.declined(to, limits.supports, {&dtype, 1}))
    return std::nullopt;
  if (limits.admissible && !limits.admissible(to)) return std::nullopt;
  return to;
}

}  // namespace attest::engine
