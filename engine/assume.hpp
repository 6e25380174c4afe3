#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// A predicate over the field table, such as `scale>0 && lq<=lk`. Binding from loose to tight: || and && , !, one
// comparison (== != < <= > >=), + and -, * and / and %, unary minus; parentheses. Arithmetic is in double; division by
// zero gives infinity or NaN, and NaN compares false. A label (f16, top_left, none, ...) stands beside its field in a
// comparison; flags are 0 or 1; `scale` is the effective scale. Forms are compared with a value of theirs, as in
// form.mask==1d.
class Assumption {
 public:
  // Reads an assumption about problems of one operation. Throws Error(usage) naming the token, its position and what
  // was expected there.
  explicit Assumption(std::string_view text, const Op& op = *ops::all_ops().front());

  // The same for a subject that has these forms: only then is it known which value a problem that says nothing has.
  // Throws Error(usage) naming a form or a value that it has not.
  [[nodiscard]] Assumption about(std::span<const FormOffer> offers) const;

  [[nodiscard]] bool holds(const Problem& problem) const;
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  // Bounds on single integer, label and flag fields that every conjunct `field <op> number` implies: a generator can
  // narrow these instead of drawing again. lo > hi if nothing is left.
  struct Interval {
    Index lo, hi;
  };
  [[nodiscard]] std::map<std::string, Interval> intervals() const;

  // The part that speaks of extents and dtype alone, but for work(); nullopt if there is none. Where it fails, the
  // whole fails.
  [[nodiscard]] std::optional<Assumption> of_shape() const;

  // The range of multiply-adds that the conjuncts leave which compare b*hq*lq*lk*(d+dv), factors in any order, with a
  // number below 2^52: no problem of fewer than `least` is accepted, and none of more than `most`.
  struct Work {
    double least, most;
  };
  [[nodiscard]] Work work() const;

  // A form, and whether it is to have a value: every conjunct implies it.
  struct FormBound {
    std::string form, value;
    bool equal;
  };
  [[nodiscard]] std::vector<FormBound> form_bounds() const;

  struct Node;

 private:
  Assumption() = default;

  std::string text_;
  std::shared_ptr<const Node> root_;
  std::vector<FormOffer> offers_;
};

}  // namespace attest::engine
