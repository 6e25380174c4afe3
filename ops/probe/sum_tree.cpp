#include "ops/probe/sum_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

namespace attest::ops::probing {
namespace {

using Node = SumTree::Node;

// Builds a tree from counts, all nodes of one depth of questions at a time.
class Builder {
 public:
  explicit Builder(Index terms) : nodes_(static_cast<std::size_t>(terms)) {
    for (std::size_t n = 0; n < nodes_.size(); ++n) nodes_[n].first = static_cast<Index>(n);
  }

  std::optional<SumTree> build(const CommonTerms& common) {
    std::vector<Group> groups{{std::vector<Index>(nodes_.size()), static_cast<Index>(nodes_.size()) + 1, nowhere}};
    std::iota(groups.front().terms.begin(), groups.front().terms.end(), Index{0});
    while (!groups.empty()) {
      std::vector<TermPair> pairs;
      for (const Group& group : groups)
        for (std::size_t n = 1; n < group.terms.size(); ++n) pairs.push_back({group.terms.front(), group.terms[n]});
      const std::vector<Index> counts = pairs.empty() ? std::vector<Index>() : common(pairs);
      if (counts.size() != pairs.size()) return std::nullopt;
      std::span<const Index> left = counts;
      std::vector<Group> next;
      for (const Group& group : groups) {
        if (!take(group, left.first(group.terms.size() - 1), next)) return std::nullopt;
        left = left.subspan(group.terms.size() - 1);
      }
      groups = std::move(next);
    }
    for (Node& node : nodes_)
      std::ranges::sort(node.children, {}, [&](std::size_t child) { return nodes_[child].first; });
    return SumTree(std::move(nodes_), root_);
  }

 private:
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  // Terms that hang below a node of `bound` terms, as one child of it or as several.
  struct Group {
    std::vector<Index> terms;  // ascending
    Index bound;
    std::size_t parent;
  };

  // Climbs from a group's first term to the parent: the counts say what meets it at which node. False: no tree has them.
  bool take(const Group& group, std::span<const Index> counts, std::vector<Group>& next) {
    std::map<Index, std::vector<Index>> met;  // by the number of terms of the node where they meet the first one
    for (std::size_t n = 0; n < counts.size(); ++n) met[counts[n]].push_back(group.terms[n + 1]);
    auto top = static_cast<std::size_t>(group.terms.front());
    for (auto& [count, terms] : met) {
      if (count > group.bound) return false;
      if (count == group.bound) {
        next.push_back({std::move(terms), count, group.parent});
        continue;
      }
      if (count != nodes_[top].terms + std::ssize(terms)) return false;
      nodes_.push_back({{top}, 0, nodes_[top].first, count});
      nodes_[top].parent = nodes_.size() - 1;
      top = nodes_.size() - 1;
      next.push_back({std::move(terms), count, top});
    }
    nodes_[top].parent = group.parent == nowhere ? top : group.parent;
    if (group.parent == nowhere)
      root_ = top;
    else
      nodes_[group.parent].children.push_back(top);
    return true;
  }

  std::vector<Node> nodes_;
  std::size_t root_ = 0;
};

// Says nodes in words, each once.
class Speaker {
 public:
  explicit Speaker(std::span<const Node> nodes) : nodes_(nodes), known_(nodes.size()) {}

  const std::string& words(std::size_t n) {
    if (known_[n].empty()) known_[n] = spoken(n);
    return known_[n];
  }

 private:
  static constexpr std::string_view term = "term";

  std::string spoken(std::size_t n) {
    if (is_term(n)) return std::string(term);
    // Balanced: both halves alike, all the way down to what is added otherwise.
    Index halves = 1;
    std::size_t base = n;
    while (nodes_[base].children.size() == 2 && alike(nodes_[base].children)) {
      halves *= 2;
      base = nodes_[base].children.front();
    }
    if (halves > 2 || (halves == 2 && !is_term(base))) return fmt::format("pairwise sum of {}", each(halves, base, n));
    return chained(n);
  }

  // One thing after the other onto the sum so far, which is the largest child.
  std::string chained(std::size_t n) {
    std::vector<std::vector<std::size_t>> steps;  // the last one first
    std::size_t at = n;
    for (auto largest = largest_of(at); largest; largest = largest_of(at)) {
      std::vector<std::size_t> others = nodes_[at].children;
      std::erase(others, *largest);
      steps.push_back(std::move(others));
      at = *largest;
    }
    const std::vector<std::size_t>& begun = nodes_[at].children;
    const std::size_t block = steps.empty() ? begun.size() : steps.front().size();
    const bool blocks = block > 1 && begun.size() == block && std::ranges::all_of(steps, [&](const auto& step) {
                          return step.size() == block && std::ranges::all_of(step, [&](auto k) { return is_term(k); });
                        });
    if (blocks && (block > 2 || !steps.empty()) && std::ranges::all_of(begun, [&](auto k) { return is_term(k); }))
      return fmt::format("chain of {} blocks of {} terms, each added at once", steps.size() + 1, block);
    std::vector<std::size_t> items = begun;
    for (const std::vector<std::size_t>& step : steps | std::views::reverse)
      if (step.size() == 1) items.push_back(step.front());
    if (begun.size() != 2 || items.size() != 2 + steps.size()) return irregular(n);
    std::vector<std::string> runs;
    for (auto item = items.begin(); item != items.end();) {
      const auto end = std::find_if(item, items.end(), [&](std::size_t k) { return words(k) != words(*item); });
      runs.push_back(each(end - item, *item, n));
      item = end;
    }
    constexpr std::size_t most_runs = 3;
    if (runs.size() > most_runs) return irregular(n);
    return fmt::format("chain of {}", fmt::join(runs, ", then "));
  }

  // "16 terms (every 8th)", "16, each a chain of 4 terms".
  std::string each(Index count, std::size_t item, std::size_t of) {
    if (!is_term(item)) return count == 1 ? "a " + words(item) : fmt::format("{}, each a {}", count, words(item));
    const std::vector<Index> terms = terms_below(of);
    const Index step = terms.size() > 1 ? terms[1] - terms[0] : 1;
    const bool regular =
        std::ranges::adjacent_find(terms, [&](Index a, Index b) { return b - a != step; }) == terms.end();
    const std::string_view end = step / 10 % 10 == 1 ? "th"
                                 : step % 10 == 1    ? "st"
                                 : step % 10 == 2    ? "nd"
                                 : step % 10 == 3    ? "rd"
                                                     : "th";
    const std::string where = !regular ? " (scattered)" : step > 1 ? fmt::format(" (every {}{})", step, end) : "";
    return fmt::format("{} term{}{}", count, count == 1 ? "" : "s", where);
  }

  std::string irregular(std::size_t n) { return fmt::format("sum in no regular order, {} additions deep", depth(n)); }
  Index depth(std::size_t n) {
    Index most = 0;
    for (const std::size_t child : nodes_[n].children) most = std::max(most, 1 + depth(child));
    return most;
  }
  std::vector<Index> terms_below(std::size_t n) {
    std::vector<Index> all;
    std::vector<std::size_t> open{n};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (is_term(at)) all.push_back(static_cast<Index>(at));
      open.insert(open.end(), nodes_[at].children.begin(), nodes_[at].children.end());
    }
    std::ranges::sort(all);
    return all;
  }
  [[nodiscard]] bool is_term(std::size_t n) const { return nodes_[n].children.empty(); }
  bool alike(const std::vector<std::size_t>& children) {
    return nodes_[children[0]].terms == nodes_[children[1]].terms && words(children[0]) == words(children[1]);
  }
  // The child with more terms than any other.
  [[nodiscard]] std::optional<std::size_t> largest_of(std::size_t n) const {
    std::vector<std::size_t> children = nodes_[n].children;
    if (children.size() < 2) return std::nullopt;
    std::ranges::partial_sort(children, children.begin() + 2, std::greater(),
                              [&](std::size_t child) { return nodes_[child].terms; });
    return nodes_[children[0]].terms > nodes_[children[1]].terms ? std::optional(children[0]) : std::nullopt;
  }

  std::span<const Node> nodes_;
  std::vector<std::string> known_;
};

}  // namespace

Index SumTree::common(TermPair pair) const {
  auto a = static_cast<std::size_t>(pair.i), b = static_cast<std::size_t>(pair.j);
  while (a != b) {
    if (nodes_[a].terms > nodes_[b].terms) std::swap(a, b);
    a = nodes_[a].parent;
  }
  return nodes_[a].terms;
}

std::string SumTree::words() const { return Speaker(nodes_).words(root_); }

std::string SumTree::nested() const {
  std::string text;
  const std::function<void(std::size_t)> say = [&](std::size_t n) {
    if (nodes_[n].children.empty()) {
      text += std::to_string(n);
      return;
    }
    text += '(';
    for (const std::size_t child : nodes_[n].children) {
      if (text.back() != '(') text += ' ';
      say(child);
    }
    text += ')';
  };
  say(root_);
  return text;
}

std::optional<SumTree> sum_tree(Index terms, const CommonTerms& common) { return Builder(terms).build(common); }

}  // namespace attest::ops::probing
