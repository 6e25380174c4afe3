#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include "core/problem.hpp"

namespace attest {
namespace {

using Label = std::string_view;

// Powers of two, tile sizes of known kernels (16, 32, 64, 128, 192, 256, 512, 768), their neighbours, and primes.
constexpr auto length_edges = std::to_array<Index>(
    {1,    2,    3,    4,    5,    7,    8,     9,     11,    13,    15,    16,     17,     31,   32,
     33,   47,   48,   63,   64,   65,   127,   128,   129,   191,   192,   193,    255,    256,  257,
     383,  384,  385,  511,  512,  513,  767,   768,   769,   1023,  1024,  1025,   2047,   2048, 2049,
     4095, 4096, 4097, 8191, 8192, 8193, 16384, 32768, 65535, 65536, 65537, 131072, 1048576});
constexpr auto count_edges =
    std::to_array<Index>({1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 65535, 65536, 65537});
constexpr auto width_edges =
    std::to_array<Index>({1,  2,  3,  4,  5,   7,   8,   9,   15,  16,  17,  31,  32,  33,  40,  48,   63,  64,
                          65, 72, 80, 96, 127, 128, 129, 160, 192, 255, 256, 257, 511, 512, 513, 1023, 1024});
constexpr auto window_edges = std::to_array<Index>({-1, 0, 1, 2, 7, 8, 15, 16, 17, 63, 64, 127, 128, 1024});
constexpr auto thread_edges = std::to_array<Index>({0, 1, 2, 4});
constexpr auto axes_edges = std::to_array<Index>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
constexpr std::array<Index, 0> no_edges{};

constexpr auto dtype_labels = std::to_array<Label>({"f16", "bf16", "tf32", "f32", "f64"});
constexpr auto align_labels = std::to_array<Label>({"top_left", "bottom_right"});
constexpr auto layout_labels =
    std::to_array<Label>({"bhsd", "bshd", "padded_rows", "odd_base", "spaced", "transposed", "slice", "far",
                          "broadcast_batch", "broadcast_heads", "broadcast_rows"});
constexpr auto keep_labels = std::to_array<Label>({"none", "open", "half", "sparse", "dense", "prefix", "suffix",
                                                   "blocks", "one", "counted", "some_empty", "closed"});
constexpr auto bias_labels = std::to_array<Label>({"none", "zero", "normal", "alibi", "minus_inf", "lowest",
                                                   "minus_1e4", "padding", "empty_inf", "empty_lowest", "large"});
constexpr auto bias_type_labels = std::to_array<Label>({"same", "f32", "f16", "bf16", "f64"});
constexpr auto lengths_labels = std::to_array<Label>({"none", "full", "ragged", "some_zero", "one"});
constexpr auto lse_labels = std::to_array<Label>({"none", "f32", "f64"});
constexpr auto values_labels = std::to_array<Label>(
    {"constant",    "integers", "large_integers", "uniform",    "normal",     "negative",   "rising", "falling",
     "peaked",      "flat",     "outlier",        "offset",     "duplicated", "wide_value", "wide",   "tiny",
     "tiny_scores", "huge",     "huge_scores",    "unbalanced", "selection",  "levels",     "file"});
constexpr auto form_labels = std::to_array<Label>({"drawn", "short_significand", "power_of_two", "one", "zero"});

template <auto Member>
Index get_member(const Problem& problem) {
  return static_cast<Index>(problem.*Member);
}
template <auto Member>
void set_member(Problem& problem, Index value) {
  problem.*Member = static_cast<std::remove_reference_t<decltype(problem.*Member)>>(value);
}
template <auto Member>
std::optional<double> get_real_member(const Problem& problem) {
  return problem.*Member;
}
template <auto Member>
void set_real_member(Problem& problem, std::optional<double> value) {
  if constexpr (std::is_same_v<std::remove_reference_t<decltype(problem.*Member)>, double>)
    problem.*Member = value.value_or(0.0);
  else
    problem.*Member = value;
}
Index no_get(const Problem&) { return 0; }
void no_set(Problem&, Index) {}
std::optional<double> no_get_real(const Problem&) { return std::nullopt; }
void no_set_real(Problem&, std::optional<double>) {}

template <auto Member>
constexpr Field integer(Label name, Index lo, Index hi, Index simplest, std::span<const Index> edges, Label doc,
                        bool always_printed = false) {
  return {name, FieldKind::integer, always_printed,     lo,          hi,          simplest, edges,
          {},   get_member<Member>, set_member<Member>, no_get_real, no_set_real, {},       doc};
}
template <auto Member>
constexpr Field label(Label name, std::span<const Label> labels, Index simplest, Label doc,
                      bool always_printed = false) {
  return {name,
          FieldKind::label,
          always_printed,
          0,
          static_cast<Index>(labels.size()) - 1,
          simplest,
          no_edges,
          labels,
          get_member<Member>,
          set_member<Member>,
          no_get_real,
          no_set_real,
          {},
          doc};
}
template <auto Member>
constexpr Field flag(Label name, Label doc) {
  return {name,        FieldKind::flag, false, 0,  1, 0, no_edges, {}, get_member<Member>, set_member<Member>,
          no_get_real, no_set_real,     {},    doc};
}
template <auto Member>
constexpr Field real(Label name, Index simplest, Label doc, Label joined_to = {}) {
  return {name,
          FieldKind::real,
          false,
          0,
          0,
          simplest,
          no_edges,
          {},
          no_get,
          no_set,
          get_real_member<Member>,
          set_real_member<Member>,
          joined_to,
          doc};
}

Index get_seed(const Problem& problem) { return std::bit_cast<Index>(problem.seed); }
void set_seed(Problem& problem, Index value) { problem.seed = std::bit_cast<std::uint64_t>(value); }

constexpr Index most_batch = 65537, most_length = Index{1} << 20, most_width = 1024;
constexpr Index most_origin = Index{1} << 40, most_window = std::numeric_limits<Index>::max();

constexpr auto table = std::to_array<Field>({
    integer<&Problem::b>("b", 0, most_batch, 1, count_edges, "batch size", true),
    integer<&Problem::hq>("hq", 0, most_batch, 1, count_edges, "query heads, a multiple of hkv", true),
    integer<&Problem::hkv>("hkv", 0, most_batch, 1, count_edges, "key/value heads", true),
    integer<&Problem::lq>("lq", 0, most_length, 1, length_edges, "queries per head", true),
    integer<&Problem::lk>("lk", 0, most_length, 1, length_edges, "keys per head", true),
    integer<&Problem::d>("d", 0, most_width, 1, width_edges, "width of a query and of a key", true),
    integer<&Problem::dv>("dv", 0, most_width, 1, width_edges, "width of a value and of an output row", true),
    label<&Problem::dtype>("dtype", dtype_labels, 3, "storage format of q, k, v and out", true),
    real<&Problem::scale>("scale", 1, "factor on q.k; left out: the default 1/sqrt(d), and the call says so"),
    real<&Problem::softcap>("softcap", 0, "c in s = c tanh(s/c); 0 = none"),
    flag<&Problem::causal>("causal", "key j takes part in row i only if j <= g(i)"),
    label<&Problem::align>("align", align_labels, 0,
                           "the diagonal g(i): i, or i + keys - lq; causal and windows are measured from it"),
    integer<&Problem::window_left>("window_left", -1, most_window, -1, window_edges,
                                   "keys before the diagonal that take part; -1 = all"),
    integer<&Problem::window_right>("window_right", -1, most_window, -1, window_edges,
                                    "keys after the diagonal that take part; -1 = all"),
    label<&Problem::keep>("keep", keep_labels, 0, "boolean mask, true = attend"),
    integer<&Problem::keep_axes>("keep_axes", 0, 15, 15, axes_edges,
                                 "axes along which keep varies: 1 batch + 2 head + 4 query + 8 key; else stride 0"),
    label<&Problem::bias>("bias", bias_labels, 0, "additive mask or position bias"),
    integer<&Problem::bias_axes>("bias_axes", 0, 15, 15, axes_edges, "axes along which bias varies, as keep_axes"),
    label<&Problem::bias_type>("bias_type", bias_type_labels, 0, "bias in q's dtype, or in one of its own"),
    label<&Problem::mask_layout>("mask_layout", layout_labels, 0, "how keep and bias lie in memory"),
    label<&Problem::lengths>("lengths", lengths_labels, 0, "kv_lengths: keys that exist per sample"),
    label<&Problem::q_layout>("q_layout", layout_labels, 0, "how q lies in memory"),
    label<&Problem::k_layout>("k_layout", layout_labels, 0, "how k lies in memory"),
    label<&Problem::v_layout>("v_layout", layout_labels, 0, "how v lies in memory"),
    label<&Problem::out_layout>("out_layout", layout_labels, 0, "how out lies in memory; never a broadcast"),
    label<&Problem::lse>("lse", lse_labels, 0, "log-sum-exp output: none, f32 or f64"),
    integer<&Problem::threads>("threads", 0, 1024, 0, thread_edges, "threads the subject may use; 0 = as it likes"),
    {"values",
     FieldKind::label,
     true,
     0,
     static_cast<Index>(values_labels.size()) - 1,
     0,
     no_edges,
     values_labels,
     get_member<&Problem::values>,
     set_member<&Problem::values>,
     no_get_real,
     no_set_real,
     {},
     "joint distribution of q, k and v; file:PATH takes captured activations from an .npz"},
    real<&Problem::amplitude>("amplitude", 1, "scales the distribution", "values"),
    label<&Problem::q_form>("q_form", form_labels, 4, "what happens to q after the distribution"),
    label<&Problem::k_form>("k_form", form_labels, 4, "what happens to k after the distribution"),
    label<&Problem::v_form>("v_form", form_labels, 4, "what happens to v after the distribution"),
    {"seed",
     FieldKind::seed,
     true,
     0,
     0,
     0,
     no_edges,
     {},
     get_seed,
     set_seed,
     no_get_real,
     no_set_real,
     {},
     "key of every random value"},
    integer<&Problem::b0>("b0", 0, most_origin, 0, no_edges, "first sample, in the problem this one was cut from"),
    integer<&Problem::hq0>("hq0", 0, most_origin, 0, no_edges, "first query head there"),
    integer<&Problem::hkv0>("hkv0", 0, most_origin, 0, no_edges, "first key/value head there"),
    integer<&Problem::lq0>("lq0", 0, most_origin, 0, no_edges, "first query there"),
    integer<&Problem::lk0>("lk0", 0, most_origin, 0, no_edges, "first key there"),
    integer<&Problem::d0>("d0", 0, most_origin, 0, no_edges, "first coordinate of q and k there"),
    integer<&Problem::dv0>("dv0", 0, most_origin, 0, no_edges, "first coordinate of v there"),
    integer<&Problem::rows>("rows", 0, Index{1} << 40, 0, no_edges, "output rows that are judged; 0 = all"),
});

static_assert(values_labels.size() == values_count + 1 && keep_labels.size() == keep_count &&
              bias_labels.size() == bias_count && bias_type_labels.size() == bias_type_count &&
              layout_labels.size() == layout_count && lengths_labels.size() == lengths_count &&
              form_labels.size() == form_count);

}  // namespace

std::span<const Field> fields() noexcept { return table; }

const Field* find_field(std::string_view name) noexcept {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Field& field) { return field.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace attest
