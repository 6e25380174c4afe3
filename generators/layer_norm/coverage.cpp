#include "generators/layer_norm/coverage.hpp"

#include "generators/field_counter.hpp"

namespace attest::layer_norm {

Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count) {
  Coverage coverage;
  coverage.problems = count;
  std::vector<FieldCounter<Problem, Field>> counters;
  for (const Field& field : fields())
    if (is_counted(field)) counters.emplace_back(field);
  for (std::uint64_t number = 0; number < count; ++number) {
    const Problem problem = draw_counted(domain, seed, number, 1).problem;
    for (auto& counter : counters) counter.count(problem);
  }
  for (const auto& counter : counters) coverage.fields.push_back(counter.result());
  return coverage;
}

}  // namespace attest::layer_norm
