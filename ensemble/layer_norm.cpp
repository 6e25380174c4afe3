#include "ensemble/layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/members.hpp"
#include "kernels/layer_norm/registry.hpp"

namespace attest::ensemble::layer_norm {
namespace {

namespace em = emulator::layer_norm;
using attest::layer_norm::Norm;
using attest::layer_norm::Stage;
using attest::layer_norm::SumOf;
using attest::layer_norm::Values;

constexpr Index most_elements = Index{1} << 13;  // elements of a sample
constexpr Index most_of_a_row = Index{1} << 17;  // elements of the one row that a sample has at least
constexpr std::uint64_t member_stream = 0x6C6E656E;

std::vector<double> numbers(const Tensor& tensor, Index row, Index hidden) {
  std::vector<double> all;
  for (Index i = 0; tensor.present() && i < hidden; ++i)
    all.push_back(tensor.shape().size() > 1 ? tensor.at(row, i) : tensor.at(i));
  return all;
}

std::vector<double> read_rows(const Tensor& out, const std::vector<Index>& rows) {
  std::vector<double> all;
  for (const Index row : rows)
    for (Index i = 0; i < out.shape()[1]; ++i) all.push_back(out.at(row, i));
  return all;
}

// Results of the built-in explicit kernel, for problems that are small as a whole; else none.
std::vector<double> native_rows(const Problem& problem, const Contract& contract, const Inputs& inputs,
                                const std::vector<Index>& rows) {
  if (problem.elements() > most_elements) return {};
  Problem plain = problem;
  plain.out_layout = attest::layer_norm::Layout::contiguous;
  plain.sum_out = false;
  const Tensor out = make_out(plain), none;
  attest_layer_norm call = inputs.call(out, none);
  call.threads = 1;
  kernels::layer_norm::find_kernel(kernels::layer_norm::builtin_kernels(), "explicit")->run(call, contract);
  return read_rows(out, rows);
}

// True if another seed gives other values; these distributions are the same, but for a place.
bool drawn_again(const Problem& p) {
  return p.edits.empty() && p.values != Values::constant && p.values != Values::alternating &&
         p.values != Values::ramp && p.values != Values::one_hot;
}

}  // namespace

std::optional<std::string_view> refusal(const Problem& problem, const Contract& contract) {
  if (contract.arithmetic.order_by_values) return "sums in an order that looks at the numbers";
  if (!drawn_again(problem)) return "its values cannot be drawn again";
  if (problem.elements() == 0) return "no output elements";
  if (problem.hidden > most_of_a_row) return "a row of more than 2^17 elements";
  return std::nullopt;
}

std::vector<Index> sampled_rows(const Problem& problem) {
  const std::vector<Index> judged = judged_rows(problem);
  const Index all = static_cast<Index>(judged.size());
  const Index most = std::clamp<Index>(most_elements / std::max<Index>(1, problem.hidden), 1, std::max<Index>(all, 1));
  std::vector<Index> rows;
  for (Index n = 0; n < std::min(most, all); ++n) rows.push_back(judged[static_cast<std::size_t>(n * all / most)]);
  return rows;
}

std::vector<long double> exact_rows(const Inputs& in, const Contract& contract, const std::vector<Index>& rows) {
  const Index hidden = in.x.shape()[1];
  const auto n = static_cast<std::size_t>(hidden);
  const std::vector<double> gamma = numbers(in.gamma, 0, hidden), beta = numbers(in.beta, 0, hidden);
  std::vector<long double> out, x(n);
  for (const Index row : rows) {
    const std::vector<double> first = numbers(in.x, row, hidden), residual = numbers(in.residual, row, hidden);
    long double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = first[i];
      if (!residual.empty()) {
        x[i] += residual[i];
        if (contract.arithmetic.sum_of == SumOf::rounded)
          x[i] = round_to(contract.policy[Stage::storage],
                          round_to(contract.policy[Stage::sum], static_cast<double>(x[i])));
      }
      mean += x[i];
    }
    mean = in.norm == Norm::rms ? 0 : mean / static_cast<long double>(n);
    for (const long double v : x) variance += (v - mean) * (v - mean);
    const long double root = std::sqrt(variance / static_cast<long double>(n) + static_cast<long double>(in.epsilon));
    for (std::size_t i = 0; i < n; ++i) {
      long double y = (x[i] - mean) / root;
      if (!gamma.empty()) y *= static_cast<long double>(contract.gamma_offset) + gamma[i];
      if (!beta.empty()) y += beta[i];
      out.push_back(y);
    }
  }
  return out;
}

Sample sample(const Problem& problem, const Contract& contract, const Inputs& inputs, const Tensor& out) {
  const auto rows = std::make_shared<const std::vector<Index>>(sampled_rows(problem));
  Sample sample;
  sample.format = contract.policy[Stage::output];
  sample.exact = exact_rows(inputs, contract, *rows);
  sample.got = read_rows(out, *rows);
  for (const Index row : *rows)
    for (Index i = 0; i < problem.hidden; ++i) sample.places.push_back({row, i, 0, 0});
  const std::uint64_t seed = extend(mix(problem.seed), member_stream);
  const auto scheme = [&problem, &contract, seed](int n) {
    return em::member_scheme(contract, problem.hidden, problem.norm == Norm::rms, seed, n);
  };
  sample.native = [&problem, &contract, &inputs, rows] { return native_rows(problem, contract, inputs, *rows); };
  sample.member = [&contract, &inputs, rows, scheme](int n) {
    return em::run_rows(inputs, contract, scheme(n), *rows);
  };
  sample.scheme = [scheme](int n) { return em::in_words(scheme(n)); };
  return sample;
}

}  // namespace attest::ensemble::layer_norm
