#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops.hpp"

namespace attest::engine {

// The traits of all operations, in the order in which predicates of equal merit prefer them. The forms that subjects
// have come last.
std::span<const Trait> traits();
// Adds a trait "form.NAME" for each form that none has yet, 64 at most, and its values. To be called before predicates
// and rows of that subject are made, by one thread. Where two subjects have a form of the same name, the later one says
// which value is plain.
void know_forms(std::span<const FormOffer> offers);
// The position of the operation's trait of that name; traits().size() if there is none.
std::size_t trait_named(std::string_view name, const Op& op = *ops::all_ops().front());

// The values of all traits: the plain ones where a trait is another operation's.
using Row = std::vector<double>;
Row row_of(const Problem& problem, const Supports& supports);
// The row of a call that a law made of `problem`, told as a problem (Op::recorded()). A mask or a layout that the
// problem has not has no name: its label is `unnamed`, and none of the trait's. Forms have names in either.
inline constexpr double unnamed = -2;
Row row_of_call(const Problem& call, const Problem& problem, const Supports& supports);

}  // namespace attest::engine
