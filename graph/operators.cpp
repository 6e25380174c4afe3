#include "graph/operators.hpp"

#include <algorithm>

namespace attest::graph {
namespace {

constexpr Operator operators[] = {
    {"Abs", absolute, 1, 1},
    {"Add", add, 2, 2},
    {"And", logical_and, 2, 2},
    {"Attention", attention, 3, 7, 1},
    {"AveragePool", average_pool, 1, 1},
    {"BatchNormalization", batch_normalization, 5, 5, 5},
    {"Cast", cast, 1, 1},
    {"CastLike", cast_like, 2, 2},
    {"Ceil", round_up, 1, 1},
    {"Clip", clip, 1, 3},
    {"Concat", concat, 1, any_number},
    {"Constant", constant, 0, 0},
    {"ConstantOfShape", constant_of_shape, 1, 1},
    {"Conv", convolution, 2, 3},
    {"ConvTranspose", transposed_convolution, 2, 3},
    {"DequantizeLinear", dequantize_linear, 2, 3},
    {"Div", divide, 2, 2},
    {"Dropout", dropout, 1, 3, 2},
    {"DynamicQuantizeLinear", dynamic_quantize_linear, 1, 1, 3},
    {"Elu", exponential_linear, 1, 1},
    {"Equal", equal, 2, 2},
    {"Erf", error_function, 1, 1},
    {"Exp", exponential, 1, 1},
    {"Expand", expand, 2, 2},
    {"Flatten", flatten, 1, 1},
    {"Floor", round_down, 1, 1},
    {"Gather", gather, 2, 2},
    {"Gelu", gelu, 1, 1},
    {"Gemm", gemm, 2, 3},
    {"GlobalAveragePool", global_average_pool, 1, 1},
    {"GlobalMaxPool", global_max_pool, 1, 1},
    {"Greater", greater, 2, 2},
    {"GreaterOrEqual", greater_or_equal, 2, 2},
    {"GroupNormalization", group_normalization, 3, 3},
    {"HardSigmoid", hard_sigmoid, 1, 1},
    {"HardSwish", hard_swish, 1, 1},
    {"Identity", identity, 1, 1},
    {"InstanceNormalization", instance_normalization, 3, 3},
    {"LayerNormalization", layer_normalization, 2, 3, 3},
    {"LeakyRelu", leaky_relu, 1, 1},
    {"Less", less, 2, 2},
    {"LessOrEqual", less_or_equal, 2, 2},
    {"Log", logarithm, 1, 1},
    {"LogSoftmax", log_softmax, 1, 1},
    {"LpPool", lp_pool, 1, 1},
    {"MatMul", matrix_product, 2, 2},
    {"MatMulInteger", integer_product, 2, 4},
    {"Max", maximum, 1, any_number},
    {"MaxPool", max_pool, 1, 1, 2},
    {"Mean", mean_of_all, 1, any_number},
    {"Min", minimum, 1, any_number},
    {"Mod", modulo, 2, 2},
    {"Mul", multiply, 2, 2},
    {"Neg", negate, 1, 1},
    {"Not", logical_not, 1, 1},
    {"Or", logical_or, 2, 2},
    {"Pow", power, 2, 2},
    {"QuantizeLinear", quantize_linear, 2, 3},
    {"RMSNormalization", rms_normalization, 2, 2},
    {"Range", range, 3, 3},
    {"Reciprocal", reciprocal, 1, 1},
    {"ReduceL1", reduce_l1, 1, 2},
    {"ReduceL2", reduce_l2, 1, 2},
    {"ReduceLogSum", reduce_log_sum, 1, 2},
    {"ReduceLogSumExp", reduce_log_sum_exp, 1, 2},
    {"ReduceMax", reduce_max, 1, 2},
    {"ReduceMean", reduce_mean, 1, 2},
    {"ReduceMin", reduce_min, 1, 2},
    {"ReduceProd", reduce_product, 1, 2},
    {"ReduceSum", reduce_sum, 1, 2},
    {"ReduceSumSquare", reduce_sum_square, 1, 2},
    {"Relu", relu, 1, 1},
    {"Reshape", reshape, 2, 2},
    {"Resize", resize, 1, 4},
    {"Round", round_to_even, 1, 1},
    {"Shape", shape, 1, 1},
    {"Sigmoid", sigmoid, 1, 1},
    {"Sign", sign, 1, 1},
    {"Size", size, 1, 1},
    {"Slice", slice, 1, 5},
    {"Softmax", softmax, 1, 1},
    {"Softplus", softplus, 1, 1},
    {"Split", split, 1, 2, any_number},
    {"Sqrt", square_root, 1, 1},
    {"Squeeze", squeeze, 1, 2},
    {"Sub", subtract, 2, 2},
    {"Sum", sum_of_all, 1, any_number},
    {"Tanh", hyperbolic_tangent, 1, 1},
    {"Tile", tile, 2, 2},
    {"Transpose", transpose, 1, 1},
    {"Trilu", trilu, 1, 2},
    {"Unsqueeze", unsqueeze, 1, 2},
    {"Upsample", resize, 1, 2},
    {"Where", where, 3, 3},
};

}  // namespace

const Operator* find_operator(std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(operators), std::end(operators),
                                         [name](const Operator& one) { return one.name == name; });
  return found == std::end(operators) ? nullptr : found;
}

std::string operator_names() {
  std::string names;
  for (const Operator& one : operators) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

}  // namespace attest::graph
