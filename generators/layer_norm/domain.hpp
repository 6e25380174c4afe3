#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/layer_norm/offer.hpp"
#include "generators/domain.hpp"

namespace attest::layer_norm {

// Which problems may be drawn, as generators/domain.hpp says it for attention.
class Domain {
 public:
  // Throws Error(usage) if that leaves no problem at all.
  Domain(const Supports& supports, std::vector<Format> dtypes);

  [[nodiscard]] static bool narrows(std::string_view field) noexcept;
  // Throws Error(usage) if the field is not drawn, or if nothing is left.
  void narrow(std::string_view field, Index lo, Index hi);
  void assume(std::function<bool(const Problem&)> predicate) { predicates_.push_back(std::move(predicate)); }
  [[nodiscard]] bool accepts(const Problem& problem) const;

  // What a drawn field may be.
  [[nodiscard]] const Range& range(const Field& field) const noexcept;
  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept { return dtypes_; }

 private:
  Range& of(std::string_view field) noexcept;

  Supports supports_;
  std::vector<Format> dtypes_;
  std::vector<Range> ranges_;  // by the position of the field
  std::vector<std::function<bool(const Problem&)>> predicates_;
};

// A problem, and how many the domain's predicates turned away before it.
struct Drawing {
  Problem problem;
  std::uint64_t rejected = 0;
};

// Case `case_number` of the campaign with this seed, as generators/draw.hpp says it: the work rows x hidden log-uniform in
// [1, 2^16] in 90 % of problems, [1, 2^20] in 9.9 %, [1, 2^24] in 0.1 %; one shape in 500 has more than 65,535 rows. Throws
// Error(usage) if no problem drawn satisfies the domain's predicates.
Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat);

}  // namespace attest::layer_norm
