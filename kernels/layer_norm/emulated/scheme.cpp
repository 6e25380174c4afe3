// The schemes that a contract permits, and the number of additions of each.
#include <algorithm>
#include <cmath>

#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/emulator.hpp"

namespace attest::emulator::layer_norm {
namespace {

using attest::layer_norm::FlushToZero;

double depth_of_halves(double n, double block) {
  double depth = 0;
  while (n > block) n = std::ceil(n / 2), ++depth;
  return depth + n - 1;
}

}  // namespace

double additions_of(const Scheme& scheme, Index n) {
  const double count = static_cast<double>(n), lanes = std::clamp(static_cast<double>(scheme.lanes), 1.0, count);
  if (scheme.shape == Shape::chain || (scheme.shape != Shape::halves && lanes == 1)) return std::max(count - 1, 1.0);
  if (scheme.shape == Shape::halves) return std::max(depth_of_halves(count, static_cast<double>(scheme.block)), 1.0);
  return std::max(1.0,
                  std::ceil(count / lanes) - 1 + (scheme.chain_of_lanes ? lanes - 1 : std::ceil(std::log2(lanes))));
}

Scheme draw_scheme(const Contract& contract, Index n, bool rms, std::uint64_t seed) {
  std::uint64_t key = mix(seed ^ 0x9d5c);
  const auto one_of = [&](std::uint64_t choices) {
    key = mix(key);
    return below(key, choices);
  };
  const auto& how = contract.arithmetic;
  const bool welford = !rms && how.variance == attest::layer_norm::Variance::welford;
  Scheme s;
  s.seed = mix(key);
  s.order = static_cast<Order>(one_of(6));
  const double most = how.additions(n);
  for (int attempt = 0;; ++attempt) {
    s.shape = static_cast<Shape>(one_of(4));
    s.lanes = one_of(3) == 0 ? 1 + static_cast<Index>(one_of(13)) : Index{1} << one_of(11);
    s.block = Index{1} << one_of(6);
    s.chain_of_lanes = one_of(3) == 0;
    if (attempt > 60) s.shape = Shape::halves, s.block = 1;
    if (welford) {  // its lanes are chains: as many of them as its merges can join
      if (s.shape == Shape::halves) s.shape = Shape::chunked;
      if (attempt > 30) s.lanes = Index{1} << std::min<Index>(how.merge_depth, 16), s.chain_of_lanes = false;
      const Index lanes = std::min(s.lanes, n);
      if (how.merge_depth == 0 || lanes == 1) s.shape = Shape::chain;
      const Index merges = s.chain_of_lanes ? lanes - 1 : static_cast<Index>(std::ceil(std::log2(lanes)));
      if (s.shape != Shape::chain && merges > how.merge_depth) continue;
    }
    if (additions_of(s, n) <= most || attempt > 60) break;
  }
  s.reciprocal_count = one_of(2);
  s.fma = one_of(2);
  s.divide_by_root = one_of(2);
  s.root = static_cast<RootError>(one_of(4));
  s.root_share = one_of(4) ? 1 : static_cast<double>(one_of(1000)) / 1000;
  if (how.rsqrt_ulp <= 0.5 && !how.rsqrt_rel) s.root = RootError::exact;
  if (how.kappa >= 3) s.sums = static_cast<Direction>(one_of(4));
  s.flush_results = how.flushes() && one_of(4) != 0;
  s.flush_params = how.flushes() && one_of(2);
  s.flush_x = how.flush_to_zero == FlushToZero::inputs && one_of(2);
  s.flush_every_other_input = one_of(2);
  s.seen_as_statistics = one_of(2);
  s.gamma_added_late = one_of(2);
  s.merge_form = static_cast<int>(one_of(6));
  return s;
}

}  // namespace attest::emulator::layer_norm
