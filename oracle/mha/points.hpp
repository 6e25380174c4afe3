#pragma once
#include <optional>
#include <vector>

#include "oracle/mha/way.hpp"
#include "oracle/products.hpp"

namespace attest::oracle {

// Returns the rule by which round_sums() rounds to a format.
products::RoundRule round_rule(Format format) noexcept;

// One choice of q, k and v that projections may give, in numbers of float64, and how far others may lie from it.
class Points {
 public:
  Points(const Way::Block& block, mha::Projected projected);

  // The largest Euclidean norm of a row of each matrix; NaN if an element is.
  struct Norms {
    double x, memory, w_q, w_k, w_v, w_out;
  };
  [[nodiscard]] const Norms& norms() const noexcept { return norms_; }

  // The largest norm of a head's row and the largest magnitude among the points of one projection, and how far from a
  // row of points those of another choice may lie.
  struct Extent {
    double norm = 0, largest = 0, off = 0;
  };
  [[nodiscard]] const Extent& q() const noexcept { return projections_[0].extent; }
  [[nodiscard]] const Extent& k() const noexcept { return projections_[1].extent; }
  [[nodiscard]] const Extent& v() const noexcept { return projections_[2].extent; }
  [[nodiscard]] double largest() const noexcept;

  // Once.
  [[nodiscard]] attest::Inputs take_inputs() { return std::move(inputs_); }
  // Intervals that hold every choice of what row i of sample b reads; 0 elsewhere.
  struct Choices {
    attest::Inputs centres;
    Radii radii;
  };
  [[nodiscard]] Choices choices(Index b, Index i) const;

 private:
  struct Projection {
    Matrix sums;
    std::vector<double> bias;  // padded
    double error = 0;          // at most, of any sum
    Index tokens, heads;
    Extent extent;
  };
  [[nodiscard]] Tensor project(Projection& to, const Matrix& x, double x_norm, int x_last, const Matrix& w,
                               double w_norm, const std::vector<double>& bias);
  void store(const Projection& of, Index row, double shift, double* to) const;
  void measure(Projection& of, const Matrix& x, double roundings, double largest_bias,
               const std::vector<double>& points);
  void choices_of(const Projection& of, Index first, Index count, Tensor& centre, Tensor& radius) const;

  const Way::Block& block_;
  mha::Projected projected_;
  products::RoundRule rule_;
  Norms norms_{};
  Projection projections_[3];
  attest::Inputs inputs_;
};

}  // namespace attest::oracle
