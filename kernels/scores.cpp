#include "kernels/scores.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/rounding.hpp"
#include "kernels/rows.hpp"

namespace attest::kernels {

template <class Real>
void apply_scale(const Call& call, Real* s, Index n) noexcept {
  scale_all(call[Stage::scale], static_cast<Real>(call.scale), s, n);
  if (call[Stage::score] != call[Stage::scale]) round_all(call[Stage::score], s, n);
}

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTEST_KERNEL_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_KERNEL_CLONES
#endif

// The number of scores at once that suits registers and the nearest cache.
constexpr Index scores_at_once = 64;

// Computes tanh of n numbers, within a relative error of 2^-48: from e^v - 1 for v = -2 |x|, by 2^k and a Taylor
// polynomial on [-ln2/2, ln2/2]. NaN stays.
ATTEST_KERNEL_CLONES void nearly_tanh(const double* x, Index n, double* result) noexcept {
  for (Index j = 0; j < n; ++j) {
    const double size = std::fabs(x[j]), v = -2 * (size > 40 ? 40 : size);
    constexpr double shifter = 0x1.8p52;
    const double shifted = v * 0x1.71547652b82fep0 + shifter, multiple = shifted - shifter;
    const double r = (v - multiple * 0x1.62e42fefa38p-1) - multiple * 0x1.ef35793c7673p-45;
    double taylor = 1.0 / 6227020800;
    taylor = taylor * r + 1.0 / 479001600;
    taylor = taylor * r + 1.0 / 39916800;
    taylor = taylor * r + 1.0 / 3628800;
    taylor = taylor * r + 1.0 / 362880;
    taylor = taylor * r + 1.0 / 40320;
    taylor = taylor * r + 1.0 / 5040;
    taylor = taylor * r + 1.0 / 720;
    taylor = taylor * r + 1.0 / 120;
    taylor = taylor * r + 1.0 / 24;
    taylor = taylor * r + 1.0 / 6;
    taylor = taylor * r + 1.0 / 2;
    const double less_one = r + r * r * taylor,
                 power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) << 52) + 0x3ff0000000000000);
    const double all_less_one = power * less_one + (power - 1);
    result[j] = std::copysign(-all_less_one / (2 + all_less_one), x[j]);
  }
}

// Rounds the C library's tanh to float. The number near it settles all but a few in a million, for which the library is
// asked.
ATTEST_KERNEL_CLONES void round_tanh(const double* near, Index n, float* result, bool& all) noexcept {
  constexpr double off = 0x1p-45;  // more than either is
  int differ = 0;
  for (Index j = 0; j < n; ++j) {
    const auto least = static_cast<float>(near[j] * (1 - off)), most = static_cast<float>(near[j] * (1 + off));
    differ |= least == most ? 0 : 1;
    result[j] = least;
  }
  all = differ == 0;
}
void tanh_as_float(const double* x, Index n, float* result) noexcept {
  std::array<double, scores_at_once> near;
  bool all = false;
  nearly_tanh(x, n, near.data());
  round_tanh(near.data(), n, result, all);
  for (Index j = 0; j < n && !all; ++j) {
    const double one = near[static_cast<std::size_t>(j)];
    if (!(static_cast<float>(one * (1 - 0x1p-45)) == static_cast<float>(one * (1 + 0x1p-45))))
      result[j] = static_cast<float>(std::tanh(x[j]));
  }
}

}  // namespace

template <class Real>
void apply_softcap(const Call& call, Real* s, Index n) noexcept {
  if (call.softcap == 0) return;
  with_rounding<Real>(call[Stage::softcap], [&](auto round) {
    const Real cap = round(static_cast<Real>(call.softcap));
    if constexpr (std::is_same_v<Real, float>) {
      std::array<double, scores_at_once> ratio;
      std::array<float, scores_at_once> tanh;
      for (Index first = 0; first < n; first += scores_at_once) {
        const Index some = std::min(scores_at_once, n - first);
        float* const from = s + first;
        for (Index j = 0; j < some; ++j)
          ratio[static_cast<std::size_t>(j)] = static_cast<double>(round(round(from[j]) / cap));
        tanh_as_float(ratio.data(), some, tanh.data());
        for (Index j = 0; j < some; ++j) from[j] = round(round(tanh[static_cast<std::size_t>(j)]) * cap);
      }
    } else {
      for (Index j = 0; j < n; ++j) {
        const auto ratio = static_cast<double>(round(round(s[j]) / cap));
        s[j] = round(round(static_cast<Real>(std::tanh(ratio))) * cap);
      }
    }
  });
  round_all(call[Stage::score], s, n);
}

template <class Real>
void add_bias(const Call& call, const Piece& piece, Real* s) noexcept {
  if (!call.bias) return;
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const bool closes = call.softcap_before_bias || call.softcap == 0;
  std::array<Real, 256> bias;
  with_rounding<Real>(call[Stage::score], [&](auto round) {
    for (Index first = 0; first < piece.n; first += std::ssize(bias)) {
      const Index columns = std::min(piece.n - first, std::ssize(bias));
      read_block(call.bias.at(piece.b, piece.h, piece.i, piece.j0 + first), call.bias.type,
                 {1, columns, 0, call.bias.strides[3]}, bias.data());
      Real* const to = s + first;
      const Real* const from = bias.data();
      for (Index j = 0; j < columns; ++j)
        to[j] = closes && from[j] == minus_infinity ? minus_infinity : round(to[j] + from[j]);
    }
  });
}

template <class Real>
void apply_mask(const Call& call, const Piece& piece, Real closed, Real* s) noexcept {
  const Index lo = std::clamp(piece.open.lo - piece.j0, Index{0}, piece.n);
  const Index hi = std::clamp(piece.open.hi - piece.j0, lo, piece.n);
  std::fill(s, s + lo, closed);
  std::fill(s + hi, s + piece.n, closed);
  if (!call.keep) return;
  const std::byte* keep = call.keep.at(piece.b, piece.h, piece.i, piece.j0);
  for (Index j = lo; j < hi; ++j)
    if (keep[j * call.keep.strides[3]] == std::byte{0}) s[j] = closed;
}

template <class Real>
Index open_keys(const Real* s, Index n, std::int32_t* keys) noexcept {
  Index count = 0;
  for (Index j = 0; j < n; ++j) {
    keys[count] = static_cast<std::int32_t>(j);
    count += s[j] != -std::numeric_limits<Real>::infinity() ? 1 : 0;  // NaN takes part
  }
  return count;
}

#define ATTEST_INSTANTIATE(Real)                                             \
  template void apply_scale(const Call&, Real*, Index) noexcept;             \
  template void apply_softcap(const Call&, Real*, Index) noexcept;           \
  template void add_bias(const Call&, const Piece&, Real*) noexcept;         \
  template void apply_mask(const Call&, const Piece&, Real, Real*) noexcept; \
  template Index open_keys(const Real*, Index, std::int32_t*) noexcept;
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::kernels
