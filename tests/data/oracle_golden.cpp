// Prints problems and their enclosures as an independent implementation computes them; see oracle_golden.sh.
// One case: a line of settings, the tensors, then a line per row and per element. Numbers are hexadecimal.
#include "core.hpp"

namespace {

const char* format_name(Fmt f) {
  static const char* names[] = {"f16", "bf16", "f32", "tf32", "f64"};
  return names[f];
}

// Sets fields that depart from the defaults, and names them in words that the test reads back.
std::string vary(Pol& p, int variant) {
  switch (variant) {
    case 1:
      p.kappa = 3;
      return "kappa=3";
    case 2:
      p.exp2 = false;
      p.merge = 0;
      return "exp2=0 merge=none";
    case 3:
      p.merge = 2;
      p.smax = 4;
      return "merge=chain splits=4";
    case 4:
      p.kvtile = 4;
      p.fold = false;
      return "tile=4 fold=0";
    case 5:
      p.merge = 0;
      p.korder = 1;
      return "merge=none order=ascending";
    case 6:
      p.nafter = p.nbefore = false;
      p.nlse = true;
      return "normalise=lse";
    case 7:
      p.mlse = true;
      p.smax = 3;
      return "weights=lse splits=3";
    case 8:
      p.ftz = true;
      return "flush=1";
    case 9:
      p.tanh_abs = true;
      p.exp_ulp = 20;
      p.lur = false;
      p.nbefore = false;
      return "tanh=absolute exp_ulp=20 sum=rounded normalise=after";
    case 10:
      p.lr = false;
      p.lazy = 0;
      p.nbefore = false;
      return "sum=unrounded lazy=0 normalise=after";
    case 11:
      if (p.store == F32) {
        p.opd = TF32;
        return "operand=tf32";
      }
      if (p.store == F64) {
        p.opd = F32;
        return "operand=f32";
      }
      return "";
    default:
      return "";
  }
}

double storable(Fmt f, double x) {
  double y = rn0(f == F64 ? F32 : f, x);  // f32 values keep the file short
  return std::isfinite(y) ? y : std::copysign(MAXV(f), x);
}

void print(const char* name, const VD& values) {
  std::printf("%s", name);
  for (double x : values) std::printf(" %a", x);
  std::printf("\n");
}

}  // namespace

int main() {
  FX = 0xffffffff;
  Rng r(20);
  for (const Pol& named : pols())
    for (int variant = 0; variant < 24; ++variant) {
      Pol p = named;
      p.lse = F32;
      const std::string words = vary(p, variant % 12);
      Prob b;
      b.Lq = 1 + r.below(2);
      b.Lk = 1 + r.below(11);
      b.D = 1 + r.below(4);
      b.Dv = 1 + r.below(2);
      b.scale = r.p(.6) ? 1 / std::sqrt((double)b.D) : r.p(.2) ? 0 : r.gauss();
      b.scale = (float)b.scale;
      if (r.p(.3)) b.cap = 1 + r.below(30);
      // A q that carries the scale, rounded to bf16, makes of 200 errors past e^500, which the other program cuts off.
      const double spread = r.p(.2)   ? (PB[p.opd] < 11 && p.sct == F32 ? 40 : 200)
                            : r.p(.2) ? 6
                                      : 1,
                   value = r.p(.1)   ? 3e4
                           : r.p(.1) ? 1e-6
                                     : 1;
      b.Q.resize(b.Lq * b.D);
      b.K.resize(b.Lk * b.D);
      b.V.resize(b.Lk * b.Dv);
      for (auto& x : b.Q) x = storable(p.store, spread * r.gauss());
      for (auto& x : b.K) x = storable(p.store, spread * r.gauss());
      for (auto& x : b.V) x = storable(p.store, value * (r.p(.2) ? 1 : r.gauss()));
      const int mask = r.below(5);
      if (mask) b.mask.assign(b.Lq * b.Lk, 0);
      for (auto& m : b.mask) {
        if (mask == 1 || mask == 2) m = r.p(.4) ? -INF : 0;
        if (mask == 3) m = storable(p.store, r.gauss());
        if (mask == 4) m = r.p(.5) ? storable(p.store, r.p(.5) ? -1e4 : -6e4) : 0;
      }
      b.infbias = mask == 2;
      b.bias = mask >= 2;
      Ora o;
      oracle(b, p, o);
      std::printf("case %s storage=%s lq=%d lk=%d d=%d dv=%d bias=%d cap=%a scale=%a %s\n", p.name,
                  format_name(p.store), b.Lq, b.Lk, b.D, b.Dv, mask >= 2, b.cap, b.scale, words.c_str());
      print("q", b.Q);
      print("k", b.K);
      print("v", b.V);
      print("mask", b.mask);
      for (int i = 0; i < b.Lq; ++i) {
        const Row& row = o.rows[i];
        std::printf("row %d %d %d %a %a\n", row.empty, row.nf, row.lost || row.unj || row.zok, row.llo, row.lhi);
        for (int c = 0; c < b.Dv && !row.empty; ++c) {
          const std::size_t at = (std::size_t)i * b.Dv + c;
          std::printf("out %d %d %a %a %a\n", o.nf[at], row.unj || row.zok, o.y[at], row.lost ? o.hl[at] : o.lo[at],
                      row.lost ? o.hh[at] : o.hi[at]);
        }
      }
    }
}
