// A C++ plug-in for attest with two subjects: a plain attention block that returns its stages, and the same with a
// defect for attest to find.
//
//   c++ -std=c++17 -O2 -fPIC -shared -I include examples/mha.cpp -o mha.so
//   attest check ./mha.so:plain           # holds
//   attest check ./mha.so:no-transpose    # found wrong, and where: the concatenated heads
//
// docs/plugin.md says what a call of mha is, docs/cpp.md what attest/attest.hpp makes of a callable.
#include <attest/attest.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

enum class Heads { side_by_side, as_they_lie };  // [L,heads*head_dim], or [heads,L,head_dim] taken for that

// A stage of a sample as it is stored: rows of `width` numbers of the call's type.
template <class Element>
struct Rows {
  std::int64_t width;
  std::vector<Element> values;
  Rows(std::int64_t rows, std::int64_t columns)
      : width(columns), values(static_cast<std::size_t>(rows * columns), Element{}) {}
  Element& operator()(std::int64_t i, std::int64_t c) { return values[static_cast<std::size_t>(i * width + c)]; }
};

// tokens W^T + b of sample b, summed in `Real` and stored once.
template <class Element, class Real>
Rows<Element> project(const attest::TensorView& tokens, std::int64_t b, const attest::TensorView& weights,
                      const attest::TensorView& bias) {
  const auto x = tokens.as<const Element>();
  const auto w = weights.as<const Element>();
  Rows<Element> result(tokens.size(1), weights.size(0));
  for (std::int64_t i = 0; i < tokens.size(1); ++i)
    for (std::int64_t n = 0; n < weights.size(0); ++n) {
      Real sum = 0;
      for (std::int64_t c = 0; c < weights.size(1); ++c)
        sum += static_cast<Real>(x(b, i, c)) * static_cast<Real>(w(n, c));
      if (bias) sum += static_cast<Real>(bias.as<const Element>()(n));
      result(i, n) = Element(sum);
    }
  return result;
}

// [B,heads,tokens,head_dim], where somebody asks for it.
template <class Element>
void give(const attest::TensorView& stage, std::int64_t b, std::int64_t head_dim, Rows<Element>& from) {
  if (!stage) return;
  for (std::int64_t i = 0; i < stage.size(2); ++i)
    for (std::int64_t n = 0; n < from.width; ++n)
      stage.store(static_cast<double>(from(i, n)), b, n / head_dim, i, n % head_dim);
}

template <class Element, class Real>
void attend(const attest::Mha& call, std::int64_t b, std::int64_t h, std::int64_t i, Rows<Element>& q, Rows<Element>& k,
            Rows<Element>& v, std::vector<Real>& out) {
  const std::int64_t d = call.head_dim, kv = call.kv_head(h) * d;
  std::vector<Real> scores(static_cast<std::size_t>(call.keys()));
  Real top = -std::numeric_limits<Real>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < call.keys(); ++j) {
    Real& score = scores[static_cast<std::size_t>(j)];
    score = -std::numeric_limits<Real>::infinity();
    if (!call.takes_part(b, h, i, j)) continue;
    score = 0;
    for (std::int64_t c = 0; c < d; ++c) score += static_cast<Real>(q(i, h * d + c)) * static_cast<Real>(k(j, kv + c));
    score *= static_cast<Real>(call.scale);
    if (call.bias) score += static_cast<Real>(call.bias.load(b, h, i, j));
    if (!(score <= top)) top = score;
  }
  out.assign(static_cast<std::size_t>(d), 0);
  if (top == -std::numeric_limits<Real>::infinity()) return;  // an empty row gives 0
  for (std::int64_t j = 0; j < call.keys(); ++j) {
    const Real weight = std::exp(scores[static_cast<std::size_t>(j)] - top);
    if (weight == 0) continue;
    sum += weight;
    for (std::int64_t c = 0; c < d; ++c) out[static_cast<std::size_t>(c)] += weight * static_cast<Real>(v(j, kv + c));
  }
  for (Real& value : out) value /= sum;
}

template <Heads how>
void block(const attest::Mha& call) {
  call.visit_dtype([&](auto element) {
    using Element = decltype(element);
    using Real = std::conditional_t<std::is_same_v<Element, double>, double, float>;
    const std::int64_t d = call.head_dim, width = call.heads * d;
    for (std::int64_t b = 0; b < call.batch(); ++b) {
      auto q = project<Element, Real>(call.x, b, call.w_q, call.b_q);
      auto k = project<Element, Real>(call.memory, b, call.w_k, call.b_k);
      auto v = project<Element, Real>(call.memory, b, call.w_v, call.b_v);
      give(call.q, b, d, q);
      give(call.k, b, d, k);
      give(call.v, b, d, v);
      Rows<Element> joined(call.queries(), width);
      std::vector<Real> head;
      for (std::int64_t h = 0; h < call.heads; ++h)
        for (std::int64_t i = 0; i < call.queries(); ++i) {
          attend<Element, Real>(call, b, h, i, q, k, v, head);
          for (std::int64_t c = 0; c < d; ++c) {
            const std::int64_t at =
                how == Heads::side_by_side ? i * width + h * d + c : (h * call.queries() + i) * d + c;
            joined(at / width, at % width) = Element(head[static_cast<std::size_t>(c)]);
          }
        }
      for (std::int64_t i = 0; i < call.queries(); ++i) {
        for (std::int64_t c = 0; c < width && call.heads_out; ++c)
          call.heads_out.store(static_cast<double>(joined(i, c)), b, i, c);
        for (std::int64_t e = 0; e < call.width(); ++e) {
          Real sum = 0;
          for (std::int64_t c = 0; c < width; ++c)
            sum += static_cast<Real>(joined(i, c)) * static_cast<Real>(call.w_out.load(e, c));
          if (call.b_out) sum += static_cast<Real>(call.b_out.load(e));
          call.out.store(static_cast<double>(sum), b, i, e);
        }
      }
    }
  });
}

constexpr const char* describe =
    R"({"ops": ["mha"], "dtypes": ["f32", "f16", "bf16", "f64"], "concurrent": true,
        "supports": {"stages": ["q", "k", "v", "heads"], "far": true},
        "contract": {"policy": {"f32": "f32", "f16": "f16", "bf16": "bf16", "f64": "f64"}, "empty_row": "zero",
                     "projections": "rounded", "heads": "rounded", "exp2": false, "fold": "none", "lse_merge": "none",
                     "normalise": "after", "deterministic": "threads"}})";

}  // namespace

const attest_subject* attest_plugin(std::uint32_t abi, std::size_t* count) {
  static const attest::Plugin plugin{
      attest::subject<attest::Mha>("plain", describe, block<Heads::side_by_side>, "1"),
      attest::subject<attest::Mha>("no-transpose", describe, block<Heads::as_they_lie>, "1")};
  return plugin.table(abi, count);
}
