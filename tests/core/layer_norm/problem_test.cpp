// Problems of layer_norm: text and JSON there and back, refusals and their sentences, and tensors that depend on
// coordinates alone.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/layer_norm/inputs.hpp"
#include "core/layer_norm/values.hpp"
#include "core/rng.hpp"

namespace attest::layer_norm {
namespace {

Problem some_problem(std::uint64_t seed) {
  Problem p;
  std::uint64_t key = mix(seed);
  const auto next = [&](std::uint64_t n) {
    key = mix(key);
    return static_cast<Index>(below(key, n));
  };
  for (const Field& field : fields())
    if (field.kind == FieldKind::label || field.kind == FieldKind::flag)
      field.set(p, next(static_cast<std::uint64_t>(field.hi) + 1));
  p.rows = next(6);
  p.hidden = 1 + next(70);
  if (p.dtype == Format::tf32) p.dtype = Format::f32;
  if (p.out_layout == Layout::broadcast) p.out_layout = Layout::transposed;
  if (p.residual == Residual::none) p.sum_out = false;
  constexpr double epsilons[] = {0, 1e-12, 1e-5, 1};
  p.epsilon = epsilons[next(4)];
  p.amplitude = std::ldexp(1.0, static_cast<int>(next(9)) - 4);
  p.offset = next(2) ? std::pow(10.0, static_cast<double>(next(7))) : 0;
  p.seed = mix(key);
  p.rows0 = next(3);
  p.hidden0 = next(3);
  p.judged = next(3);
  if (p.rows > 0 && next(2)) p.edits.push_back({Edit::Tensor::x, p.rows - 1, p.hidden - 1, -0x1.8p-3});
  return p;
}

std::string refusal(const std::string& text) {
  try {
    problem_from_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "";
}

TEST(LayerNormProblem, TextAndJsonGiveItBack) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Problem problem = some_problem(seed);
    EXPECT_EQ(problem_from_text(to_text(problem)), problem) << to_text(problem);
    EXPECT_EQ(problem_from_json(to_json(problem)), problem) << to_text(problem);
  }
}

TEST(LayerNormProblem, DefaultsAreLeftOut) {
  EXPECT_EQ(to_text(Problem{}), "op=layer_norm rows=1 hidden=1 dtype=f32 values=normal seed=0");
}

TEST(LayerNormProblem, RefusalsNameTheThing) {
  EXPECT_EQ(refusal("hidden=0"), "problem: hidden=0 must be an integer in 1..65536");
  EXPECT_EQ(refusal("norm=batch"), "problem: norm=batch must be one of layer, rms");
  EXPECT_EQ(refusal("heads=2").substr(0, 54), "problem: layer_norm has no field 'heads': it has rows,");
  EXPECT_EQ(refusal("op=attention"), "problem: op=attention is another operation: here it must be layer_norm");
  EXPECT_EQ(refusal("rows=1 rows=2"), "problem: rows is given twice");
  EXPECT_EQ(refusal("sum_out=1"), "problem: sum_out is x + residual: without a residual leave it out");
  EXPECT_EQ(refusal("epsilon=-1"), "problem: epsilon -1 must be a number of at least 0");
  EXPECT_EQ(refusal("out_layout=broadcast"), "problem: out_layout broadcast would let all rows write one: use another");
  EXPECT_EQ(refusal("rows=1048576 hidden=65536"),
            "problem: 1048576 rows of 65536 elements are more than 2^30 elements");
  EXPECT_EQ(refusal("gamma=none edits=gamma[0,0]:0x1p+0"),
            "problem: edit gamma[0,0]:0x1p+0 is of a tensor that is not there");
  EXPECT_EQ(refusal("hidden=4 edits=x[0,4]:0x1p+0"), "problem: edit x[0,4]:0x1p+0 lies outside its tensor");
  EXPECT_EQ(refusal("edits=x[0]:1"),
            "edit 'x[0]:1' is not TENSOR[row,column]:VALUE with TENSOR one of x, residual, gamma, beta");
  EXPECT_NE(refusal("epsilon=nan"), "");
}

TEST(LayerNormInputs, ASliceHoldsTheNumbersOfTheWhole) {
  for (Index kind = 0; kind < static_cast<Index>(values_count); ++kind) {
    Problem whole;
    whole.rows = 5, whole.hidden = 40, whole.seed = 7, whole.offset = 3;
    whole.values = static_cast<Values>(kind);
    whole.residual = Residual::like_x;
    whole.gamma = Weights::wide, whole.beta = Weights::sparse;
    Problem part = whole;
    part.rows = 2, part.hidden = 9, part.rows0 = 3, part.hidden0 = 21;
    const Inputs all = materialise(whole), some = materialise(part);
    for (Index i = 0; i < part.hidden; ++i) {
      for (Index r = 0; r < part.rows; ++r) {
        EXPECT_EQ(some.x.at(r, i), all.x.at(r + 3, i + 21));
        EXPECT_EQ(some.residual.at(r, i), all.residual.at(r + 3, i + 21));
      }
      EXPECT_EQ(some.gamma.at(i), all.gamma.at(i + 21));
      EXPECT_EQ(some.beta.at(i), all.beta.at(i + 21));
    }
  }
}

TEST(LayerNormInputs, ValuesAreFiniteInEveryFormatAndLayout) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Problem problem = some_problem(seed);
    if (problem.x_layout == Layout::far || problem.residual_layout == Layout::far) continue;  // reserves gigabytes
    const Inputs inputs = materialise(problem);
    ASSERT_EQ(inputs.residual.present(), problem.residual != Residual::none);
    ASSERT_EQ(inputs.gamma.present(), problem.gamma != Weights::none);
    for (Index r = 0; r < problem.rows; ++r)
      for (Index i = 0; i < problem.hidden; ++i) {
        EXPECT_TRUE(std::isfinite(inputs.x.at(r, i))) << to_text(problem);
        if (inputs.residual.present()) {
          EXPECT_TRUE(std::isfinite(inputs.residual.at(r, i))) << to_text(problem);
        }
      }
    const Tensor out = make_out(problem);
    EXPECT_EQ(out.damage(), Tensor::Damage::none);
  }
}

// The regimes say what they are: each is held to its own words.
TEST(LayerNormInputs, RegimesAreWhatTheySay) {
  Problem p;
  p.rows = 64, p.hidden = 512, p.dtype = Format::f32;
  const auto row_of = [&](Values values, Index r) {
    p.values = values;
    std::vector<double> row(512);
    draw_row(p, Edit::Tensor::x, r, row);
    return row;
  };
  const auto count = [](const std::vector<double>& row, auto&& holds) { return std::ranges::count_if(row, holds); };
  Index hot_rows = 0;
  for (Index r = 0; r < p.rows; ++r) {
    const auto hot = row_of(Values::one_hot, r);
    const auto ones = count(hot, [](double x) { return x == 1; });
    EXPECT_LE(ones, 1);
    EXPECT_EQ(count(hot, [](double x) { return x == 0; }), 512 - ones);
    hot_rows += ones;
    const auto constant = row_of(Values::row_constant, r);
    EXPECT_EQ(count(constant, [&](double x) { return x == constant[0]; }), 512);
    EXPECT_EQ(count(row_of(Values::tiny, r), [](double x) { return std::fabs(x) < 0x1p-126; }), 512);
  }
  EXPECT_GE(hot_rows, 48);
  p.offset = 1e6;
  double sum = 0, squares = 0;
  for (const double x : row_of(Values::normal, 0)) sum += x, squares += (x - 1e6) * (x - 1e6);
  EXPECT_NEAR(sum / 512, 1e6, 0.5);
  EXPECT_NEAR(squares / 512, 1, 0.3);
}

}  // namespace
}  // namespace attest::layer_norm
