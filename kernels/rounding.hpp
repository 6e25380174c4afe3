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

// core's round_to without its branches, so that it runs in lanes. It is inlined always, since files compiled for
// several instruction sets share it.
struct ToF16 {
  template <class X>
  [[gnu::always_inline]] X operator()(X x) const noexcept {
    using U = detail::Bits<X>;
    using I = detail::SignedBits<X>;
    const U bits = std::bit_cast<U>(x);
    const U unsigned_magnitude = bits & 0x7fffffffu;
    const I magnitude = std::bit_cast<I>(unsigned_magnitude);
    const I normal = std::bit_cast<I>(detail::round_bits<13>(unsigned_magnitude));
    // One half has the f16 subnormals' spacing in its last place.
    const I subnormal = std::bit_cast<I>((std::bit_cast<X>(magnitude) + 0.5f) - 0.5f);
    const I infinite = (magnitude & 0) | 0x7f800000;
    I rounded = magnitude < 0x38800000 ? subnormal : normal;
    rounded = rounded > 0x477fe000 ? infinite : rounded;
    rounded = magnitude > 0x7f800000 ? magnitude : rounded;
    return std::bit_cast<X>(std::bit_cast<U>(rounded) | (bits ^ unsigned_magnitude));
  }
};

// bf16 and tf32: float's exponents, fewer bits.
template <int dropped>
struct ToShort {
  template <class X>
  [[gnu::always_inline]] X operator()(X x) const noexcept {
    using U = detail::Bits<X>;
    using I = detail::SignedBits<X>;
    const U bits = std::bit_cast<U>(x);
    const U unsigned_magnitude = bits & 0x7fffffffu;
    const I magnitude = std::bit_cast<I>(unsigned_magnitude);
    const I normal = std::bit_cast<I>(detail::round_bits<dropped>(unsigned_magnitude));
    const I rounded = magnitude >= 0x7f800000 ? magnitude : normal;
    return std::bit_cast<X>(std::bit_cast<U>(rounded) | (bits ^ unsigned_magnitude));
  }
};
using ToBf16 = ToShort<16>;
using ToTf32 = ToShort<13>;

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
    switch (format) {
      case Format::f16:
        return std::forward<Body>(body)(ToF16{});
      case Format::bf16:
        return std::forward<Body>(body)(ToBf16{});
      case Format::tf32:
        return std::forward<Body>(body)(ToTf32{});
      default:
        return std::forward<Body>(body)(Exact{});
    }
  }
}

}  // namespace attest::kernels
