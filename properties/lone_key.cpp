// lone-key: a row with one open key returns that key's value, in the base call itself.
//
// The law is single-key without a call of its own: values are the problem's, and those that some format on their way
// does not hold are not judged; neither are elements that a score past some format's range may have cost. Not with the
// exp2 trick, under which z log2 e - z log2 e need not vanish, nor with a division off by more than half an ulp.
//
// Catches weights that are rounded before they are divided by their sum, a maximum that starts elsewhere than at a
// score, conversions that truncate.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/single_key.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason lone_key_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo&) {
  if (Reason reason = no_single_keys(p, contract)) return reason;
  if (contract.arithmetic.div_ulp > 0.5) return "a division by 1 may round";
  if (contract.arithmetic.exp2) return "under exp2 a score less itself need not vanish";
  return std::nullopt;
}

// The values that every format between v and out holds.
class Survivors {
 public:
  Survivors(const Contract& contract, Format storage) {
    for (const Stage stage : value_stages) {
      const Format format = contract.policy[stage];
      if (contract.arithmetic.flush_to_zero) least_ = std::max(least_, smallest_normal(format));
      if (!holds_all(format, storage)) formats_[count_++] = format;
    }
  }
  // Tells whether those of `storage` all are such, but for infinities and NaN.
  [[nodiscard]] bool all() const { return count_ == 0 && least_ == 0; }
  [[nodiscard]] bool holds(double x) const {
    return std::isfinite(x) && (x == 0 || !(std::fabs(x) < least_)) &&
           std::all_of(formats_.begin(), formats_.begin() + count_,
                       [&](Format format) { return round_to(format, x) == x; });
  }

 private:
  static bool holds_all(Format format, Format storage) {
    return precision(format) >= precision(storage) && largest_finite(format) >= largest_finite(storage) &&
           half_smallest_subnormal(format) <= half_smallest_subnormal(storage);
  }
  double least_ = 0;  // smaller magnitudes may be flushed, but for 0
  std::array<Format, value_stages.size()> formats_{};
  std::ptrdiff_t count_ = 0;
};

// Tells whether two rows have the same bits, and these are finite numbers; `exponent` has the bits of an exponent set.
template <class Bits>
bool same_and_finite(const void* one, const void* other, Index count, Bits exponent) {
  const auto *a = static_cast<const Bits*>(one), *b = static_cast<const Bits*>(other);
  Bits differ = 0, special = 0;
  for (Index c = 0; c < count; ++c) {
    differ = static_cast<Bits>(differ | (a[c] ^ b[c]));
    special = static_cast<Bits>(special | static_cast<Bits>((a[c] & exponent) == exponent));
  }
  return differ == 0 && special == 0;
}
bool same_and_finite(Format format, const void* one, const void* other, Index count) {
  return with_element(dtype_of(format), [&](auto element) {
    constexpr const FormatTraits& row = traits(element.format);
    static_assert(row.has_infinity());
    using Word = typename decltype(element)::Word;
    return same_and_finite<Word>(one, other, count, static_cast<Word>(row.past_code));
  });
}

Verdict check_lone_key(Trial& trial) {
  const Problem& p = trial.problem();
  const Contract& contract = trial.contract();
  const Masks masks(trial.inputs(), contract);
  const Result& base = trial.base();
  // Where masks tell no row of a sample from another, one of each says whether there is anything to see.
  if (masks.by_position_alone() && !has_diagonal(p)) {
    bool some = false;
    for (Index b = 0; b < p.b && !some; ++b) some = masks.single(b, 0, 0) >= 0;
    if (!some) return Verdict::skip("no row with a single open key");
  }
  const attest_tensor out = base.out.view(), v = trial.inputs().v.view();
  const Format storage = format_of(trial.inputs().v.dtype());
  const Survivors survivors(contract, storage);
  const bool by_bits =
      survivors.all() && base.out.dtype() == trial.inputs().v.dtype() && out.strides[3] == 1 && v.strides[3] == 1;
  Counts counts;
  bool any = false;
  RowIndex at{};
  Index before = -2;  // no row follows it
  for (const Index row : judged_rows(p)) {
    if (follows(p, at, before, row))
      ++at.i;
    else
      at = row_index(p, row);
    before = row;
    const auto [b, h, i] = at;
    const Index key = masks.single(b, h, i);
    if (key < 0) continue;
    any = true;
    const Index kv = h / p.group();
    if (by_bits && same_and_finite(storage, attest_at(&out, b, h, i, 0), attest_at(&v, b, kv, key, 0), p.dv)) {
      counts.judged += p.dv;
      continue;
    }
    for (Index c = 0; c < p.dv; ++c) {
      const double got = attest_load(&out, b, h, i, c), expected = attest_load(&v, b, kv, key, c);
      if (!survivors.holds(expected) || (got != expected && leaves_open(trial, b, h, i, c))) {
        ++counts.undetermined;
        continue;
      }
      ++counts.judged;
      if (got != expected)
        return Verdict::fail(
            exact_evidence({b, h, i, c}, got, expected, fmt::format("key {} is the only one open in this row", key)),
            counts);
    }
  }
  return any ? held(counts) : Verdict::skip("no row with a single open key");
}

}  // namespace

Property lone_key() {
  return {"lone-key",
          "one open key j  =>  out = v_j, in the base call",
          "a row with a single open key returns its value, whatever its score",
          Kind::exact,
          lone_key_not_applicable,
          check_lone_key,
          Asks::base_call};
}

}  // namespace attest::properties
