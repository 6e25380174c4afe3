// qk-sign: f(-Q, -K, V) = f(Q, K, V). qk-flip: the same with some of the coordinates of Q and K flipped.
//
// Exact, for subjects that claim `deterministic`: each product q[c] k[c] keeps its value, wherever the scale goes, and
// the sum over c its order; formats are symmetric, so that rounding the factors commutes with the sign. Catches signs
// that are lost, conversions that round down, and coordinates that are taken from one operand and not the other.
// The coordinates are drawn by their place in the whole problem, so that a slice flips the same ones.
#include <vector>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason qk_flip_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.d == 0 || p.lk == 0) return "no scores";
  return needs_deterministic(p, contract, info);
}
Reason some_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.d == 1) return "one coordinate";
  return qk_flip_not_applicable(p, contract, info);
}

// Returns the coordinates to flip: about half of them, at least one.
std::vector<bool> some_coordinates(const Problem& p) {
  std::vector<bool> flips(static_cast<std::size_t>(p.d));
  const std::uint64_t key = draw(p, 91);
  bool any = false;
  for (Index c = 0; c < p.d; ++c) {
    const bool flip = extend(key, static_cast<std::uint64_t>(p.d0 + c)) & 1;
    flips[static_cast<std::size_t>(c)] = flip;
    any = any || flip;
  }
  if (!any) flips[below(key, flips.size())] = true;
  return flips;
}

Verdict check_qk_flip(Trial& trial, const std::vector<bool>& flips, std::string_view note) {
  Inputs inputs = trial.inputs().clone();
  for (Tensor* tensor : {&inputs.q, &inputs.k})
    for_each_stored(*tensor, [&](Index b, Index h, Index i, Index c) {
      if (flips[static_cast<std::size_t>(c)]) tensor->set(b, h, i, c, -tensor->at(b, h, i, c));
    });
  const Result& base = trial.base();
  Counts counts;
  if (auto evidence = difference_with_keys(trial, base, trial.run(inputs, trial.problem()), note, counts))
    return Verdict::fail(std::move(*evidence), counts);
  return held(counts);
}

Verdict check_all(Trial& trial) {
  return check_qk_flip(trial, std::vector<bool>(static_cast<std::size_t>(trial.problem().d), true), "-q and -k");
}
Verdict check_some(Trial& trial) {
  return check_qk_flip(trial, some_coordinates(trial.problem()), "the same coordinates of q and k flipped");
}

}  // namespace

Property qk_sign() {
  return {"qk-sign",
          "f(-q, -k, v) = f(q, k, v)",
          "negating queries and keys changes nothing, if `deterministic` is claimed",
          Kind::exact,
          qk_flip_not_applicable,
          check_all,
          Asks::base_plan};
}

Property qk_flip() {
  return {"qk-flip",
          "f(S q, S k, v) = f(q, k, v), S a diagonal of signs",
          "flipping the same coordinates of queries and keys changes nothing, if `deterministic` is claimed",
          Kind::exact,
          some_not_applicable,
          check_some,
          Asks::base_plan};
}

}  // namespace attest::properties
