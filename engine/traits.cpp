#include "engine/traits.hpp"

#include <algorithm>
#include <array>
#include <deque>

namespace attest::engine {
namespace {

using Kind = Trait::Kind;

constexpr std::size_t most_form_traits = 64;
constexpr std::size_t most_values = 4 * most_form_values;  // values that forms of one name may have

std::vector<Trait> fixed_traits() {
  std::vector<Trait> all;
  for (const Op* op : ops::all_ops())
    for (Trait& trait : op->traits()) {
      trait.op = op;
      all.push_back(std::move(trait));
    }
  return all;
}

// The fixed traits, and behind them those of forms, which never move: rows and predicates know them by position.
struct Table {
  Table() : all(fixed_traits()), fixed(all.size()) {
    all.reserve(fixed + most_form_traits);
    for (auto& labels : values) labels.reserve(most_values);
  }
  std::vector<Trait> all;
  const std::size_t fixed;
  std::array<std::vector<std::string_view>, most_form_traits> values;
  std::deque<std::string> words;  // the strings that `values` view
};

Table& table() {
  static Table the;
  return the;
}

double form_in_effect(const Looked& at, std::string_view name, const std::vector<std::string_view>& values) {
  const auto& offers = at.supports.forms();
  const auto offer = std::ranges::find(offers, name, &FormOffer::name);
  if (offer == offers.end()) return -1;
  return static_cast<double>(std::ranges::find(values, form_value(*offer, forms_of(at.problem))) - values.begin());
}

std::size_t form_trait_named(std::string_view name) {
  const auto all = traits().subspan(table().fixed);
  return table().fixed + static_cast<std::size_t>(std::ranges::find(all, name, &Trait::name) - all.begin());
}

}  // namespace

std::span<const Trait> traits() { return table().all; }

void know_forms(std::span<const FormOffer> offers) {
  Table& known = table();
  for (const FormOffer& offer : offers) {
    const std::size_t at = form_trait_named("form." + offer.name), form = at - known.fixed;
    if (form == most_form_traits) return;
    std::vector<std::string_view>& values = known.values[form];
    for (const std::string& value : offer.values)
      if (std::ranges::find(values, value) == values.end() && values.size() < most_values)
        values.push_back(known.words.emplace_back(value));
    if (at == known.all.size())
      known.all.push_back(
          {"form." + offer.name, Kind::label, {}, 0, [name = offer.name, &values](const Looked& looked) {
             return form_in_effect(looked, name, values);
           }});
    known.all[at].labels = values;
    known.all[at].plain = static_cast<double>(std::ranges::find(values, offer.values.front()) - values.begin());
  }
}

std::size_t trait_named(std::string_view name, const Op& op) {
  const auto all = traits();
  const auto found = std::ranges::find_if(
      all, [&](const Trait& trait) { return (trait.op == nullptr || trait.op == &op) && trait.name == name; });
  return static_cast<std::size_t>(found - all.begin());
}

Row row_of(const Problem& problem, const Supports& supports) {
  Row row;
  row.reserve(traits().size());
  const Looked looked(problem, supports);
  const Op& op = problem.op();
  for (const Trait& trait : traits())
    row.push_back(trait.op == nullptr || trait.op == &op ? trait.get(looked) : trait.plain);
  return row;
}

Row row_of_call(const Problem& call, const Problem& problem, const Supports& supports) {
  Row row = row_of(call, supports);
  const Row before = row_of(problem, supports);
  for (std::size_t i = 0; i < row.size(); ++i)
    if (const Trait& trait = traits()[i];
        trait.kind == Kind::label && trait.op != nullptr && row[i] != before[i] && row[i] != trait.plain)
      row[i] = unnamed;
  return row;
}

}  // namespace attest::engine
