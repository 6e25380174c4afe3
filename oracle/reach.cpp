#include "oracle/reach.hpp"

#include <cmath>
#include <limits>

#include "oracle/element.hpp"

namespace attest::oracle {

RowNumbers RowBounds::numbers(const Numbers& m) const {
  return {.n = n,
          .z_max = z,
          .g = e,
          .z_top = z,
          .z_all = z,
          .ln_n = ln_n,
          .r = r,
          .a2 = a2,
          .blocks = static_cast<double>(n),
          .every_exp = d,
          .rescaled = m.wrongly_rescaled(far ? infinity : d),
          .mass = static_cast<double>(n),
          .mass_most = static_cast<double>(n),
          .rho = exp_most(e + d),
          .rho_lost = std::numeric_limits<double>::infinity(),
          .of_values = {},
          .of_weights = {},
          .top_off = std::numeric_limits<double>::infinity()};
}

double few_keys_reach(const Call& call, double max_abs) {
  // A reach is a multiple of max_abs and a constant: at most that of 1, as often, and that of 0.
  struct Last {
    std::uint64_t contract;
    double of_one, of_zero;
  };
  static thread_local Last last{};
  const Numbers& m = call.numbers;
  if (last.contract != m.contract_number) {
    const RowNumbers most =
        RowBounds{few_keys, few_keys_e, few_keys_d, few_keys_z, std::log(few_keys), few_keys, m.merged_a2(few_keys)}
            .numbers(m);
    last = {m.contract_number, largest_reach(call, most, 1), largest_reach(call, most, 0)};
  }
  return (last.of_one * max_abs + last.of_zero) * (1 + 1e-9);
}

}  // namespace attest::oracle
