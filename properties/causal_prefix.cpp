// causal-prefix: rows 0..t do not change when the keys and values behind what they may see do.
//
// Under causality, or a window that ends to the right, rows 0..t read no key from end(t) on, one past row t's diagonal
// or its window. Keys and values from there get other finite values; rows 0..t must come out as before. Per sample,
// since with bottom-right alignment the diagonal follows the sample's length; where samples or keys share memory, only
// what all of them leave unread is changed.
//
// Exact, for subjects that claim `deterministic`: at equal shapes, no tile, split or thread count may depend on values.
// The new numbers are finite in storage and operand, so that they may be read and masked. Catches a diagonal that is
// off by one or measured from the wrong corner, and masks that leak. Under `mask_added` values alone change.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason causal_prefix_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (!p.causal && p.window_right < 0) return "neither causal nor a right window";
  if (p.lk == 0) return "no keys";
  return needs_deterministic(p, contract, info);
}

// The first key of every sample that no row up to t may see.
class Ends {
 public:
  Ends(const Trial& trial, Index t) : masks_(trial.inputs(), trial.contract()), t_(t) {
    for (Index b = 0; b < trial.problem().b; ++b) last_ = std::max(last_, of(b));
  }
  [[nodiscard]] Index of(Index b) const { return masks_.end(b, t_); }
  // Returns the last of all samples' ends.
  [[nodiscard]] Index last() const noexcept { return last_; }

 private:
  Masks masks_;
  Index t_, last_ = 0;
};

// Returns how many rows t leave some key of some sample unseen: they come first, since ends rise with the row.
Index rows_with_later_keys(const Trial& trial) {
  const Problem& p = trial.problem();
  const Masks masks(trial.inputs(), trial.contract());
  Index rows = 0;
  for (Index b = 0; b < p.b; ++b)
    while (rows < p.lq && masks.end(b, rows) < masks.length(b)) ++rows;
  return rows;
}

// Other values from each sample's end on; how many changed.
Index change(Tensor& tensor, const Tensor& other, const Ends& ends, double most) {
  const bool shared = tensor.strides()[0] == 0;
  Index changes = 0;
  for_each_stored(tensor, [&](Index b, Index h, Index j, Index c) {
    if (j < (shared ? ends.last() : ends.of(b))) return;
    const double x = tensor.at(b, h, j, c), y = changed(x, other.at(b, h, j, c));
    if (!(std::fabs(x) <= most) || !(std::fabs(y) <= most)) return;
    tensor.set(b, h, j, c, y);
    ++changes;
  });
  return changes;
}

Verdict check_causal_prefix(Trial& trial) {
  const Problem& p = trial.problem();
  const Index rows = rows_with_later_keys(trial);
  if (rows == 0) return Verdict::skip("every row may see every key");
  const auto t = static_cast<Index>(below(draw(p, 81), static_cast<std::uint64_t>(rows)));
  const Ends ends(trial, t);

  Problem donor = reseeded(p, 82);
  donor.keep = Keep::none;
  donor.bias = Bias::none;
  donor.lengths = Lengths::none;
  const Inputs other = materialise(donor);
  const Policy& policy = trial.contract().policy;
  const double most = std::min(largest_finite(policy[Stage::storage]), largest_finite(policy[Stage::operand]));
  Inputs inputs = trial.inputs().clone();
  Index changes = change(inputs.v, other.v, ends, most);
  // Where -inf is added to its score, another k may overflow, and make NaN of earlier rows.
  if (!trial.contract().mask_added) changes += change(inputs.k, other.k, ends, most);
  if (changes == 0) return Verdict::skip("no later key has memory of its own");

  Counts counts;
  const Result& base = trial.base();
  if (auto evidence = difference_with_keys(trial, base, trial.run(inputs, p),
                                           fmt::format("only keys behind what row {} may see changed", t), counts,
                                           [t](Index, Index, Index i) { return i <= t; }))
    return Verdict::fail(std::move(*evidence), counts);
  return held(counts);
}

}  // namespace

Property causal_prefix() {
  return {"causal-prefix",
          "f(x)[..t] = f(x')[..t] where x and x' differ in keys that rows 0..t may not see",
          "values of later keys change no earlier row, if `deterministic` is claimed",
          Kind::exact,
          causal_prefix_not_applicable,
          check_causal_prefix,
          Asks::base_plan};
}

}  // namespace attest::properties
