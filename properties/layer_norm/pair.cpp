#include "properties/layer_norm/pair.hpp"

#include <cmath>
#include <functional>

#include "oracle/outcome.hpp"
#include "properties/both.hpp"

namespace attest::properties::layer_norm {
namespace {

bool same_number(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

Differing differing_elements(const Problem& problem, const Promised& a, const Promised& b) {
  return [&](const std::function<bool(const ElementPair&)>& look) {
    const bool sums = a.sum_out.present() && b.sum_out.present();
    for (const Index row : attest::layer_norm::judged_rows(problem)) {
      for (Index column = 0; column < problem.hidden; ++column) {
        const double x = a.out.at(row, column), y = b.out.at(row, column);
        if (!same_number(x, y) && !look({"out", {row, column}, x, y})) return;
      }
      for (Index column = 0; sums && column < problem.hidden; ++column) {
        const double x = a.sum_out.at(row, column), y = b.sum_out.at(row, column);
        if (!same_number(x, y) && !look({"sum_out", {row, column}, x, y})) return;
      }
    }
  };
}

// The permitted results of an element, and whether beta alone is permitted too, of which no interval tells.
struct Seen {
  Sighting sighting;
  bool open = false;
};

Seen seen(const Promised& side, const ElementPair& pair, double got) {
  const auto [row, column, i2, i3] = pair.index;
  if (pair.tensor == "sum_out") {
    const double exact = side.oracle.sums(row, column).front();
    oracle::Enclosure enclosure;
    enclosure.y = enclosure.lo = enclosure.hi = exact;
    const Format storage = side.contract.policy[Stage::storage];
    return {{got, enclosure, {storage, format_of(side.sum_out.dtype()), false}}, side.contract.arithmetic.flushes()};
  }
  const oracle::layer_norm::Interval interval = side.oracle.interval(row, column);
  const oracle::Rounding round{side.contract.policy[Stage::output], format_of(side.out.dtype()),
                               side.contract.arithmetic.flushes()};
  return {{got, interval.enclosure, round}, interval.beta_ok};
}

See seen_by(const Promised& a, const Promised& b) {
  return [&](const ElementPair& pair) {
    Seen x = seen(a, pair, pair.a), y = seen(b, pair, pair.b);
    return SeenElements{x.sighting, y.sighting, x.open || y.open};
  };
}

}  // namespace

Verdict held_together(const Problem& problem, const Promised& a, const Promised& b) {
  return properties::held_together(a.oracle.judge(a.out, a.sum_out), b.oracle.judge(b.out, b.sum_out),
                                   differing_elements(problem, a, b), seen_by(a, b));
}

std::optional<Evidence> first_other_bits(const Promised& a, const Promised& b, Counts& counts) {
  const TensorPair tensors[] = {{"out", a.out, b.out}, {"sum_out", a.sum_out, b.sum_out}};
  return properties::first_other_bits(tensors, seen_by(a, b), counts);
}

}  // namespace attest::properties::layer_norm
