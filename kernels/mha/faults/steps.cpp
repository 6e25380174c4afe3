// Steps of a block that are done otherwise, or in less than was promised.
#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/fused_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

template <class Steps>
constexpr BlockEntry of_explicit(std::string_view name, std::string_view doc, std::string_view report,
                                 std::string_view family, std::string_view stage) {
  return {name, doc, report, "explicit", explicit_block_contract, explicit_block<Steps>, true, family, stage};
}
template <class Steps>
constexpr BlockEntry of_fused(std::string_view name, std::string_view doc, std::string_view report,
                              std::string_view family, std::string_view stage) {
  return {name, doc, report, "fused", fused_block_contract, fused_block<Steps>, false, family, stage};
}

struct HeadsInterleaved : BlockSteps {
  // Rows [heads, head_dim] read as [head_dim, heads].
  static Source source(const mha::Call& call, int projection, Index row) {
    const Index heads = projection == 0 ? call.heads : call.kv_heads;
    return {projection, row % call.head_dim * heads + row / call.head_dim};
  }
};
struct GqaModulo : BlockSteps {
  static Index kv_head(const mha::Call& call, Index h) { return h % call.kv_heads; }
};
struct OutGemmF16 : BlockSteps {
  static Format out_gemm(const mha::Contract&) { return Format::f16; }
};
struct HeadsBf16 : BlockSteps {
  static Format heads(const mha::Contract&) { return Format::bf16; }
};
struct BatchPath : BlockSteps {
  static Format softmax(const mha::Call& call, const mha::Contract& contract) {
    return call.b() > 1 ? Format::f16 : BlockSteps::softmax(call, contract);
  }
};

}  // namespace

extern constexpr BlockEntry mha_heads_interleaved = of_explicit<HeadsInterleaved>(
    "mha-heads-interleaved", "rows of projections are split as [head_dim, heads]", "common slip", "layout", "reading");
extern constexpr BlockEntry mha_gqa_modulo =
    of_fused<GqaModulo>("mha-gqa-modulo", "query head h reads key/value head h modulo their number", "ONNXim#33",
                        "other sample or head", "reading");
extern constexpr BlockEntry mha_out_gemm_f16 = of_fused<OutGemmF16>(
    "mha-out-gemm-f16", "the output projection accumulates in f16", "TRT#3777", "narrow sums", "gemm");
extern constexpr BlockEntry mha_heads_bf16 = of_explicit<HeadsBf16>(
    "mha-heads-bf16", "the concatenated heads are rounded to bf16", "FI#5107", "narrow heads", "heads");
extern constexpr BlockEntry mha_batch_path =
    of_explicit<BatchPath>("mha-batch-path", "more than one sample takes another path, with softmax in f16",
                           "TRT#3730, #3744", "narrow softmax", "softmax");
extern constexpr BlockEntry mha_bias_separate =
    of_explicit<SeparateBias>("mha-bias-separate", "a product is stored before its bias is added, and stored again",
                              "common slip", "bias rounding", "q");

}  // namespace attest::kernels::faults
