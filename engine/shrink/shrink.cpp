#include "engine/shrink/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/error.hpp"

namespace attest::engine {
namespace {

// The shrinker's state: the best problem so far and every problem that was tried.
class Search {
 public:
  Search(const Problem& problem, const Verdict& verdict, const Try& attempt, const ShrinkLimits& limits,
         const ShrinkBudget& budget, const std::function<void(const ShrinkStep&)>& accepted)
      : attempt_(attempt),
        limits_(limits),
        budget_(budget),
        accepted_(accepted),
        op_(problem.op()),
        best_(problem),
        verdict_(verdict),
        original_(problem) {
    tried_.insert(to_text(problem));
  }

  Shrunk run() {
    jump();
    for (const FieldGroup group : reset_groups)
      if (group != FieldGroup::values) accept_fitted(reset(best_, group), fmt::format("{} reset", name(group)));
    bisect_all();
    while (escape(Ways::likely)) {
    }
    do {
      while (pass()) {
      }
    } while (escape(Ways::all));
    Shrunk result{best_, verdict_, calls_, !spent(), {}};
    for (const Candidate& neighbour : neighbours(best_, limits_))
      if (tried_.contains(to_text(neighbour.problem))) result.neighbours.push_back(neighbour.change);
    return result;
  }

 private:
  [[nodiscard]] bool spent() const {
    if (calls_ >= budget_.calls || (budget_.stop && budget_.stop->load())) return true;
    return budget_.seconds && budget_.clock() - start_ >= *budget_.seconds;
  }

  // The verdict if `candidate` fails the same way. Nothing is tried twice.
  std::optional<Verdict> fails(const Problem& candidate) {
    if (spent() || !tried_.insert(to_text(candidate)).second) return std::nullopt;
    try {
      Trialled answer = attempt_(candidate);
      calls_ += answer.subject_calls;
      return std::move(answer.failure);
    } catch (const TooLarge&) {  // a problem that nobody can be asked shows no failure
      return std::nullopt;
    }
  }
  // If it fails the same way, the candidate is the new best.
  bool accept(const Problem& candidate, const std::string& change) {
    std::optional<Verdict> failure = fails(candidate);
    if (!failure) return false;
    best_ = candidate;
    verdict_ = std::move(*failure);
    if (accepted_) accepted_({best_, verdict_, calls_, change});
    return true;
  }
  bool accept_fitted(const Problem& changed, const std::string& change) {
    const std::optional<Problem> candidate = fit(best_, changed, limits_);
    return candidate && accept(*candidate, change);
  }

  [[nodiscard]] std::optional<Witness> witness() const { return witness(verdict_, best_); }
  static std::optional<Witness> witness(const Verdict& verdict, const Problem& problem) {
    if (!verdict.evidence) return std::nullopt;
    const auto& index = verdict.evidence->index;
    const std::array<Index, 4> extent = problem.op().witness_extents(problem);
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (index[axis] < 0 || index[axis] >= extent[axis]) return std::nullopt;
    return index;
  }

  // Larger changes, from the simplest outcome upwards; ends at the first that makes the problem small.
  void jump() {
    const bool small = smallest(2);
    slice_to_witness();
    if (small) return;
    reset_by_group();
    // The smallest cap that fails, to within a factor of two.
    Index passing = 1, failing = largest_extent(best_);
    while (failing > 2 * passing) {
      const auto most = std::max(passing + 1, static_cast<Index>(std::sqrt(static_cast<double>(passing * failing))));
      const bool fails = accept_fitted(op_.capped(best_, most, witness(), limits_.supports),
                                       fmt::format("every dimension at most {}", most));
      (fails ? failing : passing) = most;
    }
  }

  static Index largest_extent(const Problem& problem) {
    Index largest = 0;
    for (const Field& field : problem.op().fields())
      if (!field.origin.empty()) largest = std::max(largest, field.get(problem));
    return largest;
  }

  void slice_to_witness() {
    const auto at = witness();
    if (!at || accept_fitted(op_.sliced(best_, 1, *at, limits_.supports), "the witness's row alone")) return;
    accept_fitted(op_.sliced(best_, 2, *at, limits_.supports), "the witness's row, two samples");
  }

  // Every dimension at most `most`: with everything else simplest, with values that are not exact as well, with all
  // kept.
  bool smallest(Index most) {
    const std::string small = fmt::format("every dimension at most {}", most);
    Problem plain = op_.capped(best_, most, std::nullopt, limits_.supports),
            kept = op_.capped(best_, most, witness(), limits_.supports);
    for (const FieldGroup group : reset_groups) plain = reset(plain, group);
    if (accept_fitted(plain, small + ", everything else simplest")) return true;
    plain = op_.with_plain_numbers(std::move(plain));
    return accept_fitted(plain, small + ", everything else simplest but the values") || accept_fitted(kept, small);
  }

  void reset_by_group() {
    Problem all = best_;
    for (const FieldGroup group : reset_groups) all = reset(all, group);
    if (accept_fitted(all, "all options reset")) return;
    for (const FieldGroup group : reset_groups)
      accept_fitted(reset(best_, group), fmt::format("{} reset", name(group)));
  }

  // A number between the two, nearer to the smaller.
  static Index middle(Index passing, Index failing) {
    const double mean = std::sqrt(static_cast<double>(passing + 1) * static_cast<double>(failing));
    return std::clamp(static_cast<Index>(mean), passing + 1, failing - 1);
  }

  // The smallest value of a dimension that fails, if failing is monotone in it; in any case one whose predecessor
  // passes.
  bool bisect(const Dimension& dimension) {
    const Rungs by = dimension.rungs(best_, limits_.supports);
    const Index least = by.least, unit = by.unit;
    const auto to = [&](Index n) {
      const std::string change = fmt::format("{}: {} -> {}", dimension.name, dimension.get(best_), n);
      if (const auto at = witness(); at && accept_fitted(dimension.narrowed(best_, n, *at), change)) return true;
      Problem changed = best_;
      dimension.set(changed, n);
      return accept_fitted(changed, change);
    };
    if (dimension.get(best_) == least) return false;
    if (to(least)) return true;
    bool moved = false;
    Index passing = 0;  // steps above the least value
    for (Index failing = by.steps(dimension.get(best_)); failing - passing > 1;) {
      const Index probe = middle(passing, failing);
      if (to(least + probe * unit)) {
        moved = true;
        failing = std::min(probe, by.steps(dimension.get(best_)));
      } else {
        passing = probe;
      }
    }
    return moved;
  }

  void bisect_all() {
    for (const Dimension& dimension : op_.dimensions())
      if (!dimension.other_way) bisect(dimension);
  }

  // Every neighbour once, field by field, going on from each that fails. True if anything was accepted.
  bool pass() {
    bool moved = false;
    for (std::size_t step = 0; step < steps(op_); ++step)
      while (!spent() && take_one(step)) moved = true;
    return moved && !spent();
  }
  bool take_one(std::size_t step) {
    for (const Candidate& neighbour : neighbours(step, best_, limits_))
      if (accept(neighbour.problem, neighbour.change)) {
        if (step < op_.dimensions().size()) bisect(op_.dimensions()[step]);
        return true;
      }
    return false;
  }

  // Escapes to a problem of fewer multiply-adds that differs in more than one respect. Only wrong numbers do so: a
  // crash or a hang costs more than a call, and does not wait for other values.
  enum class Ways : std::uint8_t { likely, all };
  bool escape(Ways ways) {
    if (verdict_.kind != VerdictKind::fail) return false;
    for (const Problem& shape : smaller_shapes(best_, limits_.supports))
      for (const Escape& way : op_.escapes(shape, original_)) {
        if (ways == Ways::likely && !way.likely) continue;
        const std::optional<Problem> one = fit(best_, way.problem, limits_, original_);
        if (!one || !lighter(*one)) continue;
        const std::string change = fmt::format("{} multiply-adds, {}", work_of(*one), way.change);
        if (!(way.drawn && verdict_.evidence ? sample(*one, change) : accept(*one, change))) continue;
        bisect_all();
        return true;
      }
    return false;
  }
  [[nodiscard]] bool lighter(const Problem& problem) const { return work_of(problem) < work_of(best_); }

  // Many samples and columns of a problem in one call, and then the one that fails.
  bool sample(const Problem& one, const std::string& change) {
    const std::optional<Problem> many = fit(best_, op_.sampled(one), limits_, original_);
    if (!many || lighter(*many)) return accept(many.value_or(one), change);
    const std::optional<Verdict> failure = fails(*many);
    const auto at = failure ? witness(*failure, *many) : std::nullopt;
    if (!at) return false;
    Problem cut = *many;
    for (const Dimension& dimension : op_.dimensions()) cut = dimension.narrowed(cut, dimension.get(one), *at);
    const std::optional<Problem> fitted = fit(best_, cut, limits_, original_);
    return fitted && lighter(*fitted) && accept(*fitted, change);
  }

  const Try& attempt_;
  const ShrinkLimits& limits_;
  const ShrinkBudget budget_;
  const std::function<void(const ShrinkStep&)>& accepted_;
  const Op& op_;
  Problem best_;
  Verdict verdict_;
  const Problem original_;
  std::int64_t calls_ = 0;
  std::unordered_set<std::string> tried_;
  const double start_ = budget_.clock();
};

}  // namespace

Shrunk shrink(const Problem& problem, const Verdict& verdict, const Try& attempt, const ShrinkLimits& limits,
              const ShrinkBudget& budget, const std::function<void(const ShrinkStep&)>& accepted) {
  return Search(problem, verdict, attempt, limits, budget, accepted).run();
}

}  // namespace attest::engine
