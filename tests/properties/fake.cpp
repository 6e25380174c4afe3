#include "tests/properties/fake.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_open(const attest_attention& a, Index b, Index h, Index i, Index j) {
  const Index keys = attest_present(&a.kv_lengths) ? static_cast<Index>(load(a.kv_lengths, b)) : a.k.shape[2];
  const Index g = a.align == ATTEST_BOTTOM_RIGHT ? i + keys - a.q.shape[2] : i;
  return j < keys && (!a.causal || j <= g) && (a.window_left < 0 || g - j <= a.window_left) &&
         (a.window_right < 0 || j - g <= a.window_right) && (!attest_present(&a.keep) || load(a.keep, b, h, i, j) != 0);
}

double bias_of(const attest_attention& a, Index b, Index h, Index i, Index j) {
  return attest_present(&a.bias) ? load(a.bias, b, h, i, j) : 0;
}

}  // namespace

void attend(const attest_attention& call) { attend(call, Steps{}); }

void attend(const attest_attention& a, const Steps& steps) {
  const Index batch = a.q.shape[0], heads = a.q.shape[1], rows = a.q.shape[2], d = a.q.shape[3];
  const Index keys = a.k.shape[2], dv = a.v.shape[3], group = heads == 0 ? 1 : heads / a.k.shape[1];
  std::vector<double> z(static_cast<std::size_t>(keys));
  for (Index b = 0; b < batch; ++b)
    for (Index h = 0; h < heads; ++h)
      for (Index i = 0; i < rows; ++i) {
        double most = -infinity;
        for (Index j = 0; j < keys; ++j) {
          double& score = z[static_cast<std::size_t>(j)];
          score = -infinity;
          const bool open = is_open(a, b, h, i, j);
          if (!(steps.open ? steps.open(a, open, b, h, i, j) : open)) continue;
          const double bias = bias_of(a, b, h, i, j);
          if (bias == -infinity) continue;
          double s = 0;
          for (Index c = 0; c < d; ++c) s += load(a.q, b, h, i, c) * load(a.k, b, h / group, j, c);
          s *= a.scale;
          if (a.softcap > 0) s = a.softcap * std::tanh(s / a.softcap);
          score = s + bias;
          if (steps.score) score = steps.score(a, score, b, h, i, j);
          most = std::max(most, score);
        }
        double sum = 0;
        for (double& score : z) sum += score = score == -infinity ? 0 : std::exp(score - most);
        for (Index c = 0; c < dv; ++c) {
          double y = 0;
          for (Index j = 0; j < keys; ++j)
            if (z[static_cast<std::size_t>(j)] != 0)
              y += z[static_cast<std::size_t>(j)] * load(a.v, b, h / group, j, c);
          y = sum > 0 ? y / sum : 0;
          store(a.out, b, h, i, c, steps.output ? steps.output(a, y, b, h, i, c) : y);
        }
        if (attest_present(&a.lse)) store(a.lse, b, h, i, 0, sum > 0 ? most + std::log(sum) : -infinity);
      }
}

void attend_tiled(const attest_attention& a, Index tile, bool backwards) {
  const Index keys = a.k.shape[2], d = a.q.shape[3], dv = a.v.shape[3];
  const auto width = static_cast<std::size_t>(dv);
  const Index tiles = (keys + tile - 1) / tile;
  for (Index b = 0; b < a.q.shape[0]; ++b)
    for (Index h = 0; h < a.q.shape[1]; ++h)
      for (Index i = 0; i < a.q.shape[2]; ++i) {
        const Index kv = h / (a.q.shape[1] / a.k.shape[1]);
        float most = -std::numeric_limits<float>::infinity(), sum = 0;
        std::vector<float> acc(width, 0);
        for (Index t = 0; t < tiles; ++t)
          for (Index n = 0; n < tile; ++n) {
            const Index j = (backwards ? tiles - 1 - t : t) * tile + n;
            if (j >= keys || !is_open(a, b, h, i, j)) continue;
            const auto bias = static_cast<float>(bias_of(a, b, h, i, j));
            if (std::isinf(bias)) continue;
            float s = 0;
            for (Index c = 0; c < d; ++c)
              s += static_cast<float>(load(a.q, b, h, i, c)) * static_cast<float>(a.scale) *
                   static_cast<float>(load(a.k, b, kv, j, c));
            if (a.softcap > 0) {
              const auto cap = static_cast<float>(a.softcap);
              s = cap * static_cast<float>(std::tanh(static_cast<double>(s / cap)));
            }
            s += bias;
            if (s > most) {
              const float shrink = static_cast<float>(std::exp(static_cast<double>(most - s)));
              for (float& x : acc) x *= shrink;
              sum *= shrink;
              most = s;
            }
            const float p = static_cast<float>(std::exp(static_cast<double>(s - most)));
            sum += p;
            for (Index c = 0; c < dv; ++c)
              acc[static_cast<std::size_t>(c)] += p * static_cast<float>(load(a.v, b, kv, j, c));
          }
        for (Index c = 0; c < dv; ++c) store(a.out, b, h, i, c, sum > 0 ? acc[static_cast<std::size_t>(c)] / sum : 0);
        if (attest_present(&a.lse))
          store(a.lse, b, h, i, 0, static_cast<double>(most) + std::log(static_cast<double>(sum)));
      }
}

Contract promise(Format dtype) {
  Contract contract = contract_for(policy_for(dtype));
  contract.empty_row = EmptyRow::zero;
  contract.masked_unread = MaskedUnread::yes;
  contract.batch_invariant = BatchInvariance::bitwise;
  contract.deterministic = Deterministic::threads;
  return contract;
}

Fake::Fake(Kernel kernel, std::string name) : kernel_(std::move(kernel)) {
  info_.name = std::move(name);
  info_.dtypes = {Format::f32, Format::f16, Format::bf16, Format::f64};
}

std::vector<CallResult> Fake::run(std::span<const Call> calls) {
  for (const Call& call : calls) kernel_(call.as<attest_attention>());
  calls_ += static_cast<Index>(calls.size());
  return std::vector<CallResult>(calls.size());
}

Verdict verdict_of(std::string_view law, const Problem& problem, Subject& subject, const Contract& contract,
                   Subject* peer) {
  const properties::Property* property = properties::find_property(law);
  if (!property) throw std::logic_error("no law " + std::string(law));
  if (auto reason = property->not_applicable(problem, contract, subject.info())) return Verdict::skip(*reason);
  properties::Trial trial(problem, contract, subject, peer);
  return property->check(trial);
}

Verdict verdict_of(std::string_view law, const std::string& text, Subject& subject, const Contract& contract,
                   Subject* peer) {
  return verdict_of(law, problem_from_text(text), subject, contract, peer);
}

}  // namespace attest::test
