#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"
#include "core/ranges.hpp"

namespace attest::layer_norm {

// The abilities of a subject, from describe's `supports` of this operation. Where it says nothing, attest asks and the
// subject may answer "unsupported".
struct Supports {
  bool layer = true, rms = true;                             // norms that it computes
  bool sum_out = true;                                       // beside a residual
  bool residual = true, gamma = true, beta = true;           // whether they may be there
  bool no_residual = true, no_gamma = true, no_beta = true;  // whether they may be absent
  bool param_same = true;                                    // gamma and beta in x's dtype
  bool param_f32 = true;                                     // and in f32 beside x of another
  Strides strides = Strides::any;
  bool far = false;     // offsets may take more than 32 bits, and the memory between rows is not there
  Index alignment = 1;  // bytes to which bases and rows must be aligned
  DimRange rows, hidden;

  // Rows from 0, and rows that lie far apart.
  static Supports everything();
};

// The declaration of a subject about this operation.
struct Offer {
  std::vector<Format> dtypes;
  Supports supports;
  Contract semantics;                  // everything but the policy
  std::vector<Arithmetic> arithmetic;  // one per entry of dtypes; empty: that of `semantics` for all
  std::vector<Policy> policies;        // one per entry of dtypes
  bool policy_declared = true;         // false: the most generous reading of each dtype, said aloud

  // Throws Error(usage) if the subject, whose name is given, does not offer the dtype.
  [[nodiscard]] Contract contract(Format dtype, const std::string& subject) const;
};

// Returns why a subject is not to be asked a problem, as core/supports.hpp does for attention. The second looks at
// memory alone.
std::optional<std::string> declined(const Problem& problem, const Supports& supports, std::span<const Format> dtypes);
std::optional<std::string> declined_memory(const Problem& problem, const Supports& supports);

}  // namespace attest::layer_norm
