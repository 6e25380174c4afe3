#include "properties/mha/laws.hpp"

#include <algorithm>
#include <array>

namespace attest::properties {
namespace {

// Edits may take away what a law relies on, but for zeros, which are as plain as a number can be.
bool edited(const mha::Problem& problem) {
  return std::ranges::any_of(problem.edits, [](const mha::Edit& edit) { return edit.value != 0; });
}
std::optional<std::string> if_deterministic(const mha::Problem&, const mha::Contract& contract) {
  const auto claimed = contract.attention.deterministic;
  if (claimed && *claimed != Deterministic::no) return {};
  return "bits that repeat are not claimed";
}
std::optional<std::string> if_padded(const mha::Problem& problem, const mha::Contract& contract) {
  if (problem.padding != mha::Padding::ragged && problem.padding != mha::Padding::some_zero)
    return "no token lies past a length";
  if (problem.self) return "a masked token is a query too";
  if (problem.memory_layout == mha::Layout::broadcast) return "samples share their tokens";
  if (contract.attention.empty_row == EmptyRow::mean_all) return "a row without keys takes the values of all tokens";
  if (contract.attention.mask_added) return "masks are added to scores, which may overflow";
  return if_deterministic(problem, contract);
}
std::optional<std::string> if_heads(const mha::Problem& problem, const mha::Contract& contract) {
  if (problem.kv_heads < 2) return "there is one key/value head";
  return if_deterministic(problem, contract);
}
std::optional<std::string> if_heads_may_swap(const mha::Problem& problem, const mha::Contract&) {
  if (problem.heads != problem.kv_heads || problem.heads < 2) return "heads are grouped, or there is one";
  if (problem.padding == mha::Padding::rows || problem.bias == mha::Bias::normal)
    return "the mask differs from head to head";
  return {};
}

// exp(0) is 1, and what is divided by a power of two is the nearest number.
std::optional<std::string> if_sums_are_plain(const mha::Contract& contract) {
  const Arithmetic& how = contract.attention.arithmetic;
  if (how.lse_merge != LseMerge::none) return "splits may be merged by a log-sum-exp";
  if (how.normalise_lse) return "weights may be computed as exp(s - lse)";
  if (how.div_ulp > 0.5) return "the division may be off";
  return {};
}
std::optional<std::string> if_uniform(const mha::Problem& problem, const mha::Contract& contract) {
  if (problem.weights != mha::Weights::uniform) return "weights are not those of the uniform probe";
  if (problem.bias != mha::Bias::none || edited(problem)) return "a bias or an edit makes scores of its own";
  return if_sums_are_plain(contract);
}
std::optional<std::string> if_selection(const mha::Problem& problem, const mha::Contract& contract) {
  if (problem.weights != mha::Weights::selection) return "weights are not those of the selection probe";
  if (!problem.has_in_biases()) return "there is no b_q to select by";
  if (problem.bias != mha::Bias::none || !problem.edits.empty()) return "a bias or an edit makes scores of its own";
  if (contract.attention.arithmetic.div_ulp > 0.5) return "the division may be off";
  if (!contract.attention.arithmetic.sums_to_nearest()) return "what truncates may lose a whole step to a tiny weight";
  return {};
}

std::optional<std::string> if_output(const mha::Problem& problem, const mha::Contract&) {
  if (problem.b * problem.l * problem.e == 0) return "no output elements";
  return {};
}
std::optional<std::string> if_biases(const mha::Problem& problem, const mha::Contract& contract) {
  if (problem.biases == mha::Biases::none) return "no biases";
  return if_output(problem, contract);
}
std::optional<std::string> if_masks(const mha::Problem& problem, const mha::Contract& contract) {
  if (problem.padding == mha::Padding::none && problem.bias == mha::Bias::none) return "no mask is a tensor";
  return if_output(problem, contract);
}

constexpr std::array laws{
    BlockLaw{"block-repeat", "f(x) = f(x)", "the same call again", Kind::exact, if_deterministic, block::repeat},
    BlockLaw{"block-masked-tokens", "tokens past a sample's length do not matter", "leakage of padded tokens",
             Kind::exact, if_padded, block::masked_tokens},
    BlockLaw{"block-lone-head", "heads that w_out takes nothing of do not matter",
             "the order of a packed projection, heads concatenated without a transpose", Kind::exact, if_heads,
             block::lone_head},
    BlockLaw{"block-value-sign", "-(w_v, b_v) in a row and -w_out in its columns",
             "values, or the concatenated heads, taken for others", Kind::exact, if_deterministic, block::value_sign},
    BlockLaw{"block-value-power", "2 (w_v, b_v) in a row and 1/2 w_out in its columns", "as block-value-sign",
             Kind::exact, if_deterministic, block::value_power},
    BlockLaw{"block-score-sign", "-(w_q, b_q) and -(w_k, b_k) in the same channel", "queries or keys taken for others",
             Kind::exact, if_deterministic, block::score_sign},
    BlockLaw{"block-head-permutation", "heads in another order, with their columns of w_out", "heads taken for others",
             Kind::bound, if_heads_may_swap, block::head_permutation},
    BlockLaw{"block-uniform", "equal scores: the mean of the values, projected",
             "wrong rows of weights, biases left out, products summed in fewer bits", Kind::exact, if_uniform,
             block::uniform, Asks::base_call},
    BlockLaw{"block-selection", "one score far above the rest: its value, projected",
             "wrong rows of weights, b_q left out, products summed in fewer bits", Kind::exact, if_selection,
             block::selection, Asks::base_call},
    BlockLaw{"block-other-tokens", "RN(lo') <= f(x') <= RN(hi'), x or memory alone changed",
             "what is kept from call to call without a look at the tokens", Kind::bound, if_output,
             block::other_tokens},
    BlockLaw{"block-other-weights", "RN(lo') <= f(x') <= RN(hi'), one weight matrix alone changed",
             "what is kept from call to call without a look at the weights", Kind::bound, if_output,
             block::other_weights},
    BlockLaw{"block-other-biases", "RN(lo') <= f(x') <= RN(hi'), one of the biases alone changed",
             "what is kept from call to call without a look at the biases", Kind::bound, if_biases,
             block::other_biases},
    BlockLaw{"block-other-masks", "RN(lo') <= f(x') <= RN(hi'), the bias of scores, keep or lengths alone changed",
             "what is kept from call to call without a look at the masks", Kind::bound, if_masks, block::other_masks},
};

}  // namespace

std::span<const BlockLaw> block_laws() noexcept { return laws; }

Verdict check(const BlockLaw& law, const BlockTrial& trial) {
  if (const auto reason = law.not_applicable(trial.problem(), trial.contract)) return Verdict::skip(*reason);
  return law.check(trial);
}

}  // namespace attest::properties
