#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/verdict.hpp"
#include "oracle/outcome.hpp"
#include "properties/trial.hpp"

namespace attest::properties {

// numbers: equal as numbers, NaN equals NaN, +0 equals -0. bits: the very same bytes.
enum class Equality : std::uint8_t { numbers, bits };

// Return the rounding of a result on its way into these tensors, which oracle::judge_element takes.
oracle::Rounding out_rounding(const Contract& contract, const Tensor& out);
oracle::Rounding lse_rounding(const Contract& contract, const Tensor& lse);

// An element of out that is not what an exact law says.
Evidence exact_evidence(std::array<Index, 4> index, double got, double expected, std::string note);

struct SampleOf {
  const Result& result;
  Index sample;
};

// Tells whether a row [b, h, i] of the expected result takes part in a comparison; empty: all do.
using RowFilter = std::function<bool(Index b, Index h, Index i)>;

// Tells whether an element that differs says nothing after all, and counts as undetermined; empty: none does.
using Excuse = std::function<bool(const char* tensor, std::array<Index, 4> index, double expected, double got)>;

// The first element of out or lse in which one sample differs from what an exact law expects; before that, a violation
// of memory by the call that gave `got`. The index is that of the expected sample. `judged` counts the elements
// compared.
std::optional<Evidence> difference(SampleOf expected, SampleOf got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part = {}, const Excuse& excused = {});
// The same over all samples, in order.
std::optional<Evidence> difference(const Result& expected, const Result& got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part = {}, const Excuse& excused = {});

// Compares as numbers, for a law whose calls differ only in numbers that a row without keys may take in: values, or
// keys that the row does not attend to. Such a row takes part only if the contract's empty row depends on no value
// (zero or NaN). Elsewhere every score of a row may have overflowed, and the row is as good as empty: its elements that
// differ are counted as undetermined where the enclosure leaves them so, or permits a NaN or an infinity in one of
// them.
std::optional<Evidence> difference_with_keys(Trial& trial, const Result& expected, const Result& got,
                                             std::string_view note, Counts& counts, const RowFilter& takes_part = {});

// Another result for the very mathematical problem of `trial`, from a caller that keeps its contract. Each element of
// both results lies in one enclosure [lo, hi], so that they differ by no more than its width, the sum of two radii.
// Fails with the first judged element that departs further; or, where the base result keeps its enclosure and the other
// does not, with that. `other_name` says whose result it is.
Verdict within_enclosures(Trial& trial, const Tensor& out, const Tensor& lse, std::string_view other_name);

// A number, what it may be, and how it was rounded.
struct Sighting {
  double value;
  oracle::Enclosure enclosure;
  oracle::Rounding round;
};
// Returns the evidence that two numbers that stand for each other cannot both be right: one leaves its enclosure, and
// they differ by more than both enclosures allow. Two numbers that are not finite are alike. The evidence has the
// first's value and the given index.
std::optional<Evidence> departure(const Sighting& base, const Sighting& other, const char* tensor,
                                  std::array<Index, 4> index, std::string_view other_name);

// Where the base result has the element [b,h,i,c] of another; empty: at the same index.
using ToBase = std::function<std::array<Index, 4>(std::array<Index, 4>)>;

// The result of a problem that stands beside the trial's own, its oracle, and what it is called.
struct Other {
  const Problem& problem;
  const Tensor &out, &lse;
  oracle::Oracle& oracle;
  std::string_view name;
  const Contract* contract = nullptr;  // that of the trial if it has none of its own
};

// The first judged element of `other` that departs from the element of the base result at to_base(its index).
std::optional<Evidence> first_departure(Trial& trial, const Other& other, const ToBase& to_base = {});

// One verdict of two: the first failure, else pass if one of them is; the counts of both.
Verdict joined(Verdict one, Verdict two);

// Returns the verdict of a law that found no difference: pass, or vacuous if no element was judged.
Verdict held(const Counts& counts);

// The verdict with a note on its evidence.
Verdict noted(Verdict verdict, std::string_view note);

}  // namespace attest::properties
