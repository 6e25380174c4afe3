#include "engine/case_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/number_text.hpp"
#include "engine/evidence.hpp"

namespace attest::engine {
namespace {

constexpr std::size_t all_of_first = 20'000, most_failing = 20'000;
constexpr std::uint64_t one_in = 16;

// The laws of that name, of every operation.
std::bitset<most_laws> laws_named(std::string_view property) {
  std::bitset<most_laws> laws;
  for (std::size_t law = 0; law < all_laws().size(); ++law) laws.set(law, all_laws()[law].name == property);
  return laws;
}

std::string name_of(const Trait& trait) {
  return (trait.op ? std::string(trait.op->name()) + "." : std::string()) + trait.name;
}

nlohmann::ordered_json named(const Row& row) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i] != traits()[i].plain) values[name_of(traits()[i])] = fmt::format("{}", row[i]);
  return values;
}

Row row_named(const nlohmann::json& values) {
  Row row;
  for (const Trait& trait : traits()) {
    const auto value = values.find(name_of(trait));
    row.push_back(value == values.end() ? trait.plain : parse_double(value->get<std::string>()).value_or(trait.plain));
  }
  return row;
}

}  // namespace

struct LateRow::State {
  std::once_flag asked;
  std::optional<Problem> problem;  // until then
  const Supports* supports = nullptr;
  Row row;
};

LateRow::LateRow(Row row) : state_(std::make_shared<State>()) { state_->row = std::move(row); }
LateRow::LateRow(const Problem& problem, const Supports& supports) : state_(std::make_shared<State>()) {
  state_->problem = problem;
  state_->supports = &supports;
}

const Row& LateRow::row() const {
  static const Row none;
  if (!state_) return none;
  std::call_once(state_->asked, [this] {
    if (!state_->problem) return;
    state_->row = row_of(*state_->problem, *state_->supports);
    state_->problem.reset();
  });
  return state_->row;
}

CaseRow case_row(std::uint64_t number, std::uint64_t redraws, const Problem& problem, const CaseOutcome& outcome,
                 const Supports& supports) {
  CaseRow row{number, redraws, {problem, supports}, {}, {}, {}};
  for (const auto& [law, verdict, call, lost] : outcome.laws) {
    if (verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::warn) row.held.set(law);
    // An instance that an earlier call poisoned says nothing of this problem.
    if (is_finding(verdict.kind) && verdict.kind != VerdictKind::poisoned) {
      if (call) row.calls[row.failures.size()] = row_of_call(*call, problem, supports);
      row.failures.push_back(key_of(all_laws()[law].name, verdict));
    }
  }
  return row;
}

bool CaseRow::fails(const FailureKey& key) const { return std::ranges::find(failures, key) != failures.end(); }

bool CaseRow::holds(std::string_view property) const { return (held & laws_named(property)).any(); }

const Row* CaseRow::undone(std::size_t failure) const {
  if (const auto call = calls.find(failure); call != calls.end()) return &call->second;
  const Law* law = find_law(failures[failure].property);
  return law && law->base_call() ? &traits.row() : nullptr;
}

bool CaseTable::keeps(const CaseRow& row) const noexcept {
  if (rows_.size() < all_of_first) return true;
  return row.failures.empty() ? row.number % one_in == 0 : failing_ < most_failing;
}

void CaseTable::add(CaseRow row) {
  if ((row.failures.empty() && row.held.none()) || !keeps(row)) return;
  failing_ += row.failures.empty() ? 0 : 1;
  rows_.push_back(std::move(row));
}

void CaseTable::forget_from(std::uint64_t number) {
  std::erase_if(rows_, [number](const CaseRow& row) { return row.number >= number; });
}

std::vector<const Row*> CaseTable::holding(std::string_view property) const {
  const std::bitset<most_laws> laws = laws_named(property);
  std::vector<const Row*> found;
  for (const CaseRow& row : rows_)
    if ((row.held & laws).any()) found.push_back(&row.traits.row());
  return found;
}

std::vector<const Row*> CaseTable::answered() const {
  std::vector<const Row*> found;
  for (const CaseRow& row : rows_)
    if (row.held.any()) found.push_back(&row.traits.row());
  return found;
}

nlohmann::ordered_json to_json(const CaseRow& row) {
  nlohmann::ordered_json line = nlohmann::ordered_json::array({row.number, row.redraws});
  nlohmann::ordered_json held = nlohmann::ordered_json::array();
  for (std::size_t law = 0; law < all_laws().size(); ++law)
    if (row.held[law]) held.push_back(law);
  line.push_back(std::move(held));
  if (!row.failures.empty()) line.push_back(row.signature);
  for (std::size_t i = 0; i < row.failures.size(); ++i) {
    const FailureKey& key = row.failures[i];
    line.push_back({key.property, name(key.kind), key.what});
    if (const auto call = row.calls.find(i); call != row.calls.end()) line.back().push_back(named(call->second));
  }
  return line;
}

CaseRow row_from_json(const nlohmann::json& line) {
  CaseRow row{line.at(0).get<std::uint64_t>(), line.at(1).get<std::uint64_t>(), {}, {}, {}, {}};
  for (const nlohmann::json& law : line.at(2)) row.held.set(law.get<std::size_t>() % most_laws);
  if (line.size() > 3) row.signature = line.at(3).get<std::string>();
  for (std::size_t i = 4; i < line.size(); ++i) {
    if (line.at(i).size() > 3) row.calls[row.failures.size()] = row_named(line.at(i).at(3));
    row.failures.push_back({line.at(i).at(0).get<std::string>(),
                            verdict_kind_from_name(line.at(i).at(1).get<std::string>()).value_or(VerdictKind::fail),
                            line.at(i).at(2).get<std::string>()});
  }
  return row;
}

}  // namespace attest::engine
