#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

// `poisoned` is a call that may itself be answered rightly, and after which its instance fails calls that a fresh one
// answers.
enum class VerdictKind : std::uint8_t { pass, warn, fail, error, crash, timeout, poisoned, flaky, skip, vacuous };
std::string_view name(VerdictKind kind) noexcept;

// Tells whether a verdict of this kind is a finding: fail, error, crash, timeout, poisoned, flaky.
constexpr bool is_finding(VerdictKind kind) noexcept {
  return kind == VerdictKind::fail || kind == VerdictKind::error || kind == VerdictKind::crash ||
         kind == VerdictKind::timeout || kind == VerdictKind::poisoned || kind == VerdictKind::flaky;
}

// Tells whether the call took its subject along: crash, timeout.
constexpr bool ends_instance(VerdictKind kind) noexcept {
  return kind == VerdictKind::crash || kind == VerdictKind::timeout;
}

// The class of a wrong value, part of the failure key: a shrink step must not turn a NaN into a rounding error.
enum class Wrong : std::uint8_t { none, finite, nan, infinity, memory };
std::string_view name(Wrong wrong) noexcept;

// One of two results of an element, beside what its own contract permits.
struct Side {
  double got = 0, exact = 0;  // exact: NaN where no number is expected
  double lo = 0, hi = 0;
  double ratio = 0;      // |got - exact| over the permitted distance
  bool outside = false;  // nothing that keeps the contract could have returned it
};

// The element that shows a failure.
struct Evidence {
  std::string tensor;                   // "out", "lse", or the input that was changed
  std::array<std::int64_t, 4> index{};  // [b, h, i, column]; lse uses the first three
  double got = 0, expected = 0;
  double lo = 0, hi = 0;  // interval of a correct kernel's result; equal ends where the law is exact
  double ratio = 0;       // |got - expected| over the permitted distance; infinite where nothing is permitted
  Wrong wrong = Wrong::none;
  std::string note;           // one clause, such as "guard bytes before out"
  std::vector<Side> sides{};  // for a law of two subjects: A's, with the value `got`, and B's, with `expected`
  bool as_probed = false;     // excluded by what probes showed of the subject (engine/probe/first.hpp)
};

// The outcomes of the elements of a verdict.
struct Counts {
  std::int64_t judged = 0;        // inside or outside an enclosure
  std::int64_t undetermined = 0;  // the bound permits anything there (bounds.md section 5)
  std::int64_t wide = 0;          // judged, but the enclosure holds every value a weighted mean could take

  Counts& operator+=(const Counts& other) noexcept {
    judged += other.judged;
    undetermined += other.undetermined;
    wide += other.wide;
    return *this;
  }
};

struct Verdict {
  VerdictKind kind = VerdictKind::pass;
  std::string reason;  // one clause for skip, vacuous, error, crash, timeout, poisoned, flaky
  std::optional<Evidence> evidence;
  Counts counts;

  static Verdict pass(Counts counts = {}) { return {VerdictKind::pass, {}, {}, counts}; }
  static Verdict fail(Evidence evidence, Counts counts = {}) {
    return {VerdictKind::fail, {}, std::move(evidence), counts};
  }
  static Verdict skip(std::string reason) { return {VerdictKind::skip, std::move(reason), {}, {}}; }
  static Verdict vacuous(std::string reason, Counts counts = {}) {
    return {VerdictKind::vacuous, std::move(reason), {}, counts};
  }
};

}  // namespace attest
