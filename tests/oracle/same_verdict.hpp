#pragma once
#include "core/format.hpp"
#include "core/verdict.hpp"

namespace attest::testing {

// Fails the running test where two verdicts differ in kind, reason, counts, witness or its interval.
void expect_same_verdict(const Verdict& a, const Verdict& b);

// The number of `format` next to x, up or down.
double neighbour(Format format, double x, bool up);

}  // namespace attest::testing
