#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/case_table.hpp"
#include "engine/explain/accounts.hpp"
#include "engine/summary.hpp"

namespace attest::engine {

// The behaviour of a law on a reproducer: how it fails there, if it does, and which calls it makes, the small ones.
struct Probed {
  std::optional<FailureKey> shown;
  std::vector<Problem> calls;       // as problem_of() tells them (recorder.hpp)
  std::optional<Problem> undone{};  // a call beyond the entry's own that was not done
};
// Asks a law on an entry. If its calls end an instance, the calls alone are told, as another kernel was seen to be
// asked them.
using Probe = std::function<Probed(const Entry& at, const std::string& property)>;
// Tells whether a law that failed on an entry holds once every call of it is made on a fresh instance.
using HoldsApart = std::function<bool(const Entry& at, const std::string& property)>;
// Kernels that give the very numbers of an entry (explain/accounts.hpp); nullopt where that cannot be told.
using AccountsOf = std::function<std::optional<Accounts>(const Entry& at)>;

// The knowledge beside the reproducers.
struct Evidences {
  const CaseTable& table;
  const std::map<std::string, std::string>& buckets;  // by the signature of a row that failed
  Probe probe = {};                                   // may be empty: nothing is asked
  HoldsApart holds_apart = {};                        // likewise
  AccountsOf accounts = {};                           // likewise
};

// The defects that the buckets of a campaign amount to. Two buckets are one defect if their failures are of one kind
// (wrong numbers; one message; one signal) and
// - what masks keys and what else holds on their minimal problems is the same, whatever law told; or
// - one predicate explains both: the one learned from the failures of the first holds of the second's reproducer, and
//   of hardly any problem that passed or of all that failed; or both separate the same problems; or
// - the second was told by a law that makes calls of its own, and that law fails on the first's reproducer too, or the
//   first's predicate holds of such a call and not of the problem itself; or
// - a predicate of the failures of both takes fewer bits than one for each; or
// - there are too few failures of the second to learn from, and they lie all where the first's predicate holds, as do
//   the problems they were shrunk to, so rare a place that they would not by chance; or
// - there are too few failures of the second to learn from, and its minimal reproducers pass without the forms that
//   those of the first pass without; or
// - there are too few failures of the second to learn anything from, and they are told by the message of the first; or
// - there are too few deaths of the second to learn anything from, or its answers differ from call to call; the first
//   are deaths (or, if the second are answers, wrong numbers); and the first's predicate, each part weakened as little
//   as it takes, holds of them all and of the problems they were shrunk to, so rare a place that they would not by
//   chance; or
// - both are errors in the same words, and their predicates have a condition in common; or
// - both are errors of the problem itself or of one law, whatever the words, and what masks keys and what else is set
//   in a minimal problem of the first is all set in one of the second (but for a law whose problem does not tell what
//   form it asks), and no neighbour of the latter in which it is set, too, is done; or
// - there are few failures of the second, many of the first, and the first's law fails on the second's reproducer too;
//   or
// - the first keeps state between calls, and the law that tells of the second holds where each of its calls has an
//   instance of its own; or
// - some kernels give the very numbers of the first's reproducers, on two problems at least, and each of them those of
//   the second's too: whichever of them the first is, it shows there as the second does.
// Two are not one if a minimal reproducer of the one fails in a form alone about which the predicate of the other says
// nothing, and that predicate holds of no place that rare. A bucket that failed less than five times, as far as its
// failures are known to be its own, brings no two others together.
// A predicate is learned from all problems on which its law gave a verdict, but for those that fell into buckets of
// other defects, and those of no bucket that another's predicate explains better; it must hold of the reproducer, and
// neighbours of a minimal reproducer count among those that pass. The result depends on the arguments alone.
std::vector<Defect> cluster(const std::vector<Finding>& findings, const Evidences& known);

}  // namespace attest::engine
