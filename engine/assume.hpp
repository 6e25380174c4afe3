#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/problem.hpp"

namespace attest::engine {

// A predicate over the field table, such as `scale>0 && lq<=lk`. Binding from loose to tight: || and && , !, one comparison
// (== != < <= > >=), + and -, * and /, unary minus; parentheses. Arithmetic is in double; division by zero gives infinity
// or NaN, and NaN compares false. A label (f16, top_left, none, ...) stands beside its field in a comparison; flags are 0 or
// 1; `scale` is the effective scale.
class Assumption {
 public:
  // Throws Error(usage) naming the token, its position and what was expected there.
  explicit Assumption(std::string_view text);

  [[nodiscard]] bool holds(const Problem& problem) const;
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  // Bounds on single integer, label and flag fields that every conjunct `field <op> number` implies: what a generator can
  // narrow instead of drawing again. lo > hi if nothing is left.
  struct Interval {
    Index lo, hi;
  };
  [[nodiscard]] std::map<std::string, Interval> intervals() const;

  struct Node;

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace attest::engine
