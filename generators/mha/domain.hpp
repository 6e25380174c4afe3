#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/mha/offer.hpp"
#include "generators/domain.hpp"

namespace attest::mha {

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

  // Whether the subject takes a label of a field, alone.
  [[nodiscard]] bool offers(std::string_view field, Index label) const;
  // What a drawn field may be.
  [[nodiscard]] const Range& range(const Field& field) const noexcept;
  [[nodiscard]] const Range& range(std::string_view field) const noexcept { return range(*find_field(field)); }
  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept { return dtypes_; }

 private:
  [[nodiscard]] bool is_left(const Field& field) const;
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

// Case `case_number` of the campaign with this seed, as generators/draw.hpp says it. The work, in multiply-adds, is drawn first,
// log-uniform in [2^3, 2^17] in 90 % of problems, [2^3, 2^21] in 9.9 % and [2^3, 2^25] in 0.1 %, and shared among width, heads,
// tokens and samples; one shape in 32 is one of production. Throws Error(usage) if no problem drawn satisfies the domain's predicates.
Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat);

}  // namespace attest::mha
