#pragma once
#include <string>
#include <string_view>

#include "models/entry.hpp"

// Python that asks a runtime of models without attest.
namespace attest::report {

// The text as a literal of Python.
std::string in_quotes(std::string_view text);

// Has `model`, the bytes of a file, run on `feeds` as an entry says, after each of `before` where there are others, and
// leaves what comes out in `got`, in the order of the names in `expected`; empty of a runtime that this program does
// not ship.
std::string run_code(const models::Entry& entry, bool after_others = false);

}  // namespace attest::report
