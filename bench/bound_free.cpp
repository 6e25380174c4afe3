// Measures the cost of attest's problems without any bound: draw, run the explicit kernel in float32 and in float64,
// compare once.
//
//   bound_free CASES [LEAST_W MOST_W]    the first CASES problems of seed 1 with W in [LEAST_W, MOST_W)
//
// Prints one JSON object: problems, seconds (of processor time), mean_w (multiply-adds a problem) and how many left the
// tolerance. The problems are those of `attest check builtin:explicit --policy f32 --seed 1 --cases CASES`, with
// --assume if a range of W is given.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "core/inputs.hpp"
#include "core/policy.hpp"
#include "generators/draw.hpp"
#include "kernels/explicit/explicit.hpp"

namespace attest {
namespace {

// Calls visit(row, n, step) for every innermost row of a float tensor: n elements `step` apart.
template <class Real, class Visit>
void each_row(const Tensor& tensor, Visit&& visit) {
  const attest_tensor view = tensor.view();
  Real* const data = static_cast<Real*>(view.data) + view.byte_offset / sizeof(Real);
  for (Index b = 0; b < view.shape[0]; ++b)
    for (Index h = 0; h < view.shape[1]; ++h)
      for (Index i = 0; i < view.shape[2]; ++i)
        visit(data + b * view.strides[0] + h * view.strides[1] + i * view.strides[2], view.shape[3], view.strides[3]);
}

Tensor doubled(const Tensor& tensor) {
  Tensor wide(DType::f64, tensor.shape());
  auto* to = static_cast<double*>(wide.view().data);
  each_row<float>(tensor, [&](const float* row, Index n, Index step) {
    for (Index j = 0; j < n; ++j) *to++ = row[j * step];
  });
  return wide;
}

// Tells whether every element agrees within the tolerance that people write into tests of attention.
bool close(const Tensor& out, const Tensor& expected) {
  bool all = true;
  const auto* want = static_cast<const double*>(expected.view().data);
  each_row<float>(out, [&](const float* row, Index n, Index step) {
    for (Index j = 0; j < n; ++j, ++want) all &= std::abs(row[j * step] - *want) <= 1e-3 + 1e-3 * std::abs(*want);
  });
  return all;
}

bool run_once(const Problem& problem, const Contract& narrow, const Contract& wide) {
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem);
  kernels::explicit_attention(inputs.call(out, {}), narrow);

  Inputs doubles = inputs.clone();
  doubles.q = doubled(inputs.q);
  doubles.k = doubled(inputs.k);
  doubles.v = doubled(inputs.v);
  Tensor expected(DType::f64, out.shape());
  kernels::explicit_attention(doubles.call(expected, {}), wide);
  return close(out, expected);
}

int main_of(int count, char** arguments) {
  if (count != 2 && count != 4) {
    std::fprintf(stderr, "usage: bound_free CASES [LEAST_W MOST_W]\n");
    return 2;
  }
  const auto cases = std::strtoull(arguments[1], nullptr, 10);
  Domain domain(Supports{}, {Format::f32});
  if (count == 4) {
    const Index least = std::atoll(arguments[2]), most = std::atoll(arguments[3]);
    domain.assume([=](const Problem& p) { return p.multiply_adds() >= least && p.multiply_adds() < most; });
  }
  const Contract narrow = kernels::explicit_contract(Policy(Format::f32));
  const Contract wide = kernels::explicit_contract(Policy(Format::f64));

  double work = 0;
  unsigned long long apart = 0;
  const std::clock_t start = std::clock();
  for (std::uint64_t i = 0; i < cases; ++i) {
    const Problem problem = draw_problem(domain, 1, i, 1);
    work += static_cast<double>(problem.multiply_adds());
    if (!run_once(problem, narrow, wide)) ++apart;
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("{\"problems\": %llu, \"seconds\": %.6f, \"mean_w\": %.1f, \"apart\": %llu}\n",
              static_cast<unsigned long long>(cases), seconds, work / static_cast<double>(cases), apart);
  return 0;
}

}  // namespace
}  // namespace attest

int main(int count, char** arguments) { return attest::main_of(count, arguments); }
