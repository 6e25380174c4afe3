#include "generators/mha/coverage.hpp"

#include "generators/field_counter.hpp"

namespace attest::mha {

Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count) {
  return cover_fields<Problem>(fields(), domain, seed, count);
}

}  // namespace attest::mha
