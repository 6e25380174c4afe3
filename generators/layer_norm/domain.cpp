#include "generators/layer_norm/domain.hpp"

#include <algorithm>
#include <utility>

namespace attest::layer_norm {
namespace {

constexpr Index most_rows = Index{1} << 20;

}  // namespace

Domain::Domain(const Supports& supports, std::vector<Format> dtypes) : FieldDomain(supports, std::move(dtypes)) {
  of("rows").hi = std::min(of("rows").hi, most_rows);
  if (!supports.layer) of("norm").lo = 1;
  if (!supports.rms) of("norm").hi = 0;
  if (!supports.no_residual) of("residual").lo = 1;
  if (!supports.no_gamma) of("gamma").lo = 1;
  if (!supports.no_beta) of("beta").lo = 1;
  if (!supports.param_same) of("param_type").lo = 1;
  if (!supports.param_f32) of("param_type").hi = 0;
  check("layer_norm");
}

}  // namespace attest::layer_norm
