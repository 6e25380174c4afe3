#pragma once
#include <cstdint>

#include "core/problem.hpp"
#include "generators/domain.hpp"

namespace attest {

// A problem, and how many the domain's predicates turned away before it.
struct Drawing {
  Problem problem;
  std::uint64_t rejected = 0;
};

// Draws case `case_number` of the campaign with this seed. A plan is kept for `repeat` cases in a row (repeat >= 1):
// format, shape, strides, scale, options, forms, and which masks there are, all that a subject may plan or compile for.
// The first case of them draws it, the shape from (seed, case_number / repeat), the rest from (seed, case_number); the
// others draw the contents of tensors and masks from (seed, case_number). Where shapes share plans the second half of
// them has another shape. `size` (0..100) scales the logarithm of the work. Depends on nothing else; safe to call from
// several threads. Throws Error(usage) if no problem drawn satisfies the domain's predicates.
Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size = 100);
// Returns its problem alone.
Problem draw_problem(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size = 100);

// The same from two keys: equal keys give equal problems.
Problem draw_from_keys(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size);

}  // namespace attest
