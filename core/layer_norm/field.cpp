#include <algorithm>
#include <array>
#include <bit>

#include "core/field_rows.hpp"
#include "core/layer_norm/offer.hpp"

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

constexpr Index row_edges[] = {0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 256, 1024, 65535, 65536, 65537};
constexpr Index hidden_edges[] = {1,   2,    3,    4,    5,    7,    8,    9,    15,   16,    17,   31,  32,
                                  33,  63,   64,   65,   127,  128,  129,  255,  256,  257,   511,  512, 513,
                                  768, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8192, 16384, 65536};
constexpr Index few_threads[] = {0, 1, 2, 3, 4, 8};

constexpr Index norm_steps[] = {0}, none_steps[] = {0}, layout_steps[] = {0};
constexpr Index residual_steps[] = {0, 1, 2}, weights_steps[] = {0, 2, 3};
constexpr Index values_steps[] = {0, 3, 5};  // constant, integers, normal

// The frequency with which each label is drawn.
using Weight = std::uint16_t;
constexpr Weight norm_weights[] = {3, 2};
constexpr Weight residual_weights[] = {60, 5, 20, 8, 7};
constexpr Weight sum_weights[] = {1, 1};
constexpr Weight gamma_weights[] = {12, 2, 6, 40, 20, 6, 6, 4, 4}, beta_weights[] = {20, 4, 6, 36, 18, 6, 4, 3, 3};
constexpr Weight param_weights[] = {3, 1};
constexpr Weight layout_weights[] = {56, 10, 10, 6, 6, 6, 2, 4}, out_weights[] = {60, 12, 12, 6, 5, 5, 0};
constexpr Weight thread_weights[] = {70, 20, 4, 2, 2, 0, 0, 0, 2};
constexpr Weight values_weights[] = {3, 4, 6, 10, 12, 25, 4, 3, 4, 3, 6, 6, 4, 5, 5, 2, 2, 2, 2};

// ---- what a reproducer may have only if the failing problem has it, and what buckets say ----------------------------

unsigned given(const Field& field, const Problem& p) { return field.get(p) != field.simplest ? 1u : 0u; }
unsigned of_residual(const Field&, const Problem& p) { return p.residual != Residual::none ? 1u : 0u; }
unsigned of_weights(const Field& field, const Problem& p) { return field.get(p) != 0 ? 1u : 0u; }
unsigned of_epsilon(const Field&, const Problem& p) { return p.epsilon == 0 ? 1u : 0u; }

std::string own_word(const Field& field, const Problem& p) {
  return field.get(p) == field.simplest ? std::string() : std::string(field.name);
}
std::string rows_word(const Field&, const Problem& p) { return p.rows > 1 ? "rows" : ""; }
std::string long_word(const Field&, const Problem& p) { return p.hidden > 64 ? "long" : ""; }
std::string norm_word(const Field&, const Problem& p) { return p.norm == Norm::rms ? "rms" : ""; }
std::string epsilon_word(const Field&, const Problem& p) { return p.epsilon == 0 ? "epsilon=0" : ""; }

// ---- rows -----------------------------------------------------------------------------------------------------------

using Rows = FieldRows<Problem, Supports>;

// `broadcasting`: how many labels are not for this tensor: those that repeat elements.
template <auto Member>
constexpr Rows::Row layout(Text name, std::size_t broadcasting, std::span<const Weight> weights, Text doc) {
  return Rows::stepped<Member>(name, FieldGroup::layouts, layout_names, layout_steps, doc)
      .weighs(weights, broadcasting)
      .option(given);
}

constexpr Index most_origin = Index{1} << 40;

using enum FieldGroup;
using P = Problem;
using S = Supports;
constexpr auto field_table = std::to_array<Field>({
    Rows::integer<&P::rows>("rows", shape, 0, Index{1} << 31, 1, "rows, each normalised by itself")
        .printed()
        .breaks_at(row_edges)
        .with(&Field::extent, &S::rows)
        .with(&Field::origin, "rows0")
        .told(9)
        .worded(1, rows_word),
    Rows::integer<&P::hidden>("hidden", shape, 1, 65536, 1, "elements of a row")
        .printed()
        .breaks_at(hidden_edges)
        .with(&Field::extent, &S::hidden)
        .with(&Field::origin, "hidden0")
        .told(8)
        .worded(2, long_word),
    Rows::stepped<&P::dtype>("dtype", format, format_names, dtype_steps,
                             "storage format of x, residual, out and sum_out")
        .printed()
        .undrawn()
        .told(2),
    Rows::stepped<&P::norm>("norm", scaling, norm_names, norm_steps, "LayerNorm, or RMSNorm: without the mean")
        .weighs(norm_weights)
        .option(given)
        .told(1)
        .worded(3, norm_word),
    Rows::real<&P::epsilon>("epsilon", scaling, 0, "added to the variance, inside the root")
        .option(of_epsilon)
        .told(3)
        .worded(4, epsilon_word),
    Rows::stepped<&P::residual>("residual", masks, residual_names, residual_steps,
                                "what is added to x before it is normalised")
        .weighs(residual_weights)
        .supported("residual", &S::residual)
        .option(of_residual)
        .told(4)
        .worded(10, own_word),
    Rows::flag<&P::sum_out>("sum_out", outputs, "whether x + residual is an output, too")
        .weighs(sum_weights)
        .simplifies(none_steps)
        .supported("sum_out", &S::sum_out)
        .option(given)
        .told(5)
        .worded(5, own_word),
    Rows::stepped<&P::gamma>("gamma", masks, weights_names, weights_steps, "factors of the normalised values")
        .weighs(gamma_weights)
        .supported("gamma", &S::gamma)
        .option(of_weights)
        .told(6)
        .worded(11, own_word),
    Rows::stepped<&P::beta>("beta", masks, weights_names, weights_steps, "what is added to them")
        .weighs(beta_weights)
        .supported("beta", &S::beta)
        .option(of_weights)
        .told(7)
        .worded(12, own_word),
    Rows::stepped<&P::param_type>("param_type", masks, param_names, none_steps,
                                  "gamma and beta in x's dtype, or in f32")
        .weighs(param_weights)
        .option(given)
        .told(10)
        .worded(13, own_word),
    layout<&P::x_layout>("x_layout", 0, layout_weights, "how x lies in memory")
        .told(11)
        .worded(20, Rows::layout_word<Layout>),
    layout<&P::residual_layout>("residual_layout", 0, layout_weights, "how residual lies in memory")
        .told(12)
        .worded(21, Rows::layout_word<Layout>),
    layout<&P::param_layout>("param_layout", 0, layout_weights, "how gamma and beta lie in memory")
        .told(13)
        .worded(22, Rows::layout_word<Layout>),
    layout<&P::out_layout>("out_layout", 1, out_weights, "how out and sum_out lie in memory; never a broadcast")
        .told(14)
        .worded(23, Rows::layout_word<Layout>),
    Rows::integer<&P::threads>("threads", outputs, 0, 1024, 0, "threads the subject may use; 0 = as it likes")
        .breaks_at(few_threads)
        .weighs(thread_weights)
        .option(given)
        .told(15)
        .worded(6, own_word),
    Rows::stepped<&P::values>("values", values, values_names, values_steps, "distribution of x")
        .printed()
        .weighs(values_weights)
        .with(&Field::reset_to, Index{3})  // integers: the plainest under which elements still differ
        .told(16),
    Rows::real<&P::amplitude>("amplitude", values, 1, "scales the distribution").told(17),
    Rows::real<&P::offset>("offset", values, 0, "added to every element of x, in amplitudes").told(18),
    Rows::seed<&P::seed>("seed", values, "key of every random value"),
    Rows::integer<&P::rows0>("rows0", origin, 0, most_origin, 0, "first row, in the problem this one was cut from")
        .undrawn(),
    Rows::integer<&P::hidden0>("hidden0", origin, 0, most_origin, 0, "first column there").undrawn(),
    Rows::integer<&P::judged>("judged", outputs, 0, most_origin, 0, "rows that are judged; 0 = all").undrawn(),
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
