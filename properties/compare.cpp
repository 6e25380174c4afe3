#include "properties/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace attest::properties {
namespace {

Wrong class_of(double x) {
  if (std::isnan(x)) return Wrong::nan;
  return std::isinf(x) ? Wrong::infinity : Wrong::finite;
}

std::array<Index, 4> extents(const Tensor& tensor) {
  std::array<Index, 4> n{1, 1, 1, 1};
  std::copy(tensor.shape().begin(), tensor.shape().end(), n.begin());
  return n;
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
                                          Counts& counts, const RowFilter& takes_part) {
  if (!expected.present()) return std::nullopt;
  const attest_tensor a = expected.view(), b = got.view();
  const std::array<Index, 4> n = extents(expected);
  for (Index h = 0; h < n[1]; ++h)
    for (Index i = 0; i < n[2]; ++i) {
      if (takes_part && !takes_part(sample_expected, h, i)) continue;
      for (Index c = 0; c < n[3]; ++c) {
        ++counts.judged;
        if (same(a, sample_expected, b, sample_got, h, i, c, equality)) continue;
        Evidence evidence;
        evidence.tensor = name;
        evidence.index = {sample_expected, h, i, c};
        evidence.got = load(b, sample_got, h, i, c);
        evidence.expected = evidence.lo = evidence.hi = load(a, sample_expected, h, i, c);
        evidence.ratio = std::numeric_limits<double>::infinity();
        evidence.wrong = class_of(evidence.got);
        evidence.note = note;
        return evidence;
      }
    }
  return std::nullopt;
}

bool equal(const Tensor& expected, const Tensor& got) {
  Counts counts;
  for (Index b = 0; expected.present() && b < expected.shape()[0]; ++b)
    if (tensor_difference("", expected, b, got, b, Equality::numbers, "", counts, {})) return false;
  return true;
}

// A rule for the elements of one tensor: the oracle's rounding, and how the other result is called.
struct Elements {
  const char* tensor;
  oracle::Rounding round;
  std::string_view other_name;
};

// Two values for one element of which not both are possible, and which lie further apart than the enclosure is wide.
std::optional<Evidence> departure(const Elements& elements, std::array<Index, 4> index, double base, double other,
                                  const oracle::Enclosure& enclosure) {
  using oracle::Outcome;
  if (judge_element(enclosure, elements.round, base) != Outcome::outside &&
      judge_element(enclosure, elements.round, other) != Outcome::outside)
    return std::nullopt;
  const double gap = std::fabs(base - other), width = enclosure.hi - enclosure.lo;
  if (gap <= width) return std::nullopt;
  Evidence evidence;
  evidence.tensor = elements.tensor;
  evidence.index = index;
  evidence.got = base;
  evidence.expected = other;
  evidence.lo = other - width;
  evidence.hi = other + width;
  evidence.ratio = width > 0 ? gap / width : std::numeric_limits<double>::infinity();
  evidence.wrong = std::isfinite(base) ? class_of(other) : class_of(base);
  evidence.note = fmt::format("off the reference {:.9g}: the subject by {:.3g}, {} by {:.3g}", enclosure.y,
                              std::fabs(base - enclosure.y), elements.other_name, std::fabs(other - enclosure.y));
  return evidence;
}

std::optional<Evidence> first_departure(Trial& trial, const Tensor& out, const Tensor& lse,
                                        std::string_view other_name) {
  const Result& base = trial.base();
  const Problem& p = trial.problem();
  const Elements outs{"out", out_rounding(trial.contract(), out), other_name};
  const Elements lses{"lse", lse.present() ? lse_rounding(trial.contract(), lse) : outs.round, other_name};
  for (const Index row : judged_rows(p)) {
    const Index b = row / (p.hq * p.lq), h = row / p.lq % p.hq, i = row % p.lq;
    for (Index c = 0; c < p.dv; ++c) {
      const double x = base.out.at(b, h, i, c), y = out.at(b, h, i, c);
      if (x == y) continue;
      if (auto evidence = departure(outs, {b, h, i, c}, x, y, trial.oracle().out_enclosure(b, h, i, c)))
        return evidence;
    }
    if (!lse.present()) continue;
    const double x = base.lse.at(b, h, i), y = lse.at(b, h, i);
    if (x == y) continue;
    if (auto evidence = departure(lses, {b, h, i, 0}, x, y, trial.oracle().lse_enclosure(b, h, i))) return evidence;
  }
  return std::nullopt;
}

}  // namespace

oracle::Rounding out_rounding(const Contract& contract, const Tensor& out) {
  return {contract.policy[Stage::output], format_of(out.dtype()), contract.arithmetic.flush_to_zero};
}
oracle::Rounding lse_rounding(const Contract& contract, const Tensor& lse) {
  return {format_of(lse.dtype()), format_of(lse.dtype()), contract.arithmetic.flush_to_zero};
}

std::optional<Evidence> difference(SampleOf expected, SampleOf got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part) {
  if (got.result.violation) return got.result.violation;
  if (auto evidence = tensor_difference("out", expected.result.out, expected.sample, got.result.out, got.sample,
                                        equality, note, counts, takes_part))
    return evidence;
  return tensor_difference("lse", expected.result.lse, expected.sample, got.result.lse, got.sample, equality, note,
                           counts, takes_part);
}

std::optional<Evidence> difference(const Result& expected, const Result& got, Equality equality, std::string_view note,
                                   Counts& counts, const RowFilter& takes_part) {
  if (got.violation) return got.violation;
  const Index samples = expected.out.shape()[0];
  for (Index b = 0; b < samples; ++b)
    if (auto evidence = difference({expected, b}, {got, b}, equality, note, counts, takes_part)) return evidence;
  return std::nullopt;
}

Verdict within_enclosures(Trial& trial, const Tensor& out, const Tensor& lse, std::string_view other_name) {
  const Verdict& base = trial.judgement();
  if (equal(trial.base().out, out) && equal(trial.base().lse, lse))
    return base.kind == VerdictKind::fail ? Verdict::pass(base.counts) : base;
  Verdict other = trial.judge(out, lse);
  if (base.kind != VerdictKind::fail && other.kind != VerdictKind::fail) return other;
  if (auto evidence = first_departure(trial, out, lse, other_name))
    return Verdict::fail(std::move(*evidence), other.counts);
  // Both leave the enclosure alike: wrong, but not by this law.
  if (base.kind == VerdictKind::fail) return Verdict::pass(base.counts);
  if (other.evidence) other.evidence->note += fmt::format("{}{}", other.evidence->note.empty() ? "" : "; ", other_name);
  return other;
}

}  // namespace attest::properties
