#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

// Takes tokens before samples in memory for samples before tokens, as a copy to a device that forgets strides leaves
// them.
void run(const mha::Call& call, const mha::Contract& contract) {
  const auto misread = [](attest_tensor& tokens, std::int64_t* strides) {
    const std::int64_t* const n = tokens.shape;
    if (tokens.strides[0] != n[2] || tokens.strides[1] != n[0] * n[2] || tokens.strides[2] != 1) return;
    strides[0] = n[1] * n[2];
    strides[1] = n[2];
    strides[2] = 1;
    tokens.strides = strides;
  };
  mha::Call copied = call;
  std::int64_t of_x[3], of_memory[3];
  misread(copied.x, of_x);
  misread(copied.memory, of_memory);
  explicit_block<BlockSteps>(copied, contract);
}

}  // namespace

extern const BlockEntry mha_layout_misread{"mha-layout-misread",
                                           "a tensor whose tokens come before its samples is read as if it were packed",
                                           "S0",
                                           "explicit",
                                           explicit_block_contract,
                                           run,
                                           true,
                                           "layout",
                                           "reading"};

}  // namespace attest::kernels::faults
