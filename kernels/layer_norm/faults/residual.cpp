// x + residual.
#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

template <class Sum>
void replace(const Call& call, Index row, std::span<double> x, Sum sum) {
  call.load_row(row, x);
  for (Index i = 0; i < call.hidden && call.has_residual; ++i)
    x[static_cast<std::size_t>(i)] =
        round_to(call[Stage::sum], sum(load(call.tensors.x, row, i), load(call.tensors.residual, row, i)));
}

struct ResidualTwice : TwoPass {
  static void load(const Call& call, Index row, std::span<double> x) {
    replace(call, row, x, [](double of_x, double residual) { return of_x + 2 * residual; });
  }
};

struct ResidualAfter : TwoPass {
  static void load(const Call& call, Index row, std::span<double> x) {
    replace(call, row, x, [](double of_x, double) { return of_x; });
  }
  static void store(const Call& call, Index row, std::span<double> y) {
    for (Index i = 0; i < call.hidden && call.has_residual; ++i)
      y[static_cast<std::size_t>(i)] += attest::load(call.tensors.residual, row, i);
    call.store_row(row, y);
  }
};

struct SumUnrounded : TwoPass {
  static void load(const Call& call, Index row, std::span<double> x) {
    replace(call, row, x, [](double of_x, double residual) { return of_x + residual; });
  }
};

}  // namespace

extern constexpr KernelEntry residual_twice = fault<TwoPass, ResidualTwice>(
    "ln-residual-twice", "the residual is added twice", "common slip", "fused", "residual", "sum");
extern constexpr KernelEntry residual_after = fault<TwoPass, ResidualAfter>(
    "ln-residual-after", "the residual is added to the result, not before", "common slip", "fused", "residual", "sum");
extern constexpr KernelEntry sum_unrounded =
    fault<TwoPass, SumUnrounded>("ln-sum-unrounded", "what is normalised is not the stored sum, but what it was before",
                                 "common slip", "fused", "sum rounding", "sum");

}  // namespace attest::kernels::layer_norm::faults
