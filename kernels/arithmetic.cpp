#include "kernels/arithmetic.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "kernels/loops.hpp"
#include "kernels/rounding.hpp"

namespace attest::kernels {
namespace {

template <class Real>
Lanes<Real> load_lanes(const Real* x) noexcept {
  Lanes<Real> register_;
  std::memcpy(&register_, x, sizeof register_);
  return register_;
}

template <class Real>
void store_lanes(Real* x, Lanes<Real> register_) noexcept {
  std::memcpy(x, &register_, sizeof register_);
}

// x[j] = change(x[j]) in registers.
template <class Real, class Change>
void transform(Real* x, Index n, Change change) noexcept {
  for (Index j = 0; j < padded(n); j += lanes<Real>) store_lanes(x + j, change(load_lanes(x + j)));
}

// Tells whether floats are what they are rounded to: the loops of loops.hpp then do it all.
template <class Real>
constexpr bool in_f32(Format format) noexcept {
  return std::is_same_v<Real, float> && !narrower(format, Format::f32);
}
// with_rounding() of what in_f32() leaves.
template <class Real, class Body>
decltype(auto) with_other_rounding(Format format, Body&& body) {
  if constexpr (std::is_same_v<Real, double>) {
    return with_rounding<double>(format, std::forward<Body>(body));
  } else {
    return with_format(format, [&](auto known) -> decltype(auto) {
      constexpr Format other = narrower(known, Format::f32) ? Format{known} : Format::tf32;
      return body(To<other>{});
    });
  }
}

// `registers` registers of dots at once: their sums never leave the register file.
template <int registers, class Real, class Round>
void dot_chunk(Round round, const Real* q, const Real* keys, Index stride, Index d, Real* dots) noexcept {
  Lanes<Real> sum[registers] = {};
  for (Index e = 0; e < d; ++e) {
    for (int r = 0; r < registers; ++r)
      sum[r] = round(sum[r] + round(q[e] * load_lanes(keys + e * stride + r * lanes<Real>)));
  }
  for (int r = 0; r < registers; ++r) store_lanes(dots + r * lanes<Real>, sum[r]);
}

template <int registers, class Real, class Round>
void weighted_chunk(Round round, const Real* weights, const std::int32_t* keys, Index count, const Real* values,
                    Index stride, Real* sum) noexcept {
  Lanes<Real> total[registers];
  for (int r = 0; r < registers; ++r) total[r] = load_lanes(sum + r * lanes<Real>);
  for (Index entry = 0; entry < count; ++entry) {
    const Index j = keys[entry];
    for (int r = 0; r < registers; ++r)
      total[r] = round(total[r] + round(weights[j] * load_lanes(values + j * stride + r * lanes<Real>)));
  }
  for (int r = 0; r < registers; ++r) store_lanes(sum + r * lanes<Real>, total[r]);
}

constexpr int registers_at_once = 4;

typedef float HalfLanes __attribute__((vector_size(register_bytes / 2)));
typedef std::uint64_t LongLanes __attribute__((vector_size(register_bytes)));

// 2^x for |x| <= 300 in double: within 2^-31 of it, so that a float made of it is at most 0.51 ulp off.
DoubleLanes two_to(DoubleLanes x) noexcept {
  // 2^x = 2^n e^r with |r| <= ln(2)/2; adding 1.5 2^52 leaves n in the last bits.
  constexpr double shifter = 0x1.8p52;
  const DoubleLanes shifted = x + shifter;
  const DoubleLanes n = shifted - shifter;
  const DoubleLanes r = (x - n) * std::numbers::ln2;
  const DoubleLanes r2 = r * r, r4 = r2 * r2;
  const DoubleLanes taylor =
      ((1 + r) + r2 * (1.0 / 2 + r * (1.0 / 6))) +
      r4 * ((1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040)) + r4 * (1.0 / 40320));
  return taylor * std::bit_cast<DoubleLanes>((std::bit_cast<LongLanes>(shifted) + 1023) << 52);
}
FloatLanes two_to(FloatLanes x) noexcept {
  // Past these bounds every float power is 0 or infinite. NaN stays.
  const FloatLanes bound = FloatLanes{} + 300;
  x = x < -bound ? -bound : x;
  x = x > bound ? bound : x;
  HalfLanes halves[2];
  std::memcpy(halves, &x, sizeof x);
  for (HalfLanes& half : halves)
    half = __builtin_convertvector(two_to(__builtin_convertvector(half, DoubleLanes)), HalfLanes);
  std::memcpy(&x, halves, sizeof x);
  return x;
}

template <Base base>
DoubleLanes library_power(DoubleLanes x) noexcept {
  for (int i = 0; i < lanes<double>; ++i) x[i] = base == Base::e ? std::exp(x[i]) : std::exp2(x[i]);
  return x;
}

}  // namespace

void round_all(Format format, float* x, Index n) noexcept {
  if (narrower(format, Format::f32)) loops().round[static_cast<std::size_t>(format)](x, n);
}
void round_all(Format format, double* x, Index n) noexcept {
  if (format != Format::f64) transform(x, n, ToFormat{format});
}

template <class Real>
void scale_all(Format format, Real factor, Real* x, Index n) noexcept {
  if constexpr (std::is_same_v<Real, float>) {
    loops().scale(factor, x, n);
    round_all(format, x, n);
  } else {
    with_rounding<Real>(format, [&](auto round) { transform(x, n, [&](auto y) { return round(y * factor); }); });
  }
}

template <class Real>
void divide_all(Format format, Real divisor, Real* x, Index n) noexcept {
  if constexpr (std::is_same_v<Real, float>) {
    loops().divide(divisor, x, n);
    round_all(format, x, n);
  } else {
    with_rounding<Real>(format, [&](auto round) { transform(x, n, [&](auto y) { return round(y / divisor); }); });
  }
}

template <class Real>
void dot_keys(Format format, const Real* q, const Real* keys, Index stride, Index d, Index n, Real* dots) noexcept {
  if constexpr (std::is_same_v<Real, float>)
    if (in_f32<Real>(format)) return loops().dots(q, 0, 1, keys, stride, d, n, 1, dots, 0);
  constexpr Index chunk = registers_at_once * lanes<Real>;
  with_other_rounding<Real>(format, [&](auto round) {
    Index j = 0;
    for (; j + chunk <= padded(n); j += chunk) dot_chunk<registers_at_once>(round, q, keys + j, stride, d, dots + j);
    for (; j < padded(n); j += lanes<Real>) dot_chunk<1>(round, q, keys + j, stride, d, dots + j);
  });
}

template <class Real>
void add_weighted(Format format, const Real* weights, const std::int32_t* keys, Index count, const Real* values,
                  Index stride, Index dv, Real* sum) noexcept {
  if constexpr (std::is_same_v<Real, float>)
    if (in_f32<Real>(format)) return loops().weigh_listed(weights, keys, count, values, stride, dv, sum);
  constexpr Index chunk = registers_at_once * lanes<Real>;
  with_other_rounding<Real>(format, [&](auto round) {
    Index c = 0;
    for (; c + chunk <= padded(dv); c += chunk)
      weighted_chunk<registers_at_once>(round, weights, keys, count, values + c, stride, sum + c);
    for (; c < padded(dv); c += lanes<Real>)
      weighted_chunk<1>(round, weights, keys, count, values + c, stride, sum + c);
  });
}

template <class Real>
Largest<Real> largest_of(const Real* x, Index n) noexcept {
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  if constexpr (std::is_same_v<Real, float>) {
    Largest<Real> result;
    result.value = loops().largest(x, n, &result.above_minus_infinity);
    return result;
  } else {
    Lanes<Real> best = Lanes<Real>{} - infinity, least = Lanes<Real>{} + infinity;
    for (Index j = 0; j < padded(n); j += lanes<Real>) {
      const Lanes<Real> next = load_lanes(x + j);
      best = next > best ? next : best;
      least = next < least ? next : least;
    }
    Real largest = best[0], smallest = least[0];
    for (int i = 1; i < lanes<Real>; ++i) {
      largest = best[i] > largest ? best[i] : largest;
      smallest = least[i] < smallest ? least[i] : smallest;
    }
    return {largest, smallest > -infinity};
  }
}

template <class Real>
Real sum_of(Format format, const Real* x, Index n) noexcept {
  if constexpr (std::is_same_v<Real, float>)
    if (in_f32<Real>(format)) return loops().sum(x, n);
  return with_other_rounding<Real>(format, [&](auto round) {
    constexpr int registers = padding / lanes<Real>;
    Lanes<Real> partial[registers] = {};
    for (Index j = 0; j < padded(n); j += padding)
      for (int r = 0; r < registers; ++r) partial[r] = round(partial[r] + load_lanes(x + j + r * lanes<Real>));
    Real sums[padding];
    for (int r = 0; r < registers; ++r) store_lanes(sums + r * lanes<Real>, partial[r]);
    for (int half = padding / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sums[i] = round(sums[i] + sums[i + half]);
    return sums[0];
  });
}

template <class Real>
Real power(Format format, Base base, Real x) noexcept {
  std::array<Real, padding> powers{x};
  powers_above(format, base, powers.data(), Real{0}, 1, powers.data());
  return powers[0];
}

void powers_above(Format format, Base base, const float* x, float shift, Index n, float* powers) noexcept {
  if (base == Base::e && in_f32<float>(format)) {
    loops().powers(x, shift, n, powers);
    return;
  }
  for (Index j = 0; j < padded(n); ++j) powers[j] = x[j] - shift;
  round_all(format, powers, n);
  if (base == Base::e)
    loops().powers(powers, 0, n, powers);
  else
    transform(powers, n, [](FloatLanes y) { return two_to(y); });
  round_all(format, powers, n);
}

void powers_above(Format format, Base base, const double* x, double shift, Index n, double* powers) noexcept {
  with_rounding<double>(format, [&](auto round) {
    for (Index j = 0; j < padded(n); j += lanes<double>) {
      const DoubleLanes t = round(load_lanes(x + j) - shift);
      store_lanes(powers + j, round(base == Base::e ? library_power<Base::e>(t) : library_power<Base::two>(t)));
    }
  });
}

template <class Real>
Real powers_and_sum(Format format, const Real* x, Real shift, Index n, Real* powers) noexcept {
  if constexpr (std::is_same_v<Real, float>)
    if (in_f32<Real>(format)) return loops().powers(x, shift, n, powers);
  powers_above(format, Base::e, x, shift, n, powers);
  return sum_of(format, powers, n);
}

template <class Real>
Real logarithm(Format format, Real x) noexcept {
  return static_cast<Real>(round_to(format, std::log(static_cast<double>(x))));
}

#define ATTEST_INSTANTIATE(Real)                                                                         \
  template void scale_all(Format, Real, Real*, Index) noexcept;                                          \
  template void divide_all(Format, Real, Real*, Index) noexcept;                                         \
  template Real logarithm(Format, Real) noexcept;                                                        \
  template void dot_keys(Format, const Real*, const Real*, Index, Index, Index, Real*) noexcept;         \
  template void add_weighted(Format, const Real*, const std::int32_t*, Index, const Real*, Index, Index, \
                             Real*) noexcept;                                                            \
  template Largest<Real> largest_of(const Real*, Index) noexcept;                                        \
  template Real sum_of(Format, const Real*, Index) noexcept;                                             \
  template Real power(Format, Base, Real) noexcept;                                                      \
  template Real powers_and_sum(Format, const Real*, Real, Index, Real*) noexcept;
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::kernels
