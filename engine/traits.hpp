#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/subject.hpp"
#include "engine/regime.hpp"

namespace attest::engine {

// A problem whose traits are asked: what must be worked out for several of them is, once. Both arguments must outlive it.
class Looked {
 public:
  Looked(const Problem& problem, const Supports& supports) : problem(problem), supports(supports) {}

  const Problem& problem;
  const Supports& supports;
  [[nodiscard]] const Masking& masking() const { return once(masking_, masking_of); }
  [[nodiscard]] const Scores& scores() const { return once(scores_, scores_of); }
  [[nodiscard]] const ValueRange& values() const { return once(values_, values_of); }

 private:
  template <class T>
  const T& once(std::optional<T>& known, T (*find)(const Problem&)) const {
    if (!known) known = find(problem);
    return *known;
  }
  mutable std::optional<Masking> masking_;
  mutable std::optional<Scores> scores_;
  mutable std::optional<ValueRange> values_;
};

// One thing that a learned predicate may say of a problem: a field of the field table, a relation derived from it, or what its
// masks and values come to (regime.hpp).
struct Trait {
  // How it is compared: below or above a number; with a label; as true or false; as a remainder that is 0 or not.
  enum class Kind : std::uint8_t { number, label, flag, remainder };
  std::string name;  // "lk", "q_layout", "lq<lk", "d%8", "k_align" (bytes to which k's base and rows are aligned)
  Kind kind = Kind::number;
  std::span<const std::string_view> labels;  // of a label; of a form they may become more
  double plain = 0;                          // the value of a problem in which it plays no part
  // Labels by index, flags 0 or 1. `supports` is needed for `other_layout`, the layout that the law of that name goes to.
  std::function<double(const Looked&)> get;
};

// In the order in which predicates of equal merit prefer them. The forms that subjects have come last.
std::span<const Trait> traits();
// Adds a trait "form.NAME" for each form that none has yet, 64 at most, and its values. To be called before predicates and rows of
// that subject are made, by one thread; of two subjects with a form of the same name the later one says which value is plain.
void know_forms(std::span<const FormOffer> offers);
// Its position; traits().size() if there is none of that name.
std::size_t trait_named(std::string_view name);

// The values of all traits.
using Row = std::vector<double>;
Row row_of(const Problem& problem, const Supports& supports);

}  // namespace attest::engine
