// kept-state: f(x) = f(x), bit by bit, with other calls in between on the same instance.
//
// The calls in between have other values at the same shape, or another shape; the subject may decline them. For
// subjects that claim `deterministic`. Catches workspaces that keep values of an earlier call and plans that are
// reused where they do not fit.
#include <algorithm>

#include "core/error.hpp"
#include "core/supports.hpp"
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

constexpr Index most_repeated = Index{1} << 24;

Index larger(Index n, const DimRange& range) {
  const Index step = std::max<Index>(range.multiple, 1);
  const Index more = n + std::max(step, n / 2 / step * step);
  return range.offers(more) ? more : n;
}
Index smaller(Index n, const DimRange& range) {
  const Index step = std::max<Index>(range.multiple, 1);
  const Index less = (n / 2) / step * step;
  return n > 1 && less > 0 && range.offers(less) ? less : n;
}

// One dimension larger: which one is drawn.
Problem grown(const Problem& problem, const Supports& supports) {
  Problem p = reseeded(problem, 11);
  switch (below(draw(problem, 12), 5)) {
    case 0:
      p.lk = larger(p.lk, supports.lk);
      break;
    case 1:
      p.lq = larger(p.lq, supports.lq);
      break;
    case 2:
      p.b = larger(p.b, supports.b);
      break;
    case 3:
      if (p.hkv > 0 && supports.hkv.offers(p.hkv + 1) && supports.hq.offers(p.hq + p.group()))
        p.hq += p.group(), p.hkv += 1;
      break;
    default:
      p.d = larger(p.d, supports.d);
      p.dv = supports.dv_equals_d ? p.d : p.dv;
  }
  return p;
}

Problem shrunk(const Problem& problem, const Supports& supports) {
  Problem p = reseeded(problem, 13);
  p.b = smaller(p.b, supports.b);
  p.lq = smaller(p.lq, supports.lq);
  p.lk = smaller(p.lk, supports.lk);
  return p;
}

bool usable(const Problem& problem, const SubjectInfo& info) {
  if (problem.multiply_adds() > most_repeated) return false;
  try {
    validate(problem);
    return !declined(problem, info.supports, info.dtypes);
  } catch (const Error&) {
    return false;
  }
}

Verdict check_kept_state(Trial& trial) {
  const Problem& p = trial.problem();
  const SubjectInfo& info = trial.subject().info();
  const Supports& supports = info.supports;
  const Problem first = draw(p, 14) & 1 ? reseeded(p, 15) : shrunk(p, supports);
  const Problem between[] = {first, grown(p, supports)};

  const Result& base = trial.base();
  std::vector<Inputs> inputs;
  inputs.reserve(std::size(between));
  std::vector<Request> calls;
  for (const Problem& other : between) {
    if (!usable(other, info)) continue;
    calls.push_back({&inputs.emplace_back(materialise(other)), &other});
    calls.push_back({&trial.inputs(), &p});
  }
  if (calls.empty()) return Verdict::skip("no other call of moderate size");
  const std::vector<Result> results = trial.attempt_many(calls);
  Counts counts;
  for (std::size_t n = 0; n < results.size(); ++n) {
    const bool ours = n % 2 == 1;
    if (!ours) {
      if (results[n].violation) return Verdict::fail(*results[n].violation, counts);
      continue;
    }
    if (results[n].call.status != CallStatus::done) throw CallFailed(results[n].call);
    if (auto evidence = difference(base, results[n], Equality::bits,
                                   "the same call after " + to_text(*calls[n - 1].problem), counts))
      return Verdict::fail(std::move(*evidence), counts);
  }
  return Verdict::pass(counts);
}

}  // namespace

Property kept_state() {
  return {"kept-state",
          "f(x) = f(x) bit by bit after f(y), y of other values or another shape",
          "a call does not depend on the calls before it, if `deterministic` is claimed",
          Kind::exact,
          needs_deterministic,
          check_kept_state};
}

}  // namespace attest::properties
