#include "ops/probe/shown.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/policy_stages.hpp"
#include "ops/op.hpp"
#include "properties/guarded.hpp"

namespace attest::ops::probing {
namespace {

std::string_view failure_name(CallStatus status) {
  switch (status) {
    case CallStatus::unsupported:
      return "refused";
    case CallStatus::crash:
      return "crash";
    case CallStatus::timeout:
      return "timeout";
    case CallStatus::done:
    case CallStatus::error:
      return "error";
  }
  return "error";
}

std::string first_line(std::string_view text) {
  constexpr std::size_t most = 100;
  return std::string(text.substr(0, std::min(text.find('\n'), most)));
}

std::string clause(const Evidence& e) {
  return fmt::format("{}[{},{},{},{}] = {:.6g} lies outside [{:.6g}, {:.6g}]", e.tensor, e.index[0], e.index[1],
                     e.index[2], e.index[3], e.got, e.lo, e.hi);
}

}  // namespace

double element_of(const Exchange& exchange, const Place& index, std::string_view output) {
  for (const auto& [name, tensor] : exchange.outputs())
    if (name == output) return tensor->at(index[0], index[1], index[2], index[3]);
  throw internal_error(fmt::format("a call under probe has no output {}", output));
}

Shown::Shown(const Problem& problem, const Contract& contract, Subject& subject)
    : exchange_(problem.op().exchange(problem)) {
  const Op& op = problem.op();
  const SubjectInfo& info = subject.info();
  if (const auto why = op.declined(problem, Supports(info), op.dtypes(info))) {
    refusal_ = fmt::format("refused: {}", first_line(*why));
    call_ = {CallStatus::unsupported, *why};
    return;
  }
  const std::vector<NamedTensor> tensors = exchange_->inputs();
  std::vector<Inputs::Named> inputs;
  inputs.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) inputs.push_back({name, *tensor});
  properties::Snapshot before({&inputs, 1});
  call_ = subject.run_one(exchange_->call());
  std::optional<Evidence> modified = before.restore(inputs);
  if (call_.status != CallStatus::done) {
    refusal_ = fmt::format("{}: {}", failure_name(call_.status), first_line(call_.message));
    if (call_.status != CallStatus::unsupported) broken_ = refusal_;
    return;
  }
  for (const auto& [name, tensor] : exchange_->outputs())
    if (!violation_) violation_ = properties::output_violation(*tensor, std::string(name).c_str());
  if (!violation_) violation_ = std::move(modified);
  if (violation_) broken_ = violation_->note;
  verdict_ = exchange_->judge(contract);
  if (verdict_.kind == VerdictKind::fail) witness_ = clause(verdict_.evidence.value());
}

Shown Shown::refused(std::string_view reason) {
  Shown none;
  none.refusal_ = fmt::format("refused: {}", reason);
  return none;
}

bool Shown::fits(const Contract& contract) const { return exchange_->judge(contract).kind != VerdictKind::fail; }
bool Shown::passes(const Contract& contract) const { return exchange_->judge(contract).kind == VerdictKind::pass; }

Shown Asked::ask(const Problem& problem) const {
  Shown shown(problem, contract, subject);
  if (guilty) shown.forgive();
  if (!meaning || !shown.done() || !shown.outside()) return shown;
  // An answer that a narrower stage explains shows no other meaning: the row of that stage tells it.
  const Op& op = contract.op();
  for (const Format format : {Format::f16, Format::bf16}) {
    Policy coarse = op.policy(contract);
    constexpr std::size_t storage = 0;
    for (std::size_t stage = storage + 1; stage < stages_of(op.name()).size(); ++stage)
      op.set_stage(coarse, stage, format);
    try {
      if (shown.passes(op.with_policy(contract, coarse))) shown.forgive();
    } catch (const Error&) {  // no kernel promises that
    }
  }
  return shown;
}

std::optional<Contract> with_stage(const Contract& contract, std::size_t stage, Format format) {
  const Op& op = contract.op();
  Policy policy = op.policy(contract);
  op.set_stage(policy, stage, format);
  try {
    return op.with_policy(contract, policy);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// ---- rows -----------------------------------------------------------------------------------------------------------

ProbeRow untold(std::string stage, std::string promised, std::string_view reason) {
  ProbeRow row;
  row.stage = std::move(stage);
  row.promised = std::move(promised);
  row.observed = cannot_tell(reason);
  return row;
}

ProbeRow refused_row(std::string stage, std::string promised, const Shown& shown) {
  ProbeRow row = untold(std::move(stage), std::move(promised), shown.refusal());
  row.evidence = shown.problem();
  if (!shown.broken().empty()) row.standing = Standing::contradicts;
  return row;
}

ProbeRow row_of(std::string stage, std::string promised, std::string observed, const Shown& shown, Standing standing) {
  if (!shown.done()) return refused_row(std::move(stage), std::move(promised), shown);
  ProbeRow row;
  row.stage = std::move(stage);
  row.promised = std::move(promised);
  row.observed = std::move(observed);
  row.standing = standing;
  row.evidence = shown.problem();
  if (shown.outside() || !shown.broken().empty()) contradict(row, shown);
  return row;
}

ProbeRow held_row(std::string stage, std::string promised, std::string observed, const Shown& shown) {
  const Standing standing = observed == promised ? Standing::agrees : Standing::open;
  return row_of(std::move(stage), std::move(promised), std::move(observed), shown, standing);
}

void contradict(ProbeRow& row, const Shown& shown) {
  row.standing = Standing::contradicts;
  if (row.observed == row.promised) row.observed += ", but what is noted is wrong";
  row.evidence = shown.problem();
  row.note = shown.broken().empty() ? shown.witness() : shown.broken();
}

// ---- what rows say of a policy --------------------------------------------------------------------------------------

const ProbeRow* find(const std::vector<ProbeRow>& rows, std::string_view stage) {
  const auto found = std::ranges::find(rows, stage, &ProbeRow::stage);
  return found == rows.end() ? nullptr : &*found;
}

std::string all_observed(const std::vector<ProbeRow>& rows, std::string_view prefix) {
  std::string found;
  for (const ProbeRow& row : rows) {
    if (!row.stage.starts_with(prefix)) continue;
    if (!found.empty() && row.observed != found) return {};
    found = row.observed;
  }
  return found;
}

std::optional<Format> least_of(const std::vector<ProbeRow>& rows, std::size_t stage) {
  std::optional<Format> least;
  for (const ProbeRow& row : rows) {
    if (row.of_stage != stage) continue;
    if (!row.at_least) return std::nullopt;
    if (!least || holds(*least, *row.at_least)) least = row.at_least;
  }
  return least;
}

Policy policy_seen(const Contract& contract, const std::vector<ProbeRow>& rows) {
  const Op& op = contract.op();
  Policy policy = op.policy(contract);
  for (std::size_t stage = 0; stage < stages_of(op.name()).size(); ++stage) {
    std::optional<Format> most;
    bool spoken_against = false;
    for (const ProbeRow& row : rows) {
      if (row.of_stage != stage) continue;
      spoken_against = spoken_against || row.promised == "not said" || row.standing == Standing::contradicts;
      if (row.at_most && (!most || holds(*most, *row.at_most))) most = row.at_most;
    }
    if (!spoken_against) continue;
    if (const auto least = least_of(rows, stage))
      op.set_stage(policy, stage, *least);
    else if (most)
      op.set_stage(policy, stage, *most);
  }
  return policy;
}

std::optional<Deterministic> deterministic_seen(const std::vector<ProbeRow>& rows) {
  const auto equal = [&](std::string_view name) { return all_observed(rows, name) == equal_bits; };
  return !equal(row_reruns) || !equal(row_instances) ? Deterministic::no
         : equal(row_threads)                        ? Deterministic::threads
                                                     : Deterministic::rerun;
}

std::optional<BatchInvariance> batch_seen(const std::vector<ProbeRow>& rows) {
  return all_observed(rows, row_batch).starts_with(equal_bits) ? BatchInvariance::bitwise : BatchInvariance::bounded;
}

}  // namespace attest::ops::probing
