#include "engine/seen_deaths.hpp"

#include "core/rng.hpp"

namespace attest::engine {
namespace {
constexpr std::uint64_t times_shown = 3, confirmed_one_in = 4;
constexpr std::uint64_t kept_one_in = 8;
constexpr std::uint64_t seen_stream = 0x7365656E, kept_stream = 0x6B657074;
}  // namespace

void PlansEnded::note(std::uint64_t plan, const FailureKey& key) {
  const std::lock_guard lock(guard_);
  of_[plan].insert(to_text(key));
  while (of_.size() > most_kept) of_.erase(of_.begin());
}

void PlansEnded::leave(std::uint64_t plan, std::uint64_t redraws) {
  if (below(extend(mix(kept_stream), plan), kept_one_in) == 0) return;
  const std::lock_guard lock(guard_);
  left_[plan].insert(redraws);
  while (left_.size() > most_kept) left_.erase(left_.begin());
}

bool PlansEnded::is_left(std::uint64_t plan, std::uint64_t redraws) const {
  const std::lock_guard lock(guard_);
  const auto found = left_.find(plan);
  return found != left_.end() && found->second.contains(redraws);
}

bool PlansEnded::is(std::uint64_t plan, const FailureKey& key) const {
  const std::lock_guard lock(guard_);
  const auto found = of_.find(plan);
  return found != of_.end() && found->second.contains(to_text(key));
}

void SeenDeaths::shown(const FailureKey& key) {
  const std::lock_guard lock(guard_);
  ++times_[to_text(key)];
}

void SeenDeaths::doubt(std::string_view property) {
  const std::lock_guard lock(guard_);
  doubted_.emplace(property);
}

bool SeenDeaths::presumes(const FailureKey& key, std::uint64_t case_number) const {
  if (below(extend(mix(seen_stream), case_number), confirmed_one_in) == 0) return false;
  const std::lock_guard lock(guard_);
  const auto found = times_.find(to_text(key));
  return found != times_.end() && found->second >= times_shown && !doubted_.contains(key.property);
}

}  // namespace attest::engine
