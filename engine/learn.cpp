#include "engine/learn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace attest::engine {
namespace {

using Compare = Atom::Op;
using Rows = std::span<const Row* const>;

constexpr std::size_t thresholds = 24;    // bounds on one number, in one direction
constexpr std::size_t beam_width = 24;    // conjunctions that are made longer
constexpr std::size_t most_excluded = 6;  // values of a label, each of which may be what passes
constexpr std::size_t largest_set = 6;    // labels that are told together
constexpr double near_bits = 4;           // costs that differ by less say little
constexpr double slack_bits = 1e-6;       // costs that differ by less are equal

// The rows that a conjunction holds of: failing ones first, then passing ones.
class Bits {
 public:
  explicit Bits(std::size_t rows) : words_((rows + 63) / 64) {}
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void intersect(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  [[nodiscard]] std::uint64_t count_and(const Bits& other) const {
    std::uint64_t n = 0;
    for (std::size_t w = 0; w < words_.size(); ++w)
      n += static_cast<std::uint64_t>(std::popcount(words_[w] & other.words_[w]));
    return n;
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct Cover {
  Bits failing, passing;
};

// Bits that tell which `part` of `whole` rows fail, once both numbers are known.
double entropy_bits(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || part == whole) return 0;
  const double n = static_cast<double>(whole), p = static_cast<double>(part) / n;
  return -n * (p * std::log2(p) + (1 - p) * std::log2(1 - p));
}

std::vector<double> values_of(Rows rows, std::size_t trait) {
  std::set<double> values;
  for (const Row* row : rows) values.insert((*row)[trait]);
  return {values.begin(), values.end()};
}

// At most `most` of the values, spread evenly, ends included.
std::vector<double> thinned(std::vector<double> values, std::size_t most) {
  if (values.size() <= most) return values;
  std::vector<double> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(values[i * (values.size() - 1) / (most - 1)]);
  return kept;
}

class Learner {
 public:
  Learner(Rows failing, Rows passing, Rows anchors, const LearnOptions& options)
      : failing_(failing), passing_(passing), anchors_(anchors), options_(options) {
    for (std::size_t trait = 0; trait < options_.table.size(); ++trait)
      if (options.of_layout || options_.table[trait].name != "other_layout") add_atoms(trait);
    covers_.reserve(atoms_.size());
    for (const Atom& atom : atoms_) covers_.push_back(cover_of(atom));
    // Sets are told by their labels, which each take bits of their own.
    const auto sets = std::ranges::count(atoms_, Compare::one_of, &Atom::op);
    atom_bits_ = std::log2(static_cast<double>(std::ssize(atoms_) - sets) + 2);
    for (const Atom& atom : atoms_) bits_of_.push_back(atom_bits_ + set_bits(atom));
  }

  Learned run() {
    Candidate best = whole();
    const double without = best.cost;
    std::vector<Candidate> beam{best};
    for (std::size_t length = 1; length <= options_.most_atoms; ++length) {
      beam = longer(beam);
      const Candidate shorter = best;
      for (const Candidate& candidate : beam)
        if (better(candidate, best) && pays(candidate, shorter, without)) best = candidate;
      // Candidates of nearly equal cost are ordered by their traits: fields before derived ones, round bounds before
      // others. A candidate that leaves a failure out does not win this way.
      for (const Candidate& candidate : beam)
        if (best.atoms.size() == length && candidate.cost < cheapest(beam) + near_bits && candidate.pure == best.pure &&
            places(candidate) < places(best) && holds_of(candidate) >= holds_of(best) &&
            pays(candidate, shorter, without))
          best = candidate;
    }
    return learned(best.atoms, std::max(0.0, without - best.cost));
  }

  // A bound that a minimal problem suggests fits it by chance, so that others come first.
  Learned run_from(std::span<const Row> neighbours, std::span<const Row> values) {
    for (const bool suggested : {false, true})
      if (const auto needed = needed_beside(neighbours, values, suggested); !needed.empty()) return learned(needed, 0);
    return learned({}, 0);
  }

 private:
  struct Candidate {
    std::vector<std::size_t> atoms;
    Cover cover;
    double cost = 0;
    bool pure = false;
  };

  [[nodiscard]] Learned learned(const std::vector<std::size_t>& atoms, double bits) const {
    Learned learned;
    for (const std::size_t atom : atoms) learned.predicate.atoms.push_back(rounded(atoms_[atom]));
    learned.counts = separation(learned.predicate, failing_, passing_);
    learned.bits = bits;
    learned.atom_bits = atom_bits_;
    return learned;
  }
  // The comparisons that leave out every neighbour; none if there are no such.
  [[nodiscard]] std::vector<std::size_t> needed_beside(std::span<const Row> neighbours, std::span<const Row> values,
                                                       bool suggested) const {
    std::vector<const Row*> open, beside;  // those that every comparison so far holds of
    for (const Row& row : neighbours) open.push_back(&row);
    for (const Row& row : values) beside.push_back(&row);
    const auto held = [&](std::size_t atom, const std::vector<const Row*>& rows) {
      return std::ranges::count_if(rows, [&](const Row* row) { return atoms_[atom].holds(*row); });
    };
    const auto merit = [&](std::size_t atom) {
      return std::tuple(held(atom, open) + held(atom, beside), !is_of_field(atom),
                        covers_[atom].passing.count_and(covers_[atom].passing));
    };
    std::vector<std::size_t> chosen;
    while (!open.empty() && chosen.size() < options_.most_needs) {
      std::optional<std::size_t> best;
      for (std::size_t atom = 0; atom < atoms_.size(); ++atom)
        if (says_of_all(atom) && (suggested || !is_suggested(atom)) && held(atom, open) < std::ssize(open) &&
            (!best || merit(atom) < merit(*best)))
          best = atom;
      if (!best) break;
      for (auto* rows : {&open, &beside})
        std::erase_if(*rows, [&](const Row* row) { return !atoms_[*best].holds(*row); });
      chosen.push_back(*best);
    }
    return open.empty() ? chosen : std::vector<std::size_t>();
  }
  // A neighbour differs in a field; relations of several hold of a minimal problem by chance.
  [[nodiscard]] bool is_of_field(std::size_t atom) const {
    const Trait& trait = options_.table[atoms_[atom].trait];
    return trait.op == nullptr || trait.op->find_field(trait.name) != nullptr;
  }
  [[nodiscard]] bool is_suggested(std::size_t atom) const {
    return atoms_[atom].value != std::floor(atoms_[atom].value);
  }
  // Tells whether an atom holds of every failure, and is no remainder, no alignment and no one number, which a minimal
  // problem has by chance.
  [[nodiscard]] bool says_of_all(std::size_t atom) const {
    const Atom& one = atoms_[atom];
    const Trait& trait = options_.table[one.trait];
    return trait.kind != Trait::Kind::remainder && !trait.name.ends_with("_align") &&
           !(trait.kind == Trait::Kind::number && one.op == Compare::eq && one.value != 0) &&
           covers_[atom].failing.count_and(covers_[atom].failing) == failing_.size();
  }

  [[nodiscard]] Candidate whole() const {
    Candidate all{{}, {Bits(failing_.size()), Bits(passing_.size())}, 0, passing_.empty()};
    for (std::size_t i = 0; i < failing_.size(); ++i) all.cover.failing.set(i);
    for (std::size_t i = 0; i < passing_.size(); ++i) all.cover.passing.set(i);
    all.cost = cost(failing_.size(), passing_.size());
    return all;
  }
  static double cheapest(const std::vector<Candidate>& beam) {
    return std::ranges::min(beam, {}, &Candidate::cost).cost;
  }
  // The number of failures that a candidate holds of.
  static std::uint64_t holds_of(const Candidate& candidate) {
    return candidate.cover.failing.count_and(candidate.cover.failing);
  }
  static std::size_t places(const Candidate& candidate) {
    std::size_t sum = 0;
    for (const std::size_t atom : candidate.atoms) sum += atom;
    return sum;
  }
  // Tells whether `a` is better. Under `pure`, a candidate that lets a passing problem in is worse than all that do
  // not.
  [[nodiscard]] bool better(const Candidate& a, const Candidate& b) const {
    if (options_.pure && a.pure != b.pure) return a.pure;
    return a.cost < b.cost - slack_bits;
  }
  [[nodiscard]] bool pays(const Candidate& longer, const Candidate& shorter, double whole) const {
    if (options_.pure && longer.pure != shorter.pure) return longer.pure;
    const auto further = static_cast<double>(longer.atoms.size() - shorter.atoms.size());
    // A bound that the data suggest fits them by chance more easily.
    const bool suggested = std::ranges::any_of(longer.atoms, [&](std::size_t atom) { return is_suggested(atom); });
    const double beyond = std::max(0.0, whole - (suggested ? 0 : options_.free_bits));
    return shorter.cost - longer.cost >= further * options_.least_share * beyond;
  }
  // The bits of the description without the comparisons themselves.
  [[nodiscard]] double cost(std::uint64_t failing, std::uint64_t passing) const {
    const std::uint64_t outside = failing_.size() - failing, inside = failing + passing;
    return entropy_bits(failing, inside) + entropy_bits(outside, failing_.size() + passing_.size() - inside);
  }
  // The bits that name the labels of a set, beyond those of another comparison of the trait.
  [[nodiscard]] double set_bits(const Atom& atom) const {
    if (atom.op != Compare::one_of) return 0;
    const auto labels = static_cast<int>(options_.table[atom.trait].labels.size());
    const int chosen = std::popcount(static_cast<std::uint64_t>(atom.value));
    double ways = 1;
    for (int i = 0; i < chosen; ++i) ways = ways * (labels - i) / (i + 1);
    return std::log2(ways);
  }

  // The best conjunctions of one more comparison, best first.
  [[nodiscard]] std::vector<Candidate> longer(const std::vector<Candidate>& beam) const {
    struct Score {
      std::size_t from, atom;
      double cost;
      bool pure;
    };
    std::vector<Score> scores;
    std::set<std::vector<std::size_t>> made;  // whatever the order
    for (std::size_t from = 0; from < beam.size(); ++from) {
      const Candidate& base = beam[from];
      const std::uint64_t failing_before = base.cover.failing.count_and(base.cover.failing),
                          passing_before = base.cover.passing.count_and(base.cover.passing);
      for (std::size_t atom = 0; atom < atoms_.size(); ++atom) {
        if (std::ranges::any_of(base.atoms, [&](std::size_t other) { return atoms_[other] == atoms_[atom]; })) continue;
        const std::uint64_t failing = base.cover.failing.count_and(covers_[atom].failing),
                            passing = base.cover.passing.count_and(covers_[atom].passing);
        if (failing < options_.least_failing || (failing == failing_before && passing == passing_before)) continue;
        // More of what it leaves out must pass than of what it holds of.
        const double inside = static_cast<double>(failing) / static_cast<double>(failing + passing);
        const double all =
            static_cast<double>(failing_.size()) / static_cast<double>(failing_.size() + passing_.size());
        if (inside < all) continue;
        std::vector<std::size_t> atoms = base.atoms;
        atoms.push_back(atom);
        std::ranges::sort(atoms);
        if (!made.insert(atoms).second) continue;
        double said = 0;
        for (const std::size_t one : atoms) said += bits_of_[one];
        scores.push_back({from, atom, cost(failing, passing) + said, passing == 0});
      }
    }
    std::ranges::stable_sort(scores, {}, [](const Score& score) { return std::round(score.cost / slack_bits); });
    // One that is pure may be no promising start for longer ones, and still the best of all.
    const auto pure = std::ranges::find(scores, true, &Score::pure);
    std::vector<Score> kept(scores.begin(),
                            scores.begin() + static_cast<std::ptrdiff_t>(std::min(scores.size(), beam_width)));
    for (std::size_t i = kept.size(); i < scores.size() && kept.size() < 4 * beam_width; ++i)
      if (scores[i].cost < scores.front().cost + near_bits) kept.push_back(scores[i]);
    if (options_.pure && pure - scores.begin() >= static_cast<std::ptrdiff_t>(kept.size()) && pure != scores.end())
      kept.push_back(*pure);
    std::swap(scores, kept);
    std::vector<Candidate> next;
    for (const Score& score : scores) {
      Candidate candidate = beam[score.from];
      candidate.atoms.push_back(score.atom);
      candidate.cover.failing.intersect(covers_[score.atom].failing);
      candidate.cover.passing.intersect(covers_[score.atom].passing);
      candidate.cost = score.cost;
      candidate.pure = score.pure;
      next.push_back(std::move(candidate));
    }
    return next;
  }

  void add(std::size_t trait, Compare op, double value) {
    const Atom atom{trait, op, value};
    if (std::ranges::all_of(anchors_, [&](const Row* row) { return atom.holds(*row); })) atoms_.push_back(atom);
  }
  void add_atoms(std::size_t trait) {
    const Trait& known = options_.table[trait];
    std::vector<double> values = values_of(failing_, trait);
    for (const double value : values_of(anchors_, trait)) values.push_back(value);
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    switch (known.kind) {
      case Trait::Kind::flag:
        for (const double value : values) add(trait, Compare::eq, value);
        break;
      case Trait::Kind::remainder:
        add(trait, Compare::ne, 0);
        add(trait, Compare::eq, 0);
        break;
      case Trait::Kind::label:
        for (const double value : values)
          if (value != unnamed) add(trait, Compare::eq, value);
        if (known.labels.size() <= most_excluded)
          for (const double value : values_of(passing_, trait))
            if (!std::ranges::binary_search(values, value) && value != known.plain) add(trait, Compare::ne, value);
        add(trait, Compare::ne, known.plain);
        add_sets(trait);
        break;
      case Trait::Kind::number:
        add_thresholds(trait, values);
        break;
    }
  }
  // Adds the sets of labels under which the largest parts fail: one of these separates best among all sets of so many
  // (Breiman et al., Classification and Regression Trees, 1984, section 4.2.2).
  void add_sets(std::size_t trait) {
    const std::size_t count = options_.table[trait].labels.size();
    if (count < 3 || std::cmp_greater(count, most_set_labels)) return;
    std::vector<std::uint64_t> failing(count), asked(count);
    const auto tally = [&](Rows rows, std::vector<std::uint64_t>& counts) {
      for (const Row* row : rows)
        if (const double x = (*row)[trait]; x >= 0 && x < static_cast<double>(count))
          ++counts[static_cast<std::size_t>(x)];
    };
    tally(failing_, failing);
    tally(failing_, asked);
    tally(passing_, asked);
    std::vector<std::size_t> labels;
    for (std::size_t label = 0; label < count; ++label)
      if (failing[label] > 0) labels.push_back(label);
    std::ranges::stable_sort(
        labels, [&](std::size_t a, std::size_t b) { return failing[a] * asked[b] > failing[b] * asked[a]; });
    double set = 0;
    for (std::size_t i = 0; i < std::min(labels.size(), largest_set) && i + 2 < count; ++i) {
      set += std::exp2(labels[i]);
      if (i > 0) add(trait, Compare::one_of, set);
    }
  }
  // Round bounds before those that the data suggest.
  void add_thresholds(std::size_t trait, const std::vector<double>& values) {
    const bool real = std::ranges::any_of(values, [](double x) { return x != std::floor(x); });
    if (real || (!values.empty() && values.front() < 0))
      for (const Compare op : {Compare::lt, Compare::le, Compare::gt, Compare::ge}) add(trait, op, 0);
    if (std::ranges::find(values, 0.0) != values.end()) add(trait, Compare::eq, 0);
    for (const Compare op : {Compare::gt, Compare::lt, Compare::ne}) add(trait, op, options_.table[trait].plain);
    for (const double value : thinned(values, thresholds)) {
      add(trait, Compare::ge, value);
      add(trait, Compare::le, value);
    }
    if (!real)
      for (const double value : thinned(values, thresholds)) add(trait, Compare::eq, value);
  }

  // The same on all rows with the fewest digits.
  [[nodiscard]] Atom rounded(Atom atom) const {
    if (options_.table[atom.trait].kind != Trait::Kind::number || (atom.op != Compare::ge && atom.op != Compare::le))
      return atom;
    const double value = atom.value, far = std::numeric_limits<double>::infinity();
    if (value == std::floor(value) && std::fabs(value) < 1e6) return atom;
    double least = -far, most = far;  // values of rows on either side, or at it
    for (const Rows rows : {failing_, passing_, anchors_})
      for (const Row* row : rows) {
        const double x = (*row)[atom.trait];
        if (x < value) least = std::max(least, x);
        if (x > value) most = std::min(most, x);
      }
    for (int digits = 0; digits < 16; ++digits) {
      const double shorter = *parse_double(fmt::format("{:.{}e}", value, digits));
      if (atom.op == Compare::ge ? shorter > least && shorter <= value : shorter >= value && shorter < most)
        return {atom.trait, atom.op, shorter};
    }
    return atom;
  }

  // Atoms of one trait come one after the other, so that its values are read from the rows once.
  [[nodiscard]] Cover cover_of(const Atom& atom) {
    if (failing_column_.empty() || atom.trait != column_) {
      column_ = atom.trait;
      read(failing_, failing_column_);
      read(passing_, passing_column_);
    }
    Cover cover{Bits(failing_.size()), Bits(passing_.size())};
    mark(atom, failing_column_, cover.failing);
    mark(atom, passing_column_, cover.passing);
    return cover;
  }
  void read(Rows rows, std::vector<double>& column) const {
    column.clear();
    for (const Row* row : rows) column.push_back((*row)[column_]);
  }
  static void mark(const Atom& atom, const std::vector<double>& column, Bits& bits) {
    for (std::size_t i = 0; i < column.size(); ++i)
      if (atom.holds(column[i])) bits.set(i);
  }

  const Rows failing_, passing_, anchors_;
  const LearnOptions options_;
  std::vector<Atom> atoms_;
  std::vector<Cover> covers_;
  std::vector<double> bits_of_;  // the bits that name each atom
  std::size_t column_ = 0;       // the trait whose values are
  std::vector<double> failing_column_, passing_column_;
  double atom_bits_ = 0;
};

}  // namespace

std::vector<const Row*> thinned_out(const std::vector<const Row*>& rows) {
  constexpr std::size_t most = 4096;
  if (rows.size() <= most) return rows;
  std::vector<const Row*> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(rows[i * rows.size() / most]);
  return some;
}

std::vector<const Row*> with_neighbours(const std::vector<const Row*>& passing, std::span<const Row> options,
                                        std::span<const Row> values) {
  constexpr std::size_t weight = 3;  // the count of each row of `options`
  std::vector<const Row*> rows = thinned_out(passing);
  for (const Row& row : options) rows.insert(rows.end(), weight, &row);
  for (const Row& row : values) rows.push_back(&row);
  return rows;
}

double description_bits(std::span<const Predicate* const> predicates, Rows failing, Rows passing, double atom_bits) {
  struct Cell {
    std::uint64_t failing = 0, asked = 0;
  };
  std::map<std::vector<bool>, Cell> cells;
  const auto cell_of = [&](const Row& row) -> Cell& {
    std::vector<bool> answers;
    for (const Predicate* predicate : predicates) answers.push_back(predicate->holds(row));
    return cells[answers];
  };
  for (const Row* row : failing) {
    Cell& cell = cell_of(*row);
    ++cell.failing;
    ++cell.asked;
  }
  for (const Row* row : passing) ++cell_of(*row).asked;
  double bits = 0;
  for (const Predicate* predicate : predicates) bits += static_cast<double>(predicate->atoms.size()) * atom_bits;
  for (const auto& [answers, cell] : cells)
    bits += std::log2(static_cast<double>(cell.asked) + 1) + entropy_bits(cell.failing, cell.asked);
  return bits;
}

Separation separation(const Predicate& predicate, Rows failing, Rows passing) {
  Separation counts;
  for (const Row* row : failing) {
    const bool inside = predicate.holds(*row);
    ++(inside ? counts.failing : counts.failing_elsewhere);
    ++(inside ? counts.asked : counts.elsewhere);
  }
  for (const Row* row : passing) ++(predicate.holds(*row) ? counts.asked : counts.elsewhere);
  return counts;
}

Learned learn_from_neighbours(Rows failing, Rows passing, const Row& minimal, std::span<const Row> neighbours,
                              std::span<const Row> values, const LearnOptions& options) {
  return Learner(failing, passing, std::vector<const Row*>{&minimal}, options).run_from(neighbours, values);
}

Learned learn(Rows failing, Rows passing, Rows anchors, const LearnOptions& options) {
  return Learner(failing, passing, anchors, options).run();
}

}  // namespace attest::engine
