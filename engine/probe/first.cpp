#include "engine/probe/first.hpp"

#include <algorithm>

#include "engine/probe/probe.hpp"
#include "engine/restated.hpp"

namespace attest::engine {
namespace {

// No choice, and each further value of each form by itself.
std::vector<std::vector<FormChoice>> choices(const Supports& supports) {
  std::vector<std::vector<FormChoice>> all{{}};
  for (const FormOffer& offer : supports.forms())
    for (std::size_t n = 1; n < offer.values.size(); ++n) all.push_back({{offer.name, offer.values[n]}});
  return all;
}

// The observations that both show: rows of one form beside those of another.
std::vector<ProbeRow> common(std::vector<ProbeRow> rows, const std::vector<ProbeRow>& others) {
  for (ProbeRow& row : rows) {
    const auto other = std::ranges::find(others, row.stage, &ProbeRow::stage);
    if (other == others.end()) continue;  // it was not asked there
    row.bits = std::min(row.bits, other->bits);
    if (row.at_least && (!other->at_least || ops::holds(*row.at_least, *other->at_least)))
      row.at_least = other->at_least;
  }
  return rows;
}

// A form in which nothing can be asked says nothing.
bool is_silent(const std::vector<ProbeRow>& rows) {
  return std::ranges::none_of(rows, [](const ProbeRow& row) { return row.at_least || row.at_most; });
}

}  // namespace

ProbedFirst probed_first(std::unique_ptr<SubjectFactory> subject, const Op& op) {
  ProbedFirst probed;
  const SubjectInfo& info = subject->info();
  const ops::Probes* probes = op.probes();
  if (op.policy_declared(info) || probes == nullptr) {
    probed.subject = std::move(subject);
    return probed;
  }
  std::vector<Contract> contracts;
  for (const Format dtype : op.dtypes(info)) {
    const Contract generous = op.contract(info, dtype);
    const std::unique_ptr<Subject> instance = subject->open();
    std::optional<std::vector<ProbeRow>> rows;
    for (const auto& forms : choices(Supports(info))) {
      std::vector<ProbeRow> own = probes->stages({*instance, dtype, generous, false, forms});
      if (rows && is_silent(own)) continue;
      rows = rows ? common(std::move(*rows), own) : std::move(own);
    }
    contracts.push_back(probes->narrowed(generous, *rows));
    probed.assumed.emplace_back(dtype, to_text(policy_of(contracts.back())));
  }
  SubjectInfo held = probes->holding(info, contracts);
  probed.subject = restated(std::move(subject), std::move(held));
  return probed;
}

}  // namespace attest::engine
