#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/problem.hpp"

// The order in which a kernel adds the terms of a sum, found from outside as FPRev does (Xie et al., USENIX ATC 2025):
// a number M at term i and -M at term j swamp every term that meets one of them before they cancel.
namespace attest::ops::probing {

struct TermPair {
  Index i, j;
};

// A sum as a tree. A node adds its children at once: two of them in most kernels, more in a tensor core's block.
class SumTree {
 public:
  struct Node {
    std::vector<std::size_t> children;  // by their least term; none: a term
    std::size_t parent = 0;             // of the root: itself
    Index first = 0, terms = 1;         // the least term below, and the number of terms
  };
  // The terms 0 .. n-1 come first, by number.
  SumTree(std::vector<Node> nodes, std::size_t root) : nodes_(std::move(nodes)), root_(root) {}

  // The number of terms under the lowest common node of two terms.
  [[nodiscard]] Index common(TermPair pair) const;
  // "chain of 16, each a chain of 16 terms", "pairwise sum of 8, each a chain of 32 terms (every 8th)", outermost first;
  // "sum in no regular order, 12 additions deep" for others.
  [[nodiscard]] std::string words() const;
  // "((0 1) (2 3))".
  [[nodiscard]] std::string nested() const;

 private:
  std::vector<Node> nodes_;
  std::size_t root_;
};

// Returns the number of terms under the lowest common node of each pair; fewer numbers than pairs end the search.
using CommonTerms = std::function<std::vector<Index>(std::span<const TermPair> pairs)>;

// Asks for as few pairs as the tree permits: terms - 1 for a chain, terms log2(terms) for pairwise sums. Returns nullopt
// where no tree has such counts, as where the order depends on the values.
std::optional<SumTree> sum_tree(Index terms, const CommonTerms& common);

}  // namespace attest::ops::probing
