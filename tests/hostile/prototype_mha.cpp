// The emulated block of a prototype of the bounds (a header of somebody else's, `mha.hpp`), as a plug-in. prototypes.py
// builds it with that folder among its includes, and says by ATTEST_PROTOTYPE which contract it keeps: "POLICY
// PROJECTIONS HEADS KAPPA SEED", PROJECTIONS 0 unrounded, 1 rounded, 2 separate, HEADS 0 unrounded, 1 rounded. A fault
// may follow, by its number there.
#include <mha.hpp>
#include <sstream>

#include <attest/plugin.h>

namespace {

struct Kept {
  std::string policy = "f32", describe;
  int projections = 1, heads = 1, kappa = 1, fault = 0;
  unsigned long seed = 1;
};

Kept& kept() {
  static Kept self;
  return self;
}

VD read(const attest_tensor& tensor, int64_t b, int64_t rows, int64_t columns) {
  VD values;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < columns; ++c)
      values.push_back(tensor.ndim == 3   ? attest_load(&tensor, b, i, c, 0)
                       : tensor.ndim == 2 ? attest_load(&tensor, i, c, 0, 0)
                                          : attest_load(&tensor, c, 0, 0, 0));
  return values;
}

VD read_bias(const attest_tensor& tensor, int64_t width) {
  return attest_present(&tensor) ? read(tensor, 0, 1, width) : VD(static_cast<size_t>(width), 0.0);
}

int block(void*, const attest_mha* call, char*, size_t) {
  const Kept& self = kept();
  const bool cross = attest_present(&call->memory) != 0;
  const int64_t samples = call->x.shape[0], l = call->x.shape[1], e = call->x.shape[2],
                m = cross ? call->memory.shape[1] : l, width = int64_t{call->heads} * call->head_dim;
  static unsigned long calls = 0;
  Rng random(self.seed * 1000003 + ++calls);
  for (int64_t b = 0; b < samples; ++b) {
    MP p;
    p.L = static_cast<int>(l);
    p.M = static_cast<int>(m);
    p.E = static_cast<int>(e);
    p.H = call->heads;
    p.D = call->head_dim;
    p.scale = call->scale;
    p.x = read(call->x, b, l, e);
    p.mem = cross ? read(call->memory, b, m, e) : p.x;
    p.wq = read(call->w_q, 0, width, e);
    p.wk = read(call->w_k, 0, width, e);
    p.wv = read(call->w_v, 0, width, e);
    p.wo = read(call->w_out, 0, e, width);
    p.bq = read_bias(call->b_q, width);
    p.bk = read_bias(call->b_k, width);
    p.bv = read_bias(call->b_v, width);
    p.bo = read_bias(call->b_out, e);
    const int64_t length = attest_present(&call->kv_lengths)
                               ? *static_cast<const int32_t*>(attest_at(&call->kv_lengths, b, 0, 0, 0))
                               : m;
    const int64_t diagonal = call->align == ATTEST_TOP_LEFT ? 0 : length - l;
    p.mask.assign(static_cast<size_t>(l * m), 0.0);
    for (int64_t i = 0; i < l; ++i)
      for (int64_t j = 0; j < m; ++j)
        if (j >= length || (call->causal && j > i + diagonal)) p.mask[static_cast<size_t>(i * m + j)] = -INF;
    BP how = mkbp(self.policy.c_str(), static_cast<Mode>(self.projections), self.heads);
    if (self.kappa == 3) how.kg = how.A.kappa = 3;
    Var v = rvar(random, how.A);
    if (self.kappa == 3) {
      v.tc = random.below(4);
      v.rzacc = random.below(2);
    }
    VD out;
    emu_block(p, how, v, self.fault, random, out);
    for (int64_t i = 0; i < l; ++i)
      for (int64_t c = 0; c < e; ++c) attest_store(&call->out, b, i, c, 0, out[static_cast<size_t>(i * e + c)]);
  }
  return ATTEST_DONE;
}

}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return nullptr;
  Kept& self = kept();
  if (const char* words = std::getenv("ATTEST_PROTOTYPE"))
    std::istringstream(words) >> self.policy >> self.projections >> self.heads >> self.kappa >> self.seed >> self.fault;
  const char* describe = std::getenv("ATTEST_PROTOTYPE_DESCRIBE");
  self.describe = describe != nullptr ? describe : "{}";
  static attest_subject subject{};
  subject.struct_size = sizeof subject;
  subject.name = "prototype-mha";
  subject.version = "1";
  subject.describe = self.describe.c_str();
  subject.mha = block;
  *count = 1;
  return &subject;
}
