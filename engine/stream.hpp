#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "core/subject.hpp"
#include "engine/assume.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// One of `count` equal parts of a campaign's stream of cases, by number from 1. A shape that is kept for several cases
// stays within one shard, so that the union over the shards is the same stream for every count.
struct Shard {
  std::uint64_t index = 1, count = 1;
  // The first case from `number` on that belongs to this shard; each shape is kept for `repeat` cases.
  [[nodiscard]] std::uint64_t next(std::uint64_t number, std::uint64_t repeat) const noexcept;
};

// The number of cases for which a plan is kept by default: the power of two nearest to the number that finds most in a
// given time, considering the subject's cost of a plan; 1 if that is little, 128 at most. `peer`: the second of two
// subjects.
std::uint64_t usual_repeat(const SubjectInfo& info, const SubjectInfo* peer = nullptr) noexcept;

// The number of jobs by default: one for each of `cores`, but no more than a device has turns for.
int usual_jobs(const SubjectInfo& info, int cores) noexcept;

// The contract a problem is judged by: the subject's for the problem's dtype, with `policy` in place of its own if
// given.
Contract contract_for_problem(const SubjectInfo& info, const std::optional<Policy>& policy, const Problem& problem);

// The domain that may be drawn for a subject: its supports, the storage format of `policy` if given, and the part that
// `assume` leaves; simple bounds of an assumption narrow the domain, the rest of it turns draws away.
// Throws Error(usage) if nothing is left, or if the subject does not offer the policy's storage format.
std::unique_ptr<Domain> domain_for(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy,
                                   const std::optional<Assumption>& assume, SizeRegime sizes = SizeRegime::both);

// The number of `draws` problems of a seed, from a subject's whole domain, that an assumption holds of.
std::uint64_t holding(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy,
                      const Assumption& assume, SizeRegime sizes, std::uint64_t seed, std::uint64_t draws);

// The share of a subject's whole domain that an assumption gives up, in [0, 1]: over a thousand of its problems.
double given_up(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy, const Assumption& assume,
                SizeRegime sizes = SizeRegime::both);

}  // namespace attest::engine
