// Shots that a narrow format must miss. In each, what a format of p significand bits loses is no smaller than a score of
// one unit, or half of what is read; what a wider one loses is a small part of that.
#include "ops/attention/probe/questions.hpp"

#include <algorithm>
#include <cmath>

#include "core/rng.hpp"
#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

using Shots = std::vector<Shot>;

using probing::Against;
using probing::pairs;

std::vector<Against> narrower_than_f32(Format dtype) {
  return probing::narrower_than_f32(dtype, formats_of(Stage::qk));
}
// Of what is stored in the dtype itself.
std::vector<Against> narrower_than_storage(Format dtype) {
  return probing::narrower_than_storage(dtype, formats_of(Stage::qk));
}

double unit(const Problem& p) { return p.effective_scale(); }

// Around a logit of the first key against the second.
Shot by_logit(Problem problem, double expected, double slack) {
  set_values(problem, 0, 1);
  return {std::move(problem), logistic(expected - slack), logistic(expected + slack)};
}

// ---- accumulation of q.k: ones, and two large numbers that cancel ------------------------------------------------------

// Large numbers of 2^(bits + 2), or past the range of f16; of which a factor is in q, if k does not hold them.
Shots of_qk(const Maker& maker, int bits) {
  const auto blank = maker.paired(2, 64);
  if (!blank || blank->d < 16) return {};
  const int exponent = bits == 0 ? 21 : bits + 2;
  const double in_q = maker.dtype() == Format::f16 ? two_to(exponent / 2) : 1, large = two_to(exponent) / in_q;
  Shots shots;
  for (const auto& [plus, minus] : pairs(blank->d)) {
    Problem p = *blank;
    p.q_form = p.k_form = Form::drawn;  // ones
    if (in_q != 1)
      for (const Index column : {plus, minus}) set_q(p, 0, column, in_q);
    set_keys(p, 0, plus, large);
    set_keys(p, 0, minus, -large);
    set_keys(p, 1, plus, 0);
    set_keys(p, 1, minus, 0);
    const double slack = 0.4 * unit(p);
    shots.push_back(by_logit(std::move(p), 0, slack));
  }
  return shots;
}

// ---- scores: 2^k + 1 beside 2^k ----------------------------------------------------------------------------------------

std::optional<Problem> large_scores(const Maker& maker, int exponent, double first, double second) {
  std::optional<Problem> p = maker.paired(2, 2);
  if (!p) return p;
  const double per = 1 / unit(*p);
  set_q(*p, 0, 0, two_to(exponent / 2));
  set_q(*p, 0, 1, 1);
  for (const Index parity : {0, 1}) set_keys(*p, parity, 0, two_to(exponent - exponent / 2) * per);
  if (first != 0) set_keys(*p, 0, 1, first * per);
  if (second != 0) set_keys(*p, 1, 1, second * per);
  return p;
}

Shots of_score(const Maker& maker, int bits) {
  const int exponent = bits == 0 ? 17 : bits + 1;
  constexpr double slack = 0.15;
  Shots shots;
  if (auto p = large_scores(maker, exponent, 1, 0)) shots.push_back(by_logit(std::move(*p), 1, slack));
  if (maker.supports().bias && maker.supports().bias_types[0])
    if (auto p = large_scores(maker, exponent, 0, 0)) {
      p->bias = Bias::zero;
      for (Index j = 0; j < p->lk; j += 2) set(*p, Edit::Tensor::bias, {0, 0, 0, j}, 1);
      shots.push_back(by_logit(std::move(*p), 1, slack));
    }
  return shots;
}

Shots of_softcap(const Maker& maker, int bits) {
  if (!maker.supports().softcap) return {};
  const int exponent = bits == 0 ? 17 : bits + 1;
  auto p = large_scores(maker, exponent, 1, 0);
  if (!p) return {};
  p->softcap = two_to(bits == 0 ? exponent : exponent + 4);
  const double s = two_to(exponent), c = p->softcap;
  const double expected = c * (std::tanh((s + 1) / c) - std::tanh(s / c));
  return {by_logit(std::move(*p), expected, bits == 0 ? 0.18 : 0.1)};
}

// ---- the scale: factors that a narrow format rounds --------------------------------------------------------------------

// One key far below the peak, whose value makes its weight readable.
struct LowKey {
  double gap, value;
  [[nodiscard]] double expected() const { return value * logistic(-gap); }
};
// Weights are e^-8 where they lie in f16, e^-64 where they may: the deeper, the more an error of the score shows.
LowKey low_key(Format dtype) { return dtype == Format::f16 ? LowKey{8, 1024} : LowKey{64, two_to(90)}; }
// What rounding weight and output may cost.
double reading_error(Format dtype) {
  return dtype == Format::f16 || dtype == Format::bf16 ? 2.1 * unit_roundoff(dtype)
         : dtype == Format::f32                        ? 1e-4
                                                       : 1e-9;
}

Shot by_weight(Problem problem, double expected, double error) {
  return {std::move(problem), expected * (1 - error), expected * (1 + error)};
}

Shots by_scale(const Maker& maker, int bits) {
  constexpr std::uint64_t key = 0x7363616c65;
  constexpr std::uint64_t factors = 16;
  Shots shots;
  const LowKey low = low_key(maker.dtype());
  for (std::uint64_t n = 0; n < factors; ++n) {
    auto p = maker.paired(2, 1);
    if (!p) return {};
    // 1 .. 1.12, on half a unit of the narrow format but for a little.
    const double grid = two_to(1 - bits);
    const double whole = std::floor(0.12 / grid * static_cast<double>(n) / factors);
    const double off = 0.5 + 0.2 * symmetric_uniform(extend(key, n));
    const double factor = round_to(Format::f32, 1 + (whole + off) * grid);
    p->scale = maker.dtype() == Format::f64 ? 1 + (whole + off) * grid : factor;
    set_q(*p, 0, 0, 1);
    set_keys(*p, 0, 0, low.gap);
    set_values(*p, 1, low.value);
    const double expected = LowKey{low.gap * *p->scale, low.value}.expected();
    shots.push_back(by_weight(std::move(*p), expected, reading_error(maker.dtype())));
  }
  return shots;
}

// Where the scale is the default one: that of widths that are no power of four.
Shots by_width(const Maker& maker) {
  Shots shots;
  const LowKey low = low_key(maker.dtype());
  std::vector<Index> seen;
  for (const Index width : {2, 3, 5, 6, 7, 8, 10, 11, 12, 24, 32, 40, 48, 72, 80, 96, 112, 128, 160, 192}) {
    Problem p = maker.blank(1, 2, width, 1);
    const bool power = std::exp2(std::round(std::log2(static_cast<double>(p.d)) / 2)) == std::sqrt(p.d);
    if (power || p.lk % 2 != 0 || std::ranges::count(seen, p.d) != 0) continue;
    seen.push_back(p.d);
    const double k = round_to(Format::bf16, low.gap * std::sqrt(static_cast<double>(p.d)));
    set_q(p, 0, 0, 1);
    set_keys(p, 0, 0, k);
    set_values(p, 1, low.value);
    const double expected = LowKey{k * unit(p), low.value}.expected();
    shots.push_back(by_weight(std::move(p), expected, reading_error(maker.dtype())));
  }
  constexpr std::size_t enough = 4;
  if (shots.size() < enough) shots.clear();
  return shots;
}

Shots of_scale(const Maker& maker, int bits) {
  if (maker.supports().scale == Supports::Scale::only_default)
    return bits != 0 && bits < precision(Format::f32) ? by_width(maker) : Shots{};
  if (bits != 0) return by_scale(maker, bits);
  auto p = maker.paired(2, 1);  // below the subnormals of f16
  if (!p) return {};
  constexpr LowKey low{8, 1024};
  p->scale = two_to(-60);
  set_q(*p, 0, 0, two_to(30));
  set_keys(*p, 0, 0, two_to(33));
  set_values(*p, 1, low.value);
  return {by_weight(std::move(*p), low.expected(), 0.02)};
}

// ---- softmax -----------------------------------------------------------------------------------------------------------

// Peaks in every second place, of even numbers or of odd ones: a key whose tile or split holds no peak has a weight of 1 there, which
// no format rounds.
struct Places {
  Index keys = 2, peaks = 0;
};
constexpr Places all_places[] = {{2, 0}, {2, 1}, {64, 0}, {64, 1}};

std::optional<Problem> at_gap(const Maker& maker, double peak, double below, double value, Places places = {}) {
  auto p = maker.paired(places.keys, 1);
  if (!p) return p;
  const double per = 1 / unit(*p);
  set_q(*p, 0, 0, 1);
  set_keys(*p, places.peaks, 0, peak * per);
  if (below != 0) set_keys(*p, 1 - places.peaks, 0, -below * per);
  set_values(*p, 1 - places.peaks, value);
  return p;
}

// Past the subnormals of f16: an exp or a weight there is 0.
Shots underflowing(const Maker& maker) {
  constexpr double gap = 20;
  const double value = two_to(24);
  Shots shots;
  for (const Places& places : all_places)
    if (auto p = at_gap(maker, gap, 0, value, places))
      shots.push_back(by_weight(std::move(*p), LowKey{gap, value}.expected(), 0.02));
  return shots;
}

// Two scores that the narrow format holds, and whose difference it does not.
Shots of_exp(const Maker& maker, int bits) {
  if (bits == 0) return underflowing(maker);
  const LowKey low = bits > precision(Format::f16) ? LowKey{8, 1024} : low_key(maker.dtype());
  Shots shots;
  for (const double share : {0.3, 0.36, 0.44, 0.5, 0.56, 0.64, 0.7})
    for (const double further : {0.0, 0.125}) {
      const double peak = low.gap * (1 + further);
      const double grid = two_to(std::ilogb(peak) + 1 - bits);
      const double below = round_to(maker.dtype(), share * grid);
      auto p = at_gap(maker, peak, below, low.value);
      if (!p) return {};
      const double expected = LowKey{peak + below, low.value}.expected();
      shots.push_back(by_weight(std::move(*p), expected, reading_error(maker.dtype())));
    }
  return shots;
}

// As many weights of 1 as of a little less than half a unit below: a sum that drops the small ones gives 1. They change places by
// each bit of their position, so that whatever is added first, it is one of either kind in some shot.
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
    for (const bool first : {false, true}) {
      Problem p = *blank;
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
      shots.push_back({std::move(p), 1 - 2.2 * loss, 1 - 0.4 * loss});
    }
  return shots;
}

// More keys than the largest number of f16.
Shots many_keys(const Maker& maker) {
  constexpr Index keys = Index{1} << 17, most_elements = Index{1} << 24;
  Problem p = maker.blank(1, keys, 1, 1);
  if (p.lk < keys || p.lq * p.lk > 2 * keys || p.b * p.hkv * p.lk * (p.d + p.dv) > most_elements) return {};
  p.v_form = Form::drawn;
  return {{std::move(p), 0.99, 1.01}};
}

// ---- weights -----------------------------------------------------------------------------------------------------------

// Weights e^-gap that lie near the middle between two numbers of the narrow format.
Shots between_numbers(const Maker& maker, int bits) {
  if (bits >= precision(maker.dtype())) return {};
  const double value = low_key(maker.dtype()).value / (maker.dtype() == Format::f16 ? 1 : two_to(80));
  constexpr std::size_t enough = 6;
  Shots shots;
  for (int step = 0; step < 64 && shots.size() < enough; ++step) {
    const double gap = round_to(maker.dtype(), 6.5 + step * 0.03125);
    const double units = std::exp(-gap) / two_to(std::ilogb(std::exp(-gap)) + 1 - bits);
    if (std::fabs(units - std::floor(units) - 0.5) > 0.15) continue;
    auto p = at_gap(maker, gap, 0, value);
    if (!p) return {};
    shots.push_back(by_weight(std::move(*p), LowKey{gap, value}.expected(), reading_error(maker.dtype())));
  }
  return shots;
}

// Two weights a quarter of a unit apart: a narrow format makes them equal, or a unit apart.
Shots of_weights(const Maker& maker, int bits) {
  if (bits == 0) return underflowing(maker);
  Shots shots = between_numbers(maker, bits);
  for (const Places& places : all_places) {
    auto p = maker.paired(places.keys, 1);
    if (!p) return {};
    const double per = 1 / unit(*p);
    const double gap = round_to(maker.dtype(), 0.9 * two_to(-bits - 1));
    set_q(*p, 0, 0, 1);
    set_keys(*p, places.peaks, 0, gap * per);
    set_values(*p, places.peaks, -1);
    set_values(*p, 1 - places.peaks, 1);
    const double expected = -std::tanh(gap / 2);
    shots.push_back({std::move(*p), expected * 1.25, expected * 0.75});
  }
  return shots;
}

// ---- accumulation of weights times v -----------------------------------------------------------------------------------

// As of_qk(); where large numbers of f16 end, the ones are smaller.
Shots of_pv(const Maker& maker, int bits) {
  constexpr Index keys = 256;
  const int exponent = bits == 0 ? 17 : bits + 2;
  const int below = maker.dtype() == Format::f16 ? std::max(0, exponent - 15) : 0;
  const double small = two_to(-below), large = two_to(exponent - below);
  Problem blank = maker.blank(1, keys, 1, 1);
  if (blank.lk < keys / 4) return {};
  if (bits == 0) {  // the sum of all, whatever is normalised when
    blank.v_form = Form::drawn;
    blank.amplitude = large;
    return {{std::move(blank), large * 0.99, large * 1.01}};
  }
  blank.amplitude = small;
  Shots shots;
  for (const auto& [plus, minus] : pairs(blank.lk)) {
    Problem p = blank;
    p.v_form = Form::drawn;
    set(p, Edit::Tensor::v, {0, 0, plus, 0}, large);
    set(p, Edit::Tensor::v, {0, 0, minus, 0}, -large);
    const auto n = static_cast<double>(p.lk);
    shots.push_back({std::move(p), small * (n - 2.4) / n, small * (n - 1.6) / n});
  }
  return shots;
}

// ---- partial results of splits -----------------------------------------------------------------------------------------

// Four keys own the row: two at one end, whose mean no narrow format holds, and two at the other that take it away again.
Shots of_partial(const Maker& maker, int bits) {
  if (bits >= precision(maker.dtype()) + 1) return {};
  Shots shots;
  for (const Index keys : {512, 4096}) {
    auto p = maker.paired(keys, 1);
    if (!p) continue;
    const double per = 1 / unit(*p), lead = 200;
    const double first = bits == 0 ? two_to(17) : 1, second = bits == 0 ? two_to(17) : 1 + two_to(1 - bits);
    const double back = bits == 0 ? -two_to(16) : -1;
    set_q(*p, 0, 0, 1);
    for (const auto& [key, value] :
         {std::pair{Index{0}, first}, {Index{1}, second}, {p->lk - 2, back}, {p->lk - 1, back}}) {
      set(*p, Edit::Tensor::k, {0, 0, key, 0}, lead * per);
      set(*p, Edit::Tensor::v, {0, 0, key, 0}, value);
    }
    const double expected = bits == 0 ? two_to(15) : two_to(-bits - 1);
    shots.push_back({std::move(*p), expected * 0.75, expected * 1.25});
  }
  return shots;
}

// ---- the output, and what enters the products --------------------------------------------------------------------------

Shots of_output(const Maker& maker, int bits) {
  auto p = maker.paired(2, 1);
  if (!p) return {};
  const double expected = bits == 0 ? two_to(17) : 1 + two_to(-bits);
  set_values(*p, 0, bits == 0 ? expected : 1);
  set_values(*p, 1, bits == 0 ? expected : 1 + two_to(1 - bits));
  const double slack = bits == 0 ? 1 : two_to(-bits - 2);
  return {{std::move(*p), expected - slack, expected + slack}};
}

Shots of_operand(const Maker& maker, int bits) {
  constexpr double slack = 0.15;
  const double large = bits == 0 ? two_to(17) : two_to(bits + 1);
  Shots shots;
  for (const bool in_keys : {true, false}) {
    auto p = maker.paired(2, 2);
    if (!p) return {};
    const double per = 1 / unit(*p);
    if (bits == 0) {  // a large one times a small one
      set_q(*p, 0, 0, in_keys ? 1 / large : large);
      set_keys(*p, 0, 0, (in_keys ? large : 1 / large) * per);
    } else if (in_keys) {  // a long one, less its head
      for (const Index column : {0, 1}) set_q(*p, 0, column, 1);
      set_keys(*p, 0, 0, (large + 1) * per);
      set_keys(*p, 0, 1, -large * per);
    } else {
      set_q(*p, 0, 0, large + 1);
      set_q(*p, 0, 1, -large);
      for (const Index column : {0, 1}) set_keys(*p, 0, column, per);
    }
    shots.push_back(by_logit(std::move(*p), 1, slack));
  }
  Problem p = maker.blank(1, 2, 1, 1);
  const double value = bits == 0 ? large : 1 + two_to(-bits);
  for (const Index parity : {0, 1}) set_values(p, parity, value);
  const double off = bits == 0 ? 1 : two_to(-bits - 2);
  shots.push_back({std::move(p), value - off, value + off});
  return shots;
}

// The same with as many bits as f32 shows beside the rounding of a hundred sums; a kernel that folds log2 e into a factor misses it.
constexpr int fine_bits = 19;
std::vector<Question> with_fine(std::vector<Question> questions, const Maker& maker, Shots (*make)(const Maker&, int)) {
  for (Question& question : questions)
    if (std::ranges::count(question.excludes, Format::tf32) != 0) question.bits = precision(Format::tf32) + 3;
  if (Shots shots = make(maker, fine_bits); !shots.empty())
    questions.push_back({{}, std::move(shots), false, fine_bits + 3});
  return questions;
}

template <class Make>
std::vector<Question> made(const std::vector<Against>& list, Make&& make) {
  std::vector<Question> questions;
  for (const Against& against : list)
    if (Shots shots = make(against.bits); !shots.empty()) questions.push_back({against.formats, std::move(shots)});
  return questions;
}

}  // namespace

std::vector<StageQuestions> stage_questions(const Maker& maker) {
  const Format dtype = maker.dtype();
  const std::vector<Against> below_f32 = narrower_than_f32(dtype), below_dtype = narrower_than_storage(dtype);
  const auto of = [&](const std::vector<Against>& list, Shots (*make)(const Maker&, int)) {
    return made(list, [&](int bits) { return make(maker, bits); });
  };
  std::vector<Question> sums = of(below_f32, of_sum);
  if (Shots shots = many_keys(maker); !shots.empty()) sums.push_back({{Format::f16}, std::move(shots), true});
  using enum Stage;
  return {
      {operand, "operand", "long numbers less their heads as q, k and v", of(below_dtype, of_operand),
       "what is stored has no more bits"},
      {scale, "scale", "a weight far below the peak, under factors that a narrow format rounds",
       of(below_f32, of_scale), ""},
      {qk, "qk", "ones and two large numbers that cancel, at 14 pairs of places",
       with_fine(of(below_f32, of_qk), maker, of_qk), "it takes a width of 16 or more"},
      {score, "score", "scores of 2^k + 1 beside 2^k, without and with a bias", of(below_f32, of_score), ""},
      {softcap, "softcap", "2^k + 1 beside 2^k under a softcap of 2^(k+4)", of(below_f32, of_softcap),
       maker.supports().softcap ? "" : "the subject takes no softcap"},
      {softmax, "softmax (exp)", "differences that a narrow format rounds, of scores that it holds",
       of(below_f32, of_exp), ""},
      {softmax, "softmax (sum)", "weights of 1 and of half a unit, placed by each bit of the position", std::move(sums),
       ""},
      {weights, "weights", "two weights a quarter of a unit apart, as 1 and -1 of v", of(below_f32, of_weights), ""},
      {pv, "pv", "ones and two large values that cancel, at 14 pairs of places",
       with_fine(of(below_f32, of_pv), maker, of_pv), ""},
      {partial, "partial", "four of 512 and of 4096 keys own the row, two at either end", of(below_f32, of_partial),
       "a split's result is stored with no more bits"},
      {output, "output", "a mean that a narrow format rounds", of(below_dtype, of_output),
       "what is stored has no more bits"},
  };
}

}  // namespace attest::ops::of_attention
