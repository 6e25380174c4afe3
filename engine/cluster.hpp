#pragma once
#include <vector>

#include "engine/avoid.hpp"
#include "engine/case_table.hpp"
#include "engine/summary.hpp"

namespace attest::engine {

// What the buckets of a campaign come down to. Two of them are one defect if their failures are of one kind and
// - what masks keys and what else holds on their minimal problems is the same, whatever law told; or
// - a law that fails on both minimal problems fails under one predicate: the one learned around the first holds of the
//   second too, or both separate the same problems.
// A predicate is learned from all problems on which its law gave a verdict, must hold on the reproducer, and counts the
// neighbours of a minimal reproducer among those that pass. Depends on the arguments alone.
std::vector<Defect> cluster(const std::vector<Finding>& findings, const CaseTable& table);

// Whether the failures that a rule avoids are those of a defect.
bool explains(const Summary& summary, const Defect& defect, const AvoidRule& rule, const Supports& supports);

}  // namespace attest::engine
