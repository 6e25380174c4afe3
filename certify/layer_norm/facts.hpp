#pragma once
#include "certify/layer_norm/interval.hpp"

namespace attest::certify::layer_norm {

inline Ball squared(const Ball& x) { return x * x; }
inline Ball larger_of(const Ball& a, const Ball& b) { return max(a, b); }
inline bool not_below(const Ball& a, const Ball& b) { return !certainly_less(a, b); }

// The numbers of a contract for a row, and the proven bounds of its mean and variance: docs/layer-norm.md, sections 0
// to 3 and 5.
struct Facts {
  Facts(const Contract& c, const Inputs& in, Index r);

  // ---- the contract
  Contract contract;
  attest::layer_norm::Arithmetic how;
  Index n;
  bool rms, flush, flush_inputs;
  Unit storage, s, a_norm, a_affine;  // formats of storage, statistics, normalise, affine
  Format source, params, output, tensor;
  double epsilon;
  Ball size, u, additions, merges, count_error, eps_lo, eps_hi, root;
  bool s_loses, norm_loses_source, norm_loses_s, affine_loses_norm, affine_loses_params, affine_loses_any;

  // ---- the row
  std::vector<double> x, error, gamma, beta;
  bool has_gamma, has_beta, finite = true, has_nan = false;
  Ball mean, variance, mean_abs, largest, range;
  std::vector<Ball> d, falling;  // x - mean; |x| descending
  Ball input_error, mean_input_error, dm, ed, cv, av, v_lo, v_hi, least;
  bool joint = false;
  std::optional<std::string> lost_mean, lost_variance, unknown;
  bool may_be_zero = false;

  void read(const Inputs& in, Index row);
  void numbers();
  void refer();
  Ball error_of_sum(const std::vector<Ball>& w, const Ball& grid) const;
  Ball error_of_mean(const std::vector<Ball>& w, const Ball& mean_of_w, const Ball& grid) const;
  void bound_mean();
  void bound_squares();
  void bound_corrected();
  void bound_welford();
  void bound_one_pass();
  void finish();
  [[nodiscard]] Interval element(std::size_t i) const;
  [[nodiscard]] bool in_range(const Ball& value, const Unit& unit) const {
    return certainly_less(value, unit.overflow);
  }
};

}  // namespace attest::certify::layer_norm
