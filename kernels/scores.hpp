#pragma once
#include "kernels/call.hpp"

// From accumulated q.k to masked scores, in the order of attest/plugin.h. Real is float or double. A piece is a run of
// keys of one row.
namespace attest::kernels {

struct Piece {
  Index b = 0, h = 0, i = 0;  // the row
  Index j0 = 0, n = 0;        // keys [j0, j0 + n)
  KeyRange open;              // keys that length, causality and window leave to the row
};

// s = round_score(round_scale(scale s)).
template <class Real>
void apply_scale(const Call& call, Real* s, Index n) noexcept;

// Computes s = c tanh(s/c) if there is a softcap c: s/c, tanh and the product rounded to the softcap format, then to
// the score's.
template <class Real>
void apply_softcap(const Call& call, Real* s, Index n) noexcept;

// Computes s = round_score(s + bias) if there is a bias. A bias of -inf closes the key whatever its score, unless the
// softcap is still to come and would make a finite number of it.
template <class Real>
void add_bias(const Call& call, const Piece& piece, Real* s) noexcept;

// s = `closed` at the keys of the piece that its row does not see.
template <class Real>
void apply_mask(const Call& call, const Piece& piece, Real closed, Real* s) noexcept;

// The keys of a piece that take part, those whose score is not -inf, as offsets into it. Returns how many.
template <class Real>
Index open_keys(const Real* s, Index n, std::int32_t* keys) noexcept;

}  // namespace attest::kernels
