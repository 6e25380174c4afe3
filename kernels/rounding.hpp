#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/format.hpp"

namespace attest::kernels {

// Lanes of Real that live in one register. A number of one lane never meets another, so that the number of lanes does
// not change a bit.
#if defined(__AVX__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif
typedef float FloatLanes __attribute__((vector_size(register_bytes)));
typedef double DoubleLanes __attribute__((vector_size(register_bytes)));
typedef std::int32_t IntLanes __attribute__((vector_size(register_bytes)));
template <class Real>
using Lanes = std::conditional_t<std::is_same_v<Real, float>, FloatLanes, DoubleLanes>;
template <class Real>
inline constexpr int lanes = register_bytes / static_cast<int>(sizeof(Real));

// Rounding after an operation, to nearest even, of numbers or of lanes. Real is float wherever no stage is f64: float
// holds sums, products and quotients of the narrower formats finely enough that rounding twice gives the same number.
struct Exact {
  template <class X>
  X operator()(X x) const noexcept {
    return x;
  }
};

namespace detail {
// The bits of X: unsigned to calculate with, signed to compare, which is what registers can do.
template <class X>
struct BitsOf {
  typedef std::uint32_t Unsigned __attribute__((vector_size(sizeof(X))));
  typedef std::int32_t Signed __attribute__((vector_size(sizeof(X))));
};
template <>
struct BitsOf<float> {
  using Unsigned = std::uint32_t;
  using Signed = std::int32_t;
};
template <class X>
using Bits = typename BitsOf<X>::Unsigned;
template <class X>
using SignedBits = typename BitsOf<X>::Signed;

// Half of the dropped bits' worth is added, a little less where the last bit kept is even; magnitudes only.
template <int dropped, class U>
[[gnu::always_inline]] inline U round_bits(U magnitude) noexcept {
  return (magnitude + ((1u << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1u)) & ~((1u << dropped) - 1);
}
}  // namespace detail

// core's round_to to a format narrower than f32, without its branches, so that it runs in lanes. It is inlined always, since
// files compiled for several instruction sets share it.
template <Format format>
struct To {
  template <class X>
  [[gnu::always_inline]] X operator()(X x) const noexcept {
    using U = detail::Bits<X>;
    using I = detail::SignedBits<X>;
    constexpr const FormatTraits& row = traits(format);
    const U bits = std::bit_cast<U>(x);
    const U unsigned_magnitude = bits & 0x7fffffffu;
    const I magnitude = std::bit_cast<I>(unsigned_magnitude);
    I rounded = std::bit_cast<I>(detail::round_bits<24 - row.precision>(unsigned_magnitude));
    if constexpr (row.min_exponent == min_exponent(Format::f32)) {
      rounded = magnitude >= 0x7f800000 ? magnitude : rounded;
    } else {
      // A number that has the subnormals' spacing in its last place.
      constexpr auto shifter = static_cast<float>(two_to_the(23 + row.min_exponent - row.precision + 1));
      constexpr auto smallest = std::bit_cast<std::int32_t>(static_cast<float>(row.smallest_normal)),
                     largest = std::bit_cast<std::int32_t>(static_cast<float>(row.largest_finite)),
                     past = std::bit_cast<std::int32_t>(static_cast<float>(row.past));
      const I subnormal = std::bit_cast<I>((std::bit_cast<X>(magnitude) + shifter) - shifter);
      rounded = magnitude < smallest ? subnormal : rounded;
      rounded = rounded > largest ? (magnitude & 0) | past : rounded;
      rounded = magnitude > 0x7f800000 ? magnitude : rounded;
    }
    return std::bit_cast<X>(std::bit_cast<U>(rounded) | (bits ^ unsigned_magnitude));
  }
};

// Any format, from double.
struct ToFormat {
  Format format;
  double operator()(double x) const noexcept { return round_to(format, x); }
  DoubleLanes operator()(DoubleLanes x) const noexcept {
    for (int i = 0; i < lanes<double>; ++i) x[i] = round_to(format, x[i]);
    return x;
  }
};

// Calls body(rounding): the format is looked at once, outside the loops.
template <class Real, class Body>
decltype(auto) with_rounding(Format format, Body&& body) {
  if constexpr (std::is_same_v<Real, double>) {
    if (format == Format::f64) return std::forward<Body>(body)(Exact{});
    return std::forward<Body>(body)(ToFormat{format});
  } else {
    return with_format(format, [&](auto known) -> decltype(auto) {
      if constexpr (narrower(known, Format::f32))
        return body(To<known>{});
      else
        return body(Exact{});
    });
  }
}

}  // namespace attest::kernels
