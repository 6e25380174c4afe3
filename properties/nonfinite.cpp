#include "properties/nonfinite.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/nest.hpp"

namespace attest::properties {
namespace {

using Visit = std::function<bool(std::array<Index, 4>)>;

// Tells whether any of `count` elements `step` apart has all bits of its exponent set. Dense ones are looked at in
// words: adding the lowest of these bits carries into the sign, which was masked out, and no further.
template <class Bits>
bool any_of(const Bits* row, Index count, Index step, Bits exponent) {
  using Word = std::uint64_t;
  bool any = false;
  Index c = 0;
  if (step == 1) {
    constexpr Word each = ~Word{0} / std::numeric_limits<Bits>::max();
    constexpr Index in_word = sizeof(Word) / sizeof(Bits);
    const Word mask = each * exponent, lowest = each * (exponent & (~exponent + 1u)),
               sign = each << (8 * sizeof(Bits) - 1);
    Word carried = 0, word = 0;
    for (; c + in_word <= count; c += in_word) {
      std::memcpy(&word, row + c, sizeof word);
      carried |= (word & mask) + lowest;
    }
    any = (carried & sign) != 0;
  }
  for (; c < count; ++c) any |= (row[c * step] & exponent) == exponent;
  return any;
}

// An element is not finite if all the bits of its exponent are set, and then NaN if one of its significand is.
template <class Bits>
void scan(const Tensor& tensor, Bits exponent, bool nan_alone, const Visit& visit) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto significand = static_cast<Bits>(~(exponent | sign));
  std::array<Index, 4> n{1, 1, 1, 1}, stride{};
  std::copy(tensor.shape().begin(), tensor.shape().end(), n.begin());
  std::copy(tensor.strides().begin(), tensor.strides().end(), stride.begin());
  const attest_tensor view = tensor.view();
  // Mostly there is none, which needs no rows to see.
  if (const Nest nest(n.data(), stride.data());
      nest.axes == 1 &&
      !any_of(static_cast<const Bits*>(attest_at(&view, 0, 0, 0, 0)), nest.extent[0], nest.stride[0], exponent))
    return;
  // Rows run along the last axis that the tensor has.
  const std::size_t along = tensor.shape().size() - 1;
  const Index length = n[along], step = stride[along];
  n[along] = 1;
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2) {
        const auto* row = static_cast<const Bits*>(attest_at(&view, i0, i1, i2, 0));
        if (!any_of(row, length, step, exponent)) continue;
        for (Index c = 0; c < length; ++c) {
          const Bits element = row[c * step];
          if ((element & exponent) != exponent || (nan_alone && (element & significand) == 0)) continue;
          std::array<Index, 4> index{i0, i1, i2, 0};
          index[along] = c;
          if (!visit(index)) return;
        }
      }
}

void scan(const Tensor& tensor, bool nan_alone, const Visit& visit) {
  if (!tensor.present() || tensor.size() == 0) return;
  with_element(tensor.dtype(), [&](auto element) {
    using Element = decltype(element);
    if constexpr (Element::floating) {
      static_assert(traits(Element::format).has_infinity());
      constexpr auto exponent = static_cast<typename Element::Word>(traits(Element::format).past_code);
      scan(tensor, exponent, nan_alone, visit);
    }
  });
}

}  // namespace

void for_each_nonfinite(const Tensor& tensor, const Visit& visit) { scan(tensor, false, visit); }
void for_each_nan(const Tensor& tensor, const Visit& visit) { scan(tensor, true, visit); }

bool all_finite(const Tensor& tensor) {
  bool all = true;
  scan(tensor, false, [&all](std::array<Index, 4>) { return all = false; });
  return all;
}

}  // namespace attest::properties
