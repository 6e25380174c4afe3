#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/case_table.hpp"
#include "engine/predicate.hpp"
#include "generators/domain.hpp"

namespace attest::engine {

// Fewer failures than this teach nothing.
inline constexpr std::uint64_t least_explained = 5;

// A predicate that explains failures of one key: so far every problem inside failed so.
struct AvoidRule {
  FailureKey key;
  Predicate predicate;
  // Whether problems inside are avoided; otherwise the law of `key` is not asked there, and everything else is.
  bool problems = true;
  bool known = false;                    // from an earlier campaign (--known)
  std::uint64_t failing = 0, asked = 0;  // problems of this campaign inside which the law gave a verdict
  bool retired = false;                  // one of them passed

  [[nodiscard]] bool explains(const FailureKey& failure, const Row& row) const;
};
// "scale<=0", or "law==layout && other_layout==odd_base" where only the law is avoided.
std::string to_text(const AvoidRule& rule);

// What is known gives way to what is not: once a predicate explains at least five failures and no problem inside it passed,
// problems are drawn outside it, but one case in twenty. Rules change at fixed case numbers and depend on the cases before
// them alone, so that neither threads nor time decide what is drawn.
class Avoidance {
 public:
  // `applies`: rules change what is drawn; otherwise they only tell what explains a failure. `learns`: there come new ones.
  Avoidance(const Supports& supports, std::uint64_t seed, bool applies, bool learns)
      : supports_(supports), seed_(seed), applies_(applies), learns_(learns) {}

  // The problem of a case, how often it was drawn again for it, and how many the domain's predicates turned away.
  struct Drawn {
    Problem problem;
    std::uint64_t redraws = 0, rejected = 0;
  };
  [[nodiscard]] Drawn draw(const Domain& domain, std::uint64_t number, std::uint64_t repeat) const;
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
  // Called at a boundary with all cases before it.
  void learn(const CaseTable& table);
  // The rule of this campaign or an earlier one that explains a failure; nullptr if none does.
  [[nodiscard]] const AvoidRule* explanation(const FailureKey& failure, const Row& row) const;
  // How many rules there are for failures of that key.
  [[nodiscard]] std::uint64_t understood(const FailureKey& failure) const;

  std::vector<AvoidRule> rules;  // public so that a campaign can store, restore and show them

 private:
  [[nodiscard]] std::uint64_t seed_after(std::uint64_t redraws) const noexcept;
  [[nodiscard]] bool applies(const AvoidRule& rule) const noexcept { return applies_ && !rule.retired; }
  [[nodiscard]] bool looks_inside(std::uint64_t plan) const noexcept;
  [[nodiscard]] bool avoided(const Problem& problem) const;

  const Supports& supports_;
  std::uint64_t seed_;
  bool applies_, learns_;
};

nlohmann::ordered_json to_json(const AvoidRule& rule);
// Throws nlohmann::json::exception; Error(usage) for a predicate that this version cannot read.
AvoidRule rule_from_json(const nlohmann::json& object);

}  // namespace attest::engine
