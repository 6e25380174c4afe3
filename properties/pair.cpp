#include "properties/pair.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/inputs.hpp"
#include "oracle/outcome.hpp"
#include "properties/compare.hpp"

namespace attest::properties {
namespace {

using oracle::Expect;
using oracle::Outcome;

bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

// One element of both results.
struct Pair {
  const char* tensor;
  std::array<Index, 4> index;
  double a, b;
};

// Calls `look` with each element that differs as a number, until that says false.
void for_each_difference(const Problem& p, const Promised& a, const Promised& b,
                         const std::function<bool(const Pair&)>& look) {
  const bool has_lse = a.lse.present() && b.lse.present();
  for (const Index row : judged_rows(p)) {
    const auto [s, h, i] = row_index(p, row);
    for (Index c = 0; c < p.dv; ++c) {
      const double x = a.out.at(s, h, i, c), y = b.out.at(s, h, i, c);
      if (!same(x, y) && !look({"out", {s, h, i, c}, x, y})) return;
    }
    if (!has_lse) continue;
    const double x = a.lse.at(s, h, i), y = b.lse.at(s, h, i);
    if (!same(x, y) && !look({"lse", {s, h, i, 0}, x, y})) return;
  }
}

bool is_lse(const Pair& pair) { return pair.tensor[0] == 'l'; }

// A number of one side, what it may be, and how it was rounded.
Sighting sighting(const Promised& side, const Pair& pair, double got) {
  const auto [s, h, i, c] = pair.index;
  return is_lse(pair) ? Sighting{got, side.oracle.lse_enclosure(s, h, i), lse_rounding(side.contract, side.lse)}
                      : Sighting{got, side.oracle.out_enclosure(s, h, i, c), out_rounding(side.contract, side.out)};
}

bool is_outside(const Sighting& seen) {
  return judge_element(seen.enclosure, seen.round, seen.value) == Outcome::outside;
}

Side side_of(const Sighting& seen) {
  const Evidence evidence = evidence_of(seen.enclosure, seen.round, seen.value);
  const double exact = seen.enclosure.expect == Expect::number ? seen.enclosure.y : std::nan("");
  return {seen.value, exact, evidence.lo, evidence.hi, evidence.ratio, is_outside(seen)};
}

Evidence evidence_of_both(const Pair& pair, const Sighting& a, const Sighting& b) {
  Evidence evidence;
  evidence.tensor = pair.tensor;
  evidence.index = pair.index;
  evidence.got = a.value;
  evidence.expected = evidence.lo = evidence.hi = b.value;
  evidence.sides = {side_of(a), side_of(b)};
  return evidence;
}

// Returns the evidence that at least one of the two is wrong: the class of the wrong value is that of the side at
// fault.
std::optional<Evidence> first_difference(const Problem& p, const Promised& a, const Promised& b) {
  std::optional<Evidence> found;
  for_each_difference(p, a, b, [&](const Pair& pair) {
    const Sighting x = sighting(a, pair, pair.a), y = sighting(b, pair, pair.b);
    const auto apart = departure(x, y, pair.tensor, pair.index, "B");
    if (!apart) return true;
    found = evidence_of_both(pair, x, y);
    found->lo = apart->lo;
    found->hi = apart->hi;
    found->ratio = apart->ratio;
    found->wrong = evidence_of(x.enclosure, x.round, found->sides[0].outside ? pair.a : pair.b).wrong;
    return false;
  });
  return found;
}

// `zero`: 0 is told from other numbers.
std::string_view in_a_word(double x, bool zero) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return "an infinity";
  return zero && x == 0 ? "0" : "a number";
}

// Where both are right and give what a caller tells apart. The reason is the same for all elements of a kind.
std::optional<Verdict> first_open_question(const Problem& p, const Promised& a, const Promised& b) {
  std::optional<Verdict> found;
  for_each_difference(p, a, b, [&](const Pair& pair) {
    if (in_a_word(pair.a, true) == in_a_word(pair.b, true)) return true;
    const Sighting x = sighting(a, pair, pair.a), y = sighting(b, pair, pair.b);
    if (is_outside(x) || is_outside(y)) return true;  // wrong alike
    const bool empty = x.enclosure.empty_row || y.enclosure.empty_row;
    const bool lost = x.enclosure.zero_ok || y.enclosure.zero_ok;
    const std::string_view of_a = in_a_word(pair.a, empty || lost), of_b = in_a_word(pair.b, empty || lost);
    if (of_a == of_b) return true;
    const std::string_view where = empty  ? "a row without keys"
                                   : lost ? "a row whose keys may all be lost in rounding"
                                          : "an element that may overflow or take in what is not finite";
    found = Verdict{
        VerdictKind::warn,
        fmt::format("{}{}: A gives {}, B gives {}", where, is_lse(pair) ? " (its log-sum-exp)" : "", of_a, of_b),
        evidence_of_both(pair, x, y),
        {}};
    return false;
  });
  return found;
}

}  // namespace

std::vector<Side> sides_of(const char* tensor, std::array<Index, 4> index, const Promised& a, const Promised& b) {
  const auto [s, h, i, c] = index;
  Pair pair{tensor, index, 0, 0};
  pair.a = is_lse(pair) ? a.lse.at(s, h, i) : a.out.at(s, h, i, c);
  pair.b = is_lse(pair) ? b.lse.at(s, h, i) : b.out.at(s, h, i, c);
  return {side_of(sighting(a, pair, pair.a)), side_of(sighting(b, pair, pair.b))};
}

std::vector<Side> of_side(bool a, bool b) {
  std::vector<Side> sides(2);
  sides[0].outside = a;
  sides[1].outside = b;
  return sides;
}

Verdict held_together(const Problem& problem, const Promised& a, const Promised& b) {
  Verdict of_a = a.oracle.judge(a.out, a.lse), of_b = b.oracle.judge(b.out, b.lse);
  // No element differs beyond both bounds where all of either result keep theirs.
  if (of_a.kind == VerdictKind::fail || of_b.kind == VerdictKind::fail)
    if (auto evidence = first_difference(problem, a, b)) return Verdict::fail(std::move(*evidence), of_a.counts);
  if (auto open = first_open_question(problem, a, b)) {
    open->counts = of_a.counts;
    return std::move(*open);
  }
  for (Verdict* one : {&of_a, &of_b})  // an element that is not judged on either side says nothing
    if (one->kind == VerdictKind::vacuous) return std::move(*one);
  return Verdict::pass(of_a.counts);
}

Verdict broken(Evidence violation, bool is_a) {
  violation.note = (is_a ? subject_prefix : peer_prefix) + violation.note;
  violation.sides = of_side(is_a, !is_a);
  return Verdict::fail(std::move(violation));
}

}  // namespace attest::properties
