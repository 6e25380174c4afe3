#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/mha/contract.hpp"
#include "core/mha/problem.hpp"
#include "core/ranges.hpp"

namespace attest::mha {

// The abilities of a subject, from describe's `supports` of this operation. Where it says nothing, attest asks and the
// subject may answer "unsupported".
struct Supports {
  enum class Scale : std::uint8_t { any, positive, only_default };
  bool self = true, cross = true;              // whether memory may be x, and whether it may be another tensor
  bool in_biases = true, no_in_biases = true;  // whether b_q, b_k and b_v may be there, and whether they may be absent
  bool out_bias = true, no_out_bias = true;    // the same of b_out
  bool causal = true, top_left = true, bottom_right = true, gqa = true;
  bool bias = true, keep = true, kv_lengths = true;
  Scale scale = Scale::any;
  Strides strides = Strides::any;
  bool far = false;     // offsets may take more than 32 bits, and the memory between parts of a tensor is not there
  Index alignment = 1;  // bytes to which bases and rows must be aligned
  DimRange b, l, m, e, heads, kv_heads, head_dim;
  bool heads_fill_e = false;                                                    // heads * head_dim = e
  bool stage_q = false, stage_k = false, stage_v = false, stage_heads = false;  // the stages that it returns

  [[nodiscard]] bool gives_stages() const noexcept { return stage_q || stage_k || stage_v || stage_heads; }
  // Parts that lie far apart.
  static Supports everything();
};

// The declaration of a subject about this operation.
struct Offer {
  std::vector<Format> dtypes;
  Supports supports;
  std::vector<Contract> contracts;  // one per entry of dtypes, policy included
  bool policy_declared = true;      // false: the most generous reading of each dtype, said aloud

  // Throws Error(usage) if the subject, whose name is given, does not offer the dtype.
  [[nodiscard]] const Contract& contract(Format dtype, const std::string& subject) const;
};

// Returns why a subject is not to be asked a problem, as core/supports.hpp does for attention. The second looks at
// memory alone.
std::optional<std::string> declined(const Problem& problem, const Supports& supports, std::span<const Format> dtypes);
std::optional<std::string> declined_memory(const Problem& problem, const Supports& supports);

}  // namespace attest::mha
