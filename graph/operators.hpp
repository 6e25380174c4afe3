#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "graph/step.hpp"

namespace attest::graph {

// An operator of ONNX that can be evaluated.
struct Operator {
  std::string_view name;
  void (*evaluate)(Step& step);
  std::size_t least_inputs, most_inputs;
  std::size_t most_outputs = 1;
};
inline constexpr std::size_t any_number = static_cast<std::size_t>(-1);

// The operator that evaluates a node, by its name and domain ("com.microsoft.Gelu"); nullptr where none does.
const Operator* find_operator(const Node& node);
// "Abs, Add, ...".
std::string operator_names();

// elementwise.cpp
void add(Step& step);
void subtract(Step& step);
void multiply(Step& step);
void divide(Step& step);
void modulo(Step& step);
void power(Step& step);
void cosine(Step& step);
void sine(Step& step);
void square_root(Step& step);
void reciprocal(Step& step);
void negate(Step& step);
void absolute(Step& step);
void exponential(Step& step);
void logarithm(Step& step);
void error_function(Step& step);
void hyperbolic_tangent(Step& step);
void sigmoid(Step& step);
void relu(Step& step);
void gelu(Step& step);
void sum_of_all(Step& step);
void mean_of_all(Step& step);

// activations.cpp
void leaky_relu(Step& step);
void exponential_linear(Step& step);
void hard_sigmoid(Step& step);
void hard_swish(Step& step);
void softplus(Step& step);
void batch_normalization(Step& step);

// choosing.cpp: operands are picked, compared or converted
void maximum(Step& step);
void minimum(Step& step);
void clip(Step& step);
void equal(Step& step);
void less(Step& step);
void less_or_equal(Step& step);
void greater(Step& step);
void greater_or_equal(Step& step);
void logical_not(Step& step);
void logical_and(Step& step);
void logical_or(Step& step);
void logical_xor(Step& step);
void bitwise_and(Step& step);
void bitwise_or(Step& step);
void bitwise_xor(Step& step);
void bitwise_not(Step& step);
void is_nan(Step& step);
void is_infinite(Step& step);
void where(Step& step);
void cast(Step& step);
void cast_like(Step& step);
void sign(Step& step);
void round_up(Step& step);
void round_down(Step& step);
void round_to_even(Step& step);

// moving.cpp: values are moved, not computed
void identity(Step& step);
void transpose(Step& step);
void reshape(Step& step);
void flatten(Step& step);
void squeeze(Step& step);
void unsqueeze(Step& step);
void concat(Step& step);
void split(Step& step);
void slice(Step& step);
void expand(Step& step);
void trilu(Step& step);
void tile(Step& step);
void dropout(Step& step);  // the input itself: this is inference

// indexing.cpp: elements are read or written by number
void gather(Step& step);
void gather_elements(Step& step);
void gather_blocks(Step& step);
void scatter_elements(Step& step);
void scatter_blocks(Step& step);
void pad(Step& step);
void one_hot(Step& step);
void non_zero(Step& step);
void compress(Step& step);

// ordering.cpp
void largest_index(Step& step);
void least_index(Step& step);
void top(Step& step);

// control.cpp
void branch(Step& step);
void loop(Step& step);
void scan(Step& step);

// sequences.cpp
void sequence_empty(Step& step);
void sequence_construct(Step& step);
void sequence_at(Step& step);
void sequence_insert(Step& step);
void sequence_erase(Step& step);
void sequence_length(Step& step);
void split_to_sequence(Step& step);
void concat_from_sequence(Step& step);

// making.cpp: values made of shapes and attributes
void shape(Step& step);
void size(Step& step);
void constant(Step& step);
void constant_of_shape(Step& step);
void range(Step& step);

// products.cpp
void matrix_product(Step& step);
void gemm(Step& step);
void integer_product(Step& step);

// einsum.cpp
void einsum(Step& step);

// attention.cpp
void attention(Step& step);
void rotary_embedding(Step& step);

// windows.cpp
void convolution(Step& step);
void transposed_convolution(Step& step);
void integer_convolution(Step& step);
void average_pool(Step& step);
void max_pool(Step& step);
void lp_pool(Step& step);
void global_average_pool(Step& step);
void global_max_pool(Step& step);

// resize.cpp
void resize(Step& step);

// norms.cpp
void instance_normalization(Step& step);
void group_normalization(Step& step);

// recurrent.cpp
void recurrent_network(Step& step);
void long_short_term_memory(Step& step);
void gated_recurrent_unit(Step& step);
void dynamic_quantize_lstm(Step& step);
void reverse_sequence(Step& step);

// microsoft.cpp
void skip_layer_normalization(Step& step);
void skip_rms_normalization(Step& step);
void biased_gelu(Step& step);
void fast_gelu(Step& step);
void quick_gelu(Step& step);
void scaled_product(Step& step);
void embedded_layer_normalization(Step& step);
void multi_head_attention(Step& step);
void projected_attention(Step& step);
void grouped_attention(Step& step);
void turned_by_tables(Step& step);
void product_of_packed_bits(Step& step);

// quantising.cpp
void quantize_linear(Step& step);
void dequantize_linear(Step& step);
void dynamic_quantize_linear(Step& step);

// reductions.cpp
void reduce_sum(Step& step);
void reduce_mean(Step& step);
void reduce_max(Step& step);
void reduce_min(Step& step);
void reduce_product(Step& step);
void reduce_l1(Step& step);
void reduce_l2(Step& step);
void reduce_sum_square(Step& step);
void reduce_log_sum(Step& step);
void reduce_log_sum_exp(Step& step);
void cumulative_sum(Step& step);
void softmax(Step& step);
void log_softmax(Step& step);
void layer_normalization(Step& step);
void rms_normalization(Step& step);

}  // namespace attest::graph
