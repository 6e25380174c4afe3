// Inputs that are known as intervals (bounds.md, section 3, with ends of its own for every input): every result of a
// kernel on any numbers inside stays inside, and a bound that takes the centres for the inputs does not hold it.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/trial.hpp"

namespace attest {
namespace {

using emulator::draw_variant;
using emulator::Variant;
using oracle::AttentionOracle;
using oracle::Radii;

double step_of(Format format, double x) {
  const double magnitude = std::max(std::fabs(x), smallest_normal(format));
  return std::ldexp(1.0, std::ilogb(magnitude) - precision(format) + 1);
}

template <class Visit>
void every_element(const Tensor& tensor, const Visit& visit) {
  const auto shape = tensor.shape();
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i)
        for (Index c = 0; c < shape[3]; ++c) visit(b, h, i, c);
}

// Both ends of a tensor's elements are numbers of its type, so that a kernel may be given them.
struct Intervals {
  Tensor centre, radius;

  Intervals(const Tensor& from, Format format, std::uint64_t seed, double most_steps, double share)
      : centre(DType::f64, from.shape()), radius(DType::f64, from.shape()) {
    every_element(from, [&](Index b, Index h, Index i, Index c) {
      const double lo = from.at(b, h, i, c);
      double hi = lo;
      const std::uint64_t bits = seed = mix(seed);
      if (static_cast<double>(bits >> 11) * 0x1p-53 < share) {
        const double steps = 1 + std::floor(most_steps * static_cast<double>(mix(bits) >> 11) * 0x1p-53);
        hi = round_to(format, lo + steps * step_of(format, lo));
      }
      if (!std::isfinite(hi)) hi = lo;
      centre.set(b, h, i, c, 0.5 * (lo + hi));
      radius.set(b, h, i, c, 0.5 * (hi - lo));
    });
  }
  void to_end(Tensor& tensor, Index b, Index h, Index i, Index c, double sign) const {
    tensor.set(b, h, i, c, centre.at(b, h, i, c) + (sign > 0 ? 1 : -1) * radius.at(b, h, i, c));
  }
};

struct Box {
  Problem problem;
  Inputs drawn;  // every input at its lower end
  Intervals q, k, v;
  Inputs centres;
  Radii radii;

  Box(const Problem& the_problem, std::uint64_t seed, double most_steps, double share)
      : problem(the_problem),
        drawn(materialise(problem)),
        q(drawn.q, problem.dtype, mix(seed + 1), most_steps, share),
        k(drawn.k, problem.dtype, mix(seed + 2), most_steps, share),
        v(drawn.v, problem.dtype, mix(seed + 3), most_steps, share),
        centres(drawn.clone()),
        radii{q.radius.clone(), k.radius.clone(), v.radius.clone()} {
    centres.q = q.centre.clone();
    centres.k = k.centre.clone();
    centres.v = v.centre.clone();
  }
};

Problem interval_problem(Format dtype, std::uint64_t seed) {
  Problem p = testing::draw_problem(dtype, seed, 24);
  p.q_layout = p.k_layout = p.v_layout = Layout::bhsd;  // stride 0 would give elements one interval
  return p;
}

TEST(Radii, OfZeroChangeNoBit) {
  int compared = 0;
  for (const char* policy : {"f32", "f16", "bf16", "f16-scores16", "f64"})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const Contract contract = contract_for(policy_from_text(policy));
      const Box box(interval_problem(contract.policy[Stage::storage], seed), seed, 0, 0);
      AttentionOracle points(contract, box.problem, box.drawn);
      AttentionOracle intervals(contract, box.problem, box.centres, box.radii);
      const Tensor out = make_out(box.problem);
      every_element(out, [&](Index b, Index h, Index i, Index c) {
        const oracle::Enclosure one = points.out_enclosure(b, h, i, c), other = intervals.out_enclosure(b, h, i, c);
        if (std::isnan(one.y)) return;
        EXPECT_EQ(one.y, other.y);
        EXPECT_EQ(one.lo, other.lo);
        EXPECT_EQ(one.hi, other.hi);
        EXPECT_EQ(one.nonfinite_ok, other.nonfinite_ok);
        EXPECT_EQ(one.undetermined, other.undetermined);
        ++compared;
      });
    }
  EXPECT_GT(compared, 5000);
}

TEST(Radii, NeverNarrowAnEnclosure) {
  for (const char* policy : {"f32", "f16", "bf16-all"})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const Contract contract = contract_for(policy_from_text(policy));
      const Box box(interval_problem(contract.policy[Stage::storage], seed), seed, 8, 0.5);
      AttentionOracle points(contract, box.problem, box.centres);
      AttentionOracle intervals(contract, box.problem, box.centres, box.radii);
      every_element(make_out(box.problem), [&](Index b, Index h, Index i, Index c) {
        const oracle::Enclosure one = points.out_enclosure(b, h, i, c), other = intervals.out_enclosure(b, h, i, c);
        if (one.undetermined || other.undetermined || !std::isfinite(one.y)) return;
        const double own = 1e-14 * (std::fabs(one.lo) + std::fabs(one.hi));  // iterations that stop at another step
        EXPECT_LE(other.lo, one.lo + own);
        EXPECT_GE(other.hi, one.hi - own);
      });
    }
}

// Over the whole domain: masks, biases, softcap, grouped heads. Inputs lie at ends of their intervals, drawn.
TEST(Radii, HoldWhatAKernelMakesOfNumbersInside) {
  Index elements = 0, lse_elements = 0, beyond_points = 0;
  for (const char* policy : {"f32", "f16", "bf16", "f16-scores16", "f16-acc16", "f64"})
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
      const Contract contract = contract_for(policy_from_text(policy));
      const double steps = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 16 : 200;
      const Box box(interval_problem(contract.policy[Stage::storage], seed), seed, steps, 0.7);
      Inputs inside = box.drawn.clone();
      std::uint64_t key = mix(seed);
      const auto either = [&] { return ((key = mix(key)) & 1) != 0 ? 1.0 : -1.0; };
      for (const auto& [tensor, intervals] :
           {std::pair{&inside.q, &box.q}, std::pair{&inside.k, &box.k}, std::pair{&inside.v, &box.v}})
        every_element(*tensor, [&, t = tensor, of = intervals](Index b, Index h, Index i, Index c) {
          of->to_end(*t, b, h, i, c, either());
        });
      Tensor out = make_out(box.problem), lse = make_lse(box.problem);
      emulator::run(inside, contract, draw_variant(contract, box.problem, seed), out, lse);
      const Verdict verdict = AttentionOracle(contract, box.problem, box.centres, box.radii).judge(out, lse);
      ASSERT_NE(verdict.kind, VerdictKind::fail)
          << policy << ' ' << seed << ' ' << to_text(box.problem) << " got " << verdict.evidence->got << " in ["
          << verdict.evidence->lo << ", " << verdict.evidence->hi << "] " << verdict.evidence->tensor;
      elements += verdict.counts.judged;
      lse_elements += lse.present() ? 1 : 0;
      beyond_points += AttentionOracle(contract, box.problem, box.centres).judge(out, lse).kind == VerdictKind::fail;
    }
  EXPECT_GT(elements, 60000);
  EXPECT_GT(lse_elements, 100);
  EXPECT_GT(beyond_points, 200) << "without radii such kernels must be blamed";
}

// One output of plain attention, pushed up or down by every input at once.
TEST(Radii, HoldTheCornerThatPushesAnOutputFurthest) {
  Index judged = 0, beyond_points = 0;
  double largest = 0;
  for (const char* policy : {"f32", "f16", "bf16", "f16-scores16", "f16-acc16"})
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      const Contract contract = contract_for(policy_from_text(policy));
      const Format dtype = contract.policy[Stage::storage];
      Problem p;
      p.dtype = dtype;
      p.seed = seed;
      p.lk = 1 + static_cast<Index>(below(mix(seed), 12));
      p.d = Index{1} << below(mix(seed + 7), 5);
      const double most =
          std::ldexp(1.0, static_cast<int>(below(mix(seed + 9), static_cast<std::uint64_t>(precision(dtype) - 1))));
      const Box box(p, seed, most, 0.8);
      const double sign = seed % 2 == 0 ? 1 : -1, scale = p.effective_scale();
      Inputs inside = box.drawn.clone();
      std::vector<double> weight(static_cast<std::size_t>(p.lk));
      double sum = 0, y = 0;
      for (Index j = 0; j < p.lk; ++j) {
        double s = 0;
        for (Index c = 0; c < p.d; ++c) s += box.q.centre.at(0, 0, 0, c) * box.k.centre.at(0, 0, j, c);
        sum += weight[static_cast<std::size_t>(j)] = std::exp(s * scale);
        box.v.to_end(inside.v, 0, 0, j, 0, sign);
        y += weight[static_cast<std::size_t>(j)] * inside.v.at(0, 0, j, 0);
      }
      y /= sum;
      for (Index c = 0; c < p.d; ++c) {
        double slope = 0;
        for (Index j = 0; j < p.lk; ++j)
          slope += weight[static_cast<std::size_t>(j)] * box.k.centre.at(0, 0, j, c) * (inside.v.at(0, 0, j, 0) - y);
        box.q.to_end(inside.q, 0, 0, 0, c, slope * sign * scale);
        for (Index j = 0; j < p.lk; ++j)
          box.k.to_end(inside.k, 0, 0, j, c, inside.q.at(0, 0, 0, c) * scale * (inside.v.at(0, 0, j, 0) - y) * sign);
      }
      Tensor out = make_out(p), lse;
      emulator::run(inside, contract, draw_variant(contract, p, seed), out, lse);
      AttentionOracle oracle(contract, p, box.centres, box.radii);
      const Verdict verdict = oracle.judge(out, lse);
      ASSERT_NE(verdict.kind, VerdictKind::fail) << policy << ' ' << to_text(p);
      const oracle::Enclosure e = oracle.out_enclosure(0, 0, 0, 0);
      if (e.undetermined) continue;
      ++judged;
      const double got = out.at(0, 0, 0, 0);
      if (most >= 16) largest = std::max(largest, std::fabs(got - e.y) / (got > e.y ? e.hi - e.y : e.y - e.lo));
      beyond_points += AttentionOracle(contract, p, box.centres).judge(out, lse).kind == VerdictKind::fail;
    }
  EXPECT_GT(judged, 1500);
  EXPECT_GT(beyond_points, 500);
  EXPECT_GT(largest, 0.9) << "the box is no wider than its corners";
}

// A radius without end: the element may be anything, a NaN too, and so may what it reaches.
TEST(Radii, WithoutEndJudgeNothingThatTheyReach) {
  Problem p;
  p.lk = 3;
  p.lq = 2;
  p.d = p.dv = 2;
  const Contract contract = contract_for(policy_from_text("f32"));
  const auto undetermined = [&](const std::function<void(Box&)>& change, Index i, Index c) {
    Box box(p, 1, 4, 1);
    change(box);
    const oracle::Enclosure e = AttentionOracle(contract, p, box.centres, box.radii).out_enclosure(0, 0, i, c);
    EXPECT_EQ(e.undetermined, e.nonfinite_ok);
    return e.undetermined;
  };
  const auto unknown_q = [](Box& box) { box.radii.q.set(0, 0, 1, 0, testing::infinity); };
  EXPECT_TRUE(undetermined(unknown_q, 1, 0));
  EXPECT_FALSE(undetermined(unknown_q, 0, 0));
  EXPECT_TRUE(undetermined([](Box& box) { box.radii.k.set(0, 0, 2, 1, testing::infinity); }, 0, 0));
  const auto unknown_v = [](Box& box) { box.radii.v.set(0, 0, 2, 1, testing::infinity); };
  EXPECT_TRUE(undetermined(unknown_v, 0, 1));
  EXPECT_FALSE(undetermined(unknown_v, 0, 0));
}

}  // namespace
}  // namespace attest
