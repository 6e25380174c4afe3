#pragma once
#include "properties/layer_norm/law.hpp"

// The laws, each defined in the file that README.md names.
namespace attest::properties::layer_norm {

Law repeated();
Law other_rows();
Law row_alone();
Law residual_swapped();
Law gamma_zero();
Law constant_row();
Law negated();
Law negated_gamma();
Law scaled();
Law params_scaled();
Law shifted();
Law channels_permuted();
Law residual_zero();
Law shifted_bound();
Law channels_permuted_bound();
Law shared_mean();
Law other_x();
Law other_residual();
Law other_gamma();
Law other_beta();

}  // namespace attest::properties::layer_norm
