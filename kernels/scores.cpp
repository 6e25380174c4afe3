#include "kernels/scores.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/rounding.hpp"
#include "kernels/rows.hpp"

namespace attest::kernels {

template <class Real>
void apply_scale(const Call& call, Real* s, Index n) noexcept {
  scale_all(call[Stage::scale], static_cast<Real>(call.scale), s, n);
  if (call[Stage::score] != call[Stage::scale]) round_all(call[Stage::score], s, n);
}

template <class Real>
void apply_softcap(const Call& call, Real* s, Index n) noexcept {
  if (call.softcap == 0) return;
  with_rounding<Real>(call[Stage::softcap], [&](auto round) {
    const Real cap = round(static_cast<Real>(call.softcap));
    for (Index j = 0; j < n; ++j) {
      const auto ratio = static_cast<double>(round(round(s[j]) / cap));
      s[j] = round(round(static_cast<Real>(std::tanh(ratio))) * cap);
    }
  });
  round_all(call[Stage::score], s, n);
}

template <class Real>
void add_bias(const Call& call, const Piece& piece, Real* s) noexcept {
  if (!call.bias) return;
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const bool closes = call.softcap_before_bias || call.softcap == 0;
  const Index stride = call.bias.strides[3];
  std::array<Real, 256> bias;
  with_rounding<Real>(call[Stage::score], [&](auto round) {
    for (Index j = 0; j < piece.n; ++j) {
      const Index at = j % std::ssize(bias);
      if (at == 0) {
        const Index columns = std::min(piece.n - j, std::ssize(bias));
        read_block(call.bias.at(piece.b, piece.h, piece.i, piece.j0 + j), call.bias.type, {1, columns, 0, stride},
                   bias.data());
      }
      const Real m = bias[static_cast<std::size_t>(at)];
      s[j] = closes && m == minus_infinity ? minus_infinity : round(s[j] + m);
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
