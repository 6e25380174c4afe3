#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct GqaModulo : CleanSteps {
  static Index kv_head(const Call& call, Index h) { return h % call.hkv; }
};

}  // namespace

extern constexpr KernelEntry gqa_modulo =
    fault<CleanSteps, GqaModulo>("gqa-modulo", "query head h reads key/value head h % Hkv, not h / (Hq / Hkv)",
                                 "ONNXim#33", "fused", "other sample or head", "reading");

}  // namespace attest::kernels::faults
