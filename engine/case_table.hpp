#pragma once
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/subject.hpp"
#include "engine/check.hpp"
#include "engine/ops.hpp"
#include "engine/predicate.hpp"
#include "engine/traits.hpp"

namespace attest::engine {

inline constexpr std::size_t most_laws = 128;

// The traits of a problem, worked out when they are first asked for: most campaigns end without a failure, and never
// ask. Copies share them; any thread may ask.
class LateRow {
 public:
  LateRow() = default;
  LateRow(Row row);  // NOLINT: a row is one
  // `supports` must outlive all copies, or the first question.
  LateRow(const Problem& problem, const Supports& supports);
  [[nodiscard]] const Row& row() const;
  operator const Row&() const { return row(); }  // NOLINT: the same

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// One problem of a campaign as the table keeps it: its traits, and the verdicts of the laws.
struct CaseRow {
  std::uint64_t number = 0;
  std::uint64_t redraws = 0;  // draws repeated to avoid what is understood (avoid.hpp)
  LateRow traits;
  std::bitset<most_laws> held;       // laws that gave pass or warn, by position in all_laws()
  std::vector<FailureKey> failures;  // keys of the laws that failed, in their order
  std::string signature;             // by which triage counts it, if it failed
  // The call of a failure, by its place, that a law made and that was not done, if it is known.
  std::map<std::size_t, Row> calls{};

  [[nodiscard]] bool fails(const FailureKey& key) const;
  // Tells whether the law of that name gave pass or warn.
  [[nodiscard]] bool holds(std::string_view property) const;
  // The traits of the call of a death or an error that was not done, the problem's own or a law's; nullptr if they are
  // not known.
  [[nodiscard]] const Row* undone(std::size_t failure) const;
};

CaseRow case_row(std::uint64_t number, std::uint64_t redraws, const Problem& problem, const CaseOutcome& outcome,
                 const Supports& supports);

// The problems of a campaign from which predicates are learned, in case order. It keeps all of the first 20,000; later
// ones if they fail, up to 20,000, and one in sixteen of the others.
class CaseTable {
 public:
  explicit CaseTable(Supports supports) : supports_(std::move(supports)) { know_forms(supports_.forms()); }

  void add(CaseRow row);
  // Drops the rows of the cases from that number on.
  void forget_from(std::uint64_t number);
  [[nodiscard]] const std::vector<CaseRow>& rows() const noexcept { return rows_; }
  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }

  // The rows with a verdict of the law; no row in which it failed in whatever way.
  [[nodiscard]] std::vector<const Row*> holding(std::string_view property) const;
  // The rows of problems whose own call was done, whatever came of it.
  [[nodiscard]] std::vector<const Row*> answered() const;

 private:
  [[nodiscard]] bool keeps(const CaseRow& row) const noexcept;

  Supports supports_;
  std::vector<CaseRow> rows_;
  std::size_t failing_ = 0;
};

// One line of a campaign folder: everything but the traits, which the problem gives. Those of calls that laws made are
// in it, by name, as far as they are not plain.
nlohmann::ordered_json to_json(const CaseRow& row);
// Throws nlohmann::json::exception.
CaseRow row_from_json(const nlohmann::json& line);

}  // namespace attest::engine
