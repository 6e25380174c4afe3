#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/subject.hpp"
#include "core/verdict.hpp"
#include "engine/key.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// The laws that a case is held against: guards and the policy bound always, and `further` drawn from the others that
// apply; or, with a glob, exactly the matching ones; or those of two subjects alone, with or without that of equal
// bits.
struct LawChoice {
  enum class Compare : std::uint8_t { none, bound, bits };
  std::optional<std::size_t> further = 2;  // nullopt: all
  std::string property_glob;               // empty: none given
  Compare compare = Compare::none;
  bool statistics = true;  // false: only laws that prove what they find
};

// Throws Error(usage) when the glob matches no property.
void validate(const LawChoice& choice);

// Positions in all_laws(), ascending. Depends on the arguments alone. Laws whose precondition fails are never
// drawn as further laws; under a glob, `all` and for the policy bound they are kept, and end as skips with their
// reason. Where a plan is kept for `repeat` cases, further laws that ask for plans of their own are drawn in the first
// of them alone.
std::vector<std::size_t> choose_laws(const LawChoice& choice, const Problem& problem, const Contract& contract,
                                     const SubjectInfo& info, std::uint64_t seed, std::uint64_t case_number,
                                     std::uint64_t repeat = 1);

// Tells whether the law proves nothing (properties::Kind::statistical).
bool is_statistical(std::size_t law);

// The ground of a law's findings: "proof", or "statistic" where it was held against other kernels and nothing is
// proven.
std::string_view basis(std::string_view law) noexcept;

// Tells whether a law is one of two subjects.
bool compares(std::string_view law) noexcept;

// The property that holds every judged element against the oracle's enclosure.
inline constexpr std::string_view policy_bound_name = "policy-bound";

// The law that holds two subjects against each other, and the one that asks them for equal bits.
inline constexpr std::string_view compare_bound_name = "compare-bound", compare_bits_name = "compare-bits";

// The law that holds stages of a call, each given those before it as the subject gave them.
inline constexpr std::string_view stage_bound_name = "stage-bound";

// The law that holds a result against conforming kernels on the same problem.
inline constexpr std::string_view ensemble_error_name = "ensemble-error";

// The beginning of a skip's reason where the subject declined the call.
inline constexpr std::string_view unsupported_prefix = "unsupported: ";

struct LawVerdict {
  std::size_t law = 0;  // position in all_laws()
  Verdict verdict;
  // A call that the law made beyond the problem's own and that was not done, told as a problem; nullopt also of a large
  // one.
  std::optional<Problem> call{};
  bool lost = false;  // an error that ended the instance: the next call finds a fresh one

  // Tells whether a call took the instance along: a crash, a timeout, or such an error.
  [[nodiscard]] bool died() const noexcept { return lost || ends_instance(verdict.kind); }
};

// The time of a case by part, in seconds; `laws` is the rest of the check beside the other three.
struct Seconds {
  double draw = 0, values = 0, subject = 0, oracle = 0, laws = 0, shrink = 0;
  Seconds& operator+=(const Seconds& other) noexcept;
};

// A check that an instance was asked: the call of a problem, and those that laws made beyond it.
struct Asked {
  Problem problem;
  std::vector<std::size_t> laws;  // positions in all_laws(); empty: the problem's own call alone
};

struct CaseOutcome {
  std::vector<LawVerdict> laws;         // in the fixed order of all_laws()
  std::optional<std::size_t> reported;  // position in `laws` of the first finding
  std::vector<std::size_t> needed;  // laws that must run together for it to show: itself, and others if it alone holds
  // The calls that a fresh instance must be asked first to give the verdict, in order.
  std::vector<Asked> after;
  std::vector<Asked> before;          // the latest calls before the case, if no fresh instance was asked about it
  std::optional<Asked> culprit;       // for `poisoned`: the check that poisons a fresh instance, `after` it or alone
  std::optional<Verdict> unrepeated;  // for `flaky`: the verdict that was seen
  bool presumed =
      false;  // a death or an error seen once, which a settled condition explains (avoid.hpp): counted, and no more
  bool cut_off = false;  // as it was seen: time was over before a sound instance was asked
  bool slow = false;     // a call passed its time limit, and did not when the case was asked once more
  bool as_probed =
      false;  // the finding is a failure by the contract that probes showed, which differs from the declared one
  bool silent = false;  // a fresh instance's first call did not return: it was not asked about the case
  std::int64_t subject_calls = 0;
  Seconds seconds;

  [[nodiscard]] const LawVerdict* finding() const noexcept { return reported ? &laws[*reported] : nullptr; }
  // Tells whether some verdict is neither skip nor vacuous.
  [[nodiscard]] bool executed() const noexcept;
  // The key of the reported finding. Only if there is one.
  [[nodiscard]] FailureKey key() const;
  // The problem that the finding is about: `asked`, the case's own, unless an earlier one poisoned the instance.
  [[nodiscard]] const Problem& blamed(const Problem& asked) const noexcept {
    return culprit ? culprit->problem : asked;
  }
};

class Instance;
class Quiet;

// The subjects that answer, and, for the laws that compare two kernels, the built-in explicit one (may be null: those
// laws skip). `instance` knows the calls of the subject's instance; null: no failure can be traced to the calls before
// it. A Station (instance.hpp) has all three. Where cases run side by side, `quiet` lets one be asked alone.
// `compares`: the peer is a subject under test too, with a contract of its own, and is watched and started anew as the
// subject is.
struct Bench {
  Subject& subject;
  Subject* peer = nullptr;
  Instance* instance = nullptr;
  Quiet* quiet = nullptr;
  bool compares = false;
};

// Holds one problem against `laws`. This is the one way in for campaigns, replay and CTest. Whatever the subject does
// ends as a verdict: unsupported is a skip; error, crash and timeout are findings of the law that asked. Throws
// Error(internal) if attest fails.
CaseOutcome check(const Problem& problem, const Contract& contract, Bench bench, std::span<const std::size_t> laws);

// The verdict in place of `seen` where it was not seen again; `why` is the reason.
Verdict flaky_verdict(const Verdict& seen, const std::string& why);

// check(), and then, on a finding, the answer of a sound instance. A fresh one is asked where the canary (sound.hpp)
// shows that this one is not sound, or where no fresh one was seen to show a failure of this key. `needed` names the
// laws that show it there. A finding that shows only on an instance poisoned before becomes `poisoned`, with its
// culprit; one that shows only after the calls before it has them in `after`; one that no repeat shows again is flaky,
// or, if a time limit was passed, slow.
// `settled` says whether the reason of a kernel's death or error is known already: then it is not asked again. A
// finding whose check OutOfTime ends is `cut_off`; without a finding OutOfTime passes on.
CaseOutcome check_confirmed(const Problem& problem, const Contract& contract, Bench bench,
                            std::span<const std::size_t> laws,
                            const std::function<bool(const CaseOutcome&)>& settled = {});

// The rest of that for a time-out that was cut off: a fresh instance, asked alone, has several times the limit. Not
// reported, and slow, if it answers.
CaseOutcome confirm_late(const Problem& problem, const Contract& contract, Bench bench,
                         std::span<const std::size_t> laws, CaseOutcome seen);

}  // namespace attest::engine
