#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/traits.hpp"

namespace attest::engine {

inline constexpr int most_set_labels = 52;

// One comparison of a trait with a number, or with several of a trait's labels.
struct Atom {
  enum class Op : std::uint8_t { eq, ne, lt, le, ge, gt, one_of };
  std::size_t trait = 0;
  Op op = Op::eq;
  double value = 0;  // under `one_of` the sum of 2^label over the labels, 52 of them at most

  [[nodiscard]] bool holds(double x) const noexcept {  // x: a value of the trait
    switch (op) {
      case Op::eq:
        return x == value;
      case Op::ne:
        return x != value;
      case Op::lt:
        return x < value;
      case Op::le:
        return x <= value;
      case Op::ge:
        return x >= value;
      case Op::gt:
        return x > value;
      case Op::one_of:
        break;
    }
    return x >= 0 && x < most_set_labels && (static_cast<std::uint64_t>(value) >> static_cast<unsigned>(x) & 1) != 0;
  }
  [[nodiscard]] bool holds(const Row& row) const noexcept { return holds(row[trait]); }
  friend bool operator==(const Atom&, const Atom&) = default;
};

// A conjunction, such as `scale<=0`, `k_align<16 && d%8==0` or `form.mask==0d|1d`. Without atoms it holds of
// everything.
struct Predicate {
  std::vector<Atom> atoms;

  [[nodiscard]] bool holds(const Row& row) const noexcept;
  // False for a problem of another operation than its traits'.
  [[nodiscard]] bool holds(const Problem& problem, const Supports& supports) const;
  friend bool operator==(const Predicate&, const Predicate&) = default;
};

// "scale<=0 && keep!=none"; "any problem" without atoms.
std::string to_text(const Predicate& predicate);
// The same of atoms over another table than traits().
std::string to_text(const Predicate& predicate, std::span<const Trait> table);
// Reads it back; nullopt if it is none, or names a trait that this version does not know.
std::optional<Predicate> predicate_from_text(std::string_view text,
                                             const attest::ops::Op& op = *ops::all_ops().front());

}  // namespace attest::engine
