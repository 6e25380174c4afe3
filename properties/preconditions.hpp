#pragma once
#include <optional>
#include <string>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"

// The conditions that several laws check before anything runs. Reasons are short and fixed: skips are counted by them.
namespace attest::properties {

using Reason = std::optional<std::string>;

inline Reason always(const Problem&, const Contract&, const SubjectInfo&) { return std::nullopt; }

inline Reason has_output(const Problem& p, const Contract&, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return std::nullopt;
}

inline bool claims_deterministic(const Contract& contract) noexcept {
  return contract.deterministic && *contract.deterministic != Deterministic::no;
}

inline Reason needs_deterministic(const Problem& p, const Contract& contract, const SubjectInfo&) {
  if (!claims_deterministic(contract)) return "the subject does not claim to be deterministic";
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return std::nullopt;
}

// A law that looks at each score looks at no more of them than this; one that adds columns adds them up to this width.
inline constexpr Index most_scores = Index{1} << 22, widest = 1024;

// A division that is not rounded to nearest may be off by another share of an ulp for another sign or exponent.
inline Reason needs_rounded_division(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (contract.arithmetic.div_ulp > 0.5) return "a poor division may favour a sign or a size";
  return needs_deterministic(p, contract, info);
}

}  // namespace attest::properties
