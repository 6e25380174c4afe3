#pragma once
#include <string>

#include "core/npz.hpp"
#include "core/problem.hpp"

namespace attest {

// Activations captured from a run elsewhere: what values=file:PATH takes q, k and v from. Finite numbers of one
// floating-point dtype.
struct Captured {
  NamedArray q;  // [B,Hq,Lq,D]
  NamedArray k;  // [B,Hkv,Lk,D]
  NamedArray v;  // [B,Hkv,Lk,Dv]

  // As draw_rows (core/values.hpp): `rows`, row-major and `width` columns wide.
  void read(Edit::Tensor which, Index batch, Index head, Index position, Index first_column, Index width,
            std::span<double> rows) const noexcept;
};

// The file is read once a process and path, by whichever thread comes first, and never forgotten. Throws Error(usage) for a
// file that is missing, damaged, or lacks such arrays.
const Captured& load_captured(const std::string& path);

// The problem that takes all of it: dims and dtype, everything else at its default.
Problem problem_of(const Captured& captured);

}  // namespace attest
