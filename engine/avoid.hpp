#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/case_table.hpp"
#include "engine/predicate.hpp"
#include "generators/domain.hpp"

namespace attest::engine {

// Fewer failures than this, on as many plans, teach nothing.
inline constexpr std::uint64_t least_explained = 5;
// An understood condition is asked in one case of so many all the same; a rule that costs too much raises the number.
inline constexpr std::uint64_t inside_one_in = 20;

// A predicate that explains failures of one key: so far every problem inside failed so.
struct AvoidRule {
  FailureKey key;
  Predicate predicate;
  // Tells whether problems inside are avoided; otherwise the law of `key` is not asked there, and everything else is.
  bool problems = true;
  bool known = false;                    // from an earlier campaign (--known)
  std::uint64_t failing = 0, asked = 0;  // problems of this campaign inside which the law gave a verdict
  bool retired = false;                  // one of them passed
  std::uint64_t one_in = inside_one_in;  // one of so many cases inside is asked all the same
  bool costly = false;   // its law fails now and then and costs much: no condition, and it explains nothing
  bool settled = false;  // a reproducer stands for its deaths and errors, which need not be asked for again
  bool doubted = false;  // one that was did not show again: from now on each is
  double seconds = 0;    // time that its deaths and errors would have taken so far, had every case inside been asked

  [[nodiscard]] bool explains(const FailureKey& failure, const Row& row) const;
};
// "scale<=0", or "law==layout && other_layout==odd_base" where only the law is avoided.
std::string to_text(const AvoidRule& rule);

// Draws problems away from the known failures. Once a predicate explains failures on at least five plans and no problem
// inside it passed, problems are drawn outside it, but one case in twenty: or fewer, where time ends a campaign and
// deaths would take more than a tenth of it. Rules change at fixed case numbers and depend on the cases before them
// alone, so that neither threads nor time decide what is drawn.
class Avoidance {
 public:
  // `applies`: rules change what is drawn; otherwise they only tell what explains a failure. `learns`: there come new
  // ones.
  Avoidance(const Supports& supports, std::uint64_t seed, bool applies, bool learns)
      : supports_(supports), seed_(seed), applies_(applies), learns_(learns) {}

  // The problem of a case, how often it was drawn again for it, and how many the domain's predicates turned away.
  struct Drawn {
    Problem problem;
    std::uint64_t redraws = 0, rejected = 0;
  };
  // `turned_away`: whether what so many redraws give is not to be asked, whatever it is.
  [[nodiscard]] Drawn draw(const Domain& domain, std::uint64_t number, std::uint64_t repeat,
                           const std::function<bool(std::uint64_t redraws)>& turned_away = {}) const;
  // The same as it was drawn when it took so many draws.
  [[nodiscard]] Problem drawn_before(const Domain& domain, std::uint64_t number, std::uint64_t repeat,
                                     std::uint64_t redraws) const;
  // Removes the laws that are not asked of this problem; returns how many.
  std::size_t leave_out(std::vector<std::size_t>& laws, const Problem& problem, std::uint64_t number,
                        std::uint64_t repeat) const;

  // The first case number after `number` at which rules may change.
  [[nodiscard]] static std::uint64_t boundary_after(std::uint64_t number) noexcept;
  // Counts a case towards every rule, and retires those that it contradicts at the next learn().
  void count(const CaseRow& row);
  // Called at a boundary with all cases before it. A plan is kept for `repeat` cases, which agree in all but what
  // tensors hold: however many of them fail, they tell of one plan.
  void learn(const CaseTable& table, std::uint64_t repeat = 1);
  // The rule of this campaign or an earlier one that explains a failure; nullptr if none does.
  [[nodiscard]] const AvoidRule* explanation(const FailureKey& failure, const Row& row) const;
  // Counts the time of a case; told by campaigns alone that a time ends.
  void spend(const CaseRow& row, double seconds);
  // Says of each rule for deaths and errors whether a reproducer stands for it.
  void settle(const std::function<bool(const AvoidRule&)>& stands);
  // Tells whether a death or an error need not be asked for again: but one in eight is, so that a false condition is
  // found out.
  [[nodiscard]] bool presumes(const FailureKey& failure, const Row& row, std::uint64_t number) const;
  // Tells whether a rule that a reproducer stands for explains a death or an error.
  [[nodiscard]] bool is_settled(const FailureKey& failure, const Row& row) const;
  // Counts a failure that was asked for again and did not show against the rules that would have presumed it.
  void doubt(std::string_view property, const Row& row);
  // The number of rules for failures of that key.
  [[nodiscard]] std::uint64_t understood(const FailureKey& failure) const;

  std::vector<AvoidRule> rules;  // public so that a campaign can store, restore and show them

 private:
  [[nodiscard]] std::uint64_t seed_after(std::uint64_t redraws) const noexcept;
  [[nodiscard]] bool applies(const AvoidRule& rule) const noexcept { return applies_ && !rule.retired; }
  [[nodiscard]] bool looks_inside(const AvoidRule& rule, std::uint64_t plan) const noexcept;
  [[nodiscard]] bool avoided(const Problem& problem, std::uint64_t plan) const;
  void learn_conditions(const CaseTable& table, std::uint64_t repeat);
  void leave_out_costly(const CaseTable& table);
  void share_time();

  const Supports& supports_;
  std::uint64_t seed_;
  bool applies_, learns_;
  double clean_seconds_ = 0;  // seconds of the cases without a death or an error
  // The deaths and errors that no rule is for.
  struct Open {
    FailureKey key;
    std::uint64_t failing = 0;
    double seconds = 0;
  };
  std::map<std::string, Open> open_;
};

nlohmann::ordered_json to_json(const AvoidRule& rule);
// Throws nlohmann::json::exception; Error(usage) for a predicate that this version cannot read.
AvoidRule rule_from_json(const nlohmann::json& object, const Op& op);

}  // namespace attest::engine
