#include <algorithm>
#include <array>
#include <bit>

#include "core/layer_norm/problem.hpp"

namespace attest::layer_norm {
namespace {

using Text = std::string_view;
constexpr auto norm_names = std::to_array<Text>({"layer", "rms"});
constexpr auto residual_names = std::to_array<Text>({"none", "zero", "like_x", "cancelling", "large"});
constexpr auto weights_names =
    std::to_array<Text>({"none", "zero", "one", "near", "normal", "sparse", "wide", "tiny", "huge"});
constexpr auto param_names = std::to_array<Text>({"same", "f32"});
constexpr auto layout_names =
    std::to_array<Text>({"contiguous", "padded_rows", "odd_base", "spaced", "transposed", "slice", "far", "broadcast"});
constexpr auto values_names = std::to_array<Text>(
    {"constant", "row_constant", "near_constant", "integers", "uniform", "normal", "alternating", "ramp", "one_hot",
     "sparse", "outlier", "heavy", "wide", "clusters", "cancelling", "roots_large", "roots_small", "tiny", "huge"});

constexpr Index no_edge[] = {0};
constexpr std::span<const Index> none(no_edge, 0);
constexpr Index row_edges[] = {0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 256, 1024, 65535, 65536, 65537};
constexpr Index hidden_edges[] = {1,   2,    3,    4,    5,    7,    8,    9,    15,   16,    17,   31,  32,
                                  33,  63,   64,   65,   127,  128,  129,  255,  256,  257,   511,  512, 513,
                                  768, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8192, 16384, 65536};
constexpr Index few_threads[] = {0, 1, 2, 3, 4, 8};

template <auto Member>
Index get_of(const Problem& problem) {
  return static_cast<Index>(problem.*Member);
}
template <auto Member>
void set_of(Problem& problem, Index value) {
  problem.*Member = static_cast<std::remove_reference_t<decltype(problem.*Member)>>(value);
}
Index seed_of(const Problem& problem) { return std::bit_cast<Index>(problem.seed); }
void set_seed_of(Problem& problem, Index value) { problem.seed = std::bit_cast<std::uint64_t>(value); }
Index get_nothing(const Problem&) { return 0; }
void set_nothing(Problem&, Index) {}

template <auto Member>
constexpr Field integer_row(Text name, Index lo, Index hi, Index simplest, std::span<const Index> edges, Text doc,
                            bool always = false) {
  return {name, FieldKind::integer, always, lo, hi, simplest, edges, {}, get_of<Member>, set_of<Member>, nullptr, doc};
}
template <auto Member>
constexpr Field label_row(Text name, std::span<const Text> labels, Index simplest, Text doc, bool always = false) {
  return {name,           FieldKind::label, always,  0,  static_cast<Index>(labels.size()) - 1, simplest, none, labels,
          get_of<Member>, set_of<Member>,   nullptr, doc};
}
constexpr Field real_row(Text name, double Problem::*member, Index simplest, Text doc) {
  return {name, FieldKind::real, false, 0, 0, simplest, none, {}, get_nothing, set_nothing, member, doc};
}

constexpr Index most_origin_of = Index{1} << 40;

constexpr auto field_table = std::to_array<Field>({
    integer_row<&Problem::rows>("rows", 0, Index{1} << 31, 1, row_edges, "rows, each normalised by itself", true),
    integer_row<&Problem::hidden>("hidden", 1, 65536, 1, hidden_edges, "elements of a row", true),
    label_row<&Problem::dtype>("dtype", format_names, 3, "storage format of x, residual, out and sum_out", true),
    label_row<&Problem::norm>("norm", norm_names, 0, "LayerNorm, or RMSNorm: without the mean"),
    real_row("epsilon", &Problem::epsilon, 0, "added to the variance, inside the root"),
    label_row<&Problem::residual>("residual", residual_names, 0, "what is added to x before it is normalised"),
    {"sum_out",
     FieldKind::flag,
     false,
     0,
     1,
     0,
     none,
     {},
     get_of<&Problem::sum_out>,
     set_of<&Problem::sum_out>,
     nullptr,
     "whether x + residual is an output, too"},
    label_row<&Problem::gamma>("gamma", weights_names, 0, "factors of the normalised values"),
    label_row<&Problem::beta>("beta", weights_names, 0, "what is added to them"),
    label_row<&Problem::param_type>("param_type", param_names, 0, "gamma and beta in x's dtype, or in f32"),
    label_row<&Problem::x_layout>("x_layout", layout_names, 0, "how x lies in memory"),
    label_row<&Problem::residual_layout>("residual_layout", layout_names, 0, "how residual lies in memory"),
    label_row<&Problem::param_layout>("param_layout", layout_names, 0, "how gamma and beta lie in memory"),
    label_row<&Problem::out_layout>("out_layout", layout_names, 0,
                                    "how out and sum_out lie in memory; never a broadcast"),
    integer_row<&Problem::threads>("threads", 0, 1024, 0, few_threads, "threads the subject may use; 0 = as it likes"),
    label_row<&Problem::values>("values", values_names, 0, "distribution of x", true),
    real_row("amplitude", &Problem::amplitude, 1, "scales the distribution"),
    real_row("offset", &Problem::offset, 0, "added to every element of x, in amplitudes"),
    {"seed", FieldKind::seed, true, 0, 0, 0, none, {}, seed_of, set_seed_of, nullptr, "key of every random value"},
    integer_row<&Problem::rows0>("rows0", 0, most_origin_of, 0, none,
                                 "first row, in the problem this one was cut from"),
    integer_row<&Problem::hidden0>("hidden0", 0, most_origin_of, 0, none, "first column there"),
    integer_row<&Problem::judged>("judged", 0, most_origin_of, 0, none, "rows that are judged; 0 = all"),
});

static_assert(values_names.size() == values_count && weights_names.size() == weights_count &&
              residual_names.size() == residual_count && layout_names.size() == layout_count);

}  // namespace

std::span<const Field> fields() noexcept { return field_table; }

const Field* find_field(std::string_view name) noexcept {
  const auto found = std::ranges::find(field_table, name, &Field::name);
  return found == field_table.end() ? nullptr : &*found;
}

}  // namespace attest::layer_norm
