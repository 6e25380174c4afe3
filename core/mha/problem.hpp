#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"

// One instance of an attention block: out = concat_h(attention(x W_q^T + b_q, memory W_k^T + b_k, memory W_v^T + b_v))
// W_out^T + b_out.
namespace attest::mha {

// The layout of a tensor in memory (as core/problem.hpp's layouts); its logical shape and values stay the same unless
// it broadcasts.
enum class Layout : std::uint8_t {
  contiguous,    // [samples,tokens,e], or [rows,columns]
  padded_rows,   // an odd gap after every row
  odd_base,      // first element one element past a 64-byte boundary
  spaced,        // every second element
  transposed,    // the last two axes swapped in memory
  slice,         // the interior of a larger buffer
  tokens_first,  // [tokens,samples,e] in memory
  far,           // samples or tokens so far apart that no 32-bit index reaches the last, where there are 2..16
  broadcast,     // stride 0 along samples: every one reads the first (inputs only)
};
inline constexpr std::size_t layout_count = 9;
inline constexpr std::size_t matrix_layout_count = 6;  // those of weights, which come first

// The tokens of memory that may be attended, beside causality.
enum class Padding : std::uint8_t {
  none,
  ragged,     // kv_lengths, 1..m a sample
  some_zero,  // kv_lengths, 0..m, zero with probability 1/2
  scattered,  // keep over [b,1,1,m], each token with probability 3/4
  rows,       // keep over [b,heads,l,m], each with probability 1/2
};

// The bias that is added to scores, in x's type.
enum class Bias : std::uint8_t {
  none,
  normal,     // normals over [b,heads,l,m]
  shared,     // over [1,1,l,m], stride 0 along samples and heads
  minus_inf,  // over [1,1,l,m]: 0, or -inf with probability 1/4
};

// The family of the four weight matrices, and of x to go with them.
enum class Weights : std::uint8_t {
  dense,         // normals over sqrt(e)
  one_hot,       // a row picks one element, with its sign
  power_of_two,  // and scales it by 1/4 .. 2
  integers,      // small integers times a power of two, x small integers; w_out as power_of_two
  cancelling,    // as integers, with pairs of large terms that cancel, far apart
  dense_in,      // w_q, w_k, w_v dense, w_out as one_hot
  dense_out,     // w_out dense, the others as one_hot
  uniform,       // w_q = 0: every score is 0; the rest integers with cancelling pairs
  // w_q = 0, b_q = e_0: scores are multiples of the scale, a whole permutation of 0, -1, -2 ..; the rest likewise.
  selection,
  zero,  // everything is 0, x and biases too, for problems whose elements are set by hand; never drawn
};
inline constexpr std::size_t weights_count = 10;

enum class Biases : std::uint8_t { none, in, out, all };  // b_q, b_k and b_v together; b_out

// One literal element, over what the weights say.
struct Edit {
  enum class Tensor : std::uint8_t { x, memory, w_q, w_k, w_v, w_out, b_q, b_k, b_v, b_out, bias, keep, kv_lengths };
  Tensor tensor = Tensor::x;
  std::array<Index, 4> index{};  // as many as the tensor has axes, the others 0
  double value = 0;
  friend bool operator==(const Edit&, const Edit&) = default;
};
inline constexpr std::size_t edit_tensor_count = 13;

// Plain data: validate() says whether it is a problem.
struct Problem {
  Index b = 1, l = 1, m = 1, e = 1, heads = 1, kv_heads = 1, head_dim = 1;
  Format dtype = Format::f32;
  bool self = false;              // memory is x: m = l
  bool packed = false;            // w_q, w_k, w_v and their biases are views of one buffer
  std::optional<double> scale{};  // absent: 1/sqrt(head_dim), and the call says so
  bool causal = false;
  Align align = Align::top_left;
  Padding padding = Padding::none;
  Bias bias = Bias::none;
  Biases biases = Biases::all;
  Layout x_layout = Layout::contiguous, memory_layout = Layout::contiguous, weight_layout = Layout::contiguous,
         out_layout = Layout::contiguous;
  Index threads = 0;
  Weights weights = Weights::dense;
  double amplitude = 1;  // amplitude of x and memory, but for integers
  std::uint64_t seed = 0;
  // Origin of this problem inside the one it was cut from: tokens and masks are keyed by origin + index.
  Index b0 = 0, l0 = 0, m0 = 0;
  std::vector<Edit> edits{};

  friend bool operator==(const Problem&, const Problem&) = default;

  [[nodiscard]] double effective_scale() const noexcept;
  [[nodiscard]] Index group() const noexcept { return heads / kv_heads; }
  [[nodiscard]] Index q_width() const noexcept { return heads * head_dim; }
  [[nodiscard]] Index kv_width() const noexcept { return kv_heads * head_dim; }
  [[nodiscard]] bool has_in_biases() const noexcept { return biases == Biases::in || biases == Biases::all; }
  [[nodiscard]] bool has_out_bias() const noexcept { return biases == Biases::out || biases == Biases::all; }
  [[nodiscard]] bool has_lengths() const noexcept {
    return padding == Padding::ragged || padding == Padding::some_zero;
  }
  [[nodiscard]] bool has_keep() const noexcept { return padding == Padding::scattered || padding == Padding::rows; }
  // Multiply-adds of all products; never negative, saturates.
  [[nodiscard]] Index multiply_adds() const noexcept;
};

// The logical shape of a tensor, without the axes that it lacks; empty if the problem does not have it.
std::vector<Index> extents(const Problem& problem, Edit::Tensor tensor);
std::string_view name(Edit::Tensor tensor) noexcept;

// ---- the field table: text and JSON are views of it, and so is whatever draws and shrinks ---------------------------

struct Supports;
using Field = FieldRow<Problem, Supports>;

// The fields in print order.
std::span<const Field> fields() noexcept;
const Field* find_field(std::string_view name) noexcept;

// "op=mha b=1 l=2 ..."; fields at their default are left out, but for dims, dtype, biases, weights and seed.
std::string to_text(const Problem& problem);
// Reads it back, in any order of keys; op=mha may be left out. Throws Error(usage) naming the key, its value and what
// is allowed.
Problem problem_from_text(std::string_view line);

nlohmann::ordered_json to_json(const Problem& problem);
Problem problem_from_json(const nlohmann::json& object);

// Throws Error(usage) where fields contradict each other, and past 2^34 multiply-adds or 2^30 elements of a tensor.
void validate(const Problem& problem);

}  // namespace attest::mha
