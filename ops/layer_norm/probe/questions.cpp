// Shots that a narrow format must miss. What a format of p significand bits makes of a number in the middle between two of its own is
// off by half their spacing; what a wider one loses is a small part of that.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "ops/layer_norm/probe/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using probing::Shot;
using Shots = std::vector<Shot>;

constexpr std::array all_formats{Format::f64, Format::f32, Format::f16, Format::bf16};
constexpr Index usual_width = 32;
constexpr double middle = 0.3;  // from a narrow number, in their spacing: 0.5 is farthest
constexpr double slack = 0.2;

// Elements of either sign that sum to 0: `large` at every place for which it says so, `small` elsewhere.
Row balanced(Index n, double large, double small, const std::function<bool(Index)>& is_large) {
  Row x;
  int larges = 0, smalls = 0;
  for (Index i = 0; i < n; ++i) {
    int& count = is_large(i) ? larges : smalls;
    x.push_back((is_large(i) ? large : small) * (count++ % 2 == 0 ? 1 : -1));
  }
  return x;
}

// Large and small numbers by range: squares past f16, or below it.
Shots past_f16(const Maker& maker) {
  Shots shots;
  const Index n = maker.width(2);
  if (n % 2 != 0) return {};
  for (const double size : {two_to(9), two_to(-17)}) {
    Problem p = maker.of_row(balanced(n, size, 0, [](Index) { return true; }));
    p.epsilon = two_to(-80);
    shots.push_back({p, 0.9, 1.1, out_at(0)});
  }
  return shots;
}

// ---- x + residual ------------------------------------------------------------------------------------------------------

// A sum of one bit more than the narrow format has, beside one that fits: as they are stored, or a row of two numbers that becomes one.
Shots of_sum(const Maker& maker, int bits) {
  if (!maker.supports().residual) return {};
  const Index n = maker.width(2);
  if (n % 2 != 0) return {};
  const double large = two_to(bits == 0 ? 17 : bits);
  Row x(static_cast<std::size_t>(n), large);
  if (bits == 0) x = balanced(n, large, 0, [](Index) { return true; });
  Problem p = maker.of_row(x);
  p.residual = Residual::zero;
  for (Index i = 1; i < n && bits != 0; i += 2) set_residual(p, i, 1);
  Shots shots;
  if (maker.supports().sum_out) {
    Problem q = p;
    q.sum_out = true;
    const double sum = bits == 0 ? -large : large + 1;
    shots.push_back({std::move(q), sum, sum, probing::element({0, 1, 0, 0}, "sum_out")});
  } else if (maker.layer() || bits == 0) {
    const double t = bits == 0 ? -1 : 1;
    shots.push_back({std::move(p), t - 0.1, t + 0.1, out_at(1)});
  }
  return shots;
}

// ---- statistics --------------------------------------------------------------------------------------------------------

// Ones and two large numbers that cancel: the mean, read as a part of the large one, so that the root does not matter.
Shots of_mean(const Maker& maker, int bits) {
  const Index n = maker.width(usual_width);
  if (!maker.layer() || n < 16) return {};
  const double unit = bits == 11 ? two_to(-6) : bits == 8 ? two_to(-3) : 1;
  const double large = two_to(bits == 0 ? 21 : bits + 2) * unit;
  Shots shots;
  for (const auto& [plus, minus] : probing::pairs(n)) {
    const Index zero = plus != 6 && minus != 6 ? 6 : 10;
    Row x(static_cast<std::size_t>(n), unit);
    x[static_cast<std::size_t>(zero)] = 0;
    x[static_cast<std::size_t>(plus)] = large;
    x[static_cast<std::size_t>(minus)] = -large;
    const auto read = [zero, plus = plus, large, unit](const probing::Elements& out) {
      const double at_zero = out("out", {0, zero, 0, 0}), at_large = out("out", {0, plus, 0, 0});
      return -at_zero * large / (at_large - at_zero) / unit;
    };
    const double count = static_cast<double>(n), mean = (count - 3) / count;
    shots.push_back({maker.of_row(x), mean - 0.4 / count, mean + 0.4 / count, read});
  }
  return shots;
}

// Squares that lie between two narrow numbers, and sums that do: of large and of small squares, by several places.
Shots of_variance(const Maker& maker, int bits) {
  if (bits == 0) return past_f16(maker);
  const Index n = maker.width(usual_width);
  if (n % 8 != 0) return {};
  Shots shots;
  int found = 0;
  for (int step = 3; step < 128 && found < 3; ++step) {
    const double size = 1 + step * two_to(-7);
    if (off_grid(size * size, bits) < middle && bits <= 14) continue;
    ++found;
    const double error = 0.1 * spacing(1, bits);  // a root halves what its square is off by
    shots.push_back(fine_shot(maker, balanced(n, size, 0, [](Index) { return true; }), 0, error));
  }
  // 1/4 and three in 2^bits of that: as far as can be from what a narrow sum holds.
  const double small = round_to(Format::bf16, std::sqrt(two_to(-bits)));
  const std::function<bool(Index)> places[] = {
      [](Index i) { return i % 4 == 0; }, [](Index i) { return i / 4 % 4 == 0; }, [n](Index i) { return i < n / 4; },
      [n](Index i) { return i >= n - n / 4; }};
  for (const auto& is_large : places) {
    const Row x = balanced(n, 1, small, is_large);
    const auto column = static_cast<Index>(std::ranges::find(x, 1.0) - x.begin());
    shots.push_back(fine_shot(maker, x, column, 0.5 * two_to(-bits)));
  }
  return shots;
}

// Variances that every format holds, of which the root lies between two narrow numbers.
Shots of_root(const Maker& maker, int bits) {
  if (bits == 0) return past_f16(maker);
  const Index n = maker.width(usual_width);
  Shots shots;
  constexpr std::size_t enough = 4;
  for (Index ones = 2; ones <= n - n % 2 && ones <= 254 && shots.size() < enough; ones += 2) {
    Row x = balanced(n, 1, 0, [ones](Index i) { return i < ones; });
    const double t = std::sqrt(static_cast<double>(n) / static_cast<double>(ones));
    const double v = static_cast<double>(ones) / static_cast<double>(n);
    if (off_grid(t, bits) < middle || round_to(Format::bf16, v) != v) continue;
    shots.push_back(fine_shot(maker, x, 0, slack * spacing(t, bits)));
  }
  return shots.size() < 2 ? Shots{} : shots;
}

// ---- (x - m) r ---------------------------------------------------------------------------------------------------------

// An element close to a mean that has more bits than narrow formats.
Shots near_the_mean(const Maker& maker, int bits) {
  constexpr Index n = usual_width;
  if (!maker.layer() || maker.width(n) != n || bits == 0 || bits > 11) return {};
  Row x(static_cast<std::size_t>(n), 0);
  for (std::size_t i = 1; i <= 15; ++i) x[2 * i - 1] = 1;
  x[2] = 0.75;
  x[0] = 65.0 / 128;  // the mean is 2081/4096
  const double t = normalised(x, Norm::layer, 0)[0];
  return {{maker.of_row(x), t * 1.1, t * 0.9, out_at(0)}};
}

// Normalised values between two narrow numbers, of roots that may be any.
Shots of_values(const Maker& maker, int bits) {
  if (bits == 0) return past_f16(maker);
  const Index n = maker.width(usual_width);
  if (n < 4) return {};
  Shots shots;
  constexpr std::size_t enough = 4;
  for (int size = 2; size <= 15 && shots.size() < enough; ++size) {
    Row x = balanced(n - n % 2, 1, 0, [](Index) { return true; });
    x.resize(static_cast<std::size_t>(n), 0);
    x[0] = size;
    x[1] = -size;
    const double t = normalised(x, Norm::layer, 0)[0];
    if (off_grid(t, bits) < middle) continue;
    shots.push_back(fine_shot(maker, x, 0, slack * spacing(t, bits)));
  }
  return shots.size() < 2 ? Shots{} : shots;
}

Shots of_normalise(const Maker& maker, int bits) {
  Shots shots = of_values(maker, bits);
  for (Shot& shot : near_the_mean(maker, bits)) shots.push_back(std::move(shot));
  return shots;
}

// ---- times gamma, plus beta --------------------------------------------------------------------------------------------

// x of 1 and -1, so that t is too; column 0 is read.
Problem of_ones(const Maker& maker) {
  const Index n = maker.width(2);
  Row x = balanced(n - n % 2, 1, 0, [](Index) { return true; });
  x.resize(static_cast<std::size_t>(n), 0);
  return maker.of_row(x);
}

Shots of_affine(const Maker& maker, int bits) {
  if (!maker.supports().gamma) return {};
  const Index n = maker.width(2);
  if (bits == 0) {
    if (n % 2 != 0 || !maker.has_params()) return {};
    Problem p = of_ones(maker);
    set_gamma(p, 0, two_to(17));
    set_beta(p, 0, -two_to(16));
    return {{std::move(p), two_to(16) * 0.99, two_to(16) * 1.01, out_at(0)}};
  }
  Shots shots = of_values(maker, bits);
  if (!maker.has_params())  // t itself, by a gamma of 1
    for (Shot& shot : shots) {
      Problem p = shot.problem.as<Problem>();
      set_gamma(p, 0, 1 - maker.gamma_offset());
      shot.problem = std::move(p);
    }
  if (bits >= precision(maker.dtype()) || n % 2 != 0) return shots;
  const double long_number = 1 + two_to(-bits), off = two_to(-bits - 2);
  Problem by_gamma = of_ones(maker), by_beta = maker.blank(n);
  set_gamma(by_gamma, 0, long_number);
  if (maker.has_params()) set_beta(by_beta, 0, long_number);
  for (const auto& [p, number] : {std::pair{&by_gamma, long_number + maker.gamma_offset()}, {&by_beta, long_number}})
    if (p == &by_gamma || maker.has_params()) shots.push_back({std::move(*p), number - off, number + off, out_at(0)});
  return shots;
}

Shots of_output(const Maker& maker, int bits) {
  const Index n = maker.width(2);
  double number = bits == 0 ? two_to(17) : 1 + two_to(-bits);
  const double off = bits == 0 ? 1 : two_to(-bits - 2);
  Problem p = maker.blank(n);
  if (maker.supports().beta) {
    set_beta(p, 0, number);
  } else if (maker.supports().gamma && n % 2 == 0) {
    p = of_ones(maker);
    set_gamma(p, 0, number);
    number += maker.gamma_offset();
  } else {
    return bits == 0 ? Shots{} : of_values(maker, bits);
  }
  return {{std::move(p), number - off, number + off, out_at(0)}};
}

std::vector<probing::StageQuestions> questions_at(const Maker& maker) {
  const auto below_f32 = probing::narrower_than_f32(maker.dtype(), all_formats),
             below_dtype = probing::narrower_than_storage(maker.dtype(), all_formats);
  // Without gamma and beta nothing finer than out is read.
  const auto readable = maker.has_params() ? below_f32 : below_dtype;
  const auto of = [&](const std::vector<probing::Against>& list, Shots (*make)(const Maker&, int)) {
    return probing::asked(list, [&](int bits) { return make(maker, bits); });
  };
  const std::string coarse = "it takes no gamma and beta, by which more than out holds could be read";
  const auto stage = [](Stage s) { return static_cast<std::size_t>(s); };
  using enum Stage;
  return {
      {stage(sum), "sum", "x and a residual whose sum has one bit more than a narrow format", of(below_dtype, of_sum),
       maker.supports().residual ? "it is stored with no more bits" : "the subject takes no residual", true},
      {stage(statistics), "statistics (mean)", "ones and two large numbers that cancel, at 14 pairs of places",
       of(below_f32, of_mean), maker.layer() ? "it takes rows of 16 or more" : "RMSNorm has no mean"},
      {stage(statistics), "statistics (variance)", "squares, and sums of large and small ones, between narrow numbers",
       of(readable, of_variance), coarse},
      {stage(statistics), "statistics (root)", "variances of few bits whose root lies between narrow numbers",
       of(readable, of_root), coarse},
      {stage(normalise), "normalise", "values between narrow numbers, and one close to a mean that none of them holds",
       of(readable, of_normalise), coarse},
      {stage(affine), "affine", "values between narrow numbers; gamma and beta of more bits", of(below_f32, of_affine),
       "it takes no gamma and beta"},
      {stage(output), "output", "a beta that a narrow format rounds", of(below_dtype, of_output),
       "what is stored has no more bits", true},
  };
}

}  // namespace

std::span<const Format> formats() noexcept { return all_formats; }

std::vector<probing::StageQuestions> stage_questions(const Maker& maker, const Maker& further) {
  std::vector<probing::StageQuestions> all = questions_at(maker);
  probing::ask_further(all, questions_at(further));
  return all;
}

}  // namespace attest::ops::of_layer_norm
