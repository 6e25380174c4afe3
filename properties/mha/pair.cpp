#include "properties/mha/pair.hpp"

#include <cmath>

#include "oracle/outcome.hpp"
#include "properties/both.hpp"

namespace attest::properties::block {
namespace {

Differing differing_elements(const Promised& a, const Promised& b) {
  return [&](const std::function<bool(const ElementPair&)>& look) {
    const auto n = a.out.shape();
    for (Index s = 0; s < n[0]; ++s)
      for (Index i = 0; i < n[1]; ++i)
        for (Index e = 0; e < n[2]; ++e) {
          const double x = a.out.at(s, i, e), y = b.out.at(s, i, e);
          const bool same = x == y || (std::isnan(x) && std::isnan(y));
          if (!same && !look({"out", {s, i, e, 0}, x, y})) return;
        }
  };
}

Sighting sighting(const Promised& side, const ElementPair& pair, double got) {
  const attest::Contract& contract = side.contract.attention;
  return {got,
          side.oracle.enclosure(side.oracle.judged_way(), pair.index[0], pair.index[1], pair.index[2]),
          {contract.policy[Stage::output], format_of(side.out.dtype()), contract.arithmetic.flush_to_zero}};
}

See seen_by(const Promised& a, const Promised& b) {
  return [&](const ElementPair& pair) {
    return SeenElements{sighting(a, pair, pair.a), sighting(b, pair, pair.b), false};
  };
}

}  // namespace

Verdict held_together(const Promised& a, const Promised& b) {
  Verdict of_a = a.oracle.judge(a.out), of_b = b.oracle.judge(b.out);
  return properties::held_together(std::move(of_a), std::move(of_b), differing_elements(a, b), seen_by(a, b));
}

std::optional<Evidence> first_other_bits(const Promised& a, const Promised& b, Counts& counts) {
  const TensorPair tensors[] = {{"out", a.out, b.out}};
  return properties::first_other_bits(tensors, seen_by(a, b), counts);
}

}  // namespace attest::properties::block
