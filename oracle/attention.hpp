#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "oracle/call.hpp"
#include "oracle/oracle.hpp"

namespace attest::oracle {

// The float64 reference and the proven bounds of docs/bounds.md for one problem. Judges what a kernel returned.
class AttentionOracle final : public Oracle {
 public:
  // Keeps references to all three; cheap. `inputs` are the problem's, or have its shape.
  AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                  RoundingMode rounding = RoundingMode::nearest);
  // Takes inputs that are known as intervals around `inputs`: enclosures hold whatever a conforming kernel makes of any
  // of them.
  AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs, const Radii& radii);
  ~AttentionOracle() override;
  AttentionOracle(const AttentionOracle&) = delete;
  AttentionOracle& operator=(const AttentionOracle&) = delete;

  // Judges every element of the judged rows, `lse` only if it is present, in the order of their indices: out's columns
  // of a row, then its lse. Fails with the first element that no conforming kernel could have returned; counts end
  // there. Passes otherwise, or is vacuous: "undetermined" if nothing could be judged, "wide" if every judged enclosure
  // holds the whole hull of its values. Counts.wide is all of judged for the latter and 0 for any other verdict.
  Verdict judge(const Tensor& out, const Tensor& lse) override;
  // Judges without rows beside each other in lanes. judge() must agree with it.
  Verdict judge_row_by_row(const Tensor& out, const Tensor& lse);
  // Judges every element by the full formulas. judge() must agree with it.
  Verdict judge_slowly(const Tensor& out, const Tensor& lse);

  Enclosure out_enclosure(Index b, Index h, Index i, Index column) override;
  Enclosure lse_enclosure(Index b, Index h, Index i) override;
  // The interval that holds a finite value whatever became of the row's weights: the hull of the attended values
  // widened by section 4, with 0 where the sum of the weights may be infinite or every key lost. It is `undetermined`
  // where nothing is known of the value: rows without keys, values or masked values that are not finite, and an empty
  // row's value that is not fixed.
  Enclosure hull_enclosure(Index b, Index h, Index i, Index column) override;

 private:
  // The state of the full formulas. It is made where the quick levels leave something open.
  struct Full;
  Full& full();
  Verdict judge(const Tensor& out, const Tensor& lse, bool lanes);
  bool surely_empty(const RowIndex& r);
  [[nodiscard]] bool head_known_finite(Index head) const noexcept;

  const Problem& problem_;
  Call call_;
  Index finite_head_ = -1;     // a key/value head known to hold finite values only
  bool heads_finite_ = false;  // whether all of them are known to
  std::unique_ptr<Full> full_;
  std::vector<std::uint8_t> finite_heads_;  // those that judge() found to be, where it does not look at all of them
  std::vector<double> query_;
  std::vector<std::uint8_t>
      known_empty_;  // by row, of those that judge() found to be empty whatever they hold; or nothing
  std::optional<Enclosure> empty_lse_;  // lse of the rows in known_empty_, once asked for
};

}  // namespace attest::oracle
