// Everything attest/attest.hpp has, in kernels whose verdicts install_test.py knows.
#include <attest/attest.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace {

using attest::Attention;
using std::int64_t;

template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return T(static_cast<float>(value));
}

// A bias has q's type or is float.
double bias_of(const Attention& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  return call.bias ? call.bias.load(b, h, i, j) : 0;
}

template <class T>
void attend(const Attention& call, double scale, int64_t b, int64_t h, int64_t i, std::vector<double>& weights) {
  const auto q = call.q.as<const T>(), k = call.k.as<const T>(), v = call.v.as<const T>();
  const auto out = call.out.as<T>();
  const int64_t kv_head = call.kv_head(h);
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < call.keys(); ++j) {
    double& weight = weights[static_cast<std::size_t>(j)] = -std::numeric_limits<double>::infinity();
    if (!call.takes_part(b, h, i, j)) continue;
    double score = 0;
    for (int64_t d = 0; d < call.width(); ++d)
      score += static_cast<double>(q(b, h, i, d)) * static_cast<double>(k(b, kv_head, j, d));
    score *= scale;
    if (call.softcap > 0) score = call.softcap * std::tanh(score / call.softcap);
    weight = score + bias_of(call, b, h, i, j);
    largest = std::fmax(largest, weight);
  }
  const bool empty = !(largest > -std::numeric_limits<double>::infinity());
  for (double& weight : weights) {
    weight = empty ? 0 : std::exp(weight - largest);
    sum += weight;
  }
  for (int64_t d = 0; d < call.value_width(); ++d) {
    double value = 0;
    for (int64_t j = 0; j < call.keys(); ++j)
      if (const double weight = weights[static_cast<std::size_t>(j)]; weight != 0)
        value += weight * static_cast<double>(v(b, kv_head, j, d));
    out(b, h, i, d) = rounded<T>(empty ? 0 : value / sum);
  }
  if (call.lse) call.lse.store(empty ? largest : largest + std::log(sum), b, h, i);
}

void attention(const Attention& call, double scale) {
  std::vector<double> weights(static_cast<std::size_t>(call.keys()));
  call.visit_dtype([&](auto element) {
    for (int64_t b = 0; b < call.batch(); ++b)
      for (int64_t h = 0; h < call.heads(); ++h)
        for (int64_t i = 0; i < call.queries(); ++i) attend<decltype(element)>(call, scale, b, h, i, weights);
  });
}

constexpr const char* describe =
    R"({"ops":["attention"],"dtypes":["f32","f16","bf16","f64"],"supports":{"dims":{"b":[0,null,1],"lk":[0,null,1]}},
        "contract":{"policy":{"f32":"f32","f16":"f16","bf16":"bf16","f64":"f64"},"empty_row":"zero",
                    "batch_invariant":"bitwise","deterministic":"threads"}})";
constexpr const char* single = R"({"ops":["attention"],"dtypes":["f32"]})";

}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  static int calls = 0;
  static const attest::Plugin plugin{
      attest::subject(
          "whole-domain", describe, [](const Attention& call) { attention(call, call.scale); }, "1.0"),
      attest::subject("forgets-scale", describe, [](const Attention& call) { attention(call, 1); }),
      attest::subject("declines-causal", describe,
                      [](const Attention& call) {
                        if (call.causal) throw attest::Unsupported("no causal masks here");
                        attention(call, call.scale);
                      }),
      attest::subject("declines", single, [](const Attention&) { throw attest::Unsupported("not today"); }),
      attest::subject("throws", single, [](const Attention&) { throw std::runtime_error("out of workspace"); }),
      attest::subject("throws-an-int", single, [](const Attention&) { throw 7; }),
      attest::subject("misreads", single, [](const Attention& call) { call.q.as<const attest::f16>(); }),
      attest::subject("unset", single, {}),
      attest::subject("counts-calls", describe,  // a capture is state that stays from call to call
                      [state = &calls](const Attention& call) { attention(call, ++*state > 40 ? 1 : call.scale); }),
  };
  return plugin.table(abi, count);
}
