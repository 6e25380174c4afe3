// The drawing of a model's problems: lengths of open axes, and the way in which each input is made.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "core/rng.hpp"
#include "graph/constraints.hpp"
#include "graph/problem.hpp"

namespace attest::graph {
namespace {

// Bits in a row.
class Source {
 public:
  explicit Source(std::uint64_t key) : key_(key) {}
  Index below(Index n) {
    return static_cast<Index>(attest::below(extend(key_, count_++), static_cast<std::uint64_t>(n)));
  }

 private:
  std::uint64_t key_, count_ = 0;
};

// A size where kernels change their ways: powers of two and their neighbours, small numbers; else any, each octave as
// often.
Index size_drawn(Source& source) {
  const Index octave = Index{1} << source.below(9);
  switch (source.below(4)) {
    case 0:
      return 1 + source.below(8);
    case 1:
      return octave + source.below(octave);
    default:
      return std::max<Index>(1, octave + source.below(3) - 1);
  }
}

}  // namespace

Problem Family::draw(std::uint64_t seed, std::uint64_t number, Index most, Index at_least) const {
  const std::uint64_t key = extend(mix(seed), number);
  Source source(key);
  Problem problem;
  problem.seed = extend(key, ~std::uint64_t{0});
  const auto& inputs = program_.model().inputs;
  const std::size_t sets = count_given();
  if (number < sets) {
    set_given(problem, static_cast<Index>(number));
    for (const Input& input : inputs) problem.values[input.name] = Regime::given;
    return problem;
  }
  // One problem of five confuses axes that are equally long, or have a single element.
  const bool alike = source.below(5) == 0;
  const Index common = size_drawn(source);
  for (const std::string& axis : open_axes_) {
    const Index own = size_drawn(source);
    problem.sizes[axis] = constraints_->near(axis, !alike ? own : source.below(2) == 0 ? 1 : common);
  }
  bool other_lengths = true;
  if (sets > 0) {
    other_lengths = source.below(2) == 0;
    Problem as_given;
    set_given(as_given, source.below(static_cast<Index>(sets)));
    problem.given = as_given.given;
    for (auto& [axis, size] : problem.sizes)
      if (!other_lengths) size = constraints_->near(axis, as_given.sizes.at(axis));
  }
  std::map<std::string, Index> floors;  // least lengths of sequences that are to be long
  if (at_least > 1 && other_lengths) {
    const std::set<std::string> sequences = this->sequences();
    const Index drawn = at_least + source.below(source.below(2) == 0 ? 3 : at_least / 2);
    const Index length = alike && common >= at_least ? common : drawn;
    // All sequences, or all but one in a quarter of the cases: few queries and many keys, say.
    const auto count = std::ssize(sequences);
    const Index left_out = count > 1 && !alike && source.below(4) == 0 ? source.below(count) : -1;
    Index at = 0;
    for (const std::string& axis : sequences) {
      if (at++ == left_out) continue;
      Index& size = problem.sizes.at(axis);
      const bool is_short = size < at_least;
      if (is_short) size = constraints_->near(axis, length);
      floors[axis] = std::min(size, is_short ? drawn : at_least);
    }
  }
  const auto floor_of = [&](const std::string& axis) {
    const auto floor = floors.find(axis);
    return floor == floors.end() ? Index{1} : floor->second;
  };
  for (const Input& input : inputs) {
    for (;;) {
      double count = 1, open = 1;
      std::string longest;
      for (std::size_t k = 0; k < input.shape.size(); ++k) {
        if (input.shape[k].length) {
          count *= static_cast<double>(*input.shape[k].length);
          continue;
        }
        const std::string axis = open_name(input, k);
        const Index length = problem.sizes.at(axis);
        open *= static_cast<double>(length);
        if (constraints_->below(axis, length) >= floor_of(axis) &&
            (longest.empty() || length > problem.sizes.at(longest)))
          longest = axis;
      }
      if (longest.empty()) break;
      const auto square = open * static_cast<double>(problem.sizes.at(longest));
      if (count * open <= static_cast<double>(most) && square <= 16 * static_cast<double>(most)) break;
      const Index length = problem.sizes.at(longest), half = std::max(floor_of(longest), length / 2);
      problem.sizes.at(longest) = constraints_->permits(longest, half) ? half : constraints_->below(longest, length);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto choices = this->choices(i);
    const auto first_given = std::ranges::find(choices, true, is_given);
    if (first_given != choices.end()) choices.erase(choices.begin(), first_given);
    problem.values[inputs[i].name] =
        choices[static_cast<std::size_t>(source.below(static_cast<Index>(choices.size())))];
  }
  return problem;
}

// Sets `given` and the lengths of the owner's inputs.
void Family::set_given(Problem& problem, Index number) const {
  problem.given = number;
  for (const Input& input : program_.model().inputs) {
    const Array& own = (*constraints_->given)[static_cast<std::size_t>(number)].at(input.name);
    for (std::size_t k = 0; k < input.shape.size(); ++k)
      if (!input.shape[k].length) problem.sizes[open_name(input, k)] = own.shape[k];
  }
}

}  // namespace attest::graph
