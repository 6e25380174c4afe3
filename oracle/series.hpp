#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "oracle/lanes.hpp"
#include "oracle/products.hpp"

// Sums over the keys of a row in their order, and what tells how roundings in them may agree.
namespace attest::oracle {

inline double square(double x) { return x * x; }

// The Euclidean norm, where squares may over- or underflow.
inline double norm(std::span<const double> x) {
  double top = 0, squares = 0;
  for (const double value : x) top = std::max(top, std::fabs(value));
  if (top == 0) return 0;
  for (const double value : x) squares += square(value / top);
  return top * std::sqrt(squares);
}

// The keys that set a new maximum, from the first on or from the last on: how many, and the sum over these of the
// magnitude of what all keys before it move, which is what a rescaling by exp gets wrong.
struct Records {
  double count = 0, rescaled = 0;
};
template <class Iterator, class Moved>
Records records(Iterator from, Iterator to, Moved moved) {
  Records result;
  double top = -std::numeric_limits<double>::infinity(), before = 0;
  for (; from != to; ++from, ++moved) {
    if (*from > top) {
      top = *from;
      ++result.count;
      result.rescaled += std::fabs(before);
    }
    before += *moved;
  }
  return result;
}

// Increments that agree to within an ulp of their accumulator meet the same rounding error in every addition. Among n of
// them in groups of c_g that is sum c_g^2 / n, at least 1. An increment of 0 changes no sum.
inline double coherence(std::span<const double> increments, double ulp) {
  if (!(ulp > 0)) return 1;
  struct Group {
    double place;
    std::uint32_t count, of_call;
  };
  // A hash table, at most half full; a group of another call is a free place, so that nothing has to be cleared.
  thread_local std::vector<Group> groups;
  thread_local std::uint32_t this_call = 0;
  const std::size_t size = std::bit_ceil(2 * increments.size() + 2);
  if (++this_call == 0) groups.clear(), this_call = 1;
  if (groups.size() < size) groups.resize(size, {0, 0, 0});
  const int unused = 64 - std::countr_zero(size);  // the highest bits of a product tell places apart: the lowest are 0
  double squares = 0;                              // of whole numbers: in any order
  for (const double increment : increments) {
    if (increment == 0) {
      ++squares;
      continue;
    }
    const double place = std::floor(increment / ulp) + 0.0;  // one zero
    std::size_t at = std::bit_cast<std::uint64_t>(place) * 0x9e3779b97f4a7c15u >> unused;
    while (groups[at].of_call == this_call && groups[at].place != place) at = (at + 1) & (size - 1);
    Group& group = groups[at];
    if (group.of_call != this_call) group = {place, 0, this_call};
    squares += 2.0 * group.count + 1;
    ++group.count;
  }
  return std::max(1.0, squares / static_cast<double>(increments.size()));
}

// Running sums of terms in the orders that kernels add them: from the first on and from the last on, whole and in 2, 4, 8, ...
// interleaved lanes, whose sums may be large where those of neighbours cancel.
struct Prefixes {
  double squares = 0;         // of the terms
  double prefix_squares = 0;  // of the running sums, in the order in which it is largest
  double largest = 0;         // magnitude of a running sum, in any order
};
inline Prefixes prefixes(std::span<const double> terms) {
  Prefixes result;
  const std::size_t n = terms.size();
  for (const double x : terms) result.squares += x * x;
  for (std::size_t lanes = 1; lanes == 1 || lanes < n; lanes *= 2) {
    // Forward and backward beside each other, since each is a chain of additions.
    double squares = 0, squares_backward = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      double running = 0, backward = 0;
      for (std::size_t at = lane; at < n; at += lanes) {
        running += terms[at];
        backward += terms[n - 1 - at];
        squares += running * running;
        squares_backward += backward * backward;
        result.largest = std::max(result.largest, std::fabs(running));
        result.largest = std::max(result.largest, std::fabs(backward));
      }
    }
    result.prefix_squares = std::max(result.prefix_squares, squares);
    result.prefix_squares = std::max(result.prefix_squares, squares_backward);
  }
  return result;
}

// The same of eight series of n terms, term by term: terms[at * 8 + k] is the k-th's. The bits are those of prefixes().
enum class Largest : bool { left_out, wanted };
inline void prefixes_of_eight(const double* terms, std::size_t n, std::array<Prefixes, lane_count>& results,
                              Largest largest_running = Largest::left_out) {
  double squares[lane_count], most[lane_count], largest[lane_count] = {};
  products::prefixes_of_eight(terms, static_cast<Index>(n),
                              {squares, most, largest_running == Largest::wanted ? largest : nullptr});
  for (std::size_t k = 0; k < lane_count; ++k)
    results[k] = {.squares = squares[k], .prefix_squares = most[k], .largest = largest[k]};
}

// The most that errors of the sizes `moved` add up to if they have one sign, or one below some argument and the other above
// it: those of a function that is off one way. `order` sorts the keys by argument; equal arguments err alike.
inline double one_sided(std::span<const double> moved, std::span<const Index> order, std::span<const double> argument) {
  double total = 0, below = 0;
  for (const double x : moved) total += x;
  double most = std::fabs(total);
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto t = static_cast<std::size_t>(order[at]);
    below += moved[t];
    if (at + 1 == order.size() || argument[static_cast<std::size_t>(order[at + 1])] != argument[t])
      most = std::max(most, std::fabs(total - 2 * below));
  }
  return most;
}

// The same of a function whose errors may differ between equal arguments too, as where lanes compute it and what is left of
// them computes it otherwise: each such key may then err to the side that moves the mean most.
inline double one_sided_or_split(std::vector<double> moved, std::span<const Index> order,
                                 std::span<const double> argument) {
  const auto at_order = [&](std::size_t at) { return static_cast<std::size_t>(order[at]); };
  double of_equals = 0;
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    for (end = first + 1; end < order.size() && argument[at_order(end)] == argument[at_order(first)];) ++end;
    if (end - first < 2) continue;
    for (std::size_t at = first; at < end; ++at) of_equals += std::fabs(std::exchange(moved[at_order(at)], 0.0));
  }
  return of_equals + one_sided(moved, order, argument);
}

// Keys of one tile or split share the rounding of its maximum, of its log-sum-exp or of its partial result: the largest
// sum of squares of block sums over the sizes that blocks may have.
inline double largest_block_squares(const std::vector<double>& moved) {
  double best = 0;
  for (std::size_t size = 1;; size = size == 1 || size == 4 ? 4 * size : 2 * size) {
    double squares = 0;
    for (std::size_t first = 0; first < moved.size(); first += size) {
      const auto from = moved.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::min(size, moved.size() - first));
      squares += square(std::accumulate(from, from + count, 0.0));
    }
    best = std::max(best, squares);
    if (size >= moved.size()) return best;
  }
}

}  // namespace attest::oracle
