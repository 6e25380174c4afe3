#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "core/verdict.hpp"
#include "properties/property.hpp"

namespace attest::properties {

// One problem asked of one block, and what it gave.
struct BlockTrial {
  const mha::Contract& contract;
  const mha::Inputs& inputs;
  const Tensor& out;
  std::function<Tensor(const mha::Inputs&)> ask;  // the output of other inputs, of the same shape and layout

  [[nodiscard]] const mha::Problem& problem() const noexcept { return inputs.problem; }
};

struct BlockLaw {
  std::string_view name, statement, doc;
  Kind kind;
  // Why the law does not apply, as far as problem and contract say; what only the numbers show, `check` skips.
  std::optional<std::string> (*not_applicable)(const mha::Problem&, const mha::Contract&);
  Verdict (*check)(const BlockTrial&);
  Asks asks = Asks::base_plan;
};

// Returns the laws in the order in which a failing case is reported: exact laws, exact probes, one tensor with other
// contents. The other checks against the oracle are ops/mha's.
std::span<const BlockLaw> block_laws() noexcept;

// The law's verdict, or skip where it does not apply.
Verdict check(const BlockLaw& law, const BlockTrial& trial);

namespace block {
Verdict repeat(const BlockTrial& trial);
Verdict masked_tokens(const BlockTrial& trial);
Verdict lone_head(const BlockTrial& trial);
Verdict value_sign(const BlockTrial& trial);
Verdict value_power(const BlockTrial& trial);
Verdict score_sign(const BlockTrial& trial);
Verdict head_permutation(const BlockTrial& trial);
Verdict uniform(const BlockTrial& trial);
Verdict selection(const BlockTrial& trial);
Verdict other_tokens(const BlockTrial& trial);
Verdict other_weights(const BlockTrial& trial);
Verdict other_biases(const BlockTrial& trial);
Verdict other_masks(const BlockTrial& trial);
}  // namespace block

}  // namespace attest::properties
