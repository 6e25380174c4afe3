#include "properties/layer_norm/pair.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "oracle/outcome.hpp"
#include "properties/compare.hpp"

namespace attest::properties::layer_norm {
namespace {

using oracle::Outcome;

// One element of both results.
struct Pair {
  std::string tensor;
  Index row, column;
  double a, b;
};

bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

// Calls `look` with each element that differs as a number, until that says false.
void for_each_difference(const Problem& problem, const Promised& a, const Promised& b,
                         const std::function<bool(const Pair&)>& look) {
  const bool sums = a.sum_out.present() && b.sum_out.present();
  for (const Index row : attest::layer_norm::judged_rows(problem)) {
    for (Index column = 0; column < problem.hidden; ++column) {
      const double x = a.out.at(row, column), y = b.out.at(row, column);
      if (!same(x, y) && !look({"out", row, column, x, y})) return;
    }
    for (Index column = 0; sums && column < problem.hidden; ++column) {
      const double x = a.sum_out.at(row, column), y = b.sum_out.at(row, column);
      if (!same(x, y) && !look({"sum_out", row, column, x, y})) return;
    }
  }
}

// What an element may be, and whether beta alone is permitted too, of which no interval tells.
struct Seen {
  Sighting sighting;
  bool open = false;
};

Seen seen(const Promised& side, const Pair& pair, double got) {
  if (pair.tensor == "sum_out") {
    const double exact = side.oracle.sums(pair.row, pair.column).front();
    oracle::Enclosure enclosure;
    enclosure.y = enclosure.lo = enclosure.hi = exact;
    const Format storage = side.contract.policy[Stage::storage];
    return {{got, enclosure, {storage, format_of(side.sum_out.dtype()), false}}, side.contract.arithmetic.flushes()};
  }
  const oracle::layer_norm::Interval interval = side.oracle.interval(pair.row, pair.column);
  const oracle::Rounding round{side.contract.policy[Stage::output], format_of(side.out.dtype()),
                               side.contract.arithmetic.flushes()};
  return {{got, interval.enclosure, round}, interval.beta_ok};
}

bool is_outside(const Sighting& s) { return judge_element(s.enclosure, s.round, s.value) == Outcome::outside; }

Side side_of(const Sighting& s) {
  const Evidence evidence = evidence_of(s.enclosure, s.round, s.value);
  const double exact = s.enclosure.expect == oracle::Expect::number ? s.enclosure.y : std::nan("");
  return {s.value, exact, evidence.lo, evidence.hi, evidence.ratio, is_outside(s)};
}

Evidence evidence_of_both(const Pair& pair, const Sighting& a, const Sighting& b) {
  Evidence evidence;
  evidence.tensor = pair.tensor;
  evidence.index = {pair.row, pair.column, 0, 0};
  evidence.got = a.value;
  evidence.expected = evidence.lo = evidence.hi = b.value;
  evidence.sides = {side_of(a), side_of(b)};
  return evidence;
}

std::optional<Evidence> first_difference(const Problem& problem, const Promised& a, const Promised& b) {
  std::optional<Evidence> found;
  for_each_difference(problem, a, b, [&](const Pair& pair) {
    const Seen x = seen(a, pair, pair.a), y = seen(b, pair, pair.b);
    if (x.open || y.open) return true;
    const auto apart = departure(x.sighting, y.sighting, pair.tensor.c_str(), {pair.row, pair.column, 0, 0}, "B");
    if (!apart) return true;
    found = evidence_of_both(pair, x.sighting, y.sighting);
    found->lo = apart->lo;
    found->hi = apart->hi;
    found->ratio = apart->ratio;
    found->wrong = evidence_of(x.sighting.enclosure, x.sighting.round, found->sides[0].outside ? pair.a : pair.b).wrong;
    return false;
  });
  return found;
}

std::string_view in_a_word(double x) {
  if (std::isnan(x)) return "NaN";
  return std::isinf(x) ? "an infinity" : "a number";
}

// Where both are right and give what a caller tells apart.
std::optional<Verdict> first_open_question(const Problem& problem, const Promised& a, const Promised& b) {
  std::optional<Verdict> found;
  for_each_difference(problem, a, b, [&](const Pair& pair) {
    if (in_a_word(pair.a) == in_a_word(pair.b)) return true;
    const Seen x = seen(a, pair, pair.a), y = seen(b, pair, pair.b);
    if (is_outside(x.sighting) || is_outside(y.sighting)) return true;  // wrong alike
    found = Verdict{VerdictKind::warn,
                    "an element that may overflow or take in what is not finite: A gives " +
                        std::string(in_a_word(pair.a)) + ", B gives " + std::string(in_a_word(pair.b)),
                    evidence_of_both(pair, x.sighting, y.sighting),
                    {}};
    return false;
  });
  return found;
}

}  // namespace

std::vector<Side> sides_of(const std::string& tensor, const std::array<Index, 4>& index, const Promised& a,
                           const Promised& b) {
  Pair pair{tensor, index[0], index[1], 0, 0};
  const bool sum = tensor == "sum_out";
  pair.a = (sum ? a.sum_out : a.out).at(pair.row, pair.column);
  pair.b = (sum ? b.sum_out : b.out).at(pair.row, pair.column);
  return {side_of(seen(a, pair, pair.a).sighting), side_of(seen(b, pair, pair.b).sighting)};
}

Verdict held_together(const Problem& problem, const Promised& a, const Promised& b) {
  Verdict of_a = a.oracle.judge(a.out, a.sum_out), of_b = b.oracle.judge(b.out, b.sum_out);
  // No element differs beyond both bounds where all of either result keep theirs.
  if (of_a.kind == VerdictKind::fail || of_b.kind == VerdictKind::fail)
    if (auto evidence = first_difference(problem, a, b)) return Verdict::fail(std::move(*evidence), of_a.counts);
  if (auto open = first_open_question(problem, a, b)) {
    open->counts = of_a.counts;
    return std::move(*open);
  }
  for (Verdict* one : {&of_a, &of_b})  // what is not judged on either side says nothing
    if (one->kind == VerdictKind::vacuous) return std::move(*one);
  return Verdict::pass(of_a.counts);
}

std::optional<Evidence> first_other_bits(const Promised& a, const Promised& b, Counts& counts) {
  for (const bool sum : {false, true}) {
    const Tensor &of_a = sum ? a.sum_out : a.out, &of_b = sum ? b.sum_out : b.out;
    if (!of_a.present() || !of_b.present()) continue;
    const attest_tensor x = of_a.view(), y = of_b.view();
    for (Index row = 0; row < x.shape[0]; ++row)
      for (Index column = 0; column < x.shape[1]; ++column) {
        ++counts.judged;
        if (std::memcmp(attest_at(&x, row, column, 0, 0), attest_at(&y, row, column, 0, 0), x.dtype.bits / 8) == 0)
          continue;
        Evidence evidence =
            exact_evidence({row, column, 0, 0}, of_a.at(row, column), of_b.at(row, column), "not bitwise equal");
        evidence.tensor = sum ? "sum_out" : "out";
        evidence.sides = sides_of(evidence.tensor, evidence.index, a, b);
        return evidence;
      }
  }
  return std::nullopt;
}

}  // namespace attest::properties::layer_norm
