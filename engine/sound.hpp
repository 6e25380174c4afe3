#pragma once
#include <optional>
#include <span>
#include <string>

#include "engine/check.hpp"

namespace attest::engine {

// A sign that an instance is not sound: a call that a fresh instance answers rightly, and this one does not.
struct Ailment {
  std::size_t law = 0;  // position in properties::properties()
  Verdict verdict;
  Problem canary;
  std::string whose;  // where two subjects are held against each other: the prefix of the one that is not sound

  // "the next call gives nan `b=1 ...`": equal in its first words where the ailment is.
  [[nodiscard]] std::string text() const;
  // The verdict on the call that left the instance so.
  [[nodiscard]] Verdict poison() const;
};

// Asks the instance the canary: the smallest problem of a few, within the subject's supports, that a fresh instance
// answers rightly. nullopt where it still does, if only once in three times, and where no instance ever does, so that
// nothing tells. The first time that an instance fails all of the few, it is renewed to find out.
std::optional<Ailment> ailment(Bench bench, const Contract& contract);

// Puts a fresh instance in the place of this one. False where the subject cannot be renewed: it is then as it was.
bool renew(Bench bench);

// A first call on a fresh instance, whatever it gives: work that an instance does once belongs to no call's time limit.
// False if it does not return in time.
bool warm_up(Bench bench, const Contract& contract);

// Tells if a fresh instance returns anything, right or wrong, of the problems that canaries are chosen from.
bool returns_anything(Bench bench, const Contract& contract);

// The calls again, in order, whatever they give. `contract`: that of any problem under the same policy.
void repeat_calls(std::span<const Asked> calls, Bench bench, const Contract& contract);

}  // namespace attest::engine
