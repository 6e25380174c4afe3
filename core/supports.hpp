#pragma once
#include <optional>
#include <span>
#include <string>

#include "core/call.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"

namespace attest {

// Decides whether a subject is to be asked a call. It is the one place that reads `supports` of docs/plugin.md. Every
// caller goes by it, so that no subject fails on a call that it said it does not take.
//
// Returns why a subject that supports `supports`, in the storage formats `dtypes`, is not to be asked this call: one
// clause, the same for every call that it excludes for that reason ("the subject takes no keep mask"). Returns nullopt
// where it is to be asked. Looks at options, shapes, types, strides and addresses, never at elements.
std::optional<std::string> declined(const attest_attention& call, const Supports& supports,
                                    std::span<const Format> dtypes);

inline std::optional<std::string> declined(const Call& call, const Supports& supports, std::span<const Format> dtypes) {
  return call.shape().declined(call.data(), supports, dtypes);
}

// The same of the call that materialise() makes of a valid problem, without its tensors.
std::optional<std::string> declined(const Problem& problem, const Supports& supports, std::span<const Format> dtypes);

// "from 1 to 8 in multiples of 2", for what a subject takes.
std::string text_of(const DimRange& range);

// The elements of `dtype` of which rows must hold a multiple, so that each begins at a multiple of `alignment` bytes.
Index row_step(Index alignment, Format dtype);

}  // namespace attest
