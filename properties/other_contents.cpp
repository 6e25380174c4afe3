#include "properties/other_contents.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/rng.hpp"
#include "properties/transform.hpp"

namespace attest::properties {
namespace {

using At = std::array<Index, 4>;

// Elements along each axis that lie apart in both.
At stored_in(const attest_tensor& a, const attest_tensor& b) noexcept {
  At n{1, 1, 1, 1};
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(a.ndim); ++axis)
    n[axis] = a.strides[axis] == 0 || b.strides[axis] == 0 ? std::min<Index>(a.shape[axis], 1) : a.shape[axis];
  return n;
}

// Calls visit(index) for each stored element until that says false; whether it never did.
template <class Visit>
bool for_each_element(const attest_tensor& a, const attest_tensor& b, Visit&& visit) {
  const At n = stored_in(a, b);
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2)
        for (Index i3 = 0; i3 < n[3]; ++i3)
          if (!visit(At{i0, i1, i2, i3})) return false;
  return true;
}

std::size_t width_of(const attest_tensor& tensor) noexcept { return tensor.dtype.bits / 8u; }

void swap_elements(const attest_tensor& a, const At& i, const attest_tensor& b, const At& j) noexcept {
  std::byte* const from = address_of(a, i);
  std::swap_ranges(from, from + width_of(a), address_of(b, j));
}

void copy_contents(const attest_tensor& from, const attest_tensor& to) {
  for_each_element(from, to, [&](const At& at) {
    std::memcpy(address_of(to, at), address_of(from, at), width_of(from));
    return true;
  });
}

At drawn_element(const At& n, std::uint64_t random) noexcept {
  At at{};
  for (std::size_t axis = 0; axis < at.size(); ++axis)
    at[axis] = static_cast<Index>(below(extend(random, axis), static_cast<std::uint64_t>(n[axis])));
  return at;
}

void negate_one(const attest_tensor& tensor, const At& at) {
  const double x = load(tensor, at[0], at[1], at[2], at[3]);
  store(tensor, at[0], at[1], at[2], at[3], changed(x, -x));
}

// Two units, which differ in what they hold if the random numbers are kind.
void swap_two(const attest_tensor& tensor, const At& n, std::uint64_t random) {
  At one = drawn_element(n, extend(random, 11)), other = drawn_element(n, extend(random, 12));
  if (tensor.ndim == 1) return swap_elements(tensor, one, tensor, other);
  const auto last = static_cast<std::size_t>(tensor.ndim - 1);
  for (Index c = 0; c < n[last]; ++c) {
    one[last] = other[last] = c;
    swap_elements(tensor, one, tensor, other);
  }
}

}  // namespace

Change drawn_change(std::uint64_t random) noexcept {
  switch (below(random, 4)) {
    case 0:
      return Change::one;
    case 1:
      return Change::swapped;
    default:
      return Change::all;
  }
}

bool make_other(const attest_tensor& own, const attest_tensor& donor, Change change, std::uint64_t random) {
  const At n = stored_in(own, donor);
  if (n[0] * n[1] * n[2] * n[3] == 0) return false;
  if (change != Change::all) copy_contents(own, donor);
  if (change == Change::swapped) swap_two(donor, n, random);
  if (change == Change::one || same_contents(own, donor)) negate_one(donor, drawn_element(n, extend(random, 10)));
  return true;
}

bool same_contents(const attest_tensor& a, const attest_tensor& b) noexcept {
  return for_each_element(
      a, b, [&](const At& at) { return std::memcmp(address_of(a, at), address_of(b, at), width_of(a)) == 0; });
}

namespace {
void exchange(const attest_tensor& a, const attest_tensor& b) noexcept {
  for_each_element(a, b, [&](const At& at) {
    swap_elements(a, at, b, at);
    return true;
  });
}
}  // namespace

Exchanged::Exchanged(const attest_tensor& a, const attest_tensor& b) noexcept : a_(a), b_(b) { exchange(a_, b_); }
Exchanged::~Exchanged() { exchange(a_, b_); }

std::string with_other(std::string_view tensor, bool as_before) {
  std::string note = "with other contents in " + std::string(tensor) + " alone";
  if (as_before) note += "; the result has the bits that it had before they changed";
  return note;
}

}  // namespace attest::properties
