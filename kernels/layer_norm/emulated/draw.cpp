#include "kernels/layer_norm/emulated/draw.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/rng.hpp"

namespace attest::emulator::layer_norm {
namespace {

using attest::layer_norm::AnyDepth;
using attest::layer_norm::Arithmetic;
using attest::layer_norm::contract_for;
using attest::layer_norm::FlushToZero;
using attest::layer_norm::Lanes;
using attest::layer_norm::Merge;
using attest::layer_norm::Norm;
using attest::layer_norm::NormForm;
using attest::layer_norm::Pairwise;
using attest::layer_norm::ParamType;
using attest::layer_norm::policy_from_text;
using attest::layer_norm::Residual;
using attest::layer_norm::residual_count;
using attest::layer_norm::SumOf;
using attest::layer_norm::Values;
using attest::layer_norm::values_count;
using attest::layer_norm::Variance;
using attest::layer_norm::Weights;
using attest::layer_norm::weights_count;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_(mix(seed)) {}
  std::uint64_t operator()(std::uint64_t sides) {
    key_ = mix(key_);
    return below(key_, sides);
  }
  bool one_in(std::uint64_t n) { return (*this)(n) == 0; }
  template <class T, std::size_t N>
  const T& of(const T (&choices)[N]) {
    return choices[(*this)(N)];
  }

 private:
  std::uint64_t key_;
};

constexpr const char* policy_texts[] = {
    "f32",
    "f64",
    "f16",
    "bf16",
    "f16-all",
    "bf16-all",
    "f32,statistics=bf16",
    "f32,statistics=f64",
    "f64,statistics=f32,normalise=f32",
    "f16,normalise=f16,affine=f16",
    "bf16,normalise=bf16,affine=bf16",
    "f16,affine=f16",
    "bf16,affine=f16",
    "bf16,statistics=f16",
    "f32,statistics=f16,normalise=f16",
    "f32,normalise=bf16",
    "f16,sum=f16,statistics=f64",
    "bf16,sum=bf16",
    "f32,affine=f16,output=f16",
    "f32,*=f64,storage=f32,output=f32",
};

}  // namespace

Contract draw_contract(std::uint64_t seed) {
  Dice dice(seed ^ 0x636f);
  Contract contract = contract_for(policy_from_text(dice.one_in(2) ? policy_texts[dice(6)] : dice.of(policy_texts)));
  Arithmetic& a = contract.arithmetic;
  a.variance = static_cast<Variance>(dice(5));
  if (dice.one_in(2)) {
    switch (dice(3)) {
      case 0:
        a.depth = Index{8} << dice(6);
        break;
      case 1:
        a.depth = Lanes{Index{1} << dice(8), Index{1} << dice(3)};
        break;
      default:
        a.depth = Pairwise{Index{1} << dice(6)};
    }
  }
  if (a.variance == Variance::welford && dice.one_in(2)) {
    a.merge = dice.one_in(2) ? Merge::delta : Merge::weighted;
    a.merge_depth = 1 + static_cast<Index>(dice(8));
  }
  if (a.variance == Variance::welford && !std::holds_alternative<AnyDepth>(a.depth)) {
    // A lane of welford is a chain: what cannot be shared out among lanes needs its full depth.
    if (a.merge == Merge::none)
      a.depth = AnyDepth{};
    else
      a.depth = Lanes{Index{1} << std::min<Index>(a.merge_depth, 10), 1};
  }
  constexpr double ulps[] = {0.5, 1, 1, 2, 4, 20};
  a.rsqrt_ulp = dice.of(ulps);
  constexpr double relatives[] = {0x1p-14, 1.5 * 0x1p-12, 1e-3};
  if (dice.one_in(6)) a.rsqrt_rel = dice.of(relatives);
  a.form = dice.one_in(2) ? NormForm::centred : static_cast<NormForm>(dice(4));
  a.norm_rounded = a.form != NormForm::folded && a.form != NormForm::weighted_scale && dice.one_in(4);
  a.clamp = (a.variance == Variance::one_pass || a.variance == Variance::shifted) && dice.one_in(2);
  if (dice.one_in(5)) a.flush_to_zero = dice.one_in(2) ? FlushToZero::results : FlushToZero::inputs;
  if (dice.one_in(4)) a.sum_of = SumOf::unrounded;
  if (dice.one_in(8)) a.kappa = 3;
  if (dice.one_in(6)) contract.gamma_offset = 1;
  return contract;
}

Problem draw_problem(const Contract& contract, Index most, std::uint64_t seed) {
  Dice dice(seed ^ 0x7072);
  Problem p;
  p.dtype = contract.policy[Stage::storage];
  constexpr Index widths[] = {1,  2,  3,   4,   5,   7,   8,   9,   16,  17,  31,   32,  33,
                              64, 65, 100, 127, 128, 200, 256, 257, 500, 768, 1000, 1024};
  constexpr Index long_widths[] = {2048, 3000, 4096, 8192, 16385, 33000, 65536};
  p.hidden = std::min(most, dice.one_in(40) ? dice.of(long_widths) : dice.of(widths));
  p.rows = std::max<Index>(1, std::min<Index>(1 + static_cast<Index>(dice(4)), most / p.hidden));
  if (dice.one_in(200)) p.rows = 0;
  p.norm = dice.one_in(5) ? Norm::rms : Norm::layer;
  constexpr double epsilons[] = {0, 0x1p-40, 1e-12, 1e-6, 1e-5, 1e-5, 1e-3, 0.5, 1};
  p.epsilon = dice.of(epsilons);
  if (dice.one_in(3)) p.residual = static_cast<Residual>(dice(residual_count));
  p.sum_out = p.residual != Residual::none && dice.one_in(2);
  p.gamma = static_cast<Weights>(dice(weights_count));
  p.beta = static_cast<Weights>(dice(weights_count));
  p.param_type = p.dtype != Format::f64 && dice.one_in(4) ? ParamType::f32 : ParamType::same;
  p.values = static_cast<Values>(dice(values_count));
  constexpr double amplitudes[] = {1, 1, 1, 0.01, 1000, 0x1p-20, 0x1p20};
  p.amplitude = dice.of(amplitudes);
  if (dice.one_in(3)) p.offset = std::pow(10.0, static_cast<double>(dice(71)) / 10) * (dice.one_in(2) ? 1 : -1);
  if (p.values == Values::alternating) p.offset = std::ldexp(1.0, static_cast<int>(dice(16)));
  p.seed = dice(std::uint64_t{1} << 62);
  return p;
}

}  // namespace attest::emulator::layer_norm
