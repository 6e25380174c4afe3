#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/campaign.hpp"
#include "engine/cluster.hpp"
#include "engine/instance.hpp"
#include "engine/ops.hpp"
#include "engine/timed.hpp"

namespace attest::engine {

// Asks once more about reproducers of a campaign that has ended, so that its failures are grouped into defects
// (cluster.hpp). A question whose calls have no time left is answered as if nothing were known.
class Inquiry {
 public:
  // All must outlive it. The time of its questions is taken from `allowance`.
  Inquiry(Station& station, const Op& op, Allowance& allowance) : station_(station), op_(op), allowance_(allowance) {}

  // The evidence of a campaign, which asks this object for the rest.
  [[nodiscard]] Evidences evidences(const CaseTable& table, const std::map<std::string, std::string>& buckets);

  // The entry that a law's failure on a problem is shrunk to, within a few calls; nullopt where it holds.
  [[nodiscard]] std::optional<Entry> reproduced(const Problem& at, const std::string& property,
                                                const CampaignOptions& options, const ShrinkLimits& limits);
  // Tells whether an entry's failure shows as it did: of the same kind, and at the same element with half of its error or
  // more. True where that cannot be told: of a death, of answers that differ from call to call, after other calls, and
  // where no time is left.
  [[nodiscard]] bool still_shows(const Entry& entry);
  // The small calls of an entry's law.
  [[nodiscard]] std::vector<Problem> calls_of(const Entry& at);

 private:
  [[nodiscard]] Probed probed(const Entry& at, const std::string& property);
  [[nodiscard]] bool holds_apart(const Entry& at, const std::string& property);
  [[nodiscard]] std::optional<Accounts> accounts(const Entry& at);
  // One law on the problem of an entry, with `subject` in the place of the station's own.
  [[nodiscard]] CaseOutcome asked_alone(const std::string& property, const Entry& at, Subject& subject);

  template <class Step>
  auto in_time(Step&& step) -> decltype(step());

  Station& station_;
  const Op& op_;
  Allowance& allowance_;
};

}  // namespace attest::engine
