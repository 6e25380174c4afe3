#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/field.hpp"

// One instance of an attention block: out = concat_h(attention(x W_q^T + b_q, memory W_k^T + b_k, memory W_v^T + b_v)) W_out^T
// + b_out.
namespace attest::mha {

// Which tokens of memory may be attended, beside causality.
enum class Padding : std::uint8_t {
  none,
  ragged,     // kv_lengths, 1..m a sample
  some_zero,  // kv_lengths, 0..m, zero with probability 1/2
  scattered,  // keep over [b,1,1,m], each token with probability 3/4
  rows,       // keep over [b,heads,l,m], each with probability 1/2
};

// How the four weight matrices are made, and x to go with them.
enum class Weights : std::uint8_t {
  dense,         // normals over sqrt(e)
  one_hot,       // a row picks one element, with its sign
  power_of_two,  // and scales it by 1/4 .. 2
  integers,      // small integers times a power of two, x small integers; w_out as power_of_two
  cancelling,    // as integers, with pairs of large terms that cancel, far apart
  dense_in,      // w_q, w_k, w_v dense, w_out as one_hot
  dense_out,     // w_out dense, the others as one_hot
  uniform,       // w_q = 0: every score is 0; the rest integers with cancelling pairs
  selection,  // w_q = 0, b_q = e_0: scores are multiples of the scale, a whole permutation of 0, -1, -2 ..; the rest likewise
};

enum class Biases : std::uint8_t { none, in, out, all };  // b_q, b_k and b_v together; b_out

// Plain data: validate() says whether it is a problem.
struct Problem {
  Index b = 1, l = 1, m = 1, e = 1, heads = 1, kv_heads = 1, head_dim = 1;
  Format dtype = Format::f32;
  bool self = false;              // memory is x: m = l
  bool packed = false;            // w_q, w_k, w_v and their biases are views of one buffer
  std::optional<double> scale{};  // absent: 1/sqrt(head_dim)
  bool causal = false;
  Align align = Align::top_left;
  Padding padding = Padding::none;
  Biases biases = Biases::all;
  Weights weights = Weights::dense;
  double amplitude = 1;  // of x and memory, but for integers
  Index threads = 0;
  std::uint64_t seed = 0;

  friend bool operator==(const Problem&, const Problem&) = default;

  [[nodiscard]] double effective_scale() const noexcept;
  [[nodiscard]] Index group() const noexcept { return heads / kv_heads; }
  [[nodiscard]] Index q_width() const noexcept { return heads * head_dim; }
  [[nodiscard]] Index kv_width() const noexcept { return kv_heads * head_dim; }
  [[nodiscard]] bool has_in_biases() const noexcept { return biases == Biases::in || biases == Biases::all; }
  [[nodiscard]] bool has_out_bias() const noexcept { return biases == Biases::out || biases == Biases::all; }
  // Multiply-adds of all products; never negative, saturates.
  [[nodiscard]] Index multiply_adds() const noexcept;
};

// What is known of a field in one row: text, generators and shrinkers are views of it.
struct Field {
  std::string_view name;
  FieldKind kind;
  bool always_printed;
  Index lo, hi, simplest;
  std::span<const Index> edges;
  std::span<const std::string_view> labels;
  Index (*get)(const Problem&);
  void (*set)(Problem&, Index);
  std::optional<double> (*get_real)(const Problem&);
  void (*set_real)(Problem&, std::optional<double>);
  std::string_view doc;
};
// In print order.
std::span<const Field> fields() noexcept;
const Field* find_field(std::string_view name) noexcept;

// "op=mha b=1 l=2 ..."; fields at their default are left out, but for dims, dtype, weights and seed.
std::string to_text(const Problem& problem);
// Reads it back, in any order of keys; op=mha may be left out. Throws Error(usage) naming the key, its value and what is allowed.
Problem problem_from_text(std::string_view line);
// Throws Error(usage) where fields contradict each other, and past 2^34 multiply-adds or 2^30 elements of a tensor.
void validate(const Problem& problem);

}  // namespace attest::mha
