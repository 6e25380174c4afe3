#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/operators.hpp"
#include "graph/shapes.hpp"
#include "graph/wire.hpp"

// Sequences of tensors. How many there are, and which one is meant, must be the same in all lanes.
namespace attest::graph {
namespace {

using Tensors = std::vector<Array>;

void give(Step& step, Tensors tensors) {
  Array out;
  out.sequence = std::make_shared<const Tensors>(std::move(tensors));
  step.outputs.push_back(std::move(out));
}

// The place from 0 to `last` that input `input` names among `count` tensors, from the back where it is negative; `last`
// where it is left out.
std::ptrdiff_t place(const Step& step, std::size_t input, std::ptrdiff_t count, std::ptrdiff_t last) {
  if (step.maybe(input) == nullptr) return last;
  const auto numbers = step.numbers(input);
  if (numbers.size() != 1 || numbers[0] < -count || numbers[0] > last)
    step.refuse(fmt::format("place {} of {}", shape_text(numbers), count));
  return numbers[0] < 0 ? numbers[0] + count : numbers[0];
}

}  // namespace

void sequence_empty(Step& step) { give(step, {}); }

void sequence_construct(Step& step) {
  Tensors tensors;
  for (std::size_t i = 0; i < step.input_count(); ++i) tensors.push_back(step.in(i));
  give(step, std::move(tensors));
}

void sequence_at(Step& step) {
  const Tensors& all = step.sequence(0);
  step.outputs.push_back(all[static_cast<std::size_t>(place(step, 1, std::ssize(all), std::ssize(all) - 1))]);
}

void sequence_insert(Step& step) {
  Tensors all = step.sequence(0);
  // The place behind the last tensor is one, too.
  all.insert(all.begin() + place(step, 2, std::ssize(all), std::ssize(all)), step.in(1));
  give(step, std::move(all));
}

void sequence_erase(Step& step) {
  Tensors all = step.sequence(0);
  if (all.empty()) step.refuse("nothing of an empty sequence can be erased");
  all.erase(all.begin() + place(step, 1, std::ssize(all), std::ssize(all) - 1));
  give(step, std::move(all));
}

void sequence_length(Step& step) { step.outputs.push_back(integers(Type::i64, {}, {std::ssize(step.sequence(0))})); }

void split_to_sequence(Step& step) {
  const Array& x = step.in(0);
  const auto axis = static_cast<std::size_t>(step.axis(step.integer("axis", 0), x.rank()));
  const Index length = x.shape[axis];
  std::vector<Index> lengths(static_cast<std::size_t>(length), 1);
  const bool ones = step.maybe(1) == nullptr;
  if (!ones) {
    lengths = step.numbers(1);
    if (step.shape(1).empty()) {  // chunks of that length, the last of what is left
      const Index chunk = lengths[0];
      if (chunk < 1) step.refuse(fmt::format("chunks of length {}", chunk));
      lengths.assign(static_cast<std::size_t>((length + chunk - 1) / chunk), chunk);
      if (length % chunk != 0) lengths.back() = length % chunk;
    }
  }
  Tensors parts;
  Index from = 0;
  for (const Index one : lengths) {
    parts.push_back(section(step, x, axis, from, one));
    from += one;
    if (ones && step.integer("keepdims", 1) == 0)
      parts.back().shape.erase(parts.back().shape.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  if (from != length) step.refuse(fmt::format("parts {} of length {}", shape_text(lengths), length));
  give(step, std::move(parts));
}

void concat_from_sequence(Step& step) {
  Tensors all = step.sequence(0);
  if (all.empty()) step.refuse("an empty sequence");
  const bool stacks = step.integer("new_axis", 0) != 0;
  const Index axis = step.axis(step.integer("axis", 0), all[0].rank() + (stacks ? 1 : 0));
  std::vector<const Array*> parts;
  for (Array& one : all) {
    if (stacks) one.shape.insert(one.shape.begin() + std::min<Index>(axis, one.rank()), 1);
    parts.push_back(&one);
  }
  step.outputs.push_back(step.part(concat, std::move(parts), {{"axis", axis}}));
}

}  // namespace attest::graph
