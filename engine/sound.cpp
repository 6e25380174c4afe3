#include "engine/sound.hpp"

#include <algorithm>
#include <array>

#include "engine/instance.hpp"
#include "engine/silence.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::engine {
namespace {

Format dtype_of(const Contract& contract) { return storage_of(policy_of(contract)); }

// The laws that the canary is held against: memory, result class and bound. They make no call beyond that of the
// problem.
std::vector<std::size_t> canary_laws(const Op& op) {
  std::vector<std::size_t> laws;
  for (std::size_t law = 0; law < all_laws().size(); ++law)
    for (const std::string_view name :
         {std::string_view("guards"), std::string_view("result-class"), policy_bound_name})
      if (all_laws()[law].op == &op && all_laws()[law].name == name) laws.push_back(law);
  return laws;
}

// The ailment that the answer shows, if any; `answered`: whether there was one to judge. `contract` is that of the call
// before.
std::optional<Ailment> ask(const Problem& problem, Bench bench, const Contract& contract, bool& answered) {
  const Op& op = problem.op();
  CaseOutcome outcome =
      check(problem, op.contract_beside(problem, bench.subject.info(), contract), bench, canary_laws(op));
  answered = outcome.executed();
  if (!outcome.reported) return std::nullopt;
  LawVerdict& law = outcome.laws[*outcome.reported];
  return Ailment{law.law, std::move(law.verdict), problem, {}};
}

// The ailment that three calls show alike: a kernel that errs now and then errs on the canary too.
std::optional<Ailment> ask_for_good(const Problem& problem, Bench bench, const Contract& contract) {
  constexpr int times = 3;
  std::optional<Ailment> wrong;
  for (int i = 0; i < times; ++i) {
    bool answered = false;
    wrong = ask(problem, bench, contract, answered);
    if (!wrong || ends_instance(wrong->verdict.kind)) break;
  }
  return wrong;
}

// The first canary that is answered rightly becomes that of the dtype; else what was wrong with the first. After a
// death the next is asked of another instance, which says nothing about this one: only of a `fresh` one are the others
// asked then.
std::optional<Ailment> choose(Bench bench, const Contract& contract, Instance::Canary& canary_of_dtype, bool fresh) {
  std::optional<Ailment> first;
  for (const Problem& problem : contract.op().canaries(bench.subject.info(), dtype_of(contract))) {
    bool answered = false;
    std::optional<Ailment> wrong = ask(problem, bench, contract, answered);
    if (!wrong && answered) {
      canary_of_dtype.problem = problem;
      return std::nullopt;
    }
    if (!wrong || first) continue;
    first = std::move(wrong);
    if (first->verdict.kind == VerdictKind::timeout) break;  // the others would cost as much
    if (!fresh && ends_instance(first->verdict.kind)) break;
  }
  canary_of_dtype.none = !first;
  return first;
}

// The ailment of one subject, asked by itself.
std::optional<Ailment> ailment_of_one(Bench bench, const Contract& contract) {
  Instance::Canary& known = bench.instance->canary(dtype_of(contract));
  if (known.none) return std::nullopt;
  if (known.problem) return ask_for_good(*known.problem, bench, contract);
  std::optional<Ailment> wrong = choose(bench, contract, known, false);
  if (!wrong) return std::nullopt;
  // The instance is not sound, or the kernel is wrong everywhere: a fresh one tells.
  if (!renew(bench) || choose(bench, contract, known, true)) known.none = true;
  if (known.none) return std::nullopt;
  // A canary that ends fresh instances too says nothing about that one.
  if (ends_instance(wrong->verdict.kind) && wrong->canary != *known.problem) return std::nullopt;
  return wrong;
}

// Each of two subjects by itself.
Bench the_subject(const Bench& both) { return {both.subject, nullptr, both.instance}; }
Bench the_peer(const Bench& both) { return {*both.peer, nullptr, &both.instance->peer()}; }
Contract contract_of_peer(const Bench& both, const Contract& contract) {
  return contract.op().contract(both.peer->info(), dtype_of(contract));
}

// A call of a problem alone, of each subject that is under test.
std::vector<std::size_t> own_call(const Bench& bench, const Op& op) {
  return bench.compares ? std::vector{law_named(compare_bound_name, op)} : canary_laws(op);
}

std::string_view what_came(const Verdict& verdict) {
  switch (verdict.kind) {
    case VerdictKind::error:
      return "is an error";
    case VerdictKind::crash:
      return "is a crash";
    case VerdictKind::timeout:
      return "does not return";
    default:
      break;
  }
  if (!verdict.evidence) return "fails";
  switch (verdict.evidence->wrong) {
    case Wrong::nan:
      return "gives nan";
    case Wrong::infinity:
      return "gives infinity";
    case Wrong::memory:
      return "breaks memory";
    default:
      return "gives wrong numbers";
  }
}

}  // namespace

std::string Ailment::text() const {
  std::string said = whose + "the next call " + std::string(what_came(verdict));
  if (!verdict.reason.empty()) said += ": " + verdict.reason;
  return said + " (`" + to_text(canary) + "`)";
}

Verdict Ailment::poison() const { return {VerdictKind::poisoned, text(), {}, {}}; }

bool renew(Bench bench) {
  if (!bench.subject.renew()) return false;
  if (bench.instance) bench.instance->started();
  return !bench.compares || bench.peer->renew();
}

std::optional<Ailment> ailment(Bench bench, const Contract& contract) {
  Instance none;
  if (!bench.instance) bench.instance = &none;
  if (!bench.compares) return ailment_of_one(bench, contract);
  std::optional<Ailment> ill = ailment_of_one(the_subject(bench), contract);
  const char* whose = properties::subject_prefix;
  if (!ill) {
    ill = ailment_of_one(the_peer(bench), contract_of_peer(bench, contract));
    whose = properties::peer_prefix;
  }
  if (ill) ill->whose = whose;
  return ill;
}
bool warm_up(Bench bench, const Contract& contract) {
  Instance none;
  if (!bench.instance) bench.instance = &none;
  if (bench.compares)
    return warm_up(the_peer(bench), contract_of_peer(bench, contract)) && warm_up(the_subject(bench), contract);
  const Format dtype = dtype_of(contract);
  std::optional<Problem> problem = bench.instance->canary(dtype).problem;
  if (!problem) {
    const std::vector<Problem> canaries = contract.op().canaries(bench.subject.info(), dtype);
    if (!canaries.empty()) problem = canaries.front();
  }
  bool answered = false;
  const std::optional<Ailment> ill = problem ? ask(*problem, bench, contract, answered) : std::nullopt;
  return !ill || ill->verdict.kind != VerdictKind::timeout;
}

bool returns_anything(Bench bench, const Contract& contract) {
  const Op& op = contract.op();
  if (!renew(bench)) return false;
  for (const Problem& canary : op.canaries(bench.subject.info(), dtype_of(contract))) {
    const Contract its = op.contract_beside(canary, bench.subject.info(), contract);
    const CaseOutcome outcome = check(canary, its, bench, canary_laws(op));
    if (!is_silent(outcome)) return true;
    if (outcome.reported && outcome.finding()->verdict.kind == VerdictKind::timeout)
      return false;  // the others cost as much
  }
  return false;
}

void repeat_calls(std::span<const Asked> calls, Bench bench, const Contract& contract) {
  for (const Asked& call : calls) {
    const Op& op = call.problem.op();
    const Contract its = op.contract_beside(call.problem, bench.subject.info(), contract);
    check(call.problem, its, bench, call.laws.empty() ? own_call(bench, op) : call.laws);
  }
}

}  // namespace attest::engine
