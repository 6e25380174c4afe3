// The kernels of layer_norm: near the plain formula where nothing is hard, the same bits at any number of threads and
// in any layout, exact where arithmetic is; faults differ from their parents.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "core/layer_norm/inputs.hpp"
#include "kernels/layer_norm/emulated/emulator.hpp"
#include "kernels/layer_norm/registry.hpp"

namespace attest::kernels::layer_norm {
namespace {

using attest::layer_norm::Inputs;
using attest::layer_norm::Layout;
using attest::layer_norm::make_out;
using attest::layer_norm::make_sum_out;
using attest::layer_norm::Policy;
using attest::layer_norm::policy_from_text;
using attest::layer_norm::Problem;
using attest::layer_norm::problem_from_text;
using attest::layer_norm::Stage;

Tensor run(const KernelEntry& kernel, const Problem& problem, const Policy& policy) {
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem);
  const Tensor sum = make_sum_out(problem);
  kernel.run(inputs.call(out, sum), kernel.contract(policy));
  EXPECT_EQ(out.damage(), Tensor::Damage::none);
  return out;
}

std::vector<double> plain(const Problem& problem, Index row) {
  const Inputs in = materialise(problem);
  const auto n = static_cast<std::size_t>(problem.hidden);
  std::vector<double> x(n);
  double mean = 0, variance = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<Index>(i);
    x[i] = in.x.at(row, at);
    if (in.residual.present()) x[i] = round_to(problem.dtype, x[i] + in.residual.at(row, at));
    mean += x[i] / static_cast<double>(n);
  }
  if (problem.norm == attest::layer_norm::Norm::rms) mean = 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<Index>(i);
    x[i] = (x[i] - mean) / std::sqrt(variance + problem.epsilon) * (in.gamma.present() ? in.gamma.at(at) : 1) +
           (in.beta.present() ? in.beta.at(at) : 0);
  }
  return x;
}

constexpr const char* policies[] = {"f32",           "f64", "f16", "bf16", "f16-all", "bf16-all", "f32,statistics=f64",
                                    "f16,affine=f16"};

TEST(LayerNormKernels, AreNearThePlainFormula) {
  for (const char* text : policies) {
    const Policy policy = policy_from_text(text);
    for (const char* norm : {"layer", "rms"})
      for (const Index hidden : {1, 2, 3, 17, 64, 257}) {
        Problem p = problem_from_text(std::string("rows=3 seed=5 residual=like_x norm=") + norm);
        p.hidden = hidden, p.dtype = policy[Stage::storage], p.epsilon = 1e-3;
        double u = 0;
        for (std::size_t s = 0; s < attest::layer_norm::stage_count; ++s)
          u = std::max(u, unit_roundoff(policy[static_cast<Stage>(s)]));
        for (const KernelEntry& kernel : builtin_kernels()) {
          const Tensor out = run(kernel, p, policy);
          for (Index r = 0; r < p.rows; ++r) {
            const auto expected = plain(p, r);
            for (Index i = 0; i < hidden; ++i)
              EXPECT_NEAR(out.at(r, i), expected[static_cast<std::size_t>(i)], 400 * u)
                  << kernel.name << " " << text << " " << to_text(p);
          }
        }
      }
  }
}

TEST(LayerNormKernels, ThreadsAndLayoutsChangeNoBit) {
  Problem p = problem_from_text("rows=300 hidden=321 seed=9 residual=like_x dtype=f32 gamma=normal beta=normal");
  for (const KernelEntry& kernel : builtin_kernels()) {
    p.threads = 1, p.x_layout = p.out_layout = p.residual_layout = p.param_layout = Layout::contiguous;
    const Tensor first = run(kernel, p, Policy(Format::f32));
    for (const Layout layout :
         {Layout::padded_rows, Layout::odd_base, Layout::spaced, Layout::transposed, Layout::slice}) {
      p.threads = 3, p.x_layout = p.out_layout = p.residual_layout = p.param_layout = layout;
      const Tensor other = run(kernel, p, Policy(Format::f32));
      Index different = 0;
      for (Index r = 0; r < p.rows; ++r)
        for (Index i = 0; i < p.hidden; ++i) different += first.at(r, i) != other.at(r, i);
      EXPECT_EQ(different, 0) << kernel.name;
    }
  }
}

TEST(LayerNormKernels, RefuseAnotherStorage) {
  const Problem p = problem_from_text("rows=1 hidden=4 dtype=f16");
  for (const KernelEntry& kernel : builtin_kernels()) EXPECT_THROW(run(kernel, p, Policy(Format::f32)), Error);
}

TEST(LayerNormKernels, SumOutIsTheStoredSum) {
  const Problem p = problem_from_text("rows=2 hidden=9 dtype=bf16 residual=cancelling sum_out=1 seed=3");
  const Inputs in = materialise(p);
  for (const KernelEntry& kernel : builtin_kernels()) {
    Tensor out = make_out(p), sum = make_sum_out(p);
    kernel.run(in.call(out, sum), kernel.contract(policy_from_text("bf16")));
    for (Index r = 0; r < 2; ++r)
      for (Index i = 0; i < 9; ++i)
        EXPECT_EQ(sum.at(r, i), round_to(Format::bf16, in.x.at(r, i) + in.residual.at(r, i)));
  }
}

TEST(LayerNormFaults, DifferFromTheirParentsWhereTheyAreWrong) {
  const std::pair<const char*, const char*> triggers[] = {
      {"ln-variance-cancel", "rows=1 hidden=64 values=alternating offset=16384"},
      {"ln-f16-square", "rows=1 hidden=64 values=normal amplitude=1000"},
      {"ln-bf16-reduce", "rows=1 hidden=64 values=ramp"},
      {"ln-eps-outside", "rows=1 hidden=64 amplitude=0x1p-8"},
      {"ln-tail", "rows=1 hidden=63 values=ramp"},
      {"ln-policy-ignored", "rows=1 hidden=64 values=outlier amplitude=64"},
      {"ln-count-less-one", "rows=1 hidden=8"},
      {"ln-count-padded", "rows=1 hidden=9 offset=4"},
      {"ln-mean-bf16", "rows=1 hidden=64 offset=100"},
      {"ln-rsqrt-poor", "rows=1 hidden=64"},
      {"ln-batch-path", "rows=2 hidden=64 values=ramp"},
      {"ln-mean-kept", "rows=1 hidden=64 offset=1"},
      {"ln-rms-centred", "rows=1 hidden=64 offset=1 norm=rms"},
      {"ln-eps-default", "rows=1 hidden=64 epsilon=0.125"},
      {"ln-strides-ignored", "rows=2 hidden=64 x_layout=padded_rows"},
      {"ln-gamma-offset", "rows=1 hidden=64 gamma=near"},
      {"ln-beta-first", "rows=1 hidden=64 gamma=normal beta=normal"},
      {"ln-norm-rounded", "rows=1 hidden=64 gamma=normal dtype=f16"},
      {"ln-residual-first-row", "rows=2 hidden=64 residual=like_x"},
      {"ln-residual-twice", "rows=1 hidden=64 residual=like_x"},
      {"ln-residual-after", "rows=1 hidden=64 residual=like_x"},
      {"ln-sum-unrounded", "rows=1 hidden=64 residual=like_x dtype=f16"},
  };
  ASSERT_EQ(std::size(triggers), fault_kernels().size());
  for (const auto& [name, text] : triggers) {
    const KernelEntry* const fault = find_kernel(fault_kernels(), name);
    ASSERT_NE(fault, nullptr) << name;
    const KernelEntry* const parent = find_kernel(builtin_kernels(), fault->parent);
    ASSERT_NE(parent, nullptr) << name;
    const Problem p = problem_from_text(text);
    const Policy policy = attest::layer_norm::policy_for(p.dtype);
    const Tensor right = run(*parent, p, policy), wrong = run(*fault, p, policy);
    double most = 0;
    for (Index r = 0; r < p.rows; ++r)
      for (Index i = 0; i < p.hidden; ++i)
        most = std::max(most, std::isfinite(wrong.at(r, i)) ? std::fabs(wrong.at(r, i) - right.at(r, i)) : 1e9);
    EXPECT_GT(most, 1e-4) << name;
  }
}

// A scheme keeps the depth that its contract promises, or there is none that does.
TEST(LayerNormEmulator, KeepsThePromisedDepth) {
  using attest::emulator::layer_norm::additions_of, attest::emulator::layer_norm::draw_scheme;
  for (const char* text : {"one by one", "lanes", "pairwise", "forty"}) {
    auto contract = attest::layer_norm::contract_for(Policy(Format::f32));
    if (text[0] == 'l') contract.arithmetic.depth = attest::layer_norm::Lanes{8, 1};
    if (text[0] == 'p') contract.arithmetic.depth = attest::layer_norm::Pairwise{4};
    if (text[0] == 'f') contract.arithmetic.depth = Index{40};
    for (const Index n : {1, 2, 7, 64, 1000})
      for (std::uint64_t seed = 0; seed < 50; ++seed)
        EXPECT_LE(additions_of(draw_scheme(contract, n, false, seed), n), contract.arithmetic.additions(n))
            << text << n;
  }
}

}  // namespace
}  // namespace attest::kernels::layer_norm
