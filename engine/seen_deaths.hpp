#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "engine/key.hpp"

namespace attest::engine {

// Plans that end instances. The next problems of one differ in values alone, and do so again. For any number of
// threads.
class PlansEnded {
 public:
  // A kind of failure as it was confirmed: it is asked about once.
  void note(std::uint64_t plan, const FailureKey& key);
  [[nodiscard]] bool is(std::uint64_t plan, const FailureKey& key) const;
  // Leaves the problem that a plan has after so many redraws: its next problems give way to others, but those of one
  // plan in eight.
  void leave(std::uint64_t plan, std::uint64_t redraws);
  [[nodiscard]] bool is_left(std::uint64_t plan, std::uint64_t redraws) const;

 private:
  static constexpr std::size_t most_kept = 256;  // the latest
  mutable std::mutex guard_;
  std::map<std::uint64_t, std::set<std::string>> of_;
  std::map<std::uint64_t, std::set<std::uint64_t>> left_;
};

// Kinds of deaths that fresh instances showed whenever they were asked. Each answer is a start of the subject. So after
// a kind was shown a few times, the next deaths of it are seen once only, but one in four is asked again, until one
// does not show again. A shrunk death is asked of a fresh instance anyway. For any number of threads.
class SeenDeaths {
 public:
  // Counts a death that a fresh instance showed.
  void shown(const FailureKey& key);
  // A failure of that property was seen once, and is another's fault or nobody's: from now on each of them is asked
  // about.
  void doubt(std::string_view property);
  // Tells whether the death of that case need not be asked for again.
  [[nodiscard]] bool presumes(const FailureKey& key, std::uint64_t case_number) const;

 private:
  mutable std::mutex guard_;
  std::map<std::string, std::uint64_t> times_;
  std::set<std::string, std::less<>> doubted_;
};

}  // namespace attest::engine
