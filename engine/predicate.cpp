#include "engine/predicate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace attest::engine {
namespace {

using Compare = Atom::Op;
constexpr std::string_view everything = "any problem";
constexpr std::array<std::string_view, 6> comparisons{"==", "!=", "<", "<=", ">=", ">"};

// A form that a subject does not have is -1.
std::string label_of(const Trait& trait, double value) {
  const bool known = value >= 0 && value < static_cast<double>(trait.labels.size());
  return known ? std::string(trait.labels[static_cast<std::size_t>(value)]) : "none";
}

std::string to_text(const Atom& atom, std::span<const Trait> table) {
  const Trait& trait = table[atom.trait];
  if (trait.kind == Trait::Kind::flag) {
    if ((atom.value != 0) == (atom.op == Compare::eq)) return trait.name;
    const bool relation = trait.name.find_first_of("<>=!") != std::string::npos;
    return relation ? "!(" + trait.name + ")" : "!" + trait.name;
  }
  if (atom.op == Compare::one_of) {
    std::string labels;
    for (std::size_t label = 0; label < trait.labels.size(); ++label)
      if (atom.holds(static_cast<double>(label)))
        labels += (labels.empty() ? "" : "|") + label_of(trait, static_cast<double>(label));
    return trait.name + "==" + labels;
  }
  const bool label = trait.kind == Trait::Kind::label;
  return trait.name + std::string(comparisons[static_cast<std::size_t>(atom.op)]) +
         (label ? label_of(trait, atom.value) : fmt::format("{}", atom.value));
}

std::optional<double> value_of(const Trait& trait, std::string_view text) {
  if (trait.kind != Trait::Kind::label) return parse_double(text);
  const auto found = std::ranges::find(trait.labels, text);
  if (found == trait.labels.end()) return std::nullopt;
  return static_cast<double>(found - trait.labels.begin());
}

// "f16|bf16"; nullopt of a trait without labels, or with one that it does not have.
std::optional<double> set_of(const Trait& trait, std::string_view text) {
  if (trait.kind != Trait::Kind::label || std::ssize(trait.labels) > most_set_labels) return std::nullopt;
  double sum = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    const auto label = value_of(trait, text.substr(begin, end - begin));
    if (!label || Atom{0, Compare::one_of, sum}.holds(*label)) return std::nullopt;
    sum += std::exp2(*label);
    begin = end + 1;
  }
  return sum;
}

std::optional<Atom> flag_from_text(std::string_view text, const Op& op) {
  Atom atom{0, Compare::eq, 1};
  if (const auto whole = trait_named(text, op); whole < traits().size()) {
    atom.trait = whole;
  } else {
    if (!text.starts_with("!")) return std::nullopt;
    text.remove_prefix(1);
    if (text.starts_with("(") && text.ends_with(")")) text = text.substr(1, text.size() - 2);
    atom.trait = trait_named(text, op);
    atom.value = 0;
    if (atom.trait == traits().size()) return std::nullopt;
  }
  return traits()[atom.trait].kind == Trait::Kind::flag ? std::optional(atom) : std::nullopt;
}

std::optional<Atom> atom_from_text(std::string_view text, const Op& op) {
  if (const auto flag = flag_from_text(text, op)) return flag;
  const std::size_t at = text.find_first_of("=!<>");
  if (at == std::string_view::npos || at + 1 >= text.size()) return std::nullopt;
  const std::size_t length = text[at + 1] == '=' ? 2 : 1;
  const auto compare = std::ranges::find(comparisons, text.substr(at, length));
  const std::size_t trait = trait_named(text.substr(0, at), op);
  if (compare == comparisons.end() || trait == traits().size()) return std::nullopt;
  const std::string_view right = text.substr(at + length);
  if (*compare == "==" && right.find('|') != std::string_view::npos) {
    const auto set = set_of(traits()[trait], right);
    return set ? std::optional(Atom{trait, Compare::one_of, *set}) : std::nullopt;
  }
  const auto value = value_of(traits()[trait], right);
  if (!value) return std::nullopt;
  return Atom{trait, static_cast<Compare>(compare - comparisons.begin()), *value};
}

}  // namespace

bool Predicate::holds(const Row& row) const noexcept {
  return std::ranges::all_of(atoms, [&](const Atom& atom) { return atom.holds(row); });
}

bool Predicate::holds(const Problem& problem, const Supports& supports) const {
  const Looked looked(problem, supports);
  return std::ranges::all_of(atoms, [&](const Atom& atom) {
    const Trait& trait = traits()[atom.trait];
    return (trait.op == nullptr || trait.op == &problem.op()) && atom.holds(trait.get(looked));
  });
}

std::string to_text(const Predicate& predicate) { return to_text(predicate, traits()); }

std::string to_text(const Predicate& predicate, std::span<const Trait> table) {
  std::string text;
  for (const Atom& atom : predicate.atoms) text += (text.empty() ? "" : " && ") + to_text(atom, table);
  return text.empty() ? std::string(everything) : text;
}

std::optional<Predicate> predicate_from_text(std::string_view text, const Op& op) {
  Predicate predicate;
  if (text == everything) return predicate;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(" && ", begin), text.size());
    const auto atom = atom_from_text(text.substr(begin, end - begin), op);
    if (!atom) return std::nullopt;
    predicate.atoms.push_back(*atom);
    begin = end + 4;
  }
  return predicate;
}

}  // namespace attest::engine
