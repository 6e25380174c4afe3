#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "core/contract.hpp"
#include "core/layer_norm/policy.hpp"
#include "core/tensor.hpp"

namespace attest::layer_norm {

// The way in which the variance is computed. RMSNorm has one way, the mean of squares.
enum class Variance : std::uint8_t {
  two_pass,            // the mean, then the mean of (x - mean)^2
  two_pass_corrected,  // less the square of the mean of x - mean
  welford,             // one pass, mean and sum of squares brought up to date with each element
  shifted,             // one pass over x - x_0: E[z^2] - E[z]^2
  one_pass,            // E[x^2] - E[x]^2
};
// The way in which welford joins the parts of a row: by the difference of their means, or by the weighted mean of both.
enum class Merge : std::uint8_t { none, delta, weighted };
// The way in which the normalised value and the affine part are put together.
enum class NormForm : std::uint8_t {
  centred,         // ((x - m) r) gamma + beta
  scale_bias,      // (x r + (-m r)) gamma + beta
  folded,          // x (r gamma) + (beta - m r gamma)
  weighted_scale,  // (x - m) (r gamma) + beta
};
enum class FlushToZero : std::uint8_t { no, results, inputs };
enum class SumOf : std::uint8_t { rounded, unrounded };

// The most additions that an element passes through in a sum over the row.
struct Lanes {  // each of `lanes` lanes adds blocks of `block` elements, which are added among themselves first
  Index lanes = 1, block = 1;
  friend bool operator==(const Lanes&, const Lanes&) = default;
};
struct Pairwise {  // halves of halves, down to `block` elements, which are added one by one
  Index block = 1;
  friend bool operator==(const Pairwise&, const Pairwise&) = default;
};
struct AnyDepth {  // one by one, at worst
  friend bool operator==(const AnyDepth&, const AnyDepth&) = default;
};
using Depth = std::variant<AnyDepth, Index, Lanes, Pairwise>;

struct Arithmetic {
  Variance variance = Variance::two_pass;
  Depth depth{};
  Merge merge = Merge::none;
  Index merge_depth = 0;            // most merges that one part of the row passes through
  double rsqrt_ulp = 1;             // largest error of the reciprocal root, in ulp of the statistics format
  std::optional<double> rsqrt_rel;  // or relative, before the result is rounded
  NormForm form = NormForm::centred;
  bool norm_rounded = false;  // the normalised value is rounded to storage before gamma meets it
  bool clamp = false;         // a negative variance of one_pass or shifted becomes 0
  FlushToZero flush_to_zero = FlushToZero::no;
  SumOf sum_of = SumOf::rounded;  // the number that is normalised: sum_out, or x + residual in the sum format
  bool order_by_values = false;   // the order of sums may look at the numbers of a row
  double kappa = 1;               // rounding of sums: 1 rounds to nearest, 3 covers truncation

  // H: for a row of n elements, at least 1 and never more than one by one and its merges.
  [[nodiscard]] double additions(Index n) const noexcept;
  [[nodiscard]] bool flushes() const noexcept { return flush_to_zero != FlushToZero::no; }
  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

// The promises of a kernel of this operation. Optional members that are absent are not judged.
struct Contract {
  Policy policy;
  Arithmetic arithmetic;
  int gamma_offset = 0;  // 1: gamma is stored less 1
  NanRule nan = NanRule::unspecified;
  std::optional<BatchInvariance> batch_invariant;
  std::optional<Deterministic> deterministic;

  friend bool operator==(const Contract&, const Contract&) = default;
};

// The `contract` object of describe for this operation, without its policy. Keys that are absent keep their defaults.
// Throws Error(usage) naming an unknown key, a wrong value, or numbers that contradict each other.
Contract contract_from_json(const nlohmann::json& object, const Policy& policy);
// Returns the object that contract_from_json reads back, policy included as text.
nlohmann::ordered_json to_json(const Contract& contract);

// The policy with every number at its default.
Contract contract_for(const Policy& policy);

std::string_view name(Variance variance) noexcept;
std::string_view name(NormForm form) noexcept;

}  // namespace attest::layer_norm
