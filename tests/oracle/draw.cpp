#include "tests/oracle/draw.hpp"

#include "core/rng.hpp"

namespace attest::testing {

Problem draw_problem(Format dtype, std::uint64_t seed, Index lk_max) {
  std::uint64_t key = mix(seed ^ 0x6f7261636c65u);
  const auto pick = [&](std::uint64_t n) { return static_cast<Index>(below(key = mix(key), n)); };
  const auto chance = [&](std::uint64_t n) { return pick(n) == 0; };
  constexpr Index sizes[] = {1, 2, 3, 4, 8, 16, 32};
  Problem p;
  p.dtype = dtype;
  p.seed = key;
  p.b = 1 + pick(2);
  p.hkv = 1 + pick(2);
  p.hq = p.hkv * (1 + pick(2));
  p.lq = 1 + pick(chance(3) ? 9 : 3);
  p.lk = 1 + pick(static_cast<std::uint64_t>(chance(2) ? lk_max : 5));
  p.d = sizes[pick(7)];
  p.dv = chance(2) ? 1 + pick(11) : sizes[pick(6)];
  if (chance(4)) p.scale = static_cast<double>(pick(7) - 2) * 0.25;
  if (chance(8)) p.softcap = static_cast<double>(1 + pick(40));
  p.causal = chance(4);
  p.align = chance(2) ? Align::bottom_right : Align::top_left;
  if (chance(6)) p.window_left = pick(6);
  if (chance(6)) p.window_right = pick(6);
  if (chance(3)) p.keep = static_cast<Keep>(pick(keep_count));
  p.keep_axes = chance(2) ? 15 : pick(16);
  if (chance(3)) p.bias = static_cast<Bias>(pick(bias_count));
  p.bias_axes = chance(2) ? 15 : pick(16);
  p.bias_type = chance(2) ? BiasType::f32 : BiasType::same;
  if (chance(4)) p.lengths = static_cast<Lengths>(pick(lengths_count));
  if (chance(4)) {
    p.q_layout = static_cast<Layout>(pick(layout_count));
    p.k_layout = static_cast<Layout>(pick(layout_count));
    p.v_layout = static_cast<Layout>(pick(layout_count));
    p.out_layout = static_cast<Layout>(pick(6));
  }
  if (chance(2)) p.lse = chance(2) ? LseOutput::f64 : LseOutput::f32;
  p.values = chance(2) ? Values::normal : static_cast<Values>(pick(static_cast<std::uint64_t>(Values::ends)));
  if (chance(4)) p.amplitude = p.dtype == Format::f16 ? 2 : 4;
  if (chance(8)) {  // raw scores near and past the largest f16
    p.amplitude = static_cast<double>(Index{8} << pick(11));
    if (chance(2)) p.scale = (chance(3) ? -1.0 : 1.0) / static_cast<double>(Index{1} << pick(16));
  }
  if (mix(seed) % 40 == 0) p.values = Values::ends;  // in place of what was drawn: all other problems stay as they were
  return p;
}

}  // namespace attest::testing
