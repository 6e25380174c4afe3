// judge() says what an unhurried implementation of docs/bounds.md says: the verdict of the full formulas for every element,
// lambda by the full formulas, and T by plain loops from its definition. Problems and contracts at random; outputs of sound
// and of faulty kernels, and planted on the edges of the rigorous and of the statistical intervals.
//
// ATTEST_UNHURRIED_PROBLEMS (6000) and ATTEST_UNHURRIED_SEED (1) choose the problems.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "oracle/calibration.hpp"
#include "oracle/quick.hpp"
#include "oracle/statistical.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/same_verdict.hpp"
#include "tests/setting.hpp"

namespace attest {
namespace {

using oracle::Statistics;

double square(double x) { return x * x; }

enum class Outputs : std::uint8_t { sound, faulty, rigorous_edges, statistical_edges };
constexpr std::uint64_t kinds = 4;

struct Case {
  Problem problem;
  Contract contract;
  Inputs inputs;
  Tensor out, lse;

  Case(std::uint64_t number, std::uint64_t seed)
      : problem(testing::draw_problem(named_policies()[number % 9].policy[Stage::storage], mix(number + (seed << 32)))),
        contract(emulator::draw_any_contract(named_policies()[number % 9].policy,
                                             static_cast<int>(number / 9 % emulator::all_variants))),
        inputs(materialise(problem)),
        out(make_out(problem)),
        lse(make_lse(problem)),
        key_(mix(number ^ seed)) {
    const auto kind = static_cast<Outputs>(key_ % kinds);
    emulator::Variant variant = emulator::draw_variant(contract, problem, key_);
    if (kind == Outputs::faulty) variant.defect = static_cast<emulator::Defect>(1 + number % 6);
    emulator::run(inputs, contract, variant, out, lse);
    if (kind == Outputs::rigorous_edges || kind == Outputs::statistical_edges) plant(kind);
  }

  [[nodiscard]] Verdict judge(Statistics* statistics) const {
    return oracle::AttentionOracle(contract, problem, inputs).judge(out, lse, statistics);
  }

 private:
  // On an edge, or a step off it: of the rigorous interval, or of that at lambda 4 or 5. Few go outside, since the first that
  // does ends the verdict, and few above lambda 5.
  void plant(Outputs kind) {
    oracle::AttentionOracle oracle(contract, problem, inputs);
    const auto draw = [&](std::uint64_t n) { return below(key_ = mix(key_), n); };
    for (const Index flat : judged_rows(problem)) {
      const RowIndex r = row_index(problem, flat);
      for (Index c = 0; c < problem.dv; ++c) {
        const bool up = draw(2) != 0, step_out = draw(kind == Outputs::rigorous_edges ? 100 : 4) == 0;
        double edge;
        if (kind == Outputs::rigorous_edges) {
          const oracle::Enclosure e = oracle.out_enclosure(r.b, r.h, r.i, c);
          edge = up ? e.hi : e.lo;
        } else {
          const double lambda = draw(20) == 0 ? Statistics::stop_lambda : Statistics::near_lambda;
          const oracle::StatisticalEnclosure e = oracle.statistical_enclosure(r.b, r.h, r.i, c, lambda);
          if (!e.applies || draw(4) == 0) continue;
          edge = up ? e.hi : e.lo;
        }
        const double planted = round_to(problem.dtype, edge);
        if (std::isnan(planted)) continue;
        out.set(r.b, r.h, r.i, c, testing::neighbour(problem.dtype, planted, step_out == up));
        if (draw(2) == 0) out.set(r.b, r.h, r.i, c, planted);
      }
    }
  }

  std::uint64_t key_;
};

// T of one row, from the page: sums in the order of the keys, in double.
struct RowShare {
  double squares = 0, elements = 0;
  double doubtful = 0;   // elements that float32 may have counted or not
  double uncertain = 0;  // what float32, or the rounding of either reference, may have changed of `squares`
  double weights = 0;    // that count
};

class PlainRow {
 public:
  PlainRow(const Case& c, const oracle::Call& call, const RowIndex& r)
      : case_(c), call_(call), m_(call.numbers), r_(r) {
    const KeyRange range = call.range(r.b, r.i);
    for (Index j = range.first; j < range.last; ++j) {
      if (!call.kept(r.b, r.h, r.i, j)) continue;
      const double bias = call.has_bias ? c.inputs.bias.at(r.b, r.h, r.i, j) : 0;
      if (bias == -std::numeric_limits<double>::infinity()) continue;
      double s = 0;
      for (Index d = 0; d < call.d; ++d)
        s += c.inputs.q.at(r.b, r.h, r.i, d) * c.inputs.k.at(r.b, call.kv_head(r.h), j, d);
      s *= m_.scale;
      double z = m_.softcap > 0 && m_.softcap_before_bias ? m_.softcap * std::tanh(s / m_.softcap) : s;
      z += bias;
      if (m_.softcap > 0 && !m_.softcap_before_bias) z = m_.softcap * std::tanh(z / m_.softcap);
      keys_.push_back({j, z, bias, 0, 0});
      top_ = std::max(top_, z);
    }
    for (Key& key : keys_) mass_ += key.p = std::exp(key.z - top_);
    double q2 = 0;
    for (Index d = 0; d < call.d; ++d) q2 += square(c.inputs.q.at(r.b, r.h, r.i, d));
    const double own_shift = square(m_.u_softmax * m_.merged_a2(n()) * top_) / 3;
    const double folded = m_.scaled_keys && m_.softcap == 0 ? q2 * square(m_.eta_scale) : 0;
    for (Key& key : keys_) key.variance = own_variance(key) + own_shift + folded;
  }

  [[nodiscard]] RowShare share() const {
    RowShare result;
    for (Index c = 0; c < call_.dv; ++c) add(c, result);
    double squares = 0;
    for (const Key& key : keys_) squares += square(key.p);
    if (result.elements > 0) result.weights = square(mass_) / squares;
    return result;
  }

 private:
  struct Key {
    Index j;
    double z, bias, p, variance;
  };
  [[nodiscard]] double n() const { return static_cast<double>(keys_.size()); }

  // The least tau^2: of a score's products s^2/D is known, and of their sum what the softcap left.
  [[nodiscard]] double own_variance(const Key& key) const {
    const double d = m_.d, s2 = square(key.z - key.bias), z2 = square(key.z), below2 = square(top_ - key.z);
    const double reference = square(0x1p-53);
    double of_s = square(m_.u_acc) / 3 * ((d + 1) * (1 / (6 * d) + 1.0 / 3) + (m_.inexact_qk ? 1 / d : 0)) +
                  (square(m_.u_score) + m_.scalings * square(m_.u_scale)) / 3 + square(m_.u_operand) / (3 * d) +
                  (m_.scaled_keys ? (2 * square(m_.u_scale) + square(m_.u_entered)) / (3 * d) : 0);
    double absolute = d * square(m_.eta_acc * m_.mu);
    if (m_.softcap > 0) {
      of_s = std::min(of_s + square(m_.u_cap), 0.25);
      absolute = square(m_.eta_cap * (1 + m_.softcap));
      if (m_.tanh_absolute > 0)
        absolute += square(m_.tanh_absolute * m_.softcap) / 3;
      else
        of_s += square(m_.tanh_relative) / 3;
    }
    double of_z = square(m_.u_softmax) * (1 + m_.a1) / 3;
    if (call_.has_bias || m_.softcap > 0) of_z += 2 * square(m_.u_score) / 3;
    return (of_s + reference * (2 + 8 / d)) * s2 + (of_z + reference) * z2 +
           (square(m_.u_softmax) * (m_.exp2 ? 5 : 2) / 3 + reference) * below2 +
           (square(m_.u_bias) + (m_.u_bias_unit > 0 ? square(m_.u_score) + square(m_.u_scale) : 0)) / 3 *
               square(key.bias) +
           4 * square(m_.c_exp) / 3 + absolute;
  }

  void add(Index c, RowShare& result) const {
    const double got = case_.out.at(r_.b, r_.h, r_.i, c);
    if (!std::isfinite(got)) return;
    const auto value = [&](const Key& key) { return case_.inputs.v.at(r_.b, call_.kv_head(r_.h), key.j, c); };
    double unit = 0;  // the head's largest value, so that squares neither over- nor underflow
    for (Index j = 0; j < call_.keys; ++j)
      for (Index d = 0; d < call_.dv; ++d)
        unit = std::max(unit, std::fabs(case_.inputs.v.at(r_.b, call_.kv_head(r_.h), j, d)));
    if (unit == 0) unit = 1;
    unit = std::ldexp(1.0, std::max(std::ilogb(unit), -1022));
    double sum = 0, size = 0;
    for (const Key& key : keys_) {
      sum += key.p * (value(key) / unit);
      size += key.p * std::fabs(value(key) / unit);
    }
    const double y = sum / mass_, keys = n(), reference = square(0x1p-53) * (keys + 8) / 2;

    double undivided = m_.with_merges(0, keys, std::fabs(top_)) - m_.one_sided_merges(keys);
    const double ln_n = 0.6931471805599453 * std::ilogb(keys);
    if (m_.arithmetic.normalise_lse)
      undivided +=
          m_.u_softmax * ((2 + (m_.exp2 ? 4 : 0)) * (std::fabs(top_) + m_.lazy + ln_n + 1) + m_.a3 * (ln_n + 1)) +
          4 * (m_.c_exp - m_.one_sided_exp);
    double every = square(m_.u_pv) / 3 * ((keys + 1) / 6 + (m_.inexact_pv ? 1 : 0)) + reference;
    const bool before = m_.arithmetic.divides_first();
    const double of_division = m_.c_div > 1 ? 1 : 3;
    if (before) every += square(m_.c_div * m_.u_softmax) / of_division;
    if (m_.merges) every += square(m_.u_partial + 2 * m_.c_div * m_.u_final) / of_division;
    const double shift = 2 * m_.u_softmax * (2 * std::fabs(top_) + 1);
    const double rounded = every + (m_.weights_round && shift < 0.01 ? square(m_.u_weights) / 3 : 0);
    double first = 0, second = 0, weights = 0, p2 = 0;
    for (const Key& key : keys_) {
      if (!(key.p > 0x1p-62)) continue;
      const double v = value(key) / unit, w = square(key.p) * key.variance;
      first += w * v;
      second += (w + square(key.p) * (key.p >= 2 * keys * m_.eta_weights ? rounded : every)) * square(v);
      weights += w;
      p2 += square(key.p);
    }
    // float32 may have lost this share of the sums, and s takes none of it.
    const double lost_share = 2 * (keys + 16) * 0x1p-24;
    const double underflow = 0x1p-146 * (weights + rounded * p2 + square(m_.u_softmax) * keys);
    const double moved = second * (1 - 2 * lost_share) - 2 * y * first + y * y * weights * (1 - lost_share) - underflow;
    const double of_y = square(m_.u_pv) / 3 * ((keys + 1) / 3 + 3) +
                        square(m_.u_softmax) / 3 * ((keys + 1) * (p2 / square(mass_) / 6 + 1.0 / 3) + 3) +
                        square(m_.c_div * m_.u_final) + reference +
                        square((m_.merges ? m_.c_div * m_.u_final : 0) + undivided / std::sqrt(3.0));
    const double absolute =
        std::max({std::sqrt(keys) * m_.eta_pv, m_.c_div * m_.eta_pv, m_.merges ? m_.eta_partial : 0}) / unit;
    const double s2 = std::max(moved, 0.0) / square(mass_) + of_y * y * y + square(absolute);
    const double floor =
        2 * std::sqrt(keys) *
            ((m_.eps_lazy + m_.eta_weights) / mass_ + (before ? m_.eta_quotient() + m_.eta_weights : 0)) *
            (shift < 0.01 ? 1 : std::exp(shift)) +
        0x1p-62 * std::sqrt(keys);
    const Format tensor = format_of(case_.out.dtype());
    const double half_ulp = std::max(std::fabs(y) * unit_roundoff(tensor), half_smallest_subnormal(tensor) / unit);
    const double variance = s2 + square(floor) + square(half_ulp) / 3;
    const double lost = (lost_share * (2 * second + weights * y * y) + underflow) / square(mass_);
    const double error = std::fabs(got / unit - y), share = square(error) / variance;
    if (std::fabs(lost - 0.5 * variance) <= 0.5 * lost) {
      result.doubtful += 1;
      result.uncertain += 3 * share;
    }
    if (!(lost <= 0.5 * variance)) return;
    const double rounding =
        4 * (keys + m_.d + 8) * 0x1p-53 * (1 + std::fabs(top_)) * size / mass_;  // of either reference
    result.elements += 1;
    result.squares += share;
    result.uncertain += share * 2 * lost / variance + (2 * error + rounding) * rounding / variance;
  }

  const Case& case_;
  const oracle::Call& call_;
  const oracle::Numbers& m_;
  RowIndex r_;
  std::vector<Key> keys_;
  double top_ = -std::numeric_limits<double>::infinity(), mass_ = 0;
};

// What the full formulas say of the rows up to the one in which the verdict ended.
struct Unhurried {
  double lambda = 0;  // of all elements of the judged rows, to the first that fails
  double asked =
      0;  // without what lies behind the first wrong element of that row, of which the quick level may not ask
  std::array<Index, 4> index{};
  RowShare t;

  Unhurried(const Case& c, const Verdict& verdict) {
    const oracle::Call call(c.contract, c.problem, c.inputs);
    oracle::AttentionOracle oracle(c.contract, c.problem, c.inputs);
    oracle::Quick quick(call, format_of(c.out.dtype()), oracle::Quick::Spreads::near_and_t);
    for (const Index flat : judged_rows(c.problem)) {
      const RowIndex r = row_index(c.problem, flat);
      const bool fails = verdict.evidence && verdict.evidence->index[0] == r.b && verdict.evidence->index[1] == r.h &&
                         verdict.evidence->index[2] == r.i;
      for (Index column = 0; column < c.problem.dv && lambda <= Statistics::stop_lambda; ++column) {
        const double got = c.out.at(r.b, r.h, r.i, column);
        if (!std::isfinite(got)) continue;
        const double needed = oracle.lambda_needed(r.b, r.h, r.i, column, c.problem.dtype, got);
        if (!fails || column <= verdict.evidence->index[3]) asked = std::fmax(asked, needed);
        if (!(needed > lambda)) continue;
        lambda = needed;
        index = {r.b, r.h, r.i, column};
      }
      if (quick.max_rows() > 0) {
        quick.load({&r, 1}, c.out.view(), c.lse.view());
        if (quick.has_spread(0)) {
          const RowShare row = PlainRow(c, call, r).share();
          t.elements += row.elements;
          t.doubtful += row.doubtful;
          t.squares += row.squares;
          t.uncertain += row.uncertain;
          t.weights += row.weights;
        }
      }
      if (fails) return;
    }
  }
};

struct Totals {
  std::int64_t problems = 0, elements = 0, in_t = 0, fails = 0, vacuous = 0;
  std::int64_t silent = 0, near = 0, warned = 0, stopped = 0;  // by what lambda is needed
  std::int64_t exact_t = 0, with_t = 0;                        // results whose T agrees to 1e-5, and all
};

void check(const Case& c, Totals& totals) {
  SCOPED_TRACE(to_text(c.problem));
  Statistics statistics;
  const Verdict quick = c.judge(&statistics);
  const Verdict slow = oracle::AttentionOracle(c.contract, c.problem, c.inputs).judge_slowly(c.out, c.lse);
  testing::expect_same_verdict(quick, slow);
  testing::expect_same_verdict(c.judge(nullptr), slow);
  ++totals.problems;
  totals.elements += slow.counts.judged;
  totals.fails += slow.kind == VerdictKind::fail;
  totals.vacuous += slow.kind == VerdictKind::vacuous;
  if (!oracle::statistical_refusal(c.contract).empty()) {
    EXPECT_EQ(statistics.largest_lambda, 0);
    EXPECT_EQ(statistics.elements, 0);
    ++totals.silent;
    return;
  }
  const Unhurried full(c, slow);
  // Where the result is f64, the references of the two levels differ by their own rounding, which is no longer small.
  const bool f64 = c.problem.dtype == Format::f64;
  const double rounding = f64 ? 0.5 : 1e-6;
  EXPECT_GE(statistics.largest_lambda, full.asked * (1 - 1e-6) - rounding);
  if (full.lambda <= Statistics::near_lambda) {
    EXPECT_LE(statistics.largest_lambda, Statistics::near_lambda);
    ++totals.near;
  } else if (full.asked < full.lambda) {
    EXPECT_LE(statistics.largest_lambda, full.lambda);
  } else if (!f64 || full.lambda > Statistics::near_lambda + rounding) {
    EXPECT_EQ(statistics.largest_lambda, full.lambda);
    EXPECT_EQ(statistics.index, full.index);
    ++(full.lambda <= Statistics::stop_lambda ? totals.warned : totals.stopped);
  }
  if (std::ssize(judged_rows(c.problem)) * c.problem.dv < oracle::least_elements) {
    EXPECT_EQ(statistics.elements, 0);
    return;
  }
  totals.in_t += statistics.elements;
  if (slow.kind != VerdictKind::fail) {
    const double limit = oracle::least_weights * static_cast<double>(judged_rows(c.problem).size()) /
                         static_cast<double>(oracle::distinct_rows(c.problem));
    if (full.t.weights < limit * (1 - 1e-4)) {
      EXPECT_EQ(statistics.elements, 0);
      return;
    }
    if (full.t.weights <= limit * (1 + 1e-4)) return;
  }
  if (f64) {
    EXPECT_NEAR(static_cast<double>(statistics.elements), full.t.elements, full.t.doubtful);
    if (statistics.elements > 0 && full.t.elements > 0) {
      EXPECT_LE(std::fabs(statistics.t() - std::sqrt(full.t.squares / full.t.elements)), 1 + 0.01 * statistics.t());
    }
    return;
  }
  EXPECT_NEAR(static_cast<double>(statistics.elements), full.t.elements, full.t.doubtful);
  if (!(full.t.squares > 0)) return;
  const double off = std::fabs(statistics.squares - full.t.squares);
  EXPECT_LE(off, 2e-5 * full.t.squares + full.t.uncertain);
  ++totals.with_t;
  // Where it does not, values hardly differ from their mean, or the result from its reference.
  totals.exact_t += off <= 2e-5 * full.t.squares;
}

// Values of a few subnormal steps: what one way of normalising rounds beside what another loses to underflow is more than either
// way may be off by.
TEST(Unhurried, WaysOfNormalisingAreNotMixed) {
  Totals totals;
  check(Case(33872, 315), totals);
  EXPECT_EQ(totals.fails, 1);
}

// The first wrong element needs no lambda at all, for its bias is more than its proven bound, and one behind it does.
TEST(Unhurried, LambdaEndsWithTheFirstWrongElement) {
  Totals totals;
  check(Case(59032, 311), totals);
  EXPECT_EQ(totals.fails, 1);
}

TEST(Unhurried, VerdictsAndStatisticsAreTheSame) {
  const std::uint64_t problems = setting("ATTEST_UNHURRIED_PROBLEMS", 6000), seed = setting("ATTEST_UNHURRIED_SEED", 1);
  Totals totals;
  for (std::uint64_t n = 0; n < problems; ++n) {
    check(Case(n, seed), totals);
    if (HasFailure()) return;
  }
  const auto count = [](std::int64_t x) { return static_cast<long>(x); };
  std::printf(
      "%ld problems, %ld elements: %ld fail, %ld vacuous; no statistics in %ld, lambda up to 4 in %ld, up to 5 in %ld, "
      "above in "
      "%ld; %ld elements in T, which agrees to 1e-5 in %ld of %ld results\n",
      count(totals.problems), count(totals.elements), count(totals.fails), count(totals.vacuous), count(totals.silent),
      count(totals.near), count(totals.warned), count(totals.stopped), count(totals.in_t), count(totals.exact_t),
      count(totals.with_t));
  EXPECT_GE(totals.fails, totals.problems / 20);
  EXPECT_GE(totals.warned, totals.problems / 50);
  EXPECT_GE(totals.stopped, totals.problems / 50);
  EXPECT_GE(totals.exact_t, 0.97 * static_cast<double>(totals.with_t));
}

}  // namespace
}  // namespace attest
