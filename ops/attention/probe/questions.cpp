// Shots that a narrow format must miss. In each, what a format of p significand bits loses is no smaller than a score
// of one unit, or half of what is read; a wider one loses a small part of that.
#include "ops/attention/probe/questions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/inputs.hpp"
#include "core/rng.hpp"
#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// Shots that are made when they are asked for: a law asks for one, a probe for all.
using Shots = std::vector<std::function<Shot()>>;

using probing::Against;
using probing::pairs;

std::vector<Against> narrower_than_f32(Format dtype) {
  return probing::narrower_than_f32(dtype, formats_of(Stage::qk));
}
// The same for a stage that stores numbers in the dtype itself.
std::vector<Against> narrower_than_storage(Format dtype) {
  return probing::narrower_than_storage(dtype, formats_of(Stage::qk));
}

double unit(const Problem& p) { return p.effective_scale(); }

// A shot around a logit of the first key against the second.
Shot by_logit(Problem problem, double expected, double slack) {
  set_values(problem, 0, 1);
  return {std::move(problem), logistic(expected - slack), logistic(expected + slack)};
}

// ---- accumulation of q.k: ones, and two large numbers that cancel ---------------------------------------------------

// Large numbers of 2^(bits + 2), or past the range of f16; a factor of them is in q, if k does not hold them.
Shots of_qk(const Maker& maker, int bits) {
  const auto blank = maker.paired(2, 64);
  if (!blank || blank->d < 16) return {};
  const int exponent = bits == 0 ? 21 : bits + 2;
  const double in_q = has_short_range(maker.dtype()) ? two_to(exponent / 2) : 1, large = two_to(exponent) / in_q;
  Shots shots;
  for (const auto& [plus, minus] : pairs(blank->d))
    shots.push_back([=, p = *blank, plus = plus, minus = minus]() mutable {
      p.q_form = p.k_form = Form::drawn;  // ones
      if (in_q != 1)
        for (const Index column : {plus, minus}) set_q(p, 0, column, in_q);
      set_keys(p, 0, plus, large);
      set_keys(p, 0, minus, -large);
      set_keys(p, 1, plus, 0);
      set_keys(p, 1, minus, 0);
      const double slack = 0.4 * unit(p);
      return by_logit(std::move(p), 0, slack);
    });
  return shots;
}

// ---- scores: 2^k + 1 beside 2^k -------------------------------------------------------------------------------------

Problem large_scores(Problem p, int exponent, double first) {
  const double per = 1 / unit(p);
  set_q(p, 0, 0, two_to(exponent / 2));
  set_q(p, 0, 1, 1);
  for (const Index parity : {0, 1}) set_keys(p, parity, 0, two_to(exponent - exponent / 2) * per);
  if (first != 0) set_keys(p, 0, 1, first * per);
  return p;
}

Shots of_score(const Maker& maker, int bits) {
  const int exponent = bits == 0 ? 17 : bits + 1;
  constexpr double slack = 0.15;
  const auto blank = maker.paired(2, 2);
  if (!blank) return {};
  Shots shots{[=, p = *blank] { return by_logit(large_scores(p, exponent, 1), 1, slack); }};
  if (maker.supports().bias && maker.supports().bias_types[0])
    shots.push_back([=, own = *blank] {
      Problem p = large_scores(own, exponent, 0);
      p.bias = Bias::zero;
      p.bias_axes = 15;
      p.bias_type = BiasType::same;
      for (Index j = 0; j < p.lk; j += 2) set(p, Edit::Tensor::bias, {0, 0, 0, j}, 1);
      return by_logit(std::move(p), 1, slack);
    });
  return shots;
}

Shots of_softcap(const Maker& maker, int bits) {
  if (!maker.supports().softcap) return {};
  const int exponent = bits == 0 ? 17 : bits + 1;
  const auto blank = maker.paired(2, 2);
  if (!blank) return {};
  return {[=, own = *blank] {
    Problem p = large_scores(own, exponent, 1);
    p.softcap = two_to(bits == 0 ? exponent : exponent + 4);
    const double s = two_to(exponent), c = p.softcap;
    const double expected = c * (std::tanh((s + 1) / c) - std::tanh(s / c));
    return by_logit(std::move(p), expected, bits == 0 ? 0.18 : 0.1);
  }};
}

// ---- the scale: factors that a narrow format rounds -----------------------------------------------------------------

// One key far below the peak, whose value makes its weight readable.
struct LowKey {
  double gap, value;
  [[nodiscard]] double expected() const { return value * logistic(-gap); }
};
// Weights are e^-8 where they lie in f16, e^-64 where they may: the deeper, the more an error of the score shows.
LowKey low_key(Format dtype) { return has_short_range(dtype) ? LowKey{8, 1024} : LowKey{64, two_to(90)}; }
// The error that the rounding of weight and output may cause.
double reading_error(Format dtype) {
  return is_short(dtype) ? 2.1 * unit_roundoff(dtype) : dtype == Format::f32 ? 1e-4 : 1e-9;
}

Shot by_weight(Problem problem, double expected, double error) {
  return {std::move(problem), expected * (1 - error), expected * (1 + error)};
}

Shots by_scale(const Maker& maker, int bits) {
  constexpr std::uint64_t key = 0x7363616c65;
  constexpr std::uint64_t factors = 16;
  Shots shots;
  const LowKey low = low_key(maker.dtype());
  const auto blank = maker.paired(2, 1);
  if (!blank) return {};
  for (std::uint64_t n = 0; n < factors; ++n)
    shots.push_back([=, p = *blank]() mutable {
      // 1 .. 1.12, on half a unit of the narrow format but for a little.
      const double grid = two_to(1 - bits);
      const double whole = std::floor(0.12 / grid * static_cast<double>(n) / factors);
      const double off = 0.5 + 0.2 * symmetric_uniform(extend(key, n));
      const double factor = round_to(Format::f32, 1 + (whole + off) * grid);
      p.scale = p.dtype == Format::f64 ? 1 + (whole + off) * grid : factor;
      set_q(p, 0, 0, 1);
      set_keys(p, 0, 0, low.gap);
      set_values(p, 1, low.value);
      const double expected = LowKey{low.gap * *p.scale, low.value}.expected();
      return by_weight(std::move(p), expected, reading_error(p.dtype));
    });
  return shots;
}

// Shots for a subject that takes the default scale alone: they vary it by widths that are no power of four.
Shots by_width(const Maker& maker) {
  Shots shots;
  const LowKey low = low_key(maker.dtype());
  std::vector<Index> seen;
  for (const Index width : {2, 3, 5, 6, 7, 8, 10, 11, 12, 24, 32, 40, 48, 72, 80, 96, 112, 128, 160, 192}) {
    Problem p = maker.blank(1, 2, width, 1);
    const bool power = std::exp2(std::round(std::log2(static_cast<double>(p.d)) / 2)) == std::sqrt(p.d);
    if (power || p.lk % 2 != 0 || std::ranges::count(seen, p.d) != 0) continue;
    seen.push_back(p.d);
    shots.push_back([=]() mutable {
      const double k = round_to(Format::bf16, low.gap * std::sqrt(static_cast<double>(p.d)));
      set_q(p, 0, 0, 1);
      set_keys(p, 0, 0, k);
      set_values(p, 1, low.value);
      const double expected = LowKey{k * unit(p), low.value}.expected();
      return by_weight(std::move(p), expected, reading_error(p.dtype));
    });
  }
  constexpr std::size_t enough = 4;
  if (shots.size() < enough) shots.clear();
  return shots;
}

Shots of_scale(const Maker& maker, int bits) {
  if (maker.supports().scale == Supports::Scale::only_default)
    return bits != 0 && bits < precision(Format::f32) ? by_width(maker) : Shots{};
  if (bits != 0) return by_scale(maker, bits);
  const auto blank = maker.paired(2, 1);  // below the subnormals of f16
  if (!blank) return {};
  return {[p = *blank]() mutable {
    constexpr LowKey low{8, 1024};
    p.scale = two_to(-60);
    set_q(p, 0, 0, two_to(30));
    set_keys(p, 0, 0, two_to(33));
    set_values(p, 1, low.value);
    return by_weight(std::move(p), low.expected(), 0.02);
  }};
}

// ---- softmax --------------------------------------------------------------------------------------------------------

// Peaks in every second place, of even numbers or of odd ones: a key whose tile or split holds no peak has a weight of
// 1 there, which no format rounds.
struct Places {
  Index keys = 2, peaks = 0;
};
constexpr Places all_places[] = {{2, 0}, {2, 1}, {64, 0}, {64, 1}};

Problem at_gap(Problem p, double peak, double below, double value, Places places = {}) {
  const double per = 1 / unit(p);
  set_q(p, 0, 0, 1);
  set_keys(p, places.peaks, 0, peak * per);
  if (below != 0) set_keys(p, 1 - places.peaks, 0, -below * per);
  set_values(p, 1 - places.peaks, value);
  return p;
}

// Past the subnormals of f16: an exp or a weight there is 0.
Shots underflowing(const Maker& maker) {
  constexpr double gap = 20;
  const double value = two_to(24);
  Shots shots;
  for (const Places& places : all_places)
    if (const auto blank = maker.paired(places.keys, 1))
      shots.push_back([=, p = *blank] {
        return by_weight(at_gap(p, gap, 0, value, places), LowKey{gap, value}.expected(), 0.02);
      });
  return shots;
}

// Two scores that the narrow format holds, and whose difference it does not.
Shots of_exp(const Maker& maker, int bits) {
  if (bits == 0) return underflowing(maker);
  const LowKey low = bits > precision(Format::f16) ? LowKey{8, 1024} : low_key(maker.dtype());
  const auto blank = maker.paired(2, 1);
  if (!blank) return {};
  Shots shots;
  for (const double share : {0.3, 0.36, 0.44, 0.5, 0.56, 0.64, 0.7})
    for (const double further : {0.0, 0.125})
      shots.push_back([=, p = *blank] {
        const double peak = low.gap * (1 + further);
        const double grid = two_to(std::ilogb(peak) + 1 - bits);
        const double below = round_to(p.dtype, share * grid);
        const double expected = LowKey{peak + below, low.value}.expected();
        return by_weight(at_gap(p, peak, below, low.value), expected, reading_error(p.dtype));
      });
  return shots;
}

// Shots with as many weights of 1 as of a little less than half a unit below: a sum that drops the small ones gives 1.
// The weights change places by each bit of their position, so that the first term is one of either kind in some shot.
Shots of_sum(const Maker& maker, int bits) {
  if (bits == 0 || (maker.dtype() == Format::bf16 && bits > precision(Format::bf16))) return {};
  constexpr Index keys = 32;
  const auto blank = maker.paired(keys, 1);
  if (!blank) return {};
  const Format dtype = maker.dtype();
  const double per = 1 / unit(*blank);
  constexpr double ln_two = 0.69314718055994531, ln_nine_tenths = -0.10536051565782628;  // no libm in a problem
  const double score = round_to(dtype, (ln_nine_tenths - bits * ln_two) * per) / per, weight = std::exp(score);
  Shots shots;
  for (Index bit = 1; bit < keys; bit *= 2)
    for (const bool first : {false, true})
      shots.push_back([=, p = *blank]() mutable -> Shot {
        p.v_form = Form::drawn;  // ones
        set_q(p, 0, 0, 1);
        Index small = 0;
        for (Index j = 0; j < p.lk; ++j)
          if (((j & bit) != 0) != first) {
            set(p, Edit::Tensor::k, {0, 0, j, 0}, score * per);
            set(p, Edit::Tensor::v, {0, 0, j, 0}, 0);
            ++small;
          }
        const double large = static_cast<double>(p.lk - small);
        const double expected = large / (large + static_cast<double>(small) * weight);
        const double loss = 1 - expected;
        return {std::move(p), 1 - 2.2 * loss, 1 - 0.4 * loss};
      });
  return shots;
}

// More keys than the largest number of f16.
Shots many_keys(const Maker& maker) {
  constexpr Index keys = Index{1} << 17, most_elements = Index{1} << 24;
  Problem p = maker.blank(1, keys, 1, 1);
  if (p.lk < keys || p.lq * p.lk > 2 * keys || p.b * p.hkv * p.lk * (p.d + p.dv) > most_elements) return {};
  p.v_form = Form::drawn;
  return {[=] { return Shot{p, 0.99, 1.01}; }};
}

// ---- weights --------------------------------------------------------------------------------------------------------

// Weights e^-gap that lie near the middle between two numbers of the narrow format.
Shots between_numbers(const Maker& maker, int bits) {
  if (bits >= precision(maker.dtype())) return {};
  const double value = low_key(maker.dtype()).value / (has_short_range(maker.dtype()) ? 1 : two_to(80));
  constexpr std::size_t enough = 6;
  const auto blank = maker.paired(2, 1);
  if (!blank) return {};
  Shots shots;
  for (int step = 0; step < 64 && shots.size() < enough; ++step) {
    const double gap = round_to(maker.dtype(), 6.5 + step * 0.03125);
    const double units = std::exp(-gap) / two_to(std::ilogb(std::exp(-gap)) + 1 - bits);
    if (std::fabs(units - std::floor(units) - 0.5) > 0.15) continue;
    shots.push_back([=, p = *blank] {
      return by_weight(at_gap(p, gap, 0, value), LowKey{gap, value}.expected(), reading_error(p.dtype));
    });
  }
  return shots;
}

// Two weights a quarter of a unit apart: a narrow format makes them equal, or a unit apart.
Shots of_weights(const Maker& maker, int bits) {
  if (bits == 0) return underflowing(maker);
  Shots shots = between_numbers(maker, bits);
  for (const Places& places : all_places) {
    const auto blank = maker.paired(places.keys, 1);
    if (!blank) return {};
    shots.push_back([=, p = *blank]() mutable -> Shot {
      const double per = 1 / unit(p);
      const double gap = round_to(p.dtype, 0.9 * two_to(-bits - 1));
      set_q(p, 0, 0, 1);
      set_keys(p, places.peaks, 0, gap * per);
      set_values(p, places.peaks, -1);
      set_values(p, 1 - places.peaks, 1);
      const double expected = -std::tanh(gap / 2);
      return {std::move(p), expected * 1.25, expected * 0.75};
    });
  }
  return shots;
}

// ---- accumulation of weights times v --------------------------------------------------------------------------------

// The same as of_qk() for the second product; where large numbers leave the range of f16, the ones are smaller.
Shots of_pv(const Maker& maker, int bits) {
  constexpr Index keys = 256;
  const int exponent = bits == 0 ? 17 : bits + 2;
  const int below = std::max(0, exponent - max_exponent(maker.dtype()));
  const double small = two_to(-below), large = two_to(exponent - below);
  Problem blank = maker.blank(1, keys, 1, 1);
  if (blank.lk < keys / 4) return {};
  if (bits == 0) {  // the sum of all, whatever is normalised when
    blank.v_form = Form::drawn;
    blank.amplitude = large;
    return {[=] { return Shot{blank, large * 0.99, large * 1.01}; }};
  }
  blank.amplitude = small;
  Shots shots;
  for (const auto& [plus, minus] : pairs(blank.lk))
    shots.push_back([=, p = blank, plus = plus, minus = minus]() mutable -> Shot {
      p.v_form = Form::drawn;
      set(p, Edit::Tensor::v, {0, 0, plus, 0}, large);
      set(p, Edit::Tensor::v, {0, 0, minus, 0}, -large);
      const auto n = static_cast<double>(p.lk);
      return {std::move(p), small * (n - 2.4) / n, small * (n - 1.6) / n};
    });
  return shots;
}

// ---- partial results of splits --------------------------------------------------------------------------------------

// Four keys own the row: two at one end, whose mean no narrow format holds, and two at the other that take it away
// again.
Shots of_partial(const Maker& maker, int bits) {
  if (bits >= precision(maker.dtype()) + 1) return {};
  Shots shots;
  for (const Index keys : {512, 4096}) {
    const auto blank = maker.paired(keys, 1);
    if (!blank) continue;
    shots.push_back([=, p = *blank]() mutable -> Shot {
      const double per = 1 / unit(p), lead = 200;
      const double first = bits == 0 ? two_to(17) : 1, second = bits == 0 ? two_to(17) : 1 + two_to(1 - bits);
      const double back = bits == 0 ? -two_to(16) : -1;
      set_q(p, 0, 0, 1);
      for (const auto& [key, value] :
           {std::pair{Index{0}, first}, {Index{1}, second}, {p.lk - 2, back}, {p.lk - 1, back}}) {
        set(p, Edit::Tensor::k, {0, 0, key, 0}, lead * per);
        set(p, Edit::Tensor::v, {0, 0, key, 0}, value);
      }
      const double expected = bits == 0 ? two_to(15) : two_to(-bits - 1);
      return {std::move(p), expected * 0.75, expected * 1.25};
    });
  }
  return shots;
}

// ---- the output, and what enters the products -----------------------------------------------------------------------

Shots of_output(const Maker& maker, int bits) {
  const auto blank = maker.paired(2, 1);
  if (!blank) return {};
  return {[=, p = *blank]() mutable -> Shot {
    const double expected = bits == 0 ? two_to(17) : 1 + two_to(-bits);
    set_values(p, 0, bits == 0 ? expected : 1);
    set_values(p, 1, bits == 0 ? expected : 1 + two_to(1 - bits));
    const double slack = bits == 0 ? 1 : two_to(-bits - 2);
    return {std::move(p), expected - slack, expected + slack};
  }};
}

Shots of_operand(const Maker& maker, int bits) {
  constexpr double slack = 0.15;
  const double large = bits == 0 ? two_to(17) : two_to(bits + 1);
  const auto blank = maker.paired(2, 2);
  if (!blank) return {};
  Shots shots;
  for (const bool in_keys : {true, false})
    shots.push_back([=, p = *blank]() mutable {
      const double per = 1 / unit(p);
      if (bits == 0) {  // a large one times a small one
        set_q(p, 0, 0, in_keys ? 1 / large : large);
        set_keys(p, 0, 0, (in_keys ? large : 1 / large) * per);
      } else if (in_keys) {  // a long one, less its head
        for (const Index column : {0, 1}) set_q(p, 0, column, 1);
        set_keys(p, 0, 0, (large + 1) * per);
        set_keys(p, 0, 1, -large * per);
      } else {
        set_q(p, 0, 0, large + 1);
        set_q(p, 0, 1, -large);
        for (const Index column : {0, 1}) set_keys(p, 0, column, per);
      }
      return by_logit(std::move(p), 1, slack);
    });
  shots.push_back([=, p = maker.blank(1, 2, 1, 1)]() mutable -> Shot {
    const double value = bits == 0 ? large : 1 + two_to(-bits);
    for (const Index parity : {0, 1}) set_values(p, parity, value);
    const double off = bits == 0 ? 1 : two_to(-bits - 2);
    return {std::move(p), value - off, value + off};
  });
  return shots;
}

// One stage, or a part of it, and the questions about it.
struct Part {
  Stage stage;
  std::string_view part;  // "softmax (sum)"; the stage's name where there is one
  std::string_view what;
  Shots (*make)(const Maker&, int bits);
  std::string_view blind;
  bool stored = false;  // it holds no more than the dtype does
  bool sums = false;    // asked for as many bits as f32 shows, too
};
constexpr Part parts[] = {
    {Stage::operand, "operand", "long numbers less their heads as q, k and v", of_operand,
     "what is stored has no more bits", true},
    {Stage::scale, "scale", "a weight far below the peak, under factors that a narrow format rounds", of_scale, ""},
    {Stage::qk, "qk", "ones and two large numbers that cancel, at 14 pairs of places", of_qk,
     "it takes a width of 16 or more", false, true},
    {Stage::score, "score", "scores of 2^k + 1 beside 2^k, without and with a bias", of_score, ""},
    {Stage::softcap, "softcap", "2^k + 1 beside 2^k under a softcap of 2^(k+4)", of_softcap, ""},
    {Stage::softmax, "softmax (exp)", "differences that a narrow format rounds, of scores that it holds", of_exp, ""},
    {Stage::softmax, "softmax (sum)", "weights of 1 and of half a unit, placed by each bit of the position", of_sum,
     ""},
    {Stage::weights, "weights", "two weights a quarter of a unit apart, as 1 and -1 of v", of_weights, ""},
    {Stage::pv, "pv", "ones and two large values that cancel, at 14 pairs of places", of_pv, "", false, true},
    {Stage::partial, "partial", "four of 512 and of 4096 keys own the row, two at either end", of_partial,
     "a split's result is stored with no more bits"},
    {Stage::output, "output", "a mean that a narrow format rounds", of_output, "what is stored has no more bits", true},
};

std::vector<Against> narrower_than_promised(const Part& part, Format dtype) {
  return part.stored ? narrower_than_storage(dtype) : narrower_than_f32(dtype);
}

std::vector<Shot> all_of(const Shots& shots) {
  std::vector<Shot> made;
  made.reserve(shots.size());
  for (const auto& shot : shots) made.push_back(shot());
  return made;
}

// The same with as many bits as f32 shows beside the rounding of a hundred sums; a kernel that folds log2 e into a
// factor misses it.
constexpr int fine_bits = 19;

std::vector<Question> questions_of(const Part& part, const Maker& maker) {
  std::vector<Question> questions;
  for (const Against& against : narrower_than_promised(part, maker.dtype()))
    if (std::vector<Shot> shots = all_of(part.make(maker, against.bits)); !shots.empty())
      questions.push_back({against.formats, std::move(shots)});
  if (!part.sums) return questions;
  for (Question& question : questions)
    if (std::ranges::count(question.excludes, Format::tf32) != 0) question.bits = precision(Format::tf32) + 3;
  if (std::vector<Shot> shots = all_of(part.make(maker, fine_bits)); !shots.empty())
    questions.push_back({{}, std::move(shots), false, fine_bits + 3});
  return questions;
}

}  // namespace

// The question put to a sample, a head and a row that are judged; a row that sees all keys, or else no diagonal is
// left.
Problem somewhere(Problem p, std::uint64_t key) {
  constexpr Index few = 4;  // rows
  p.rows = p.rows == 0 ? few : std::min(p.rows, few);
  std::vector<Index> judged = judged_rows(p);
  CallOptions options;
  options.causal = p.causal;
  options.align = p.align;
  options.window_left = p.window_left;
  options.window_right = p.window_right;
  const auto sees_all = [&](Index row) {
    const KeyRange range = key_range(options, row % p.lq, p.lq, p.lk);
    return range.first <= 0 && range.last >= p.lk;
  };
  if (std::ranges::any_of(judged, sees_all)) {
    std::erase_if(judged, [&](Index row) { return !sees_all(row); });
  } else {
    p.causal = false;
    p.window_left = p.window_right = -1;
  }
  const Index row = judged[below(extend(key, 1), judged.size())];
  const Index i = row % p.lq, h = row / p.lq % p.hq, b = row / p.lq / p.hq;
  for (Edit& edit : p.edits) {
    const bool of_row = edit.tensor == Edit::Tensor::q || edit.tensor == Edit::Tensor::bias;
    edit.index = {b, of_row ? h : h / p.group(), of_row ? i : edit.index[2], edit.index[3]};
  }
  return p;
}

std::vector<probing::NarrowQuestion> narrow_questions(const Maker& maker, const Contract& contract, std::uint64_t key) {
  std::vector<probing::NarrowQuestion> all;
  for (const Part& part : parts)
    for (const Against& against :
         probing::against_promise(narrower_than_promised(part, maker.dtype()), contract.policy[part.stage]))
      all.push_back({part.part, part.what, against.formats, [&maker, &part, bits = against.bits, key] {
                       std::vector<std::function<std::optional<ops::Problem>()>> calls;
                       for (auto& shot : part.make(maker, bits))
                         calls.emplace_back([shot = std::move(shot), key]() -> std::optional<ops::Problem> {
                           Problem p = shot().problem;
                           if (p.b * p.hq * p.hkv * p.lq == 0 || p.hq % p.hkv != 0)
                             return std::nullopt;  // the subject takes none
                           return ops::Problem(somewhere(std::move(p), key));
                         });
                       return calls;
                     }});
  return all;
}

Problem at_usual_sizes(Problem p, const Supports& s, std::uint64_t key) {
  constexpr Index most_elements = Index{1} << 18;
  p.b = s.b.nearest(1);
  p.hkv = s.hkv.nearest(1);
  p.hq = s.hq.nearest(p.hkv);
  if (p.hq % p.hkv != 0) p.hkv = s.hkv.nearest(p.hq);
  p.lq = s.lq.nearest(1);
  p.d = s.d.nearest(Index{64} << below(extend(key, 2), 3));
  p.dv = s.dv_equals_d ? p.d : s.dv.nearest(p.d);
  const Index most = std::max<Index>(most_elements / (p.d + p.dv), 2);
  p.lk = s.lk.nearest(std::min<Index>(Index{512} << below(extend(key, 3), 4), most));
  for (Layout* layout : {&p.q_layout, &p.k_layout, &p.v_layout, &p.out_layout, &p.mask_layout})
    if (*layout == Layout::far) *layout = Layout::bhsd;
  return p;
}

std::vector<StageQuestions> stage_questions(const Maker& maker) {
  std::vector<StageQuestions> all;
  for (const Part& part : parts) {
    StageQuestions& of = all.emplace_back(StageQuestions{part.stage, std::string(part.part), std::string(part.what),
                                                         questions_of(part, maker), std::string(part.blind)});
    if (part.make == of_sum)
      if (std::vector<Shot> shots = all_of(many_keys(maker)); !shots.empty())
        of.questions.push_back({{Format::f16}, std::move(shots), true});
    if (part.stage == Stage::softcap && !maker.supports().softcap) of.blind = "the subject takes no softcap";
  }
  return all;
}

}  // namespace attest::ops::of_attention
