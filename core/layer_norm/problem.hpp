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
#include "core/format.hpp"
#include "core/tensor.hpp"

namespace attest::layer_norm {

// The layout of a tensor in memory (as core/problem.hpp's layouts, for matrices); its logical shape and values stay the
// same unless it broadcasts. gamma and beta, which are rows, may be contiguous, odd_base, spaced, or repeat their first
// element.
enum class Layout : std::uint8_t {
  contiguous,
  padded_rows,  // an odd gap after every row
  odd_base,     // first element one element past a 64-byte boundary
  spaced,       // every second element
  transposed,   // columns contiguous
  slice,        // the interior of a larger buffer
  far,          // rows so far apart that no 32-bit index reaches the last, where there are 2..16
  broadcast,    // stride 0 along rows: every row reads the first (inputs only)
};
inline constexpr std::size_t layout_count = 8;

enum class Norm : std::uint8_t { layer, rms };

// Distribution of a row of x, in units of `amplitude` and before `offset` units are added to all of it.
enum class Values : std::uint8_t {
  constant,       // 0: every row is the offset alone
  row_constant,   // a constant of its own for each row
  near_constant,  // the same, but for a few units in the last place
  integers,       // -4..4
  uniform,        // multiples of 2^-10 in [-1, 1]
  normal,
  alternating,  // 1, -1, 1, -1: with an offset of 2^k, the numbers 2^k +- 1
  ramp,         // column number + 1
  one_hot,      // a single 1 among zeros
  sparse,       // one element in eight, the others 0
  outlier,      // one element in 64 a thousand times larger
  heavy,        // normals times powers of two whose exponents have long tails
  wide,         // +-2^e over much of the exponent range
  clusters,     // close to 1 or close to -1
  cancelling,   // large numbers whose sum nearly cancels
  roots_large,  // around the root of the largest finite number: squares and their sums overflow
  roots_small,  // around the root of the smallest normal number: squares underflow
  tiny,         // subnormals
  huge,         // near the largest finite number
};
inline constexpr std::size_t values_count = 19;

enum class Residual : std::uint8_t {
  none,        // no tensor
  zero,        // a tensor of zeros
  like_x,      // drawn as x is
  cancelling,  // -x, but for the last places
  large,       // a normal 2^12 times as large as the amplitude
};
inline constexpr std::size_t residual_count = 5;

// Tells whether gamma and beta are present, and their numbers.
enum class Weights : std::uint8_t {
  none,  // no tensor: gamma 1, beta 0
  zero,
  one,
  near,  // gamma 1 + n/8, beta n/8
  normal,
  sparse,  // half of them 0
  wide,    // normals times powers of two over 2^-12..2^12
  tiny,    // subnormals
  huge,    // near the largest finite number
};
inline constexpr std::size_t weights_count = 9;

enum class ParamType : std::uint8_t { same, f32 };

// One literal element, over what the distribution says.
struct Edit {
  enum class Tensor : std::uint8_t { x, residual, gamma, beta };
  Tensor tensor = Tensor::x;
  Index row = 0, column = 0;  // gamma and beta have no rows: 0
  double value = 0;
  friend bool operator==(const Edit&, const Edit&) = default;
};

// One instance of the operation (attest_layer_norm in attest/plugin.h). Small and printable; tensors are derived from
// it (inputs.hpp). Plain data: validate() says whether it is a problem.
struct Problem {
  Index rows = 1, hidden = 1;
  Format dtype = Format::f32;
  Norm norm = Norm::layer;
  double epsilon = 1e-5;
  Residual residual = Residual::none;
  bool sum_out = false;  // asks for x + residual, too
  Weights gamma = Weights::near, beta = Weights::near;
  ParamType param_type = ParamType::same;
  Layout x_layout = Layout::contiguous, residual_layout = Layout::contiguous, param_layout = Layout::contiguous,
         out_layout = Layout::contiguous;
  Index threads = 0;
  Values values = Values::normal;
  double amplitude = 1;
  double offset = 0;  // added to every element, in amplitudes
  std::uint64_t seed = 0;
  Index rows0 = 0, hidden0 = 0;  // origin of this problem inside the one it was sliced from
  Index judged = 0;              // number of rows that are judged, drawn by the seed; 0 = all
  std::vector<Edit> edits{};

  friend bool operator==(const Problem&, const Problem&) = default;

  [[nodiscard]] Format param_format() const noexcept { return param_type == ParamType::f32 ? Format::f32 : dtype; }
  [[nodiscard]] Index elements() const noexcept { return rows * hidden; }
};

// ---- the field table: text and JSON are views of it, and so is whatever draws and shrinks ---------------------------

struct Supports;
using Field = FieldRow<Problem, Supports>;

// The fields in print order.
std::span<const Field> fields() noexcept;
const Field* find_field(std::string_view name) noexcept;

// Returns one line of key=value behind op=layer_norm. Fields at their default are left out but for rows, hidden, dtype,
// values and seed.
std::string to_text(const Problem& problem);
// Reads it back, in any order of keys; op may be left out. Throws Error(usage) naming the key, its value and what is
// allowed.
Problem problem_from_text(std::string_view line);

nlohmann::ordered_json to_json(const Problem& problem);
Problem problem_from_json(const nlohmann::json& object);

// Throws Error(usage) when fields contradict each other (sum_out without a residual, a broadcast output, an edit
// outside its tensor, an epsilon below 0, more than 2^30 elements).
void validate(const Problem& problem);

}  // namespace attest::layer_norm
