#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/layer_norm/offer.hpp"
#include "generators/field_domain.hpp"

namespace attest::layer_norm {

// The problems that may be drawn, as in generators/domain.hpp for attention.
class Domain final : public FieldDomain<Problem, Supports, fields> {
 public:
  // Throws Error(usage) if that leaves no problem at all.
  Domain(const Supports& supports, std::vector<Format> dtypes);
};

using Drawing = DrawingOf<Problem>;

// Draws case `case_number` of the campaign with this seed, as in generators/draw.hpp: the work rows x hidden
// log-uniform in [1, 2^16] in 90 % of problems, [1, 2^20] in 9.9 %, [1, 2^24] in 0.1 %; one shape in ten is a model's;
// one in 500 has more than 65,535 rows. Throws Error(usage) if no problem drawn satisfies the domain's predicates.
Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat);

}  // namespace attest::layer_norm
