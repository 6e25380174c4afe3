#include "properties/both.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "oracle/outcome.hpp"

namespace attest::properties {
namespace {

using oracle::Outcome;

bool out_of_bound(const Sighting& s) { return judge_element(s.enclosure, s.round, s.value) == Outcome::outside; }

Side side_of_sighting(const Sighting& s) {
  const Evidence evidence = evidence_of(s.enclosure, s.round, s.value);
  const double exact = s.enclosure.expect == oracle::Expect::number ? s.enclosure.y : std::nan("");
  return {s.value, exact, evidence.lo, evidence.hi, evidence.ratio, out_of_bound(s)};
}

Evidence evidence_of_pair(const ElementPair& pair, const SeenElements& seen) {
  Evidence evidence;
  evidence.tensor = pair.tensor;
  evidence.index = pair.index;
  evidence.got = pair.a;
  evidence.expected = evidence.lo = evidence.hi = pair.b;
  evidence.sides = sides_of(seen);
  return evidence;
}

std::optional<Evidence> first_departure_of(const Differing& differing, const See& see) {
  std::optional<Evidence> found;
  differing([&](const ElementPair& pair) {
    const SeenElements seen = see(pair);
    if (seen.open) return true;
    const auto apart = departure(seen.a, seen.b, pair.tensor.c_str(), pair.index, "B");
    if (!apart) return true;
    found = evidence_of_pair(pair, seen);
    found->lo = apart->lo;
    found->hi = apart->hi;
    found->ratio = apart->ratio;
    found->wrong = evidence_of(seen.a.enclosure, seen.a.round, found->sides[0].outside ? pair.a : pair.b).wrong;
    return false;
  });
  return found;
}

std::string_view kind_in_a_word(double x) {
  if (std::isnan(x)) return "NaN";
  return std::isinf(x) ? "an infinity" : "a number";
}

// Where both are right and give what a caller tells apart.
std::optional<Verdict> open_question(const Differing& differing, const See& see) {
  std::optional<Verdict> found;
  differing([&](const ElementPair& pair) {
    if (kind_in_a_word(pair.a) == kind_in_a_word(pair.b)) return true;
    const SeenElements seen = see(pair);
    if (out_of_bound(seen.a) || out_of_bound(seen.b)) return true;  // wrong alike
    found = Verdict{VerdictKind::warn,
                    "an element that may overflow or take in what is not finite: A gives " +
                        std::string(kind_in_a_word(pair.a)) + ", B gives " + std::string(kind_in_a_word(pair.b)),
                    evidence_of_pair(pair, seen),
                    {}};
    return false;
  });
  return found;
}

}  // namespace

std::vector<Side> sides_of(const SeenElements& seen) { return {side_of_sighting(seen.a), side_of_sighting(seen.b)}; }

Verdict held_together(Verdict of_a, Verdict of_b, const Differing& differing, const See& see) {
  // No element differs beyond both bounds where all of either result keep theirs.
  if (of_a.kind == VerdictKind::fail || of_b.kind == VerdictKind::fail)
    if (auto evidence = first_departure_of(differing, see)) return Verdict::fail(std::move(*evidence), of_a.counts);
  if (auto open = open_question(differing, see)) {
    open->counts = of_a.counts;
    return std::move(*open);
  }
  for (Verdict* one : {&of_a, &of_b})  // an element that is not judged on either side says nothing
    if (one->kind == VerdictKind::vacuous) return std::move(*one);
  return Verdict::pass(of_a.counts);
}

std::optional<Evidence> first_other_bits(std::span<const TensorPair> tensors, const See& see, Counts& counts) {
  for (const auto& [name, of_a, of_b] : tensors) {
    if (!of_a.present() || !of_b.present()) continue;
    const attest_tensor x = of_a.view(), y = of_b.view();
    std::array<Index, 4> n{1, 1, 1, 1};
    std::ranges::copy(of_a.shape(), n.begin());
    for (Index i0 = 0; i0 < n[0]; ++i0)
      for (Index i1 = 0; i1 < n[1]; ++i1)
        for (Index i2 = 0; i2 < n[2]; ++i2)
          for (Index i3 = 0; i3 < n[3]; ++i3) {
            ++counts.judged;
            if (std::memcmp(attest_at(&x, i0, i1, i2, i3), attest_at(&y, i0, i1, i2, i3), x.dtype.bits / 8) == 0)
              continue;
            const ElementPair pair{
                std::string(name), {i0, i1, i2, i3}, of_a.at(i0, i1, i2, i3), of_b.at(i0, i1, i2, i3)};
            Evidence evidence = exact_evidence(pair.index, pair.a, pair.b, "not bitwise equal");
            evidence.tensor = pair.tensor;
            evidence.sides = sides_of(see(pair));
            return evidence;
          }
  }
  return std::nullopt;
}

}  // namespace attest::properties
