#include "models/effort.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace attest::models {
namespace {

constexpr double small_work = 0x1p28, large_work = 0x1p30;
constexpr double enough = 0x1p22;  // work from which on it is carried on, and not counted
constexpr Index least = 4;         // elements of an input, whatever they cost: a batch of two

struct Counted {
  double work = 0;
  Index elements = 0;  // elements of the largest input
};

Counted counted(const graph::Family& family, Index length) {
  const graph::Problem problem = family.of_length(length);
  return {family.program().seen(family.feeds(problem)).work, static_cast<Index>(family.largest_input(problem))};
}

}  // namespace

Effort effort_for(const graph::Family& family, Index largest) {
  Effort effort{std::min(Effort{}.small, largest), largest};
  if (family.open_axes().empty()) return effort;
  try {
    Counted last = counted(family, 1), now = counted(family, 2);
    Index small = last.elements, large = last.elements;
    for (Index length = 2; now.elements <= largest && now.work <= large_work;) {
      if (now.work <= small_work) small = now.elements;
      large = now.elements;
      length *= 2;
      Counted next;
      if (now.work < enough) {
        next = counted(family, length);
      } else if (now.work > last.work && now.elements > last.elements) {
        next = {now.work * (now.work / last.work), now.elements * (now.elements / last.elements)};
      }
      if (!(next.elements > now.elements)) break;  // constraints leave no more
      last = now;
      now = next;
    }
    if (now.work > small_work) effort.small = std::min(effort.small, std::max(least, small));
    if (now.work > large_work) effort.large = std::min(effort.large, std::max(least, large));
  } catch (const Error& error) {
    if (error.exit() != Exit::usage) throw;  // axes that are not equally long: nothing is known
  }
  effort.small = std::min(effort.small, effort.large);
  return effort;
}

}  // namespace attest::models
