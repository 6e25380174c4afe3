// nonfinite-attended: a NaN or an infinity in one element of q, k or v shows in the rows that attend to it, and nowhere
// else.
//
// One call each with such an element in q (if the contract says that NaN propagates), in an attended key and in an
// attended value. docs/bounds.md, section 5, says which results are required, and the oracle of the changed inputs
// judges a few rows, the attending one among them:
// - NaN in q or in an attended k makes the row NaN, if the contract says that NaN propagates; infinities there leave it
//   undetermined;
// - NaN or infinity in an attended v makes that column of the row NaN or infinite, unless its weight may vanish;
// - a row that was finite without the element and does not depend on it stays finite.
// The parts that the element does not reach stay as they were, exactly, for subjects that claim `deterministic`:
// - other samples, for q;
// - rows that read other keys and values, for k; rows of the same head that mask the key too, where the contract says
//   that masked keys are never read (a bias of -inf does not mask for this);
// - for v as for k, and moreover every other column and the log-sum-exp.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "oracle/outcome.hpp"
#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

constexpr Index rows_judged = 4;
constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

Reason nonfinite_attended_not_applicable(const Problem& p, const Contract&, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.dv * p.lk * p.d == 0) return "no output elements or no keys";
  if (p.b * p.hq * p.lq * p.lk > most_scores) return "too many scores to look for attending rows";
  return std::nullopt;
}

struct Place {
  Index b, h, i, j;
};

// A row and a key that it attends to; a few rows are tried, from a random one on.
std::optional<Place> some_attended(const Problem& p, const Masks& masks) {
  constexpr Index tries = 64;
  const Index rows = p.b * p.hq * p.lq;
  const auto first = static_cast<Index>(below(draw(p, 151), static_cast<std::uint64_t>(rows)));
  const auto start = static_cast<Index>(below(draw(p, 152), static_cast<std::uint64_t>(p.lk)));
  for (Index n = 0; n < std::min(rows, tries); ++n) {
    const auto [b, h, i] = row_index(p, (first + n) % rows);
    for (Index m = 0; m < p.lk; ++m)
      if (const Index j = (start + m) % p.lk; masks.part(b, h, i, j) == Part::attended) return Place{b, h, i, j};
  }
  return std::nullopt;
}

// One element to replace.
struct Plant {
  Edit::Tensor tensor;
  std::array<Index, 4> index;
  double value;
};

std::vector<Plant> choose_plants(const Problem& p, const Contract& contract, Place at) {
  const Index kv = at.h / p.group();
  const auto width = [](Index n) { return static_cast<std::uint64_t>(n); };
  const auto column = static_cast<Index>(below(draw(p, 153), width(p.d)));
  const auto value_column = static_cast<Index>(below(draw(p, 154), width(p.dv)));
  constexpr double kinds[] = {nan, infinity, -infinity};
  std::vector<Plant> plants;
  if (contract.nan == NanRule::propagates) plants.push_back({Edit::Tensor::q, {at.b, at.h, at.i, column}, nan});
  plants.push_back({Edit::Tensor::k, {at.b, kv, at.j, column}, kinds[below(draw(p, 155), 3)]});
  plants.push_back({Edit::Tensor::v, {at.b, kv, at.j, value_column}, kinds[below(draw(p, 156), 3)]});
  return plants;
}

Tensor& tensor_of(Inputs& inputs, Edit::Tensor tensor) {
  return tensor == Edit::Tensor::q ? inputs.q : tensor == Edit::Tensor::k ? inputs.k : inputs.v;
}

std::string note_of(const Plant& plant) {
  constexpr const char* names[] = {"q", "k", "v"};
  const auto [b, h, i, c] = plant.index;
  return fmt::format("{} in {}[{},{},{},{}]",
                     std::isnan(plant.value) ? "NaN"
                     : plant.value > 0       ? "inf"
                                             : "-inf",
                     names[static_cast<std::size_t>(plant.tensor)], b, h, i, c);
}

// The rows that may take in the planted element, memory shared along stride 0 included.
class Reach {
 public:
  Reach(const Trial& trial, const Plant& plant, const Tensor& tensor)
      : masks_(trial.inputs(), trial.contract()),
        rule_(trial.contract().masked_unread),
        problem_(trial.problem()),
        plant_(plant),
        strides_(tensor.strides()) {}

  [[nodiscard]] bool operator()(Index b, Index h, Index i) const {
    if (!same(0, b)) return false;
    if (plant_.tensor == Edit::Tensor::q) return true;
    if (!same(1, h / problem_.group())) return false;
    if (strides_[2] != 0) return reads(b, h, i, plant_.index[2]);
    for (Index j = 0; j < problem_.lk; ++j)
      if (reads(b, h, i, j)) return true;
    return false;
  }

 private:
  [[nodiscard]] bool same(std::size_t axis, Index index) const {
    return strides_[axis] == 0 || index == plant_.index[axis];
  }
  [[nodiscard]] bool reads(Index b, Index h, Index i, Index j) const {
    const bool unread = rule_ == MaskedUnread::yes || (rule_ == MaskedUnread::beyond_length && j >= masks_.length(b));
    return !unread || masks_.part(b, h, i, j) != Part::masked;
  }

  Masks masks_;
  MaskedUnread rule_;
  const Problem& problem_;
  const Plant& plant_;
  std::span<const Index> strides_;
};

// Judges the row that attends and a few others by the enclosures of the changed inputs: the element must show there, or
// must not. Whether a finite number is right is left to policy-bound.
std::optional<Evidence> judge_rows(Trial& trial, const Inputs& inputs, Place at, const Result& result, Counts& counts) {
  const Problem& p = trial.problem();
  const Result& base = trial.base();
  const auto oracle = oracle::make_oracle(trial.contract(), p, inputs);
  const auto judge = [&](const oracle::Enclosure& enclosure, const oracle::Rounding& round, double got, double before,
                         const char* tensor, std::array<Index, 4> index) -> std::optional<Evidence> {
    const bool must_show = enclosure.expect != oracle::Expect::number && !enclosure.empty_row;
    const bool may_show = enclosure.nonfinite_ok || !std::isfinite(before);
    if (!must_show && may_show) {
      ++counts.undetermined;
      return std::nullopt;
    }
    ++counts.judged;
    if (must_show ? judge_element(enclosure, round, got) != oracle::Outcome::outside : std::isfinite(got))
      return std::nullopt;
    Evidence evidence = evidence_of(enclosure, round, got);
    evidence.tensor = tensor;
    evidence.index = index;
    return evidence;
  };
  const Index all = p.b * p.hq * p.lq, own = (at.b * p.hq + at.h) * p.lq + at.i;
  for (Index n = 0; n < std::min(all, rows_judged); ++n) {
    const auto [b, h, i] = row_index(p, (own + n * std::max<Index>(all / rows_judged, 1)) % all);
    for (Index c = 0; c < p.dv; ++c)
      if (auto evidence = judge(oracle->out_enclosure(b, h, i, c), out_rounding(trial.contract(), result.out),
                                result.out.at(b, h, i, c), base.out.at(b, h, i, c), "out", {b, h, i, c}))
        return evidence;
    if (!result.lse.present()) continue;
    if (auto evidence = judge(oracle->lse_enclosure(b, h, i), lse_rounding(trial.contract(), result.lse),
                              result.lse.at(b, h, i), base.lse.at(b, h, i), "lse", {b, h, i, 0}))
      return evidence;
  }
  return std::nullopt;
}

// Compares everything that the element does not reach, which must stay. A planted value reaches one column and no
// log-sum-exp.
std::optional<Evidence> compare_rest(Trial& trial, const Plant& plant, const Reach& reach, Result& result,
                                     std::string_view note, Counts& counts) {
  const Problem& p = trial.problem();
  const Result& base = trial.base();
  if (plant.tensor != Edit::Tensor::v)
    return difference_with_keys(trial, base, result, note, counts,
                                [&](Index b, Index h, Index i) { return !reach(b, h, i); });
  const Index c = plant.index[3];
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i)
        if (reach(b, h, i)) result.out.set(b, h, i, c, base.out.at(b, h, i, c));
  return difference_with_keys(trial, base, result, note, counts);
}

Verdict check_nonfinite_attended(Trial& trial) {
  const Problem& p = trial.problem();
  const auto at = some_attended(p, Masks(trial.inputs(), trial.contract()));
  if (!at) return Verdict::skip("no row with an open key among those tried");
  const std::vector<Plant> plants = choose_plants(p, trial.contract(), *at);
  std::vector<Inputs> inputs;
  std::vector<Request> calls;
  inputs.reserve(plants.size());
  for (const Plant& plant : plants) {
    inputs.push_back(trial.inputs().clone());
    const auto [b, h, i, c] = plant.index;
    tensor_of(inputs.back(), plant.tensor).set(b, h, i, c, plant.value);
    calls.push_back({&inputs.back(), &p});
  }
  std::vector<Result> results = trial.run_many(calls);
  Counts counts;
  for (std::size_t n = 0; n < plants.size(); ++n) {
    if (results[n].violation) return Verdict::fail(*results[n].violation, counts);
    const std::string note = note_of(plants[n]);
    auto evidence = judge_rows(trial, inputs[n], *at, results[n], counts);
    if (evidence) {
      evidence->note = note + (evidence->note.empty() ? "" : ": " + evidence->note);
      return Verdict::fail(std::move(*evidence), counts);
    }
    if (!claims_deterministic(trial.contract())) continue;
    const Reach reach(trial, plants[n], tensor_of(inputs[n], plants[n].tensor));
    evidence =
        compare_rest(trial, plants[n], reach, results[n], note + ", which this element does not depend on", counts);
    if (evidence) return Verdict::fail(std::move(*evidence), counts);
  }
  return held(counts);
}

}  // namespace

Property nonfinite_attended() {
  return {"nonfinite-attended",
          "NaN or infinity in q_i, k_j or v_j shows in the rows that attend to it and in no other",
          "what is not finite is neither lost nor spread beyond what the contract permits",
          Kind::exact,
          nonfinite_attended_not_applicable,
          check_nonfinite_attended,
          Asks::base_plan};
}

}  // namespace attest::properties
