#include "kernels/faults/fault.hpp"
#include "kernels/faults/state.hpp"

namespace attest::kernels::faults {
namespace {

// Tells whether open keys are added in reverse order, as threads that arrived differently would. Every call flips it.
thread_local bool other_order = false;

struct Race : CleanSteps {
  template <class Real>
  static void weigh_values(const Call& call, const Piece& piece, const Real* weights, const std::int32_t* open,
                           Index count, const Real* values, Real* output) {
    std::array<std::int32_t, tile> order{};
    std::copy_n(open, count, order.begin());
    if (other_order) std::reverse(order.begin(), order.begin() + count);
    CleanSteps::weigh_values(call, piece, weights, order.data(), count, values, output);
  }
};

void in_changing_order(const attest_attention& attention, const Contract& contract) {
  other_order = !other_order;
  fused_attention<Race>(attention, contract);
}

}  // namespace

void forget_race() noexcept { other_order = false; }

extern constexpr KernelEntry race{"race",
                                  "the values of a tile are added in the order in which they arrive",
                                  "LC#13438",
                                  "fused",
                                  "value sum",
                                  "pv",
                                  fused_contract<CleanSteps>,
                                  in_changing_order};

}  // namespace attest::kernels::faults
