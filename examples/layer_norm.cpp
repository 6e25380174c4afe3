// A C++ plug-in for attest with two subjects: a plain LayerNorm and RMSNorm, and the same with a defect for attest to
// find.
//
//   c++ -std=c++17 -O2 -fPIC -shared -I include examples/layer_norm.cpp -o layer_norm.so
//   attest check ./layer_norm.so:plain            # holds
//   attest check ./layer_norm.so:eps-outside      # found wrong
//
// docs/plugin.md says what a call of layer_norm is, docs/cpp.md what attest/attest.hpp makes of a callable.
#include <attest/attest.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

enum class Epsilon { inside, outside };  // 1 / sqrt(var + eps), or 1 / (sqrt(var) + eps)

// One row, in `Real`: `row` holds x + residual as it is stored.
template <class Real>
void normalise(const attest::LayerNorm& call, std::int64_t r, const std::vector<Real>& row, Epsilon where) {
  const auto count = static_cast<Real>(row.size());
  Real mean = 0, variance = 0;
  if (!call.rms) {
    for (const Real value : row) mean += value;
    mean /= count;
  }
  for (const Real value : row) variance += (value - mean) * (value - mean);
  variance /= count;
  const auto epsilon = static_cast<Real>(call.epsilon);
  const Real root = 1 / (where == Epsilon::inside ? std::sqrt(variance + epsilon) : std::sqrt(variance) + epsilon);
  for (std::int64_t c = 0; c < call.hidden(); ++c) {
    Real value = (row[static_cast<std::size_t>(c)] - mean) * root;
    if (call.gamma) value *= static_cast<Real>(call.gamma.load(c));  // in x's type or in f32
    if (call.beta) value += static_cast<Real>(call.beta.load(c));
    call.out.store(static_cast<double>(value), r, c);
  }
}

template <Epsilon where>
void layer_norm(const attest::LayerNorm& call) {
  call.visit_dtype([&](auto element) {
    using Element = decltype(element);
    using Real = std::conditional_t<std::is_same_v<Element, double>, double, float>;
    const auto x = call.x.as<const Element>();
    std::vector<Real> row(static_cast<std::size_t>(call.hidden()));
    for (std::int64_t r = 0; r < call.rows(); ++r) {
      for (std::int64_t c = 0; c < call.hidden(); ++c) {
        Element sum = x(r, c);
        if (call.residual) sum = static_cast<Element>(x(r, c) + call.residual.as<const Element>()(r, c));
        if (call.sum_out) call.sum_out.as<Element>()(r, c) = sum;
        row[static_cast<std::size_t>(c)] = static_cast<Real>(sum);
      }
      normalise(call, r, row, where);
    }
  });
}

constexpr const char* describe =
    R"({"ops": ["layer_norm"], "dtypes": ["f32", "f16", "bf16", "f64"], "concurrent": true,
        "supports": {"far": true, "dims": {"rows": [0, null, 1]}},
        "contract": {"policy": {"f32": "f32", "f16": "f16", "bf16": "bf16", "f64": "f64"}, "variance": "two_pass",
                     "rsqrt_ulp": 1.5, "form": "centred", "nan": "propagates",
                     "batch_invariant": "bitwise", "deterministic": "threads"}})";

}  // namespace

const attest_subject* attest_plugin(std::uint32_t abi, std::size_t* count) {
  static const attest::Plugin plugin{
      attest::subject<attest::LayerNorm>("plain", describe, layer_norm<Epsilon::inside>, "1"),
      attest::subject<attest::LayerNorm>("eps-outside", describe, layer_norm<Epsilon::outside>, "1")};
  return plugin.table(abi, count);
}
