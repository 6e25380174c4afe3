#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "certify/score.hpp"
#include "core/problem.hpp"

namespace attest::certify {

// The rule by which an element of a row is judged.
enum class RowKind : std::uint8_t {
  ordinary,
  empty,         // no key takes part: the contract's rule; with keys where that is the mean of all values
  must_be_nan,   // NaN in q or in an attended k, and the contract says that it propagates
  undetermined,  // infinities in the inputs, or a maximum past the range of double
};

// Something that section 5 of docs/bounds.md permits, and the first reason why: one clause.
struct Permission {
  std::string why;
  void give(const char* reason) {
    if (why.empty()) why = reason;
  }
  explicit operator bool() const { return !why.empty(); }
};

// The loss of a sum over the keys where an addition loses no more than the lesser of its terms (section 4). Each of
// `keys` loses a rounding; the others, which count for less than that, lose no more than their shares, `rest` in all.
struct Additions {
  Index keys = 0;
  Ball rest;
};

// The numbers that every column of one query row shares: sections 1, 2 and 5 of docs/bounds.md. Plain data once made.
struct Row {
  // Makes row [b, h, i] of the call. Keeps no reference. `operands` are q and k, if these are intervals.
  Row(const Constants& c, const Contract& contract, const Inputs& inputs, std::array<Index, 3> place,
      const Operands* operands = nullptr);

  RowKind kind = RowKind::ordinary;
  std::vector<Index> keys;            // keys that take part, ascending
  std::vector<Score> scores;          // their scores
  std::vector<Ball> d;                // largest error of ln of each weight
  std::vector<bool> masked_but_read;  // by key: takes no part, and the contract does not say that it is never read

  // Section 2, once there are keys. The maximum is exact, so that several keys may have it.
  Index n = 0, rescalings = 0, splits = 1, blocks = 0;
  Ball z_max, g, z_top, z_all, ln_n, a2;
  Ball rescaled;        // largest part of a weight that a rescaling wrongly takes or leaves
  Ball every_exp;       // largest error of exp itself, on ln of a weight and of its rescalings
  Ball wrong_argument;  // largest error of an argument of 2^x, or of exp(lse_i - lse), per unit of the score
  Ball mass;            // sum exp(z - zmax)
  Ball mass_most;       // the same for any inputs, where these are intervals
  Ball lo_sum, hi_sum;  // sum exp(z - zmax -+ d)
  Ball rho, rho_lost;   // section 4: the row's scale for underflows; where scores may be lost
  // The keys whose score may be the largest, and the largest |ln| of that one's weight before it is rounded. Both are
  // set where a contract grants no lazy shift and the row is ordinary.
  std::vector<std::size_t> tops;
  Ball top_off;

  std::optional<Additions> of_values, of_weights;  // set where the sums are such

  Permission nonfinite;     // NaN or infinity is permitted in any column
  Permission undetermined;  // a finite value is not judged
  bool score_lost = false;  // a score that matters may have become infinite: the hull decides
  bool zero_ok = false;     // 0 is permitted: every score, or the sum of the weights, may be infinite

 private:
  void collect(const Constants& c, const Contract& contract, const Inputs& inputs, std::array<Index, 3> place,
               const Operands* operands);
  void take_mean(Index values);
  void weigh(const Constants& c, Index all_keys);
  void find_tops(const Constants& c);
  [[nodiscard]] Additions additions(const Constants& c, const Ball& u) const;
  void leave_undetermined(const char* reason);
  void check_overflow(const Constants& c, EmptyRow empty_row);
  [[nodiscard]] Index count_records(const Constants& c) const;
  [[nodiscard]] bool gap_overflows(const Constants& c, std::size_t t) const;
};

}  // namespace attest::certify
