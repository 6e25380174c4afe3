#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/format.hpp"
#include "core/forms.hpp"
#include "core/index.hpp"
#include "core/number_text.hpp"

namespace attest {

enum class Align : std::uint8_t { top_left, bottom_right };

// The layout of a tensor in memory; its logical shape and values stay the same unless it broadcasts.
enum class Layout : std::uint8_t {
  bhsd,         // contiguous as [B,H,L,D]
  bshd,         // heads inside rows
  padded_rows,  // an odd gap after every row
  odd_base,     // first element one element past a 64-byte boundary
  spaced,       // every second element: no axis has stride 1
  transposed,   // the last two axes swapped in memory
  slice,        // the interior of a larger buffer: gaps after rows, heads and samples, a row and an element before
  far,          // samples, heads or rows lie so far apart that no 32-bit index reaches the last; the memory between is
                // reserved and never touched. Contiguous where none of these axes has 2..16 elements
  broadcast_batch,  // stride 0 along the batch: every sample reads the first (inputs only)
  broadcast_heads,  // stride 0 along heads (inputs only)
  broadcast_rows,   // stride 0 along rows or keys (inputs only)
};
inline constexpr std::size_t layout_count = 11;
constexpr bool broadcasts(Layout layout) noexcept { return layout >= Layout::broadcast_batch; }
// Tells whether some row begins off the boundaries that rows of a contiguous tensor keep.
constexpr bool off_boundary(Layout layout) noexcept {
  return layout == Layout::padded_rows || layout == Layout::odd_base || layout == Layout::transposed ||
         layout == Layout::slice;
}

// The keys that `keep` opens. It is drawn per logical coordinate, so that a slice of a mask is a mask.
enum class Keep : std::uint8_t {
  none,        // no mask tensor
  open,        // a tensor of ones
  half,        // each key with probability 1/2
  sparse,      // 1/8
  dense,       // 7/8
  prefix,      // a random number of leading keys per batch, head and row of the mask tensor
  suffix,      // the same from the end (left padding)
  blocks,      // runs of 16 keys, each with probability 1/2
  one,         // exactly one key per row
  counted,     // n scattered keys per row, n = 0, 1, 2, 3 .. lk with small numbers as likely as large ones
  some_empty,  // as half, and half of the rows closed altogether
  closed,      // a tensor of zeros
};
inline constexpr std::size_t keep_count = 12;

enum class Bias : std::uint8_t {
  none,
  zero,
  normal,        // rounded normals
  alibi,         // -slope(head) * |i - j|
  minus_inf,     // 0, or -inf with probability 1/2
  lowest,        // 0, or the lowest finite number with probability 1/2
  minus_1e4,     // 0, or -10000 with probability 1/2
  padding,       // 0 on a leading run per row of the tensor, -inf behind it
  empty_inf,     // as minus_inf, and half of the rows -inf throughout
  empty_lowest,  // as lowest, and half of the rows the lowest finite number throughout
  large,         // integers of magnitude up to 2048
};
inline constexpr std::size_t bias_count = 11;

// Tells whether it may exclude a key: an element of it may be -inf.
constexpr bool may_exclude(Bias bias) noexcept {
  return bias == Bias::minus_inf || bias == Bias::padding || bias == Bias::empty_inf;
}
// Tells whether it closes keys, or all but closes them.
constexpr bool closes_keys(Bias bias) noexcept {
  return may_exclude(bias) || bias == Bias::lowest || bias == Bias::minus_1e4 || bias == Bias::empty_lowest;
}

// The bias in q's dtype or in one of its own.
enum class BiasType : std::uint8_t { same, f32, f16, bf16, f64 };
inline constexpr std::array bias_formats{Format::f32, Format::f16, Format::bf16, Format::f64};  // behind `same`
inline constexpr std::size_t bias_type_count = 5;

enum class Lengths : std::uint8_t {
  none,       // no kv_lengths tensor
  full,       // every sample has lk keys
  ragged,     // 1..lk per sample
  some_zero,  // 0..lk, zero with probability 1/2
  one,        // a single key each
};
inline constexpr std::size_t lengths_count = 5;

enum class LseOutput : std::uint8_t { none, f32, f64 };

// Joint distribution of q, k and v. `amplitude` A scales it.
enum class Values : std::uint8_t {
  constant,        // A everywhere
  integers,        // small integers in [-4, 4] times A
  large_integers,  // integers in [-64, 64] times A: exact in every format, scores of thousands
  uniform,         // multiples of 2^-10 in [-A, A]
  normal,          // A times an Irwin-Hall normal
  negative,        // q = A(1 + |n|), k = -A(1 + |n|): every score negative, v normal
  rising,          // scores climb along the keys, A/8 per key: the running maximum moves at every key
  falling,         // the same downwards: the first key holds the maximum
  peaked,          // one key in eight aligned with the queries, A times longer than the rest
  flat,            // scores near zero, v = 1 + n/8: a mean over all keys
  outlier,         // normal, with one channel in eight 16 A times larger
  offset,          // k and v ride on a common offset of 16 A
  duplicated,      // queries and keys come in equal pairs, values do not
  wide_value,      // v = +-2^e over much of the exponent range, q and k normal
  wide,            // q, k and v = +-2^e together: many bounds are vacuous by nature
  tiny,            // v among the subnormals of the type, q and k normal
  tiny_scores,     // q and k among the subnormals, v normal
  huge,            // v near the largest finite number, q and k normal
  huge_scores,     // q and k near the largest finite number: scores overflow
  unbalanced,      // q near the largest finite number, k its reciprocal times a normal: scores in between
  selection,       // multiples of A^2 * 256 apart: one key owns the row
  levels,          // scores stand 2 to 30 nats apart from one block of keys to the next, where A is near 1/scale
  ends,            // scores of both signs, all alike far from 0, in halves or not: A of 1/scale is at the format's ends
  file,            // captured activations, Problem::values_file; never drawn
};
inline constexpr std::size_t values_count = 23;  // number of distributions, which end before `file`

// The change of a tensor's values after the distribution: the shrinker's way to simpler numbers.
enum class Form : std::uint8_t { drawn, short_significand, power_of_two, one, zero };
inline constexpr std::size_t form_count = 5;

// One literal element, which replaces the distribution's.
struct Edit {
  enum class Tensor : std::uint8_t { q, k, v, bias, keep, kv_lengths };
  Tensor tensor = Tensor::q;
  std::array<Index, 4> index{};  // logical coordinates; kv_lengths uses the first, keep and bias all four
  double value = 0;
  friend bool operator==(const Edit&, const Edit&) = default;
};

// One instance of scaled-dot-product attention (attest/plugin.h). Small and printable; tensors are derived from it
// (core/inputs.hpp). Plain data: validate() says whether it is a problem.
struct Problem {
  Index b = 1, hq = 1, hkv = 1, lq = 1, lk = 1, d = 1, dv = 1;
  Format dtype = Format::f32;
  std::optional<double> scale{};  // absent: the default 1/sqrt(d), and the call says so
  double softcap = 0;             // 0 = none
  bool causal = false;
  Align align = Align::top_left;
  Index window_left = -1, window_right = -1;  // -1 = unbounded
  Keep keep = Keep::none;
  Index keep_axes = 15;  // bit 0..3: the mask tensor varies along batch, head, query, key; otherwise stride 0
  Bias bias = Bias::none;
  Index bias_axes = 15;
  BiasType bias_type = BiasType::same;
  Layout mask_layout = Layout::bhsd;  // layout of keep and bias
  Lengths lengths = Lengths::none;
  Layout q_layout = Layout::bhsd, k_layout = Layout::bhsd, v_layout = Layout::bhsd, out_layout = Layout::bhsd;
  LseOutput lse = LseOutput::none;
  Index threads = 0;
  Values values = Values::normal;
  std::string values_file{};  // for Values::file: an .npz with arrays q, k, v (core/captured.hpp); else empty
  double amplitude = 1;
  Form q_form = Form::drawn, k_form = Form::drawn, v_form = Form::drawn;
  bool null_key = false;  // the first key and its value are 0: one more in the denominator, where no mask closes it
  std::uint64_t seed = 0;
  // Origin of this problem inside the one it was sliced from: values are keyed by origin + index.
  Index b0 = 0, hq0 = 0, hkv0 = 0, lq0 = 0, lk0 = 0, d0 = 0, dv0 = 0;
  Index rows = 0;                   // number of rows of out that are judged, drawn by the seed; 0 = all
  std::vector<FormChoice> forms{};  // the form of the call, by name; a form that is not listed has its first value
  std::vector<Edit> edits{};

  friend bool operator==(const Problem&, const Problem&) = default;

  // The scale of the call.
  [[nodiscard]] double effective_scale() const noexcept;
  // Multiply-adds of the explicit computation, W = B Hq Lq Lk (D + Dv); never negative, saturates.
  [[nodiscard]] Index multiply_adds() const noexcept;
  [[nodiscard]] Index group() const noexcept { return hq / hkv; }
  // The storage format of the bias.
  [[nodiscard]] Format bias_format() const noexcept;
};

// Tells whether the keys of a row depend on its place.
inline bool has_diagonal(const Problem& p) noexcept { return p.causal || p.window_left >= 0 || p.window_right >= 0; }
// Tells whether it matters where a key stands.
inline bool positional(const Problem& p) noexcept { return has_diagonal(p) || p.lengths != Lengths::none; }

// Returns one line of key=value. Fields at their default are left out, but for dims, dtype, values and seed. Forms are
// form.NAME=VALUE.
std::string to_text(const Problem& problem);
// Reads it back, in any order of keys. Under values=file:PATH, dims and dtype that the line leaves out are the file's.
// Throws Error(usage) naming the key, its value and what is allowed.
Problem problem_from_text(std::string_view line);

nlohmann::ordered_json to_json(const Problem& problem);
// JSON comes from files, which may be a stranger's: values_file must be the plain name of a file in `folder`.
Problem problem_from_json(const nlohmann::json& object, const std::string& folder = ".");

// Throws Error(usage) when fields contradict each other (hq no multiple of hkv, a broadcast output, an edit outside its
// tensor, a problem past the limits of 2^36 multiply-adds, 2^28 rows of q or k, 2^32 bytes a tensor), and when captured
// activations cannot be read or do not cover origin + extents.
void validate(const Problem& problem);

}  // namespace attest
