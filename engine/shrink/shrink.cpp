#include "engine/shrink/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>

namespace attest::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Index small_work = 64;  // multiply-adds from which no reseeding is tried any more
constexpr std::uint64_t reseeds = 3;

// The shrinker's state: the best problem so far and every problem that was tried.
class Search {
 public:
  Search(const Problem& problem, const Verdict& verdict, const Try& attempt, const ShrinkLimits& limits,
         const ShrinkBudget& budget, const std::function<void(const ShrinkStep&)>& accepted)
      : attempt_(attempt), limits_(limits), budget_(budget), accepted_(accepted), best_(problem), verdict_(verdict) {
    tried_.insert(to_text(problem));
  }

  Shrunk run() {
    jump();
    for (const Group group : all_groups)
      if (group != Group::values) accept_fitted(reset(best_, group), fmt::format("{} reset", name(group)));
    for (const Dimension& dimension : dimensions()) bisect(dimension);
    do {
      while (pass()) {
      }
    } while (reseed());
    Shrunk result{best_, verdict_, calls_, !spent(), {}};
    for (const Candidate& neighbour : neighbours(best_, limits_))
      if (tried_.contains(to_text(neighbour.problem))) result.neighbours.push_back(neighbour.change);
    return result;
  }

 private:
  [[nodiscard]] bool spent() const {
    if (calls_ >= budget_.calls) return true;
    return budget_.seconds && std::chrono::duration<double>(Clock::now() - start_).count() >= *budget_.seconds;
  }

  // Whether `candidate` fails the same way, in which case it is the new best. Nothing is tried twice.
  bool accept(const Problem& candidate, const std::string& change) {
    if (spent() || !tried_.insert(to_text(candidate)).second) return false;
    Trialled answer = attempt_(candidate);
    calls_ += answer.subject_calls;
    if (!answer.failure) return false;
    best_ = candidate;
    verdict_ = std::move(*answer.failure);
    if (accepted_) accepted_({best_, verdict_, calls_, change});
    return true;
  }
  bool accept_fitted(const Problem& changed, const std::string& change) {
    const std::optional<Problem> candidate = fit(best_, changed, limits_);
    return candidate && accept(*candidate, change);
  }

  [[nodiscard]] std::optional<Witness> witness() const {
    if (!verdict_.evidence) return std::nullopt;
    const auto& index = verdict_.evidence->index;
    const Witness at{index[0], index[1], index[2]};
    const bool inside =
        at[0] >= 0 && at[0] < best_.b && at[1] >= 0 && at[1] < best_.hq && at[2] >= 0 && at[2] < best_.lq;
    return inside ? std::optional(at) : std::nullopt;
  }

  // Larger changes, from the simplest outcome upwards; ends at the first that makes the problem small.
  void jump() {
    const bool small = smallest(2);
    slice_to_witness();
    if (small) return;
    reset_groups();
    // The smallest cap that fails, to within a factor of two.
    Index passing = 1, failing = std::max({best_.b, best_.hq, best_.lq, best_.lk, best_.d, best_.dv});
    while (failing > 2 * passing) {
      const auto most = std::max(passing + 1, static_cast<Index>(std::sqrt(static_cast<double>(passing * failing))));
      const bool fails = accept_fitted(capped(best_, most, witness()), fmt::format("every dimension at most {}", most));
      (fails ? failing : passing) = most;
    }
  }

  void slice_to_witness() {
    const auto at = witness();
    if (!at || accept_fitted(sliced(best_, 1, *at), "the witness's row alone")) return;
    accept_fitted(sliced(best_, 2, *at), "the witness's row, two samples");
  }

  // Every dimension at most `most`: with everything else simplest, with values that are not exact as well, with all kept.
  bool smallest(Index most) {
    const std::string small = fmt::format("every dimension at most {}", most);
    Problem plain = capped(best_, most, std::nullopt), kept = capped(best_, most, witness());
    for (const Group group : all_groups) plain = reset(plain, group);
    if (accept_fitted(plain, small + ", everything else simplest")) return true;
    plain.values = Values::normal;
    return accept_fitted(plain, small + ", everything else simplest but the values") || accept_fitted(kept, small);
  }

  void reset_groups() {
    Problem all = best_;
    for (const Group group : all_groups) all = reset(all, group);
    if (accept_fitted(all, "all options reset")) return;
    for (const Group group : all_groups) accept_fitted(reset(best_, group), fmt::format("{} reset", name(group)));
  }

  // The smallest value of a dimension that fails, if failing is monotone in it; in any case one whose predecessor passes.
  bool bisect(const Dimension& dimension) {
    const Index simplest = dimension.simplest;
    const auto to = [&](Index n) {
      const std::string change = fmt::format("{}: {} -> {}", dimension.name, dimension.get(best_), n);
      if (const auto at = witness(); at && accept_fitted(narrowed(best_, dimension, n, *at), change)) return true;
      Problem changed = best_;
      dimension.set(changed, n);
      return accept_fitted(changed, change);
    };
    if (dimension.get(best_) == simplest) return false;
    if (to(simplest)) return true;
    bool moved = false;
    Index passing = 0;  // distances from the simplest value
    for (Index failing = dimension.get(best_) - simplest; failing - passing > 1;) {
      const auto middle =
          static_cast<Index>(std::sqrt(static_cast<double>(passing + 1) * static_cast<double>(failing)));
      const Index probe = std::clamp(middle, passing + 1, failing - 1);
      if (to(simplest + probe)) {
        moved = true;
        failing = std::min(probe, dimension.get(best_) - simplest);
      } else {
        passing = probe;
      }
    }
    return moved;
  }

  // Every neighbour once, field by field, going on from each that fails. True if anything was accepted.
  bool pass() {
    bool moved = false;
    for (std::size_t step = 0; step < steps(); ++step)
      while (!spent() && take_one(step)) moved = true;
    return moved && !spent();
  }
  bool take_one(std::size_t step) {
    for (const Candidate& neighbour : neighbours(step, best_, limits_))
      if (accept(neighbour.problem, neighbour.change)) {
        if (step < dimensions().size()) bisect(dimensions()[step]);
        return true;
      }
    return false;
  }

  // Other values where the problem is stuck at a size at which its own may just not suit.
  bool reseed() {
    if (best_.multiply_adds() <= small_work) return false;
    for (const Index most : {2, 4})
      for (std::uint64_t seed = 1; seed <= reseeds; ++seed) {
        Problem changed = capped(best_, most, witness());
        changed.seed = seed;
        if (accept_fitted(changed, fmt::format("every dimension at most {}, seed -> {}", most, seed))) return true;
      }
    return false;
  }

  const Try& attempt_;
  const ShrinkLimits& limits_;
  const ShrinkBudget budget_;
  const std::function<void(const ShrinkStep&)>& accepted_;
  Problem best_;
  Verdict verdict_;
  std::int64_t calls_ = 0;
  std::unordered_set<std::string> tried_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Shrunk shrink(const Problem& problem, const Verdict& verdict, const Try& attempt, const ShrinkLimits& limits,
              const ShrinkBudget& budget, const std::function<void(const ShrinkStep&)>& accepted) {
  return Search(problem, verdict, attempt, limits, budget, accepted).run();
}

}  // namespace attest::engine
