#include "models/lengths.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace attest::models {
namespace {

using Axes = std::vector<std::string>;

constexpr std::size_t most_axes = 5;       // all of their subsets are tried
constexpr Index largest_unit = 1024;       // lengths are looked for up to three times that
constexpr double largest_input = 1 << 17;  // elements
constexpr double most_elements = 1 << 18;  // elements of all trials, after which the search ends
constexpr double most_work = 0x1p28;       // multiply-adds of a trial, likewise
constexpr Index times[] = {1, 2};          // times a unit
constexpr Index multiples = 32;            // multiples of a unit that are drawn

// Trials of lengths.
class Trials {
 public:
  Trials(const graph::Program& program, const graph::Constraints& said) : family_(program, said) {
    for (const std::string& axis : family_.sequences())
      if (!said.sizes.contains(axis)) free.push_back(axis);
  }

  Axes free;              // sequences of which `said` says nothing
  bool too_dear = false;  // a trial was, or all together

  // True if the graph takes axes of this length, and all others `otherwise` long.
  [[nodiscard]] bool takes(const Axes& axes, Index length, Index otherwise) {
    graph::Problem problem = family_.of_length(otherwise);
    for (const std::string& axis : axes) problem.sizes[axis] = length;
    const double elements = family_.largest_input(problem);
    if (too_dear || elements > largest_input) return false;
    too_dear = (tried_ += elements) > most_elements;
    if (too_dear) return false;
    try {
      const graph::Feeds feeds = family_.feeds(problem);
      const graph::Program::Seen seen = family_.program().seen(feeds);
      too_dear = seen.work > most_work;
      return seen.contradiction.empty();
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;
      return false;
    }
  }
  [[nodiscard]] bool takes_multiples(const Axes& axes, Index unit) {
    return std::ranges::all_of(times, [&](Index k) { return takes(axes, k * unit, k); });
  }

 private:
  graph::Family family_;
  double tried_ = 0;  // elements
};

// The subsets of `all` but the empty one, those of few axes first.
std::vector<Axes> subsets(const Axes& all) {
  std::vector<Axes> found;
  for (std::uint32_t bits = 1; bits < std::uint32_t{1} << all.size(); ++bits) {
    Axes& one = found.emplace_back();
    for (std::size_t k = 0; k < all.size(); ++k)
      if ((bits >> k & 1) != 0) one.push_back(all[k]);
  }
  std::ranges::stable_sort(found, {}, &Axes::size);
  return found;
}

}  // namespace

graph::Constraints with_lengths_taken(const graph::Program& program, graph::Constraints said) {
  Trials trials(program, said);
  if (trials.free.empty() || trials.free.size() > most_axes ||
      (trials.takes_multiples({}, 1) && trials.takes({}, 3, 3)))
    return said;
  const std::vector<Axes> all = subsets(trials.free);
  for (Index unit = 2; unit <= largest_unit && !trials.too_dear; unit *= 2)
    for (const Axes& axes : all) {
      if (!trials.takes_multiples(axes, unit)) continue;
      const bool any = std::ranges::all_of(times, [&](Index k) { return trials.takes(axes, unit + k, 1); });
      for (const std::string& axis : axes) {
        auto& ranges = said.sizes[axis];
        if (any) ranges = {{unit, graph::longest_size}};
        for (Index k = 1; !any && k <= multiples; ++k) ranges.push_back({k * unit, k * unit});
      }
      return said;
    }
  return said;
}

}  // namespace attest::models
