#pragma once
#include <functional>
#include <optional>
#include <string_view>

#include "core/verdict.hpp"
#include "oracle/outcome.hpp"
#include "properties/trial.hpp"

namespace attest::properties {

// numbers: equal as numbers, NaN equals NaN, +0 equals -0. bits: the very same bytes.
enum class Equality : std::uint8_t { numbers, bits };

// How a result is rounded on its way into these tensors: what oracle::judge_element asks for.
oracle::Rounding out_rounding(const Contract& contract, const Tensor& out);
oracle::Rounding lse_rounding(const Contract& contract, const Tensor& lse);

struct SampleOf {
  const Result& result;
  Index sample;
};

// Whether a row [b, h, i] of the expected result takes part in a comparison; empty: all do.
using RowFilter = std::function<bool(Index b, Index h, Index i)>;

// The first element of out or lse in which one sample differs from what an exact law expects; before that, a violation
// of memory by the call that gave `got`. The index is that of the expected sample. `judged` counts the elements
// compared.
std::optional<Evidence> difference(SampleOf expected, SampleOf got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part = {});
// The same over all samples, in order.
std::optional<Evidence> difference(const Result& expected, const Result& got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part = {});

// Another result for the very mathematical problem of `trial`, from a caller that keeps its contract. Each element of
// both results lies in one enclosure [lo, hi], so that they differ by no more than its width, the sum of two radii.
// Fails with the first judged element that departs further; or, where the base result keeps its enclosure and the other
// does not, with that. `other_name` says whose result it is.
Verdict within_enclosures(Trial& trial, const Tensor& out, const Tensor& lse, std::string_view other_name);

}  // namespace attest::properties
