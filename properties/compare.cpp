#include "properties/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/masks.hpp"
#include "properties/transform.hpp"

namespace attest::properties {
namespace {

Wrong class_of(double x) {
  if (std::isnan(x)) return Wrong::nan;
  return std::isinf(x) ? Wrong::infinity : Wrong::finite;
}

bool same(const attest_tensor& a, Index sample_a, const attest_tensor& b, Index sample_b, Index h, Index i, Index c,
          Equality equality) {
  if (equality == Equality::bits)
    return std::memcmp(attest_at(&a, sample_a, h, i, c), attest_at(&b, sample_b, h, i, c), a.dtype.bits / 8) == 0;
  const double x = load(a, sample_a, h, i, c), y = load(b, sample_b, h, i, c);
  return x == y || (std::isnan(x) && std::isnan(y));
}

std::optional<Evidence> tensor_difference(const char* name, const Tensor& expected, Index sample_expected,
                                          const Tensor& got, Index sample_got, Equality equality, std::string_view note,
                                          Counts& counts, const RowFilter& takes_part, const Excuse& excused) {
  if (!expected.present()) return std::nullopt;
  const attest_tensor a = expected.view(), b = got.view();
  const std::array<Index, 4> n = extents(expected);
  // Equal bytes are equal numbers, whichever equality is asked: most rows need no more.
  const auto is_dense = [&](const attest_tensor& t) { return n[3] == 1 || t.strides[3] == 1; };
  const bool by_bytes = is_dense(a) && is_dense(b) && a.dtype.code == b.dtype.code && a.dtype.bits == b.dtype.bits;
  const auto bytes = static_cast<std::size_t>(n[3]) * (a.dtype.bits / 8u);
  for (Index h = 0; h < n[1]; ++h)
    for (Index i = 0; i < n[2]; ++i) {
      if (takes_part && !takes_part(sample_expected, h, i)) continue;
      if (by_bytes &&
          std::memcmp(attest_at(&a, sample_expected, h, i, 0), attest_at(&b, sample_got, h, i, 0), bytes) == 0) {
        counts.judged += n[3];
        continue;
      }
      for (Index c = 0; c < n[3]; ++c) {
        ++counts.judged;
        if (same(a, sample_expected, b, sample_got, h, i, c, equality)) continue;
        const double x = load(a, sample_expected, h, i, c), y = load(b, sample_got, h, i, c);
        if (excused && excused(name, {sample_expected, h, i, c}, x, y)) {
          --counts.judged;
          ++counts.undetermined;
          continue;
        }
        Evidence evidence = exact_evidence({sample_expected, h, i, c}, y, x, std::string(note));
        evidence.tensor = name;
        return evidence;
      }
    }
  return std::nullopt;
}

bool equal(const Tensor& expected, const Tensor& got) {
  Counts counts;
  for (Index b = 0; expected.present() && b < expected.shape()[0]; ++b)
    if (tensor_difference("", expected, b, got, b, Equality::numbers, "", counts, {}, {})) return false;
  return true;
}

}  // namespace

oracle::Rounding out_rounding(const Contract& contract, const Tensor& out) {
  return {contract.policy[Stage::output], format_of(out.dtype()), contract.arithmetic.flush_to_zero};
}
oracle::Rounding lse_rounding(const Contract& contract, const Tensor& lse) {
  return {format_of(lse.dtype()), format_of(lse.dtype()), contract.arithmetic.flush_to_zero};
}

Evidence exact_evidence(std::array<Index, 4> index, double got, double expected, std::string note) {
  Evidence evidence;
  evidence.tensor = "out";
  evidence.index = index;
  evidence.got = got;
  evidence.expected = evidence.lo = evidence.hi = expected;
  evidence.ratio = std::numeric_limits<double>::infinity();
  evidence.wrong = class_of(got);
  evidence.note = std::move(note);
  return evidence;
}

std::optional<Evidence> difference(SampleOf expected, SampleOf got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part, const Excuse& excused) {
  if (got.result.violation) return got.result.violation;
  if (auto evidence = tensor_difference("out", expected.result.out, expected.sample, got.result.out, got.sample,
                                        equality, note, counts, takes_part, excused))
    return evidence;
  return tensor_difference("lse", expected.result.lse, expected.sample, got.result.lse, got.sample, equality, note,
                           counts, takes_part, excused);
}

std::optional<Evidence> difference(const Result& expected, const Result& got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part, const Excuse& excused) {
  if (got.violation) return got.violation;
  const Index samples = expected.out.shape()[0];
  for (Index b = 0; b < samples; ++b)
    if (auto evidence = difference({expected, b}, {got, b}, equality, note, counts, takes_part, excused))
      return evidence;
  return std::nullopt;
}

std::optional<Evidence> departure(const Sighting& base, const Sighting& other, const char* tensor,
                                  std::array<Index, 4> index, std::string_view other_name) {
  using oracle::Expect;
  using oracle::Outcome;
  const oracle::Enclosure &expected = base.enclosure, &beside = other.enclosure;
  const bool base_out = judge_element(expected, base.round, base.value) == Outcome::outside;
  const bool other_out = judge_element(beside, other.round, other.value) == Outcome::outside;
  if (!base_out && !other_out) return std::nullopt;
  const bool base_finite = std::isfinite(base.value), other_finite = std::isfinite(other.value);
  if (base_out && other_out) {  // wrong alike?
    if (!base_finite && !other_finite) return std::nullopt;
    const bool numbers = expected.expect == Expect::number && beside.expect == Expect::number;
    if (base_finite && other_finite && !numbers) return std::nullopt;
  }
  const double least = expected.lo - beside.hi, most = expected.hi - beside.lo, gap = base.value - other.value;
  if (least <= gap && gap <= most) return std::nullopt;
  Evidence evidence;
  evidence.tensor = tensor;
  evidence.index = index;
  evidence.got = base.value;
  evidence.expected = other.value;
  evidence.lo = other.value + least;
  evidence.hi = other.value + most;
  const double permitted = gap < 0 ? -least : most;
  evidence.ratio = permitted > 0 ? std::fabs(gap) / permitted : std::numeric_limits<double>::infinity();
  evidence.wrong = base_finite ? class_of(other.value) : class_of(base.value);
  evidence.note = fmt::format("off the reference {:.9g}: the subject by {:.3g}, {} by {:.3g}", expected.y,
                              std::fabs(base.value - expected.y), other_name, std::fabs(other.value - beside.y));
  return evidence;
}

std::optional<Evidence> first_departure(Trial& trial, const Other& other, const ToBase& to_base) {
  const Result& base = trial.base();
  const Problem& p = other.problem;
  const Tensor &out = other.out, &lse = other.lse;
  const Contract& theirs = other.contract != nullptr ? *other.contract : trial.contract();
  const oracle::Rounding out_round = out_rounding(trial.contract(), base.out), its_round = out_rounding(theirs, out);
  const auto mapped = [&](std::array<Index, 4> index) { return to_base ? to_base(index) : index; };
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    for (Index c = 0; c < p.dv; ++c) {
      const std::array<Index, 4> at = mapped({b, h, i, c});
      const double x = base.out.at(at[0], at[1], at[2], at[3]), y = out.at(b, h, i, c);
      if (x == y) continue;
      if (auto evidence = departure({x, trial.oracle().out_enclosure(at[0], at[1], at[2], at[3]), out_round},
                                    {y, other.oracle.out_enclosure(b, h, i, c), its_round}, "out", at, other.name))
        return evidence;
    }
    if (!lse.present() || !base.lse.present()) continue;
    const std::array<Index, 4> at = mapped({b, h, i, 0});
    const oracle::Rounding round = lse_rounding(trial.contract(), lse);
    if (auto evidence = departure(
            {base.lse.at(at[0], at[1], at[2]), trial.oracle().lse_enclosure(at[0], at[1], at[2]), round},
            {lse.at(b, h, i), other.oracle.lse_enclosure(b, h, i), round}, "lse", {at[0], at[1], at[2], 0}, other.name))
      return evidence;
  }
  return std::nullopt;
}

Verdict joined(Verdict one, Verdict two) {
  Counts counts = one.counts;
  counts += two.counts;
  const bool takes_two =
      one.kind != VerdictKind::fail &&
      (two.kind == VerdictKind::fail || (one.kind != VerdictKind::pass && two.kind == VerdictKind::pass));
  Verdict both = std::move(takes_two ? two : one);
  both.counts = counts;
  return both;
}

Verdict noted(Verdict verdict, std::string_view note) {
  if (verdict.evidence) verdict.evidence->note += fmt::format("{}{}", verdict.evidence->note.empty() ? "" : "; ", note);
  return verdict;
}

std::optional<Evidence> difference_with_keys(Trial& trial, const Result& expected, const Result& got,
                                             std::string_view note, Counts& counts, const RowFilter& takes_part) {
  const EmptyRow rule = trial.contract().empty_row;
  const bool empty_is_known = rule == EmptyRow::zero || rule == EmptyRow::nan;
  const Masks masks(trial.inputs(), trial.contract());
  const RowFilter with_keys = [&](Index b, Index h, Index i) {
    return (!takes_part || takes_part(b, h, i)) && masks.has_key(b, h, i);
  };
  // An overflow may make a NaN of a row, at a key that only a bias of -inf closes too: other contents there mend it.
  const Excuse left_open = [&](std::string_view tensor, std::array<Index, 4> index, double x, double y) {
    const auto [b, h, i, c] = index;
    const oracle::Enclosure enclosure =
        tensor == "lse" ? trial.oracle().lse_enclosure(b, h, i) : trial.oracle().out_enclosure(b, h, i, c);
    if (enclosure.undetermined && !empty_is_known) return true;
    return enclosure.nonfinite_ok && !(std::isfinite(x) && std::isfinite(y));
  };
  return difference(expected, got, Equality::numbers, note, counts, empty_is_known ? takes_part : with_keys, left_open);
}

Verdict held(const Counts& counts) {
  return counts.judged > 0 ? Verdict::pass(counts) : Verdict::vacuous("undetermined", counts);
}

Verdict within_enclosures(Trial& trial, const Tensor& out, const Tensor& lse, std::string_view other_name) {
  const Verdict& base = trial.judgement();
  if (equal(trial.base().out, out) && equal(trial.base().lse, lse))
    return base.kind == VerdictKind::fail ? Verdict::pass(base.counts) : base;
  Verdict other = trial.judge(out, lse);
  if (base.kind != VerdictKind::fail && other.kind != VerdictKind::fail) return other;
  if (auto evidence = first_departure(trial, {trial.problem(), out, lse, trial.oracle(), other_name}))
    return Verdict::fail(std::move(*evidence), other.counts);
  // Both leave the enclosure alike: wrong, but not by this law.
  if (base.kind == VerdictKind::fail) return Verdict::pass(base.counts);
  return noted(std::move(other), other_name);
}

}  // namespace attest::properties
