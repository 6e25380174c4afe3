#include "scale_add.hpp"

#include <cmath>
#include <cstddef>

#include "core/field_rows.hpp"
#include "core/rng.hpp"

namespace attest {
namespace scale_add {
namespace {

struct Supports {};
using Rows = FieldRows<Problem, Supports>;
constexpr Index dtype_steps[] = {static_cast<Index>(Format::f32)};
constexpr auto table = std::to_array<Rows::Field>(
    {Rows::integer<&Problem::n>("n", FieldGroup::shape, 1, 1 << 12, 1, "numbers").printed().told(1),
     Rows::stepped<&Problem::dtype>("dtype", FieldGroup::format, format_names, dtype_steps, "of all")
         .printed()
         .undrawn(),
     Rows::real<&Problem::scale>("scale", FieldGroup::scaling, 1, "of x").told(2),
     Rows::seed<&Problem::seed>("seed", FieldGroup::values, "of every value")});

class ScaleAdd final : public ops::PlainOf<Problem> {
 public:
  ScaleAdd() : PlainOf("scale_add", std::span<const Rows::Field>(table)) {}
  [[nodiscard]] std::vector<Input> inputs(const ops::Problem& problem) const override {
    std::vector<Input> all;
    for (const std::string_view name : {"x", "y"}) {
      Tensor tensor = output(problem);
      for (Index i = 0; i < tensor.size(); ++i)
        tensor.set(i, 0, 0, 0, normal(extend(extend(mix(seed(problem)), all.size()), static_cast<std::uint64_t>(i))));
      all.push_back({name, std::move(tensor)});
    }
    return all;
  }
  [[nodiscard]] Tensor output(const ops::Problem& problem) const override {
    return {dtype_of(dtype(problem)), std::array{problem.as<Problem>().n}};
  }
  [[nodiscard]] Call call(const ops::Problem& problem, std::span<const Input> in, const Tensor& out) const override {
    return attest_scale_add{sizeof(attest_scale_add),   0, 0, in[0].tensor.view(), in[1].tensor.view(), out.view(),
                            problem.as<Problem>().scale};
  }
  // A product and a sum, each rounded to the format, or both at once.
  [[nodiscard]] Bound bound(const ops::Problem& problem, std::span<const Input> in,
                            const std::array<Index, 4>& at) const override {
    const double product = problem.as<Problem>().scale * in[0].tensor.at(at[0]), y = product + in[1].tensor.at(at[0]);
    const double u = unit_roundoff(dtype(problem));
    return {y, u * (std::fabs(product) * (1 + u) + std::fabs(y)) + 2 * half_smallest_subnormal(dtype(problem))};
  }
  [[nodiscard]] std::vector<std::pair<std::string_view, double>> numbers(const ops::Problem& problem) const override {
    return {{"scale", problem.as<Problem>().scale}};
  }
  [[nodiscard]] std::string numpy() const override {
    return "expected = scale * x.astype(np.float64) + y.astype(np.float64)\n";
  }
};

using Slot = TensorSlot::Role;
constexpr TensorSlot tensors[] = {{"x", Slot::input, offsetof(attest_scale_add, x), {}},
                                  {"y", Slot::input, offsetof(attest_scale_add, y), {}},
                                  {"out", Slot::output, offsetof(attest_scale_add, out), {}}};
constexpr ScalarSlot scalars[] = {{"scale", ScalarSlot::Kind::real, offsetof(attest_scale_add, scale), 8}};
constexpr CallShape shape{"scale_add", 99,     sizeof(attest_scale_add), 0, tensors, scalars, 16, 0, nullptr,
                          nullptr,     nullptr};

}  // namespace
}  // namespace scale_add

template <>
const CallShape& call_shape<attest_scale_add>() noexcept {
  return scale_add::shape;
}

const ops::Op& ops::scale_add_op() {
  static const scale_add::ScaleAdd op;
  return op;
}

}  // namespace attest
