#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/mma.hpp"
#include "core/policy.hpp"

namespace attest {

// The result of a row without a single open key.
// mean_v: the mean of the values below the sample's length; mean_all: of all values, masked or not, as where a mask is
// a large negative number in place of every score.
enum class EmptyRow : std::uint8_t { unspecified, zero, nan, mean_v, mean_all };
constexpr bool is_mean(EmptyRow rule) noexcept { return rule == EmptyRow::mean_v || rule == EmptyRow::mean_all; }
// Tells whether a sample's result may depend on its batch: not claimed, equal as numbers, or within both bounds.
enum class BatchInvariance : std::uint8_t { bounded, bitwise };
// Bits that repeat: not claimed, over repeated calls, over repeated calls at any thread count.
enum class Deterministic : std::uint8_t { no, rerun, threads };
enum class NanRule : std::uint8_t { unspecified, propagates };
// Tells whether masked keys are never read: no; yes; only those past the sample's key length.
enum class MaskedUnread : std::uint8_t { no, yes, beyond_length };
enum class LseMerge : std::uint8_t { none, flat, chain };
enum class MergeWeights : std::uint8_t { normalised, lse };
enum class KeyOrder : std::uint8_t { any, ascending, descending };
enum class TanhError : std::uint8_t { relative, absolute };

// The numbers of bounds.md section 0 that widen or narrow an enclosure. Defaults are those of the page.
struct Arithmetic {
  double exp_ulp = 1;             // largest error of exp, in ulp of the softmax format
  std::optional<double> exp_rel;  // or as a relative error; wins over exp_ulp
  double div_ulp = 0.5;           // error of the final division, in ulps
  TanhError tanh = TanhError::relative;
  double tanh_ulp = 4;
  double kappa = 1;            // accumulators: 1 round to nearest, 3 covers truncation
  std::optional<Mma> mma;      // or they are those of tensor cores
  std::optional<double> lazy;  // nats by which the running maximum may lag; absent: 8 ln 2, 0 under f16 softmax or pv
  bool fold_q = true, fold_k = true, fold_sqrt = true;  // where the scale may be folded
  bool fold_score = false;                              // it meets the score, and brings log2 e along: one constant
  bool exp2 = true;                                     // exp(x) may be computed as 2^(x log2 e)
  LseMerge lse_merge = LseMerge::flat;
  MergeWeights merge_weights = MergeWeights::normalised;
  bool normalise_after = true, normalise_before = true, normalise_lse = false;
  bool sum_of_rounded = true, sum_of_unrounded = true;
  std::int64_t kv_tile_min = 1;  // fewest keys per tile, all but the last
  KeyOrder key_order = KeyOrder::any;
  std::optional<std::int64_t> splits_max;
  bool order_by_values = false;  // the order of sums may look at any number, not at scores alone
  bool flush_to_zero = false;

  // Tells whether weights may be divided by their sum before they meet the values.
  [[nodiscard]] bool divides_first() const noexcept { return normalise_before || normalise_lse; }
  // True if the scale may bring log2 e along: wherever it may be folded, and so where it cannot, as a root below zero.
  [[nodiscard]] bool folds_log2_e() const noexcept { return exp2 && (fold_q || fold_k || fold_sqrt || fold_score); }
  // Tells whether an addition is rounded to nearest, whatever adds.
  [[nodiscard]] bool sums_to_nearest() const noexcept { return kappa == 1 && !mma; }
  // A number of no more bits passes unchanged through a sum in which it is alone, if the accumulator holds it.
  [[nodiscard]] int bits_in_sums() const noexcept {
    return mma ? 1 + std::min(mma->frac, fraction_bits(mma->out)) : precision(Format::f64);
  }
  // Returns the largest error of one addition, in units roundoff of `accumulator`.
  [[nodiscard]] double units_of_sums(Format accumulator) const noexcept {
    return mma ? units_of_mma(*mma, accumulator) : kappa;
  }

  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

// The promises of a subject: arithmetic and semantics. Optional members that are absent are not judged.
struct Contract {
  Policy policy;
  Arithmetic arithmetic;
  EmptyRow empty_row = EmptyRow::unspecified;
  bool softcap_before_bias = true;
  NanRule nan = NanRule::unspecified;
  MaskedUnread masked_unread = MaskedUnread::no;
  bool mask_added = false;  // -inf is added to the scores of masked keys, so that one that overflowed makes a NaN
  std::optional<BatchInvariance> batch_invariant;
  std::optional<Deterministic> deterministic;

  // 8 ln 2 nats unless declared; 0 where softmax or pv is f16, in which a lagging maximum would overflow.
  [[nodiscard]] double lazy_nats() const noexcept;

  friend bool operator==(const Contract&, const Contract&) = default;
};

// The `contract` object of describe (docs/plugin.md), without its policy when `policy` is given for one dtype.
// Keys that are absent keep their defaults. Throws Error(usage) naming an unknown key or a wrong value.
Contract contract_from_json(const nlohmann::json& object, const Policy& policy);
// The same of its text, without nlohmann's header.
Contract contract_from_text(std::string_view object, const Policy& policy);
// Returns the object as it reads for one dtype: a number may be an object from dtype to value, and a dtype that it
// leaves out keeps the default. The policy stays as it is. Throws Error(usage) for a key that is no dtype.
nlohmann::json contract_for_dtype(const nlohmann::json& object, Format dtype);
// Tells whether the value of a key is an object from dtype to value, rather than an object of that key itself:
// `policy`, which is read on its own, `mma`, and `depth` of layer_norm.
bool is_by_dtype(std::string_view key, const nlohmann::json& value);
// Returns the object that contract_from_json reads back, policy included as text.
nlohmann::ordered_json to_json(const Contract& contract);

// A contract for arithmetic alone: the policy with every number at its default.
Contract contract_for(const Policy& policy);

}  // namespace attest
