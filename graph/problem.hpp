#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.hpp"
#include "graph/roles.hpp"

namespace attest::graph {

// A way in which an input is made, by name; which of them an input can have hangs on what its numbers stand for.
enum class Regime : std::uint8_t {
  // floats
  normal,     // mean 0, variance 1
  uniform,    // in [0, 1)
  offset_10,  // normal, and so much more
  offset_100,
  far,       // normal, and 1e4 more (f16: 500)
  wide,      // normal, times a power of two of 24 octaves (f16: 20)
  large,     // normal, times 100 (f16: 30)
  tiny,      // normal, times 1e-20 (f16: 1e-3)
  integers,  // -4 to 4
  constant,  // one normal number
  sparse,    // normal, four of five are 0
  // addends: 0 where a key is kept, else a large negative number
  mask_1e4,     // -1e4
  mask_lowest,  // the lowest finite number
  // flags
  most,  // nine of ten are 1; along the last axis the first one is 1 in most rows, as of those that follow
  half,
  few,     // one of ten
  prefix,  // the first of each row along the last axis, one at least
  all,
  // ids
  any,
  same,  // one for all
  ends,  // the first and the last row of the table
  // lengths: from 1 to the longest open axis
  long_or_short,
  longest,
  // inputs of which the owner's numbers are there: these, cut or repeated to the problem's lengths
  given,
  given_permuted,  // another order along open axes, or the first one longer than 1; the same for all of one symbol
  // noise added: normal to floats, times this share of their mean magnitude; in other types 1, 8 or 32 of 64 elements
  // become another one
  given_noise_1e_3,
  given_noise_1e_1,
  given_noise_1,
};
std::string_view name(Regime regime) noexcept;
// Tells whether it makes an input of the owner's numbers.
constexpr bool is_given(Regime regime) noexcept { return regime >= Regime::given; }
// Throws Error(usage) with the names there are.
Regime regime_named(std::string_view name);
// The regimes of a role, the simplest first.
std::span<const Regime> regimes_of(Role role) noexcept;

// One instance of a model: how long its open axes are, and how its inputs are made. Numbers come from the seed by a
// hash of the input's number and each element's coordinates, so that a problem with shorter axes has the same numbers.
struct Problem {
  std::map<std::string, Index> sizes;    // by open axis: its symbol, or "input.axis" where it has none
  std::map<std::string, Regime> values;  // by input
  std::uint64_t seed = 0;
  Index given = 0;  // index in the owner's inputs, where one is made of them
  friend bool operator==(const Problem&, const Problem&) = default;
};

// The name of an open axis of an input: its symbol, or "input.axis" where it has none.
std::string open_name(const Input& input, std::size_t axis);

inline constexpr Index longest_size = Index{1} << 16;

// "size.batch=2 size.keys=7 values.q=normal seed=7": one line, what is not a letter, a digit or one of _ - . in names
// written as %XX. It says every size and regime, and "given=1" of the second of the owner's inputs.
std::string to_text(const Problem& problem);
// Inverse of to_text, in any order. Throws Error(usage): one sentence for an item that is no item, is given twice, or
// is out of range. Whether it fits a model is a question for check().
Problem problem_from_text(std::string_view line);

struct Constraints;

// A model with all that drawing its problems takes.
class Family {
 public:
  // `program` must live as long. Throws Error(usage) as uses_of_inputs, of inputs whose role no constraint says, and
  // for constraints of axes and inputs that the model has not, or that go with none of what it has.
  explicit Family(const Program& program);
  Family(const Program& program, const Constraints& constraints);
  ~Family();

  [[nodiscard]] const Program& program() const noexcept { return program_; }
  [[nodiscard]] const std::vector<Use>& uses() const noexcept { return uses_; }
  // The names of open axes, sorted.
  [[nodiscard]] const std::vector<std::string>& open_axes() const noexcept { return open_axes_; }

  // Open axes that stand behind the first of an input.
  [[nodiscard]] std::set<std::string> sequences() const;

  // The regimes of an input, the simplest first: those of its numbers' role, and then those of the owner's inputs.
  [[nodiscard]] std::vector<Regime> regimes(std::size_t input) const;

  // Problem number `number` of `seed`. Where the owner's inputs are there, these come first, as they are and however
  // large, and all others are made of them, in half of the cases as long as they are. No input has more than `most`
  // elements; and its open axes times the longest of them come to 16 `most` at most, since attention makes that of it.
  // Sequences are `at_least` so long where constraints permit, whatever that comes to, but for one of several
  // in a quarter of the cases.
  [[nodiscard]] Problem draw(std::uint64_t seed, std::uint64_t number, Index most = Index{1} << 14,
                             Index at_least = 1) const;
  // A problem with every open axis `length` long, or as near to that as constraints permit, and inputs made in the
  // simplest way.
  [[nodiscard]] Problem of_length(Index length) const;
  // Tells whether constraints leave room for it.
  [[nodiscard]] bool permits(const Problem& problem) const;
  // Problems that are simpler by one change, the boldest first: an open axis, or all that are equally long, cut to 1,
  // to a half and by one; regimes nearer to the simplest.
  [[nodiscard]] std::vector<Problem> simpler(const Problem& problem) const;
  // Throws Error(usage) where a problem lacks a size or a regime of this model, has one of another, a size outside 1 to
  // longest_size or a regime that is none of the input's. Constraints are no part of that.
  void check(const Problem& problem) const;
  // The inputs of a problem. Throws as check.
  [[nodiscard]] Feeds feeds(const Problem& problem) const;
  // Elements of the largest input of a problem.
  [[nodiscard]] double largest_input(const Problem& problem) const;
  // True if the graph can be evaluated on it: it may pin a length, or two that no symbol joins. Throws as check.
  [[nodiscard]] bool takes(const Problem& problem) const;

 private:
  [[nodiscard]] std::vector<Index> shape(const Input& input, const Problem& problem) const;

  [[nodiscard]] std::vector<Regime> choices(std::size_t input) const;
  [[nodiscard]] std::size_t count_given() const noexcept;
  void set_given(Problem& problem, Index number) const;
  [[nodiscard]] Array given(std::size_t input, const Problem& problem, Array x) const;

  const Program& program_;
  std::unique_ptr<const Constraints> constraints_;
  std::vector<Use> uses_;
  std::vector<std::string> open_axes_;
};

}  // namespace attest::graph
