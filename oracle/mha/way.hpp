#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "oracle/call.hpp"
#include "oracle/linear/error.hpp"

namespace attest::oracle {

// One of the ways in which a contract lets a block go: how projections leave their products, and whether the
// concatenated heads are rounded. It holds the call of the heads' attention: every q, k and v as an interval.
class Way {
 public:
  // The parts that every way shares.
  struct Block {
    Block(const mha::Contract& contract, const mha::Call& call);
    const mha::Contract& contract;
    const mha::Call& call;
    Format storage;
    Matrix x, memory, w_q, w_k, w_v, w_out;    // memory has no rows where it is x
    std::vector<double> b_q, b_k, b_v, b_out;  // zeros where there are none
    [[nodiscard]] const Matrix& remembered() const noexcept { return memory.rows() > 0 ? memory : x; }
  };

  Way(const Block& block, mha::Projected projected, bool heads_rounded);
  // Takes one choice of q, k and v that projections may give. Its enclosures lie inside those of all choices.
  Way(const Block& block, mha::Projected projected, bool heads_rounded, attest::Inputs points);
  // Takes any choice of q, k and v within these intervals.
  Way(const Block& block, mha::Projected projected, bool heads_rounded, attest::Inputs centres, Radii radii);
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  [[nodiscard]] const Call& attention() const noexcept { return *call_; }
  [[nodiscard]] Format heads_format() const noexcept { return contract_.policy[Stage::output]; }
  // The intervals themselves: centres and radii of f64, one way or the other absent where all are 0.
  [[nodiscard]] const attest::Inputs& centres() const noexcept { return inputs_; }
  [[nodiscard]] const Radii& radii() const noexcept { return radii_; }
  // The rule of the output projection.
  [[nodiscard]] const SumRule& out_rule() const noexcept { return out_rule_; }
  [[nodiscard]] bool separate() const noexcept { return projected_ == mha::Projected::separate; }
  [[nodiscard]] bool heads_rounded() const noexcept { return heads_rounded_; }
  [[nodiscard]] bool flushes() const noexcept { return contract_.arithmetic.flush_to_zero; }

 private:
  void prepare(const Block& block);
  void project_into(Tensor& centre, Tensor& radius, const Block& block, const Matrix& x, const Matrix& w,
                    const std::vector<double>& bias, Index tokens, Index heads) const;

  mha::Projected projected_;
  bool heads_rounded_;
  attest::Contract contract_;
  attest::Problem problem_;
  attest::Inputs inputs_;
  Radii radii_;
  SumRule out_rule_;
  std::optional<Call> call_;
};

struct Interval {
  double lo, hi;
};
// Returns the interval of the result of a product of matrices once it is stored.
Interval stored(mha::Projected how, Format storage, bool flush, double value, double error, double bias);
// Returns the ends rounded to a format; with `flush`, a result of less than its smallest normal number may be 0.
Interval rounded_ends(Format format, bool flush, Interval ends);
// Returns half an ulp of a number of this size, at least that of the smallest normal one.
double half_ulp(Format format, double x);
// Returns the interval with a bias of that format added, which may be flushed itself.
Interval with_bias(Interval ends, Format storage, bool flush, double bias);

// The policy that the heads' attention has then.
attest::Policy policy_of(const mha::Contract& contract, mha::Projected projected, bool heads_rounded);

struct WayName {
  mha::Projected projected;
  bool heads_rounded;
};
// The ways that a contract permits, most usual first.
std::vector<WayName> ways_of(const mha::Contract& contract);

}  // namespace attest::oracle
