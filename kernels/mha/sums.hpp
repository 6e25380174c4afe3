#pragma once
#include <span>

#include "core/format.hpp"
#include "kernels/mha/emulated.hpp"

namespace attest::emulator {

// sum of x w + bias in `format`, each operation rounded. `bias` is 0 where there is none.
double sum_of_products(const Sums& how, Format format, std::span<const double> x, std::span<const double> w,
                       double bias);

}  // namespace attest::emulator
