#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "core/tensor.hpp"

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
inline double coherence(std::vector<double> increments, double ulp) {
  if (!(ulp > 0)) return 1;
  const double n = static_cast<double>(increments.size());
  double squares = static_cast<double>(std::erase(increments, 0.0));
  for (double& x : increments) x = std::floor(x / ulp);
  std::sort(increments.begin(), increments.end());
  for (auto group = increments.begin(); group != increments.end();) {
    const auto end = std::upper_bound(group, increments.end(), *group);
    squares += square(static_cast<double>(end - group));
    group = end;
  }
  return std::max(1.0, squares / n);
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
  const auto add_lanes = [&](std::size_t lanes, bool backward) {
    double squares = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      double running = 0;
      for (std::size_t at = lane; at < n; at += lanes) {
        running += terms[backward ? n - 1 - at : at];
        squares += running * running;
        result.largest = std::max(result.largest, std::fabs(running));
      }
    }
    result.prefix_squares = std::max(result.prefix_squares, squares);
  };
  for (std::size_t lanes = 1; lanes == 1 || lanes < n; lanes *= 2)
    for (const bool backward : {false, true}) add_lanes(lanes, backward);
  return result;
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
