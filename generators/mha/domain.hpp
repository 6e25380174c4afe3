#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/mha/offer.hpp"
#include "generators/field_domain.hpp"

namespace attest::mha {

// The problems that may be drawn, as in generators/domain.hpp for attention.
class Domain final : public FieldDomain<Problem, Supports, fields> {
 public:
  // Throws Error(usage) if that leaves no problem at all.
  Domain(const Supports& supports, std::vector<Format> dtypes);

  // Tells whether the subject takes a label of a field, alone.
  [[nodiscard]] bool offers(std::string_view field, Index label) const;

 private:
  [[nodiscard]] bool is_left(const Field& field) const override;
};

using Drawing = DrawingOf<Problem>;

// Draws case `case_number` of the campaign with this seed, as in generators/draw.hpp. The work, in multiply-adds, is
// drawn first, log-uniform in [2^3, 2^17] in 90 % of problems, [2^3, 2^21] in 9.9 % and [2^3, 2^25] in 0.1 %, and
// shared among width, heads, tokens and samples; one shape in 20 is a model's, of up to 2^27. Throws Error(usage) if no
// problem drawn satisfies the domain's predicates.
Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat);

}  // namespace attest::mha
