#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "ops/problem.hpp"
#include "ops/supports.hpp"

namespace attest::ops {

// The wrong element: Evidence::index.
using Witness = std::array<Index, 4>;

// The values that a dimension may have on its way down, as the subject takes it: least, least + unit, ...
struct Rungs {
  Index least = 1, unit = 1;
  // The number of rungs between `least`, which may be -1, and n; one fewer where n is the largest number there is.
  [[nodiscard]] Index steps(Index n) const noexcept {
    Index above = 0;
    return (__builtin_sub_overflow(n, least, &above) ? std::numeric_limits<Index>::max() : above) / unit;
  }
  // The lowest that is not below n.
  [[nodiscard]] Index up(Index n) const noexcept {
    return n <= least ? least : least + (n - least + unit - 1) / unit * unit;
  }
};

// The rungs from n down by `unit` to no less than `least`, nor than 1.
inline Rungs down_to(Index n, Index least, Index unit) {
  least = std::max<Index>(least, 1);
  if (unit == 1) return {least, unit};
  return {n < least ? (least + unit - 1) / unit * unit : n - (n - least) / unit * unit, unit};
}
// First index of a window of `size` out of `extent` that ends at `at` where it can.
inline Index window_start(Index at, Index size, Index extent) {
  return std::clamp<Index>(at - size + 1, 0, extent - size);
}

// A number of an operation's problem P that may shrink on its own, of which S says what a subject supports.
template <class P, class S>
struct DimensionOf {
  std::string_view name;
  Index simplest;
  Index (*get)(const P&);
  void (*set)(P&, Index);
  Rungs (*rungs)(const P&, const S&) = nullptr;               // nullptr: all from `simplest` up
  P (*narrow)(P, Index n, const Witness& witness) = nullptr;  // nullptr: as set()
  bool other_way = false;  // cuts in another way what others count already: at its front, or two by the same amount
};

// The same of problems of any operation.
struct Dimension {
  std::string_view name;
  std::function<Index(const Problem&)> get;
  std::function<void(Problem&, Index)> set;
  std::function<Rungs(const Problem&, const Supports&)> rungs;
  std::function<Problem(Problem, Index n, const Witness& witness)>
      narrowed;  // keeps the part of it that holds the witness
  bool other_way = false;
};

template <auto Part, class P, class S>
Dimension erased(const DimensionOf<P, S>& own) {
  Dimension any{own.name, {}, {}, {}, {}, own.other_way};
  any.get = [own](const Problem& p) { return own.get(p.as<P>()); };
  any.set = [own](Problem& p, Index n) { own.set(p.as<P>(), n); };
  any.rungs = [own](const Problem& p, const Supports& supports) {
    return own.rungs ? own.rungs(p.as<P>(), supports.*Part) : Rungs{own.simplest, 1};
  };
  any.narrowed = [own](Problem p, Index n, const Witness& witness) {
    if (own.narrow) return Problem(own.narrow(std::move(p.as<P>()), n, witness));
    own.set(p.as<P>(), n);
    return p;
  };
  return any;
}

struct Candidate {
  Problem problem;
  std::string change;  // "lk: 33 -> 1"
};

// Neighbours of a problem of type P with fewer edits, half of them at a time. An edit that only sets zeros stays: zeros
// are as simple as an element can be.
template <class P>
std::vector<Candidate> without_edits_of(const Problem& problem) {
  const P& p = problem.as<P>();
  std::vector<Candidate> found;
  for (std::size_t chunk = p.edits.size(); chunk > 0; chunk /= 2)
    for (std::size_t first = 0; first < p.edits.size(); first += chunk) {
      const auto begin = p.edits.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = p.edits.begin() + static_cast<std::ptrdiff_t>(std::min(first + chunk, p.edits.size()));
      if (std::all_of(begin, end, [](const auto& edit) { return edit.value == 0; })) continue;
      P changed = p;
      changed.edits.erase(changed.edits.begin() + (begin - p.edits.begin()),
                          changed.edits.begin() + (end - p.edits.begin()));
      found.push_back({std::move(changed), "edits " + std::to_string(first) + ".." +
                                               std::to_string(end - p.edits.begin() - 1) + " removed"});
    }
  return found;
}

struct Escape : Candidate {
  bool drawn = false;   // drawn numbers decide whether it fails, so that many samples of it are worth one call
  bool likely = false;  // shows most of what any shows
};

}  // namespace attest::ops
