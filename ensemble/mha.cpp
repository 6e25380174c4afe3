#include "ensemble/mha.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/rng.hpp"
#include "kernels/emulated/members.hpp"
#include "kernels/mha/emulated.hpp"

namespace attest::ensemble::mha {
namespace {

using attest::mha::Weights;
using Matrix = std::vector<long double>;

constexpr Index most_work = Index{1} << 18;  // multiply-adds of a block
constexpr std::uint64_t member_stream = 0x6D686165;

bool present(const attest_tensor& tensor) { return attest_present(&tensor); }

// x[b] w^T + bias, [tokens, width].
Matrix projected(const attest_tensor& x, Index b, Index tokens, const attest_tensor& w, const attest_tensor& bias,
                 Index width) {
  const Index e = w.shape[1];
  std::vector<double> weights, row(static_cast<std::size_t>(e));
  for (Index o = 0; o < width; ++o)
    for (Index i = 0; i < e; ++i) weights.push_back(load(w, o, i));
  Matrix result;
  for (Index t = 0; t < tokens; ++t) {
    for (Index i = 0; i < e; ++i) row[static_cast<std::size_t>(i)] = load(x, b, t, i);
    for (Index o = 0; o < width; ++o) {
      long double sum = present(bias) ? load(bias, o) : 0;
      for (std::size_t i = 0; i < row.size(); ++i)
        sum += static_cast<long double>(row[i]) * weights[static_cast<std::size_t>(o) * row.size() + i];
      result.push_back(sum);
    }
  }
  return result;
}

// Head h of query token i of sample b, head_dim numbers added to `out`.
void attend(const Call& call, Index b, Index h, Index i, const Matrix& q, const Matrix& k, const Matrix& v,
            long double* out) {
  const Index d = call.head_dim, head = h / call.group();
  const auto at = [](Index token, Index width, Index column) {
    return static_cast<std::size_t>(token * width + column);
  };
  const Index length = present(call.kv_lengths) ? static_cast<Index>(load(call.kv_lengths, b)) : call.m();
  const Index diagonal = call.align == Align::bottom_right ? i + length - call.l() : i;
  std::vector<std::pair<Index, long double>> scores;
  long double top = -std::numeric_limits<long double>::infinity();
  for (Index j = 0; j < (call.causal ? std::min(length, diagonal + 1) : length); ++j) {
    if (present(call.keep) && load(call.keep, b, h, i, j) == 0) continue;
    long double s = 0;
    for (Index c = 0; c < d; ++c) s += q[at(i, call.q_width(), h * d + c)] * k[at(j, call.kv_width(), head * d + c)];
    s *= call.scale;
    if (present(call.bias)) s += load(call.bias, b, h, i, j);
    if (s == -std::numeric_limits<long double>::infinity()) continue;
    scores.emplace_back(j, s);
    top = std::max(top, s);
  }
  long double total = 0;
  for (const auto& [j, s] : scores) {
    const long double weight = std::exp(s - top);
    total += weight;
    for (Index c = 0; c < d; ++c) out[c] += weight * v[at(j, call.kv_width(), head * d + c)];
  }
  for (Index c = 0; c < d; ++c) out[c] /= total;  // 0 / 0 where nothing is open
}

std::vector<double> read(const Tensor& out, const Problem& p) {
  std::vector<double> all;
  for (Index b = 0; b < p.b; ++b)
    for (Index i = 0; i < p.l; ++i)
      for (Index e = 0; e < p.e; ++e) all.push_back(out.at(b, i, e));
  return all;
}

// True if another seed gives other values.
bool drawn_again(const Problem& p) { return p.edits.empty() && p.weights != Weights::zero; }

}  // namespace

std::optional<std::string_view> refusal(const Problem& problem, const Contract& contract) {
  if (contract.attention.arithmetic.order_by_values) return "sums in an order that looks at the numbers";
  if (!drawn_again(problem)) return "its values cannot be drawn again";
  if (problem.b * problem.l * problem.e == 0) return "no output elements";
  if (problem.multiply_adds() > most_work) return "a block of more than 2^18 multiply-adds";
  return std::nullopt;
}

std::vector<long double> exact(const Call& call) {
  std::vector<long double> out;
  for (Index b = 0; b < call.b(); ++b) {
    const Matrix q = projected(call.x, b, call.l(), call.w_q, call.b_q, call.q_width());
    const Matrix k = projected(call.memory, b, call.m(), call.w_k, call.b_k, call.kv_width());
    const Matrix v = projected(call.memory, b, call.m(), call.w_v, call.b_v, call.kv_width());
    Matrix heads(static_cast<std::size_t>(call.l() * call.q_width()));
    for (Index i = 0; i < call.l(); ++i)
      for (Index h = 0; h < call.heads; ++h)
        attend(call, b, h, i, q, k, v, heads.data() + i * call.q_width() + h * call.head_dim);
    for (Index i = 0; i < call.l(); ++i)
      for (Index e = 0; e < call.e(); ++e) {
        long double sum = present(call.b_out) ? load(call.b_out, e) : 0;
        for (Index c = 0; c < call.q_width(); ++c)
          sum += heads[static_cast<std::size_t>(i * call.q_width() + c)] * load(call.w_out, e, c);
        out.push_back(sum);
      }
  }
  return out;
}

Sample sample(const Problem& problem, const Contract& contract, const Inputs& inputs, const Tensor& out) {
  Sample sample;
  sample.format = contract.attention.policy[Stage::output];
  sample.exact = exact(inputs.call(out));
  sample.got = read(out, problem);
  for (Index b = 0; b < problem.b; ++b)
    for (Index i = 0; i < problem.l; ++i)
      for (Index e = 0; e < problem.e; ++e) sample.places.push_back({b, i, e, 0});
  const std::uint64_t seed = extend(mix(problem.seed), member_stream);
  const auto variant = [&problem, &contract, seed](int n) {
    return emulator::member_variant(contract, problem, seed, n);
  };
  sample.member = [&problem, &contract, &inputs, variant](int n) {
    Problem plain = problem;
    plain.out_layout = attest::mha::Layout::contiguous;
    const Tensor result = attest::mha::make_out(plain);
    emulator::run(inputs.call(result), contract, variant(n));
    return read(result, problem);
  };
  sample.scheme = [variant](int n) { return emulator::in_words(variant(n).attention); };
  return sample;
}

}  // namespace attest::ensemble::mha
