#pragma once
#include <string_view>

#include "core/subject.hpp"
#include "core/verdict.hpp"
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

// Other problems made of the one under test, and how their results hang together with its own.
namespace attest::properties {

// A problem of its own: what the subject is called with, and the shape and layout of what it returns.
struct Derived {
  Problem problem;
  Inputs inputs;
};
Derived copy_of(const Trial& trial);

// The most elements of a problem that a law makes anew.
inline constexpr Index most_elements = Index{1} << 24;

// The axes of stride 0, bit a for axis a.
unsigned shared_axes(const Tensor& tensor) noexcept;
// An uninitialised tensor as materialise() lays it out, of stride 0 along the axes of `shared`.
Tensor laid_out(DType type, Layout layout, const std::array<Index, 4>& shape, unsigned shared);

// A tensor of `shape` in `layout` whose element i is that of `tensor` at source(i). Axes of stride 0 stay so; absent
// stays absent.
template <class Source>
Tensor picked(const Tensor& tensor, Layout layout, const std::array<Index, 4>& shape, Source&& source) {
  if (!tensor.present()) return {};
  Tensor made = laid_out(tensor.dtype(), layout, shape, shared_axes(tensor));
  const attest_tensor from = tensor.view(), to = made.view();
  for_each_stored(made, [&](Index b, Index h, Index i, Index c) {
    copy_row(from, source(std::array<Index, 4>{b, h, i, c}), to, {b, h, i, c}, 1);
  });
  return made;
}

// The same where source(b, h, i, c) lies c behind source(b, h, i, 0) along the last axis: whole rows at a time.
template <class Source>
Tensor picked_rows(const Tensor& tensor, Layout layout, const std::array<Index, 4>& shape, Source&& source) {
  if (!tensor.present()) return {};
  Tensor made = laid_out(tensor.dtype(), layout, shape, shared_axes(tensor));
  const attest_tensor from = tensor.view(), to = made.view();
  const Index count = stored_extents(made)[3];
  for_each_row(made, [&](Index b, Index h, Index i) {
    copy_row(from, source(std::array<Index, 4>{b, h, i, 0}), to, {b, h, i, 0}, count);
  });
  return made;
}

// The first type of bias that the subject takes; nullopt if it takes none.
std::optional<BiasType> bias_type(const Supports& supports) noexcept;

// ---- masks said by position, and by a keep mask ---------------------------------------------------------------------

enum class Said : std::uint8_t { diagonal, diagonal_and_lengths };

// Why causality, windows and (so asked) key lengths cannot be written out as a keep mask.
Reason no_explicit_mask(const Problem& p, const SubjectInfo& info);
// The problem with them written out. The keys of each row stay the same.
Derived with_explicit_mask(const Trial& trial, Said said);

// ---- the results ----------------------------------------------------------------------------------------------------

// Runs the derived problem and holds it against an oracle of its own. Fails where a judged element leaves its enclosure
// while the base result keeps its own; and where one of two elements that stand for each other leaves its enclosure and
// they differ by more than both enclosures allow. A kernel that is wrong alike in both passes: `policy-bound` catches
// it.
Verdict agreement(Trial& trial, const Derived& derived, std::string_view note, const ToBase& to_base = {});

// The derived problem against its own oracle alone, for laws whose values are not those of the base.
Verdict own_judgement(Trial& trial, const Derived& derived, std::string_view note);

}  // namespace attest::properties
