// Shots that a narrow format must miss. A format of p significand bits rounds a number in the middle between two of its
// own by half their spacing; a wider format loses a small part of that.
#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "core/layer_norm/inputs.hpp"
#include "core/rng.hpp"
#include "ops/layer_norm/probe/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using probing::Shot;
// Shots that are made when they are asked for: a law asks for one, a probe for all.
using Shots = std::vector<std::function<Shot()>>;

constexpr const auto& all_formats = stored_finest_first;
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
  for (const double size : {two_to(9), two_to(-17)})
    shots.push_back([=, &maker]() -> Shot {
      Problem p = maker.of_row(balanced(n, size, 0, [](Index) { return true; }));
      p.epsilon = two_to(-80);
      return {p, 0.9, 1.1, out_at(0)};
    });
  return shots;
}

// ---- x + residual ---------------------------------------------------------------------------------------------------

// A sum of one bit more than the narrow format has, beside one that fits: as they are stored, or a row of two numbers
// that becomes one.
Shots of_sum(const Maker& maker, int bits) {
  if (!maker.supports().residual) return {};
  const Index n = maker.width(2);
  if (n % 2 != 0) return {};
  const bool sum_out = maker.supports().sum_out;
  if (!sum_out && !maker.layer() && bits != 0) return {};
  return {[=, &maker]() -> Shot {
    const double large = two_to(bits == 0 ? 17 : bits);
    Row x(static_cast<std::size_t>(n), large);
    if (bits == 0) x = balanced(n, large, 0, [](Index) { return true; });
    Problem p = maker.of_row(x);
    p.residual = Residual::zero;
    for (Index i = 1; i < n && bits != 0; i += 2) set_residual(p, i, 1);
    p.sum_out = sum_out;
    const double sum = bits == 0 ? -large : large + 1, t = bits == 0 ? -1 : 1;
    if (sum_out) return {std::move(p), sum, sum, probing::element({0, 1, 0, 0}, "sum_out")};
    return {std::move(p), t - 0.1, t + 0.1, out_at(1)};
  }};
}

// ---- statistics -----------------------------------------------------------------------------------------------------

// Ones and two large numbers that cancel: the mean, read as a part of the large one, so that the root does not matter.
Shots of_mean(const Maker& maker, int bits) {
  const Index n = maker.width(usual_width);
  if (!maker.layer() || n < 16) return {};
  const double unit = bits == 11 ? two_to(-6) : bits == 8 ? two_to(-3) : 1;
  const double large = two_to(bits == 0 ? 21 : bits + 2) * unit;
  Shots shots;
  for (const auto& [plus, minus] : probing::pairs(n))
    shots.push_back([=, plus = plus, minus = minus, &maker]() -> Shot {
      const Index zero = plus != 6 && minus != 6 ? 6 : 10;
      Row x(static_cast<std::size_t>(n), unit);
      x[static_cast<std::size_t>(zero)] = 0;
      x[static_cast<std::size_t>(plus)] = large;
      x[static_cast<std::size_t>(minus)] = -large;
      const auto read = [zero, plus, large, unit](const probing::Elements& out) {
        const double at_zero = out("out", {0, zero, 0, 0}), at_large = out("out", {0, plus, 0, 0});
        return -at_zero * large / (at_large - at_zero) / unit;
      };
      const double count = static_cast<double>(n), mean = (count - 3) / count;
      return {maker.of_row(x), mean - 0.4 / count, mean + 0.4 / count, read};
    });
  return shots;
}

// Squares that lie between two narrow numbers, and sums that do: those of large and of small squares, by several
// places.
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
    shots.push_back(
        [=, &maker] { return fine_shot(maker, balanced(n, size, 0, [](Index) { return true; }), 0, error); });
  }
  // 1/4 and three in 2^bits of that: as far as can be from what a narrow sum holds.
  const double small = round_to(Format::bf16, std::sqrt(two_to(-bits)));
  const std::function<bool(Index)> places[] = {
      [](Index i) { return i % 4 == 0; }, [](Index i) { return i / 4 % 4 == 0; }, [n](Index i) { return i < n / 4; },
      [n](Index i) { return i >= n - n / 4; }};
  for (const auto& is_large : places)
    shots.push_back([=, &maker] {
      const Row x = balanced(n, 1, small, is_large);
      const auto column = static_cast<Index>(std::ranges::find(x, 1.0) - x.begin());
      return fine_shot(maker, x, column, 0.5 * two_to(-bits));
    });
  return shots;
}

// Variances that every format holds, of which the root lies between two narrow numbers.
Shots of_root(const Maker& maker, int bits) {
  if (bits == 0) return past_f16(maker);
  const Index n = maker.width(usual_width);
  Shots shots;
  constexpr std::size_t enough = 4;
  for (Index ones = 2; ones <= n - n % 2 && ones <= 254 && shots.size() < enough; ones += 2) {
    const double t = std::sqrt(static_cast<double>(n) / static_cast<double>(ones));
    const double v = static_cast<double>(ones) / static_cast<double>(n);
    if (off_grid(t, bits) < middle || round_to(Format::bf16, v) != v) continue;
    shots.push_back([=, &maker] {
      return fine_shot(maker, balanced(n, 1, 0, [ones](Index i) { return i < ones; }), 0, slack * spacing(t, bits));
    });
  }
  return shots.size() < 2 ? Shots{} : shots;
}

// ---- (x - m) r ------------------------------------------------------------------------------------------------------

// An element close to a mean that has more bits than narrow formats.
Shots near_the_mean(const Maker& maker, int bits) {
  constexpr Index n = usual_width;
  if (!maker.layer() || maker.width(n) != n || bits == 0 || bits > 11) return {};
  return {[&maker]() -> Shot {
    Row x(static_cast<std::size_t>(n), 0);
    for (std::size_t i = 1; i <= 15; ++i) x[2 * i - 1] = 1;
    x[2] = 0.75;
    x[0] = 65.0 / 128;  // the mean is 2081/4096
    const double t = normalised(x, Norm::layer, 0)[0];
    return {maker.of_row(x), t * 1.1, t * 0.9, out_at(0)};
  }};
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
    shots.push_back([=, &maker] { return fine_shot(maker, x, 0, slack * spacing(t, bits)); });
  }
  return shots.size() < 2 ? Shots{} : shots;
}

Shots of_normalise(const Maker& maker, int bits) {
  Shots shots = of_values(maker, bits);
  std::ranges::move(near_the_mean(maker, bits), std::back_inserter(shots));
  return shots;
}

// ---- times gamma, plus beta -----------------------------------------------------------------------------------------

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
    return {[&maker]() -> Shot {
      Problem p = of_ones(maker);
      set_gamma(p, 0, two_to(17));
      set_beta(p, 0, -two_to(16));
      return {std::move(p), two_to(16) * 0.99, two_to(16) * 1.01, out_at(0)};
    }};
  }
  Shots shots = of_values(maker, bits);
  if (!maker.has_params())  // t itself, by a gamma of 1
    for (auto& make : shots)
      make = [make = std::move(make), &maker] {
        Shot shot = make();
        Problem p = shot.problem.as<Problem>();
        set_gamma(p, 0, 1 - maker.gamma_offset());
        shot.problem = std::move(p);
        return shot;
      };
  if (bits >= precision(maker.dtype()) || n % 2 != 0) return shots;
  const double long_number = 1 + two_to(-bits), off = two_to(-bits - 2);
  shots.push_back([=, &maker]() -> Shot {
    Problem p = of_ones(maker);
    set_gamma(p, 0, long_number);
    const double number = long_number + maker.gamma_offset();
    return {std::move(p), number - off, number + off, out_at(0)};
  });
  if (maker.has_params())
    shots.push_back([=, &maker]() -> Shot {
      Problem p = maker.blank(n);
      set_beta(p, 0, long_number);
      return {std::move(p), long_number - off, long_number + off, out_at(0)};
    });
  return shots;
}

Shots of_output(const Maker& maker, int bits) {
  const Index n = maker.width(2);
  const bool by_beta = maker.supports().beta;
  if (!by_beta && !(maker.supports().gamma && n % 2 == 0)) return bits == 0 ? Shots{} : of_values(maker, bits);
  return {[=, &maker]() -> Shot {
    double number = bits == 0 ? two_to(17) : 1 + two_to(-bits);
    const double off = bits == 0 ? 1 : two_to(-bits - 2);
    Problem p = by_beta ? maker.blank(n) : of_ones(maker);
    if (by_beta) {
      set_beta(p, 0, number);
    } else {
      set_gamma(p, 0, number);
      number += maker.gamma_offset();
    }
    return {std::move(p), number - off, number + off, out_at(0)};
  }};
}

// One stage, or a part of it, and the questions about it.
struct Part {
  Stage stage;
  std::string_view part;  // "statistics (mean)"; the stage's name where there is one
  std::string_view what;
  Shots (*make)(const Maker&, int bits);
  enum class Of : std::uint8_t { stored, readable, any } of;  // no more bits than the dtype has; than out shows; any
};
constexpr Part parts[] = {
    {Stage::sum, "sum", "x and a residual whose sum has one bit more than a narrow format", of_sum, Part::Of::stored},
    {Stage::statistics, "statistics (mean)", "ones and two large numbers that cancel, at 14 pairs of places", of_mean,
     Part::Of::any},
    {Stage::statistics, "statistics (variance)", "squares, and sums of large and small ones, between narrow numbers",
     of_variance, Part::Of::readable},
    {Stage::statistics, "statistics (root)", "variances of few bits whose root lies between narrow numbers", of_root,
     Part::Of::readable},
    {Stage::normalise, "normalise", "values between narrow numbers, and one close to a mean that none of them holds",
     of_normalise, Part::Of::readable},
    {Stage::affine, "affine", "values between narrow numbers; gamma and beta of more bits", of_affine, Part::Of::any},
    {Stage::output, "output", "a beta that a narrow format rounds", of_output, Part::Of::stored},
};

// Without gamma and beta nothing finer than out is read.
std::vector<probing::Against> against(const Part& part, const Maker& maker) {
  const bool stored = part.of == Part::Of::stored || (part.of == Part::Of::readable && !maker.has_params());
  return stored ? probing::narrower_than_storage(maker.dtype(), all_formats)
                : probing::narrower_than_f32(maker.dtype(), all_formats);
}

// Why no question of it can be asked.
std::string blind(const Part& part, const Maker& maker) {
  if (part.stage == Stage::sum)
    return maker.supports().residual ? "it is stored with no more bits" : "the subject takes no residual";
  if (part.make == of_mean) return maker.layer() ? "it takes rows of 16 or more" : "RMSNorm has no mean";
  if (part.stage == Stage::affine) return "it takes no gamma and beta";
  if (part.stage == Stage::output) return "what is stored has no more bits";
  return "it takes no gamma and beta, by which more than out holds could be read";
}

std::vector<probing::StageQuestions> questions_at(const Maker& maker) {
  std::vector<probing::StageQuestions> all;
  for (const Part& part : parts)
    all.push_back({static_cast<std::size_t>(part.stage), std::string(part.part), std::string(part.what),
                   probing::asked(against(part, maker),
                                  [&](int bits) {
                                    std::vector<Shot> shots;
                                    for (const auto& shot : part.make(maker, bits)) shots.push_back(shot());
                                    return shots;
                                  }),
                   blind(part, maker), part.of == Part::Of::stored});
  return all;
}

// The question put to a row that is judged.
Problem somewhere(Problem p, std::uint64_t key) {
  constexpr Index few = 4;  // rows
  p.judged = p.judged == 0 ? few : std::min(p.judged, few);
  const std::vector<Index> judged = judged_rows(p);
  const Index row = judged[below(extend(key, 1), judged.size())];
  for (Edit& edit : p.edits)
    if (edit.tensor == Edit::Tensor::x || edit.tensor == Edit::Tensor::residual) edit.row = row;
  return p;
}

}  // namespace

std::span<const Format> formats() noexcept { return all_formats; }

std::vector<probing::NarrowQuestion> narrow_questions(const Maker& maker, const Contract& contract, std::uint64_t key) {
  std::vector<probing::NarrowQuestion> all;
  for (const Part& part : parts)
    for (const probing::Against& narrow : probing::against_promise(against(part, maker), contract.policy[part.stage]))
      all.push_back({part.part, part.what, narrow.formats, [&maker, &part, bits = narrow.bits, key] {
                       std::vector<std::function<std::optional<ops::Problem>()>> calls;
                       for (auto& shot : part.make(maker, bits))
                         calls.emplace_back([shot = std::move(shot), key] {
                           return ops::Problem(somewhere(shot().problem.as<Problem>(), key));
                         });
                       return calls;
                     }});
  return all;
}

Problem at_usual_sizes(Problem p, const Supports& s, std::uint64_t key) {
  constexpr std::array<Index, 6> widths{128, 768, 1024, 2048, 4096, 8192};
  p.rows = s.rows.nearest(1);
  p.hidden = s.hidden.nearest(widths[below(extend(key, 2), widths.size())]);
  return p;
}

std::vector<probing::StageQuestions> stage_questions(const Maker& maker, const Maker& further) {
  std::vector<probing::StageQuestions> all = questions_at(maker);
  probing::ask_further(all, questions_at(further));
  return all;
}

}  // namespace attest::ops::of_layer_norm
