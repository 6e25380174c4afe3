#include "engine/sound.hpp"

#include <algorithm>
#include <array>

#include "core/supports.hpp"
#include "engine/instance.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::engine {
namespace {

// b, hq, hkv, lq, lk, d, dv of the canaries, the smallest first that softmax and both products have a part in. A kernel
// that is wrong on one of them may be right on the next: a single key leaves next to nothing to err in.
using Sizes = std::array<Index, 7>;
constexpr Sizes canary_sizes[] = {
    {1, 1, 1, 2, 3, 4, 4}, {1, 1, 1, 1, 1, 1, 1}, {1, 2, 2, 16, 16, 64, 64}, {2, 2, 2, 64, 64, 128, 128}};
constexpr std::uint64_t canary_seed = 0x63616E617279;

// The least size that is offered from `n` on.
Index offered(const DimRange& range, Index n) {
  const Index step = std::max<Index>(range.multiple, 1);
  const Index least = std::max({n, range.min, Index{1}});
  return std::min((least + step - 1) / step * step, range.max);
}

// Nothing where the subject takes no problem of about that size.
std::optional<Problem> canary(const Sizes& size, const Supports& s, Format dtype) {
  Problem p;
  p.dtype = dtype;
  p.b = offered(s.b, size[0]);
  p.hkv = offered(s.hkv, size[2]);
  p.hq = offered(s.hq, std::max(size[1], p.hkv));
  if (p.hq != p.hkv && (!s.gqa || p.hq % p.hkv != 0)) p.hkv = offered(s.hkv, p.hq);
  p.lq = offered(s.lq, size[3]);
  p.lk = offered(s.lk, size[4]);
  p.d = offered(s.d, size[5]);
  p.dv = s.dv_equals_d ? p.d : offered(s.dv, size[6]);
  p.values = Values::normal;
  p.seed = canary_seed;
  if (p.hkv < 1 || p.hq % p.hkv != 0 || declined(p, s, {&dtype, 1})) return std::nullopt;
  return p;
}

// What the canary is held against: memory, result class and bound. They make no call beyond that of the problem.
std::span<const std::size_t> canary_laws() {
  static const std::array<std::size_t, 3> laws{law_named("guards"), law_named("result-class"),
                                               law_named(policy_bound_name)};
  return laws;
}

// The contract of a problem beside one that has `given`: that of its own forms and dtype, but for a policy that the user gave.
Contract contract_of(const Problem& problem, const SubjectInfo& info, const Contract& given) {
  const Format dtype = given.policy[Stage::storage];
  if (problem.dtype == dtype && info.form_contracts.empty()) return given;
  Contract own = info.contract(problem.dtype, problem.forms);
  if (problem.dtype != dtype) return own;
  const auto index = static_cast<std::size_t>(std::ranges::find(info.dtypes, dtype) - info.dtypes.begin());
  const bool declared = given.policy == info.contract(dtype).policy ||
                        std::ranges::any_of(info.form_contracts, [&](const FormContract& of) {
                          return given.policy == of.contracts.at(index).policy;
                        });
  if (!declared) own.policy = given.policy;
  return own;
}

// What is wrong with the answer, if anything; `answered`: whether there was one to judge. `contract` is that of the call before.
std::optional<Ailment> ask(const Problem& problem, Bench bench, const Contract& contract, bool& answered) {
  CaseOutcome outcome = check(problem, contract_of(problem, bench.subject.info(), contract), bench, canary_laws());
  answered = outcome.executed();
  if (!outcome.reported) return std::nullopt;
  LawVerdict& law = outcome.laws[*outcome.reported];
  return Ailment{law.law, std::move(law.verdict), problem, {}};
}

// What is wrong for good: a kernel that errs now and then errs on the canary too.
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

// The first canary that is answered rightly becomes that of the dtype; else what was wrong with the first. After a death the
// next is asked of another instance, which says nothing about this one: only of a `fresh` one are the others asked then.
std::optional<Ailment> choose(Bench bench, const Contract& contract, Instance::Canary& canary_of_dtype, bool fresh) {
  std::optional<Ailment> first;
  for (const Sizes& size : canary_sizes) {
    const auto problem = canary(size, bench.subject.info().supports, contract.policy[Stage::storage]);
    if (!problem) continue;
    bool answered = false;
    std::optional<Ailment> wrong = ask(*problem, bench, contract, answered);
    if (!wrong && answered) {
      canary_of_dtype.problem = *problem;
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

// Of one subject, asked by itself.
std::optional<Ailment> ailment_of_one(Bench bench, const Contract& contract) {
  Instance::Canary& known = bench.instance->canary(contract.policy[Stage::storage]);
  if (known.none) return std::nullopt;
  if (known.problem) return ask_for_good(*known.problem, bench, contract);
  std::optional<Ailment> wrong = choose(bench, contract, known, false);
  if (!wrong) return std::nullopt;
  // Of an instance that is not sound, or of a kernel that is wrong everywhere: a fresh one tells.
  if (!renew(bench) || choose(bench, contract, known, true)) known.none = true;
  if (known.none) return std::nullopt;
  // Of a canary that ends fresh instances too, nobody knows what it says of that one.
  if (ends_instance(wrong->verdict.kind) && wrong->canary != *known.problem) return std::nullopt;
  return wrong;
}

// Each of two subjects by itself.
Bench the_subject(const Bench& both) { return {both.subject, nullptr, both.calibration, both.instance}; }
Bench the_peer(const Bench& both) { return {*both.peer, nullptr, both.calibration, &both.instance->peer()}; }
Contract contract_of_peer(const Bench& both, const Contract& contract) {
  return both.peer->info().contract(contract.policy[Stage::storage]);
}

// A call of a problem alone, of each subject that is under test.
std::span<const std::size_t> own_call(const Bench& bench) {
  static const std::size_t of_both = law_named(compare_bound_name);
  return bench.compares ? std::span(&of_both, 1) : canary_laws();
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
void warm_up(Bench bench, const Contract& contract) {
  Instance none;
  if (!bench.instance) bench.instance = &none;
  if (bench.compares) {
    warm_up(the_peer(bench), contract_of_peer(bench, contract));
    return warm_up(the_subject(bench), contract);
  }
  const Format dtype = contract.policy[Stage::storage];
  std::optional<Problem> problem = bench.instance->canary(dtype).problem;
  if (!problem) problem = canary(canary_sizes[0], bench.subject.info().supports, dtype);
  bool answered = false;
  if (problem) ask(*problem, bench, contract, answered);
}

void repeat_calls(std::span<const Asked> calls, Bench bench, const Contract& contract) {
  for (const Asked& call : calls) {
    const Contract its = contract_of(call.problem, bench.subject.info(), contract);
    check(call.problem, its, bench, call.laws.empty() ? own_call(bench) : std::span(call.laws));
  }
}

}  // namespace attest::engine
