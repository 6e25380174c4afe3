#include "generators/layer_norm/coverage.hpp"

#include "generators/field_counter.hpp"

namespace attest::layer_norm {

Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count) {
  return cover_fields<Problem>(fields(), domain, seed, count);
}

}  // namespace attest::layer_norm
