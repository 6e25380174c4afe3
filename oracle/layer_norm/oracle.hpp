#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/layer_norm/inputs.hpp"
#include "core/verdict.hpp"
#include "oracle/layer_norm/element.hpp"
#include "oracle/layer_norm/quick.hpp"
#include "oracle/layer_norm/short_rows.hpp"
#include "oracle/oracle.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

using attest::layer_norm::Inputs;
using attest::layer_norm::Problem;

class DecideRow;

// gamma and beta as numbers, in whole lanes; empty where absent.
struct Params {
  explicit Params(const Inputs& inputs);
  ~Params();
  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  std::vector<double> gamma, beta;
  Format format = Format::f32;  // the format of both
  // Tells whether all elements are finite; found out where it is first asked for.
  [[nodiscard]] bool finite() const;
  // Tells whether they are and no gamma is 0 with its offset; likewise.
  [[nodiscard]] bool none_vanish(int gamma_offset) const;

 private:
  mutable std::optional<bool> finite_, none_vanish_;
};

// Returns the evidence that an element of sum_out differs from the one permitted value.
Evidence sum_evidence(const std::array<std::int64_t, 4>& index, double got, double expected);

// The reference and the proven bounds of docs/layer-norm.md for one problem. Judges what a kernel returned.
class LayerNormOracle {
 public:
  // Keeps references to all three; cheap. `inputs` are the problem's, or have its shape.
  LayerNormOracle(const Contract& contract, const Problem& problem, const Inputs& inputs);
  ~LayerNormOracle();
  LayerNormOracle(const LayerNormOracle&) = delete;
  LayerNormOracle& operator=(const LayerNormOracle&) = delete;

  // Judges every element of the judged rows, in the order of their indices: out's columns of a row, then those of
  // sum_out, if it is present. Fails with the first element that no conforming kernel could have returned; counts end
  // there. pass otherwise, or vacuous: "undetermined" if nothing could be judged, "wide" if every judged interval holds
  // beta and all that any normalised row could give there.
  Verdict judge(const Tensor& out, const Tensor& sum_out);
  // Judges every element by the whole of section 4. judge() must agree with it.
  Verdict judge_slowly(const Tensor& out, const Tensor& sum_out);

  // `beta_ok` and what comes with it is part of Interval.
  Interval interval(Index row, Index column);
  Outcome outcome(const Interval& interval, double got) const;
  // least_scale() of an element; 0 where nothing is known of its row.
  Wide least_scale_of(Index row, Index column, bool products);
  // Returns an element of a row that no one mean leaves in the interval which the others of its row leave it. Such an
  // element is known for two passes alone, where the mean that is subtracted is that of the variance. Each element by
  // itself may lie in its interval. nullopt where some mean explains all, or nothing is known.
  std::optional<Evidence> no_shared_mean(Index row, const Tensor& out);
  // Returns the only values that sum_out may hold there.
  std::vector<double> sums(Index row, Index column) const;

 private:
  // The levels that a verdict may use: none; those that decide as the whole formulas do, element by element; and those
  // that say of elements no more than that they are inside.
  enum class Levels : std::uint8_t { whole, counting, quick };
  // The entered row's, made where they are first asked for.
  const Statistics& statistics();
  bool decide_open_row(std::span<const double> got, std::span<std::uint8_t> decided);
  struct Told;
  Told tell(QuickRow& quick, Levels levels, bool some_narrow, std::span<const double> got,
            std::span<std::uint8_t> accepted, std::span<std::uint8_t> decided);
  Index tell_each(const QuickRow& quick, const QuickRow::Known& known, std::span<const double> got,
                  std::span<const std::uint8_t> accepted, std::span<std::uint8_t> decided, Index& left) const;
  [[nodiscard]] std::uint8_t tell_unbounded(const QuickRow::Known& known, std::size_t i, double got) const;
  void tell_lost(std::span<const double> got, std::span<std::uint8_t> decided);
  [[nodiscard]] bool is_no_number(double got) const;
  void decide_rest(DecideRow& decide, std::span<const double> got, std::span<std::uint8_t> decided,
                   std::span<std::uint8_t> scratch);
  void begin_short_rows(ShortRows& block, const QuickRow& quick) const;
  void look_at_short_rows(ShortRows& block, QuickRow& quick, Index row, const Tensor& out, const Tensor& sum_out);
  bool judge_sums(Index row, const Tensor& sum_out, std::vector<double>& got, Verdict& verdict);
  static void read(const Tensor& out, Index row, std::vector<double>& to);
  Verdict judge_rows(const Tensor& out, const Tensor& sum_out, Levels levels);
  bool all_surely_wide(QuickRow& quick);
  // Fills row_: what the row's elements share.
  void enter(Index row);
  // `d`: its x less the mean.
  [[nodiscard]] Element element(Index column, Wide d) const;
  bool judge_sum(Index row, Index column, double got, Verdict& verdict) const;

  const Contract& contract_;
  const Problem& problem_;
  const Inputs& inputs_;
  Params params_;
  const LentNumbers lent_numbers_;
  const QuickNumbers& numbers_;
  Rounding round_;
  Index entered_ = -1;
  SourceRow source_;
  std::vector<double> added_, stored_;  // a row of the residual, and of sum_out
  std::vector<double> beta_left_;       // beta as a row whose variance overflows leaves it; empty until one does
  std::unique_ptr<Statistics> statistics_;
};

}  // namespace attest::oracle::layer_norm
