// Calls that are read as others.
#include <cmath>
#include <utility>

#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

// `explicit`, asked what `change` makes of a call.
template <auto change>
void run(const mha::Call& call, const mha::Contract& contract) {
  mha::Call other = call;
  change(other);
  explicit_block<BlockSteps>(other, contract);
}
template <auto change>
constexpr BlockEntry misreading(std::string_view name, std::string_view doc, std::string_view report,
                                std::string_view family, std::string_view stage) {
  return {name, doc, report, "explicit", explicit_block_contract, run<change>, true, family, stage};
}

void scale_twice(mha::Call& call) { call.scale *= call.scale; }
void scale_by_width(mha::Call& call) {
  if (call.scale_is_default) call.scale = 1 / std::sqrt(static_cast<double>(call.e()));
}
void turn_corner(mha::Call& call) {
  call.align = call.align == Align::top_left ? Align::bottom_right : Align::top_left;
}
void drop_mask(mha::Call& call) { call.keep = {}; }
void ignore_lengths(mha::Call& call) { call.kv_lengths = {}; }
void drop_out_bias(mha::Call& call) { call.b_out = {}; }

// These change extents and strides, which the tensor holds by pointers: they run the block themselves.
void attend_whole_pairs(const mha::Call& call, const mha::Contract& contract) {
  mha::Call other = call;
  std::int64_t shape[] = {call.memory.shape[0], call.m() - 1, call.memory.shape[2]};
  if (call.m() % 2 == 1 && call.m() > 1 && !attest_present(&call.kv_lengths)) other.memory.shape = shape;
  explicit_block<BlockSteps>(other, contract);
}
void attend_first_sample(const mha::Call& call, const mha::Contract& contract) {
  mha::Call other = call;
  std::int64_t strides[] = {0, call.memory.strides[1], call.memory.strides[2]};
  other.memory.strides = strides;
  explicit_block<BlockSteps>(other, contract);
}
void transpose_out(const mha::Call& call, const mha::Contract& contract) {
  mha::Call other = call;
  std::int64_t strides[] = {1, call.e()};
  if (call.heads > 1 && call.w_out.strides[0] == call.q_width() && call.w_out.strides[1] == 1)
    other.w_out.strides = strides;
  explicit_block<BlockSteps>(other, contract);
}

}  // namespace

extern constexpr BlockEntry mha_scale_twice = misreading<scale_twice>(
    "mha-scale-twice", "the scale is applied to q, and to the scores once more", "TRT#4333", "scale", "scale");
extern constexpr BlockEntry mha_scale_embed_dim = misreading<scale_by_width>(
    "mha-scale-embed-dim", "the default scale is 1/sqrt(e), not 1/sqrt(head_dim)", "common slip", "scale", "scale");
extern constexpr BlockEntry mha_causal_corner = misreading<turn_corner>(
    "mha-causal-corner", "the diagonal begins at the other corner", "ORT#29020, MLX#2835", "diagonal", "mask");
extern constexpr BlockEntry mha_mask_dropped =
    misreading<drop_mask>("mha-mask-dropped", "the mask of keys is not read", "keras#23038", "mask lost", "mask");
extern constexpr BlockEntry mha_kv_length_ignored = misreading<ignore_lengths>(
    "mha-kv-length-ignored", "the lengths of samples are not read", "jax#23349", "mask lost", "mask");
extern constexpr BlockEntry mha_last_token{"mha-last-token",
                                           "the last of an odd number of tokens is not attended",
                                           "FlagAttention#8",
                                           "explicit",
                                           explicit_block_contract,
                                           attend_whole_pairs,
                                           true,
                                           "tail",
                                           "k"};
extern constexpr BlockEntry mha_batch_leak{"mha-batch-leak",
                                           "every sample attends the tokens of the first",
                                           "PT#139462",
                                           "explicit",
                                           explicit_block_contract,
                                           attend_first_sample,
                                           true,
                                           "other sample or head",
                                           "reading"};
extern constexpr BlockEntry mha_out_bias_missing = misreading<drop_out_bias>(
    "mha-out-bias-missing", "the bias of the output projection is dropped", "common slip", "step left out", "out");
extern constexpr BlockEntry mha_out_transposed{
    "mha-out-transposed",
    "with several heads w_out is read as [width, e], as it is stored for x w",
    "common slip",
    "explicit",
    explicit_block_contract,
    transpose_out,
    true,
    "layout",
    "reading"};

}  // namespace attest::kernels::faults
