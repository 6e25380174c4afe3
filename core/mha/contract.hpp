#pragma once
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/contract.hpp"
#include "core/tensor.hpp"

namespace attest::mha {

// A policy of attention and the stage that a block adds: `gemm`, the accumulation of its four products.
struct Policy {
  attest::Policy attention;
  Format gemm = Format::f32;
  friend bool operator==(const Policy&, const Policy&) = default;
};
// Reads a policy as attest::policy_from_text does, with the stage gemm. Where no item names it, it is that of qk.
Policy policy_from_text(std::string_view text);
std::string to_text(const Policy& policy);

// The longest chain of additions that a product of a sum of n products passes through. A bias adds one.
struct Chain {
  Index most = 0;              // whatever n is; or
  Index lanes = 0, block = 1;  // so many interleaved sums of blocks, which are added up as a tree, and the lanes too

  [[nodiscard]] double depth(Index n) const noexcept {
    if (lanes == 0) return static_cast<double>(most);
    const auto levels = [](Index of) { return static_cast<Index>(std::bit_width(static_cast<std::uint64_t>(of - 1))); };
    const Index in_sequence = (n + lanes * block - 1) / (lanes * block);
    return static_cast<double>(in_sequence + levels(lanes) + levels(block));
  }
  friend bool operator==(const Chain&, const Chain&) = default;
};

// The form in which a projection leaves its product: unrounded, in the accumulator's format or f32; rounded to storage,
// the bias added before; or separate: rounded, then the bias added and rounded again.
enum class Projected : std::uint8_t { unrounded, rounded, separate };
inline constexpr std::size_t projected_count = 3;

// The promises of a block.
struct Contract {
  attest::Contract attention;  // the contract of each head; empty rows are those of a head
  Format gemm = Format::f32;
  std::optional<Chain> gemm_chain;  // absent: any
  // The ways that a call may take; at least one each.
  bool projections[projected_count] = {false, true, false};
  bool heads_rounded = true, heads_unrounded = false;  // the concatenated heads
  bool drops_b_k = false;                              // softmax does not depend on b_k, but its rounding does
  friend bool operator==(const Contract&, const Contract&) = default;
};

Contract contract_for(const Policy& policy);
// The `contract` object of describe, of attention with gemm_chain, projections, heads and drops_b_k. Throws
// Error(usage) naming an
// unknown key or a wrong value.
Contract contract_from_json(const nlohmann::json& object, const Policy& policy);
nlohmann::ordered_json to_json(const Contract& contract);

// Throws Error(usage) where numbers contradict each other.
void check(const Contract& contract);

}  // namespace attest::mha
