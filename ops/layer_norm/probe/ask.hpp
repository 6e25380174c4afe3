#pragma once
#include <cmath>
#include <optional>
#include <vector>

#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/offer.hpp"
#include "core/layer_norm/problem.hpp"
#include "ops/probe/questions.hpp"
#include "ops/probe/shown.hpp"

// Makes the rows of a few numbers that layer_norm's probes ask about, and computes their normalised values.
namespace attest::ops::of_layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Edit;
using attest::layer_norm::Norm;
using attest::layer_norm::ParamType;
using attest::layer_norm::Policy;
using attest::layer_norm::Problem;
using attest::layer_norm::Residual;
using attest::layer_norm::Stage;
using attest::layer_norm::Supports;
using attest::layer_norm::Values;
using attest::layer_norm::Weights;

using Row = std::vector<double>;

inline double two_to(int exponent) { return std::ldexp(1.0, exponent); }

// Problems of which the first row is set by hand, in sizes that the subject takes.
class Maker {
 public:
  // `gamma_offset`: 1 where gamma is stored less 1.
  Maker(const Supports& supports, Format dtype, Index rows = 1, int gamma_offset = 0)
      : supports_(supports), dtype_(dtype), rows_(rows), gamma_offset_(gamma_offset) {}
  // Makes problems with the options and sizes of a drawn problem, whatever is asked for. It must outlive the maker.
  Maker(const Supports& supports, const Problem& drawn, int gamma_offset)
      : supports_(supports), dtype_(drawn.dtype), gamma_offset_(gamma_offset), drawn_(&drawn) {}
  // The same with zeros as a residual in every call.
  [[nodiscard]] Maker with_residual() const {
    Maker other = *this;
    other.residual_ = true;
    return other;
  }

  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] Format dtype() const noexcept { return dtype_; }
  [[nodiscard]] bool layer() const noexcept { return drawn_ ? drawn_->norm == Norm::layer : supports_.layer; }
  [[nodiscard]] bool has_params() const noexcept { return supports_.gamma && supports_.beta; }
  // The number that the operation adds to a stored gamma.
  [[nodiscard]] double gamma_offset() const noexcept { return gamma_offset_; }
  // The least row of so many elements, or the nearest there is.
  [[nodiscard]] Index width(Index least) const;
  // x 0, gamma and beta absent, or 1 and 0 where the subject needs them; an epsilon that f32 loses beside 1 (f64:
  // double).
  [[nodiscard]] Problem blank(Index hidden) const;
  // The same of this row.
  [[nodiscard]] Problem of_row(const Row& x) const;

 private:
  const Supports& supports_;
  Format dtype_;
  Index rows_ = 1;
  int gamma_offset_;
  bool residual_ = false;
  const Problem* drawn_ = nullptr;
};

// ---- literal elements, of the first row
void set_row(Problem& problem, const Row& x);
void set_x(Problem& problem, Index column, double value);
void set_residual(Problem& problem, Index column, double value);
// Every gamma is 1, and beta 0, but for those that are set.
void set_gamma(Problem& problem, Index column, double value);
void set_beta(Problem& problem, Index column, double value);

probing::Read out_at(Index column);
// (x - m)/sqrt(v + epsilon) of a row that stands in the problem's norm.
Row normalised(const Row& x, Norm norm, double epsilon);

// A call that reads an element of t more finely than out is stored: out = factor t + beta, beta near to -factor t, in
// few bits; without gamma or beta factor 1 and beta 0.
struct FineCall {
  Problem problem;
  double t, factor, beta;
};
FineCall fine_call(const Maker& maker, const Row& x, Index column);
// A shot that asks whether t is within `slack` of the exact value.
probing::Shot fine_shot(const Maker& maker, const Row& x, Index column, double slack);

// The distance of `t` from the nearest number of `bits` significand bits, in their spacing: 0 to 0.5.
double off_grid(double t, int bits);
double spacing(double t, int bits);

}  // namespace attest::ops::of_layer_norm
