#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/subject.hpp"
#include "engine/ops.hpp"
#include "engine/summary.hpp"

namespace attest::engine {

// The most calls that policies are held against: a defect's smallest reproducers, the problems they were shrunk from,
// and the canaries of the operation, which are plain.
inline constexpr std::size_t most_effective_calls = 16;

// The narrower policies that permit all numbers in `answers`, some of which `requested` excludes: the widest, those
// that have the fewest stages narrower than asked for. nullopt where `requested` excludes nothing, or where its
// operation does not say which stages may be narrower than they should be (Op::narrowable()).
// A policy counts if no answer leaves it, and if an element that `requested` excludes lies inside the policy's interval
// there, where that is not everything: an element that a policy cannot exclude does not speak for it. A NaN or an
// infinity, which may overflow anywhere, does not either: nullopt where `requested` excludes nothing else.
std::optional<Effective> effective_precision(const Contract& requested,
                                             std::span<const std::unique_ptr<ops::Exchange>> answers);

// Asks an instance of `subject` for the problems of a defect that is of wrong numbers, and says what they fit. nullopt
// where that says nothing, or where it does not answer.
std::optional<Effective> effective_precision(const SubjectFactory& subject, const Summary& summary,
                                             const Defect& defect);

// "requested f32 (statistics=f32), effective statistics=f16 (fits it; excludes f32)".
std::string to_text(const Effective& effective);

}  // namespace attest::engine
