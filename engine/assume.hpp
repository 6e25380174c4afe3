#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "core/problem.hpp"

namespace attest::engine {

// A predicate over the field table, such as `scale>0 && lq<=lk && dtype==f16`.
//   or := and ('||' and)*    and := not ('&&' not)*    not := '!' not | comparison
//   comparison := sum (('=='|'!='|'<'|'<='|'>'|'>=') sum)?    sum, product: + - * /    primary := number | field | label | (or)
// A label (f16, top_left, none, ...) stands for its position in the table of the field it is compared with; flags are 0 or 1;
// `scale` is the effective scale.
class Assumption {
 public:
  // Throws Error(usage) naming the position, the token and what was expected there.
  explicit Assumption(std::string_view text);

  [[nodiscard]] bool holds(const Problem& problem) const;
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  // Bounds on a single integer field that every top-level conjunct of the form `field <op> number` implies.
  struct Interval {
    Index lo, hi;
  };
  [[nodiscard]] Interval interval(std::string_view field) const;

  struct Node;

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace attest::engine
