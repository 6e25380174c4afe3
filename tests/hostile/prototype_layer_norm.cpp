// The emulated LayerNorm of a prototype of the bounds (`ln.hpp`), as prototype_mha.cpp has the block. ATTEST_PROTOTYPE
// is "POLICY VARIANCE FORM NORM_ROUNDED CLAMP FLUSH KAPPA RSQRT_ULP RSQRT_REL ROOT LANES TREE SEED", numbers as that
// header has them. A fault may follow, by its number there.
#include <ln.hpp>
#include <sstream>

#include <attest/plugin.h>

namespace {

struct Kept {
  std::string policy = "f32", describe;
  int variance = 0, form = 0, rounded = 0, clamp = 0, flush = 0, kappa = 1, root = 0, lanes = 1, tree = 0, fault = 0;
  double ulp = 1, rel = 0;
  unsigned long seed = 1;
};

Kept& kept() {
  static Kept self;
  return self;
}

int norm(void*, const attest_layer_norm* call, char*, size_t) {
  const Kept& self = kept();
  static unsigned long calls = 0;
  const int64_t rows = call->x.shape[0], n = call->x.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    Rng random(self.seed * 1000003 + ++calls);
    Con contract{};
    for (const Con& one : cons())
      if (self.policy == one.name) contract = one;
    contract.meth = self.variance;
    contract.form = self.form;
    contract.nround = self.rounded != 0;
    contract.clamp = self.clamp != 0;
    contract.ftz = self.flush != 0;
    contract.kappa = self.kappa;
    contract.rs_ulp = self.ulp;
    contract.rs_rel = self.rel;
    contract.rms = call->rms != 0;
    contract.eps = call->epsilon;
    Emu how;
    how.order = random.below(5);
    how.lanes = self.lanes;
    how.tree = self.tree;
    how.blk = random.p(.5) ? 1 : 8;
    how.recip = random.p(.5);
    how.fma = random.p(.5);
    how.chunk = random.below(2);
    how.rs = self.root;
    how.rsx = random.p(.5) ? (random.p(.5) ? 1 : -1) : 2 * random.uni() - 1;
    how.trunc = self.kappa == 3;
    how.seed = random.next();
    how.fault = self.fault;
    const int lanes = std::min<int>(how.lanes, static_cast<int>(n));
    contract.merge = contract.meth == WEL && !contract.rms && lanes > 1 ? 1 : 0;
    VD x, gamma, beta, out;
    for (int64_t c = 0; c < n; ++c) {
      double value = attest_load(&call->x, row, c, 0, 0);
      if (attest_present(&call->residual)) value = rn0(contract.st, value + attest_load(&call->residual, row, c, 0, 0));
      x.push_back(value);
      gamma.push_back(attest_present(&call->gamma) ? attest_load(&call->gamma, c, 0, 0, 0) : 1);
      beta.push_back(attest_present(&call->beta) ? attest_load(&call->beta, c, 0, 0, 0) : 0);
    }
    emulate(x, gamma, beta, contract, how, out);
    for (int64_t c = 0; c < n; ++c) attest_store(&call->out, row, c, 0, 0, out[static_cast<size_t>(c)]);
  }
  return ATTEST_DONE;
}

}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return nullptr;
  Kept& self = kept();
  if (const char* words = std::getenv("ATTEST_PROTOTYPE"))
    std::istringstream(words) >> self.policy >> self.variance >> self.form >> self.rounded >> self.clamp >> self.flush >> self.kappa >>
        self.ulp >> self.rel >> self.root >> self.lanes >> self.tree >> self.seed >> self.fault;
  const char* describe = std::getenv("ATTEST_PROTOTYPE_DESCRIBE");
  self.describe = describe != nullptr ? describe : "{}";
  static attest_subject subject{};
  subject.struct_size = sizeof subject;
  subject.name = "prototype-layer-norm";
  subject.version = "1";
  subject.describe = self.describe.c_str();
  subject.layer_norm = norm;
  *count = 1;
  return &subject;
}
