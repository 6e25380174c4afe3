// The certificate of layer_norm and its oracle share the page of formulas and no code: over random problems and
// contracts, ball arithmetic gives the interval that long double gives, and the same verdict on values on its ends, one
// step in and one step out, on both sides and far off; and on NaN and infinities.
//
// The oracle adds terms for its own rounding. A value that only these let in is counted as an edge: the certificate
// stands, the oracle accepts. The other way round nothing is excused.
//
// ATTEST_CERTIFY_PROBLEMS (1200) and ATTEST_CERTIFY_SEED (1) choose the problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "certify/layer_norm/certificate.hpp"
#include "certify/layer_norm/judge.hpp"
#include "core/directed.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/problem.hpp"
#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "tests/setting.hpp"

namespace attest::certify::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;
using attest::layer_norm::Problem;
using oracle::Outcome;
using oracle::layer_norm::LayerNormOracle;

double middle(const Ball& x) { return arf_get_d(arb_midref(x.get()), ARF_RND_NEAR); }

double step(Format format, double x, bool up) {
  const double away = std::max(std::fabs(x) * 2 * unit_roundoff(format), 2 * half_smallest_subnormal(format));
  if (format == Format::f64) return std::nextafter(x, up ? infinity : -infinity);
  const double moved = round_toward(format, up ? x + 0.6 * away : x - 0.6 * away, up);
  return moved;
}

struct Totals {
  std::int64_t elements = 0, values = 0, stands = 0, falls = 0, open = 0, edges = 0;
};

std::set<double> set_of(const std::vector<double>& numbers) { return {numbers.begin(), numbers.end()}; }

using Again = std::function<Interval()>;  // with all the bits that there may be

void compare(const Interval& proof, const Again& again, const oracle::layer_norm::Interval& o,
             const LayerNormOracle& judge_of, const Rounding& round, Format format, Format statistics, Totals& totals,
             const std::string& where) {
  ++totals.elements;
  ASSERT_EQ(proof.nan, o.enclosure.expect == oracle::Expect::nan) << where;
  const bool open = proof.undetermined || !proof.lo.is_finite() || !proof.hi.is_finite();
  double slack = 0;  // rounding error of float64 at the ends
  std::vector<double> values{std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0};
  if (!open) {
    const double lo = middle(proof.lo), hi = middle(proof.hi), width = hi - lo,
                 size = std::max(std::fabs(lo), std::fabs(hi));
    const double hull = o.enclosure.hull_hi - o.enclosure.hull_lo;
    // Both ends are doubles here, each rounded once.
    const double inner = 0x1.1p-52 * size;
    // The oracle's own rounding. For results narrower than f64 it is that of double. Statistics in f64 have a reference
    // of 2^-60, not far below 2^-53.
    const double own = format == Format::f64 ? 0x1p-60 : 0x1p-52;
    slack = width * (statistics == Format::f64 ? 1e-2 : 1e-10) + (own + 0x1p-52) * 1.01 * size +
            own * 1.01 * std::fabs(o.beta) + 1e-18 * hull;
    constexpr double step_of_end = std::numeric_limits<double>::denorm_min();  // ends are doubles, subnormal ones too
    if (size < 1e300) {
      EXPECT_LE(o.enclosure.lo, lo + inner + step_of_end) << where;
      EXPECT_GE(o.enclosure.hi, hi - inner - step_of_end) << where;
      EXPECT_GE(o.enclosure.lo, lo - slack - step_of_end) << where << " " << proof.lo.text();
      EXPECT_LE(o.enclosure.hi, hi + slack + step_of_end) << where << " " << proof.hi.text();
    }
    for (const double end : {round_to(format, lo), round_to(format, hi)}) {
      if (!std::isfinite(end)) continue;
      for (const double value :
           {end, step(format, end, true), step(format, end, false), step(format, step(format, end, true), true),
            step(format, step(format, end, false), false)})
        values.push_back(value);
    }
    values.push_back(round_to(format, (lo + hi) / 2));
    values.push_back(round_to(format, hi + 3 * width + 1));
  }
  for (const double value : values) {
    ++totals.values;
    Judgement judgement = judge(proof, round, value);
    if (judgement.answer == Answer::undecided) {
      const Precision precision(4096);
      judgement = judge(again(), round, value);
    }
    const Outcome outcome = judge_of.outcome(o, value);
    ASSERT_NE(judgement.answer, Answer::undecided) << where;
    const bool stands = judgement.answer == Answer::stands, outside = outcome == Outcome::outside;
    ++(stands ? totals.stands : open ? totals.open : totals.falls);
    if (stands == outside) continue;
    if (stands && std::isfinite(value)) {
      ++totals.edges;
      // Only what the oracle adds for itself: within its ends, and hardly past the proof's.
      const double past = std::max(middle(proof.lo) - value, value - middle(proof.hi));
      // An end lies half a gap from what is rounded to it, of each of two formats if there are two.
      const bool twice = round.stage != format;
      const double u = unit_roundoff(format) + (twice ? unit_roundoff(round.stage) : 0);
      const double eta = half_smallest_subnormal(format) + (twice ? half_smallest_subnormal(round.stage) : 0);
      EXPECT_LE(past, slack + 1.01 * (std::fabs(value) * u + eta)) << where << " value " << hex_float(value);
      continue;
    }
    ADD_FAILURE() << where << " value " << hex_float(value) << ": the certificate " << name(judgement.answer) << ", "
                  << judgement.why << "; the oracle " << (outside ? "rejects" : "accepts") << " "
                  << hex_float(o.enclosure.lo) << " .. " << hex_float(o.enclosure.hi) << " nonfinite "
                  << o.enclosure.nonfinite_ok << " undetermined " << o.enclosure.undetermined << " proof "
                  << proof.lo.text() << " .. " << proof.hi.text();
  }
}

void compare_problem(std::uint64_t seed, std::uint64_t n, Totals& totals) {
  const std::uint64_t key = extend(mix(seed ^ 0xce), n);
  const Contract contract = emulated::draw_contract(key);
  Problem problem = emulated::draw_problem(contract, n % 50 == 0 ? 1024 : 70, key);
  problem.rows = std::min<Index>(problem.rows, 1);
  const Inputs inputs = materialise(problem);
  LayerNormOracle of(contract, problem, inputs);
  const Rounding round = rounding_of(contract, problem.dtype);
  for (Index r = 0; r < problem.rows; ++r) {
    const Row row(contract, inputs, r);
    const Index stride = std::max<Index>(1, problem.hidden / 6);
    for (Index i = 0; i < problem.hidden; i += stride) {
      compare(
          row.element(i), [&] { return Row(contract, inputs, r).element(i); }, of.interval(r, i), of, round,
          problem.dtype, contract.policy[attest::layer_norm::Stage::statistics], totals,
          fmt::format("problem {} {} {} [{},{}]", n, to_text(problem), json_text(to_json(contract)), r, i));
      if (inputs.residual.present()) {
        EXPECT_EQ(set_of(permitted_sums(contract, inputs.x.at(r, i), inputs.residual.at(r, i))), set_of(of.sums(r, i)));
      }
    }
  }
}

TEST(LayerNormCertificate, AgreesWithTheOracle) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 1200), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Totals totals;
  for (std::uint64_t n = 0; n < problems && !testing::Test::HasFatalFailure(); ++n) {
    compare_problem(seed, n, totals);
    if (testing::Test::HasFailure() && n > 3000) break;
  }
  fmt::print("problems {} elements {} values {}: stands {} falls {} left open {} edges {}\n", problems, totals.elements,
             totals.values, totals.stands, totals.falls, totals.open, totals.edges);
  EXPECT_LT(totals.edges * 50, totals.values);
  EXPECT_GT(totals.stands, totals.values / 10);
  EXPECT_GT(totals.falls, totals.values / 10);
}

// An epsilon that statistics in f32 round, beside which the variance is nothing: half an ulp of epsilon is a quarter of
// one of a result in f64.
TEST(LayerNormCertificate, AgreesWhereEpsilonIsNearlyAll) {
  Totals totals;
  compare_problem(20267, 4780, totals);
  compare_problem(20268, 6483, totals);
  EXPECT_GT(totals.elements, 10);
}

// Sums that may grow a thousandfold by rounding alone; exact means beside a gamma near the end of the range; f64 rows
// whose sum, squares or differences are past the range of double; variances of which their errors leave a thousandth.
TEST(LayerNormCertificate, AgreesAtTheEndsOfRanges) {
  constexpr std::pair<int, int> problems[] = {
      {20268, 7400},  {20270, 7095}, {20303, 10170}, {20307, 3577}, {20310, 6940}, {20314, 7036}, {20321, 6132},
      {20325, 11445}, {20316, 5676}, {20335, 9744},  {20262, 5401}, {20292, 2698}, {20333, 7678},
  };
  Totals totals;
  for (const auto& [seed, problem] : problems)
    compare_problem(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(problem), totals);
  EXPECT_GT(totals.elements, 20);
}

TEST(LayerNormCertificate, JudgesAClaim) {
  const Contract contract = attest::layer_norm::contract_for(attest::layer_norm::policy_from_text("f32"));
  const Problem problem = attest::layer_norm::problem_from_text("rows=1 hidden=8 seed=4 residual=like_x");
  const Inputs inputs = materialise(problem);
  const double y = round_to(Format::f32, LayerNormOracle(contract, problem, inputs).interval(0, 3).enclosure.y);
  Claim claim{Claim::Tensor::out, 0, 3, y};
  EXPECT_EQ(certify(contract, problem, claim).answer, Answer::falls);
  claim.value = round_to(Format::f32, y * 1.001);
  const Certificate certificate = certify(contract, problem, claim);
  EXPECT_EQ(certificate.answer, Answer::stands);
  EXPECT_FALSE(certificate.figures.empty());
  EXPECT_LE(certificate.rounded_lo, certificate.rounded_hi);
  claim.value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(certify(contract, problem, claim).answer, Answer::stands);
  claim = {Claim::Tensor::sum_out, 0, 3, round_to(Format::f32, inputs.x.at(0, 3) + inputs.residual.at(0, 3))};
  EXPECT_EQ(certify(contract, problem, claim).answer, Answer::falls);
  claim.value += 1;
  EXPECT_EQ(certify(contract, problem, claim).answer, Answer::stands);
  claim.column = 8;
  EXPECT_THROW(certify(contract, problem, claim), Error);
  claim = {Claim::Tensor::out, 0, 3, 0.1};
  EXPECT_THROW(certify(contract, problem, claim), Error);
}

}  // namespace
}  // namespace attest::certify::layer_norm
