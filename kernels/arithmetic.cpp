#include "kernels/arithmetic.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

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

// base^x for |x| <= 300 in double: within 2^-31 of it, so that a float made of it is at most 0.51 ulp off.
template <Base base>
DoubleLanes power_in_double(DoubleLanes x) noexcept {
  // base^x = 2^n e^r with |r| <= ln(2)/2; adding 1.5 2^52 leaves n in the last bits.
  constexpr double shifter = 0x1.8p52;
  const DoubleLanes shifted = (base == Base::e ? x * std::numbers::log2e : x) + shifter;
  const DoubleLanes n = shifted - shifter;
  const DoubleLanes r = base == Base::e ? x - n * std::numbers::ln2 : (x - n) * std::numbers::ln2;
  const DoubleLanes r2 = r * r, r4 = r2 * r2;
  const DoubleLanes taylor =
      ((1 + r) + r2 * (1.0 / 2 + r * (1.0 / 6))) +
      r4 * ((1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040)) + r4 * (1.0 / 40320));
  return taylor * std::bit_cast<DoubleLanes>((std::bit_cast<LongLanes>(shifted) + 1023) << 52);
}

// base^x in registers, several times as fast as the C library number by number.
template <Base base>
FloatLanes power_in_lanes(FloatLanes x) noexcept {
  // Past these bounds every float power is 0 or infinite. NaN stays.
  const FloatLanes bound = FloatLanes{} + 300;
  x = x < -bound ? -bound : x;
  x = x > bound ? bound : x;
  HalfLanes halves[2];
  std::memcpy(halves, &x, sizeof x);
  for (HalfLanes& half : halves)
    half = __builtin_convertvector(power_in_double<base>(__builtin_convertvector(half, DoubleLanes)), HalfLanes);
  std::memcpy(&x, halves, sizeof x);
  return x;
}

template <Base base>
DoubleLanes library_power(DoubleLanes x) noexcept {
  for (int i = 0; i < lanes<double>; ++i) x[i] = base == Base::e ? std::exp(x[i]) : std::exp2(x[i]);
  return x;
}

}  // namespace

template <class Real>
void round_all(Format format, Real* x, Index n) noexcept {
  with_rounding<Real>(format, [&](auto round) {
    if constexpr (!std::is_same_v<decltype(round), Exact>) transform(x, n, round);
  });
}

template <class Real>
void scale_all(Format format, Real factor, Real* x, Index n) noexcept {
  with_rounding<Real>(format, [&](auto round) { transform(x, n, [&](auto y) { return round(y * factor); }); });
}

template <class Real>
void divide_all(Format format, Real divisor, Real* x, Index n) noexcept {
  with_rounding<Real>(format, [&](auto round) { transform(x, n, [&](auto y) { return round(y / divisor); }); });
}

template <class Real>
void dot_keys(Format format, const Real* q, const Real* keys, Index stride, Index d, Index n, Real* dots) noexcept {
  constexpr Index chunk = registers_at_once * lanes<Real>;
  with_rounding<Real>(format, [&](auto round) {
    Index j = 0;
    for (; j + chunk <= padded(n); j += chunk) dot_chunk<registers_at_once>(round, q, keys + j, stride, d, dots + j);
    for (; j < padded(n); j += lanes<Real>) dot_chunk<1>(round, q, keys + j, stride, d, dots + j);
  });
}

template <class Real>
void add_weighted(Format format, const Real* weights, const std::int32_t* keys, Index count, const Real* values,
                  Index stride, Index dv, Real* sum) noexcept {
  constexpr Index chunk = registers_at_once * lanes<Real>;
  with_rounding<Real>(format, [&](auto round) {
    Index c = 0;
    for (; c + chunk <= padded(dv); c += chunk)
      weighted_chunk<registers_at_once>(round, weights, keys, count, values + c, stride, sum + c);
    for (; c < padded(dv); c += lanes<Real>)
      weighted_chunk<1>(round, weights, keys, count, values + c, stride, sum + c);
  });
}

template <class Real>
Real max_of(const Real* x, Index n) noexcept {
  Lanes<Real> best = Lanes<Real>{} - std::numeric_limits<Real>::infinity();
  for (Index j = 0; j < padded(n); j += lanes<Real>) {
    const Lanes<Real> next = load_lanes(x + j);
    best = next > best ? next : best;
  }
  Real largest = best[0];
  for (int i = 1; i < lanes<Real>; ++i) largest = best[i] > largest ? best[i] : largest;
  return largest;
}

template <class Real>
Real sum_of(Format format, const Real* x, Index n) noexcept {
  return with_rounding<Real>(format, [&](auto round) {
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

template <class Real>
void powers_above(Format format, Base base, const Real* x, Real shift, Index n, Real* powers) noexcept {
  with_rounding<Real>(format, [&](auto round) {
    const auto each = [&](auto base_to) {
      for (Index j = 0; j < padded(n); j += lanes<Real>)
        store_lanes(powers + j, round(base_to(round(load_lanes(x + j) - shift))));
    };
    if constexpr (std::is_same_v<Real, float>)
      base == Base::e ? each([](FloatLanes y) { return power_in_lanes<Base::e>(y); })
                      : each([](FloatLanes y) { return power_in_lanes<Base::two>(y); });
    else
      base == Base::e ? each(library_power<Base::e>) : each(library_power<Base::two>);
  });
}

template <class Real>
Real logarithm(Format format, Real x) noexcept {
  return static_cast<Real>(round_to(format, std::log(static_cast<double>(x))));
}

#define ATTEST_INSTANTIATE(Real)                                                                         \
  template void round_all(Format, Real*, Index) noexcept;                                                \
  template void scale_all(Format, Real, Real*, Index) noexcept;                                          \
  template void divide_all(Format, Real, Real*, Index) noexcept;                                         \
  template Real logarithm(Format, Real) noexcept;                                                        \
  template void dot_keys(Format, const Real*, const Real*, Index, Index, Index, Real*) noexcept;         \
  template void add_weighted(Format, const Real*, const std::int32_t*, Index, const Real*, Index, Index, \
                             Real*) noexcept;                                                            \
  template Real max_of(const Real*, Index) noexcept;                                                     \
  template Real sum_of(Format, const Real*, Index) noexcept;                                             \
  template Real power(Format, Base, Real) noexcept;                                                      \
  template void powers_above(Format, Base, const Real*, Real, Index, Real*) noexcept;
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::kernels
