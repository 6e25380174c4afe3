#pragma once
#include <memory>
#include <optional>

#include "core/subject.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// What both of two subjects take: the problems of a comparison lie inside it. A form counts where both offer it with the same
// values in the same order; of others each says its own first one.
attest::Supports common(const attest::Supports& a, const attest::Supports& b);

// Two subjects that are asked the same problems, each narrowed to what both take, and under `policy` if one is given. Their
// contracts stay their own. `a` is the subject of a campaign, `b` its peer.
struct Compared {
  std::unique_ptr<SubjectFactory> a, b;
};
// Attention alone is compared. Throws Error(usage) if they have no dtype in common, or no value of a dimension.
Compared compared(std::unique_ptr<SubjectFactory> a, std::unique_ptr<SubjectFactory> b,
                  const std::optional<Policy>& policy);

}  // namespace attest::engine
