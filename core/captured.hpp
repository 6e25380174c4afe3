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

  // Reads as draw_rows (core/values.hpp) does: `rows`, row-major and `width` columns wide.
  void read(Edit::Tensor which, Index batch, Index head, Index position, Index first_column, Index width,
            std::span<double> rows) const noexcept;
};

// Returns the contents of a file. It is read once a process and path, by the first thread that asks, and never
// forgotten. Throws Error(usage) for a file that is missing, damaged, or lacks such arrays.
const Captured& load_captured(const std::string& path);

// The problem that takes all of it: dims and dtype, everything else at its default.
Problem problem_of(const Captured& captured);

}  // namespace attest
