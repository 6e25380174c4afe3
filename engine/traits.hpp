#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/subject.hpp"

namespace attest::engine {

// One thing that a learned predicate may say of a problem: a field of the field table, or a relation derived from it.
struct Trait {
  // How it is compared: below or above a number; with a label; as true or false; as a remainder that is 0 or not.
  enum class Kind : std::uint8_t { number, label, flag, remainder };
  std::string name;  // "lk", "q_layout", "lq<lk", "d%8", "k_align" (bytes to which k's base and rows are aligned)
  Kind kind = Kind::number;
  std::span<const std::string_view> labels;  // of a label
  double plain = 0;                          // the value of a problem in which it plays no part
  // Labels by index, flags 0 or 1. `supports` is needed for `other_layout`, the layout that the law of that name goes to.
  std::function<double(const Problem&, const Supports&)> get;
};

// In the order in which predicates of equal merit prefer them.
std::span<const Trait> traits();
// Its position; traits().size() if there is none of that name.
std::size_t trait_named(std::string_view name);

// The values of all traits.
using Row = std::vector<double>;
Row row_of(const Problem& problem, const Supports& supports);

}  // namespace attest::engine
