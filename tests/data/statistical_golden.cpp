// Prints problems and where an independent implementation expects conforming kernels; see statistical_golden.sh.
// One case: a line of settings that ends in the contract's JSON, the tensors, then a line per element: s, bias, and the
// interval at lambda 5. Numbers are hexadecimal.
#include <cstdio>
#include <map>

#include "gen.hpp"

namespace {

const char* vary(Policy& p, int variant) {
  switch (variant) {
    case 1:
      p.exp2 = p.lse = false;
      return R"({"exp2":false,"lse_merge":"none"})";
    case 2:
      p.scale_pre = false;
      return R"({"fold":"none"})";
    case 3:
      p.norm_before = false;
      return R"({"normalise":"after"})";
    case 4:
      p.exp_ulp = 20;
      return R"({"exp_ulp":20})";
    case 5:
      p.lse = false;
      p.div_ulp = 2;
      return R"({"lse_merge":"none","div_ulp":2})";
    default:
      return "{}";
  }
}

void print(const char* name, const std::vector<float>& values) {
  std::printf("%s", name);
  for (float x : values) std::printf(" %a", x);
  std::printf("\n");
}

}  // namespace

int main() {
  const char* names[] = {"f32", "f16", "bf16", "f16-scores16", "f16-acc16", "f16-softmax16"};
  Rng r(7);
  const auto named = policies();
  for (int n = 0; n < 324; ++n) {
    Policy p = named[n % 6];
    const char* words = vary(p, n / 6 % 6);
    Problem b = gen(r, p.store, n % NCLS, r.below(6), 20, 4);
    // Small: one row, four elements of q and k, two columns.
    const int d = std::min(b.D, 4), dv = std::min(b.Dv, 2);
    std::vector<float> k, v;
    for (int j = 0; j < b.Lk; ++j) {
      for (int c = 0; c < d; ++c) k.push_back(b.K[j * b.D + c]);
      for (int c = 0; c < dv; ++c) v.push_back(b.V[j * b.Dv + c]);
    }
    b.K = k;
    b.V = v;
    b.Q.resize(d);
    if (n % 5 == 4)  // scores so large that the interval is a box
      for (auto& x : b.Q) x *= 16;
    if (!b.mask.empty()) b.mask.resize(b.Lk);
    b.Lq = 1;
    b.D = d;
    b.Dv = dv;
    OracleOpt options;
    options.lambda = 5;
    Oracle o;
    run_oracle(b, p, options, o);
    std::printf("case %s lk=%d d=%d dv=%d bias=%d scale=%a %s\n", names[n % 6], b.Lk, d, dv, !b.mask.empty(), b.scale,
                words);
    print("q", b.Q);
    print("k", b.K);
    print("v", b.V);
    print("mask", b.mask);
    for (int c = 0; c < dv; ++c) std::printf("out %a %a %a %a\n", o.sig[c], o.bias[c], o.slo[c], o.shi[c]);
  }
}
