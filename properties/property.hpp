#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "core/verdict.hpp"

namespace attest::properties {

class Trial;

// The way in which a law compares: memory and result class; equal as numbers (NaN equals NaN, +0 equals -0), or bit by
// bit where it says so; within the oracle's enclosures; or within the usual errors of conforming kernels, which proves
// nothing.
enum class Kind : std::uint8_t { guard, exact, bound, statistical };
std::string_view name(Kind kind) noexcept;

// The calls that a law makes: the problem's own call alone; calls that differ from it in nothing but the contents of
// tensors; any others.
enum class Asks : std::uint8_t { base_call, base_plan, anything };

// The claim that the evidence of a failure makes of an output, as far as an interval can prove it (`attest certify`).
enum class Claim : std::uint8_t {
  none,     // no claim of one element alone
  element,  // no conforming result of this element rounds to `got`
  hull,     // nor does any weighted mean of the attended values of the row
  pair,     // `got` and `expected` are results of one element, and not both can be right
};

// A law of attention that any conforming subject keeps. It knows problems, contracts and the oracle, no concrete
// subject.
struct Property {
  std::string_view name;
  std::string_view statement;  // the mathematics, one line
  std::string_view doc;        // the defects it catches and the condition under which it applies
  Kind kind;
  // Why the law does not apply, as far as that is known before anything runs: a short text that can be counted.
  std::optional<std::string> (*not_applicable)(const Problem&, const Contract&, const SubjectInfo&);
  // Runs the subject as often as it needs. May still give skip(reason): what only materialised inputs show. Throws
  // CallFailed (trial.hpp) when a call of the subject is not done.
  Verdict (*check)(Trial&);
  Asks asks = Asks::anything;
  Claim claim = Claim::none;

  // Asks for nothing beyond the base call, and so runs on every problem.
  [[nodiscard]] constexpr bool base_call() const noexcept { return asks == Asks::base_call; }
  // Who plans or compiles for a call needs no other plan.
  [[nodiscard]] constexpr bool keeps_plan() const noexcept { return asks != Asks::anything; }
};

// All laws in the order in which a failing case is reported: guards, result class, exact laws, the policy bound, laws
// over several problems, the statistical one.
std::span<const Property> properties() noexcept;
// The same, and behind them the laws of two subjects: what `attest compare` asks, of the subject and its peer.
std::span<const Property> all_laws() noexcept;
// Returns the law of that name; nullptr if there is none.
const Property* find_property(std::string_view name) noexcept;

}  // namespace attest::properties
