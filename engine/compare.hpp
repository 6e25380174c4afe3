#pragma once
#include <memory>
#include <optional>

#include "core/subject.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// Two subjects that are asked the same problems, each narrowed to what both take, and under `policy` if one is given.
// Their contracts stay their own. `a` is the subject of a campaign, `b` its peer.
struct Compared {
  std::unique_ptr<SubjectFactory> a, b;
};
// Throws Error(usage) if they do not both offer the operation, have no dtype in common, or no value of a dimension.
Compared compared(const Op& op, std::unique_ptr<SubjectFactory> a, std::unique_ptr<SubjectFactory> b,
                  const std::optional<Policy>& policy);

}  // namespace attest::engine
