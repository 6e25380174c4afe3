#include <algorithm>
#include <array>

#include "core/field_rows.hpp"
#include "core/mha/offer.hpp"

namespace attest::mha {
namespace {

using Text = std::string_view;
constexpr auto align_names = std::to_array<Text>({"top_left", "bottom_right"});
constexpr auto padding_names = std::to_array<Text>({"none", "ragged", "some_zero", "scattered", "rows"});
constexpr auto bias_names = std::to_array<Text>({"none", "normal", "shared", "minus_inf"});
constexpr auto biases_names = std::to_array<Text>({"none", "in", "out", "all"});
constexpr auto weights_names = std::to_array<Text>({"dense", "one_hot", "power_of_two", "integers", "cancelling",
                                                    "dense_in", "dense_out", "uniform", "selection", "zero"});
constexpr auto layout_names = std::to_array<Text>(
    {"contiguous", "padded_rows", "odd_base", "spaced", "transposed", "slice", "tokens_first", "far", "broadcast"});
static_assert(weights_names.size() == weights_count && layout_names.size() == layout_count);

constexpr Index token_edges[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,  32,
                                 33, 47, 48, 63, 64, 65, 127, 128, 129, 255, 256, 257, 512};
constexpr Index width_edges[] = {1,  2,  3,   4,   7,   8,   9,   15,  16,  17,  31,  32,  33,  63,  64,
                                 65, 96, 127, 128, 129, 192, 255, 256, 257, 511, 512, 513, 768, 1024};
constexpr Index count_edges[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
constexpr Index few_threads[] = {0, 1, 2, 4};

constexpr Index none_steps[] = {0}, flag_steps[] = {0}, self_steps[] = {1};
constexpr Index padding_steps[] = {0, 1}, bias_steps[] = {0, 3, 2}, biases_steps[] = {0, 1, 2};
constexpr Index weights_steps[] = {1, 2, 3, 4, 0};  // one_hot, power_of_two, integers, cancelling, dense

// The frequency with which each label is drawn; docs/mha.md, section 4, recommends the weights.
using Weight = std::uint16_t;
constexpr Weight self_weights[] = {45, 55}, packed_weights[] = {60, 40}, causal_weights[] = {65, 35},
                 align_weights[] = {1, 1};
constexpr Weight padding_weights[] = {62, 12, 6, 10, 10}, bias_weights[] = {80, 8, 6, 6};
constexpr Weight biases_weights[] = {15, 10, 10, 65};
constexpr Weight weights_weights[] = {15, 0, 25, 0, 25, 15, 0, 10, 10, 0};
constexpr Weight tokens_weights[] = {46, 10, 10, 8, 6, 10, 12, 2, 4};
constexpr Weight matrix_weights[] = {50, 12, 12, 8, 16, 10};
constexpr Weight out_weights[] = {52, 10, 10, 8, 6, 10, 12, 2};
constexpr Weight thread_weights[] = {70, 20, 4, 0, 2};

// ---- what fields hang on, what a reproducer may have only if the failing problem has it, and what buckets say -------

bool diagonal(const Problem& p) { return p.causal; }
bool crossed(const Problem& p) { return !p.self; }
// Memory of another length becomes x by a change of lengths too, which may make the problem larger: lengths shrink by
// themselves.
bool unequal(const Problem& p, Index) { return p.l != p.m; }

unsigned given(const Field& field, const Problem& p) { return field.get(p) != field.simplest ? 1u : 0u; }
// Memory that is x lies as x does, and may when it parts from x; and x as memory did, once they are one.
unsigned of_tokens_layout(const Field&, const Problem& p) {
  return p.x_layout != Layout::contiguous || p.memory_layout != Layout::contiguous ? 1u : 0u;
}
unsigned of_padding(const Field&, const Problem& p) { return (p.has_lengths() ? 1u : 0u) | (p.has_keep() ? 2u : 0u); }
unsigned of_bias(const Field&, const Problem& p) {
  return (p.bias != Bias::none ? 1u : 0u) | (p.bias == Bias::minus_inf ? 2u : 0u);
}
unsigned of_biases(const Field&, const Problem& p) { return static_cast<unsigned>(p.biases); }
unsigned of_heads(const Field&, const Problem& p) { return p.heads != p.kv_heads ? 1u : 0u; }
unsigned of_scale(const Field&, const Problem& p) {
  return (p.scale.has_value() ? 1u : 0u) | (p.effective_scale() == 0 ? 2u : 0u) | (p.effective_scale() < 0 ? 4u : 0u);
}

double scale_in_effect(const Problem& p) { return p.effective_scale(); }

std::string own_word(const Field& field, const Problem& p) {
  return field.get(p) == field.simplest ? std::string() : std::string(field.name);
}
std::string batch_word(const Field&, const Problem& p) { return p.b > 1 ? "batch" : ""; }
std::string tokens_word(const Field&, const Problem& p) { return p.l > 1 ? "tokens" : ""; }
std::string long_word(const Field&, const Problem& p) { return p.m > 8 ? "long" : ""; }
std::string wide_word(const Field&, const Problem& p) { return p.e > 64 ? "wide" : ""; }
std::string groups_word(const Field&, const Problem& p) { return p.heads > p.kv_heads ? "grouped" : ""; }
std::string heads_word(const Field&, const Problem& p) { return p.kv_heads > 1 ? "heads" : ""; }
std::string cross_word(const Field&, const Problem& p) { return p.self ? "" : "cross"; }
std::string padding_word(const Field&, const Problem& p) {
  return p.has_lengths() ? "lengths" : p.has_keep() ? "keep" : "";
}
std::string scale_word(const Field&, const Problem& p) {
  const double scale = p.effective_scale();
  return scale == 0 ? "scale=0" : scale < 0 ? "scale<0" : "";
}
std::string biases_word(const Field&, const Problem& p) {
  return p.biases == Biases::none ? "" : "biases-" + std::string(biases_names[static_cast<std::size_t>(p.biases)]);
}
std::string causal_word(const Field&, const Problem& p) {
  return !p.causal ? "" : p.align == Align::top_left ? "causal" : "causal-br";
}

// ---- rows -----------------------------------------------------------------------------------------------------------

using Rows = FieldRows<Problem, Supports>;

template <auto Member>
constexpr Rows::Row extent(Text name, Index hi, std::span<const Index> edges, DimRange Supports::*range, Text doc) {
  return Rows::integer<Member>(name, FieldGroup::shape, 1, hi, 1, doc)
      .printed()
      .breaks_at(edges)
      .with(&Field::extent, range);
}
template <auto Member>
constexpr Rows::Row layout(Text name, std::size_t labels, std::span<const Weight> weights, Text doc) {
  return Rows::stepped<Member>(name, FieldGroup::layouts, std::span(layout_names).first(labels), none_steps, doc)
      .weighs(weights)
      .option(given);
}
template <auto Member>
constexpr Rows::Row origin_of(Text name, Text doc) {
  return Rows::integer<Member>(name, FieldGroup::origin, 0, Index{1} << 40, 0, doc).undrawn();
}

constexpr Index most_tokens = 1 << 16, most_width = 1 << 13;

using enum FieldGroup;
using P = Problem;
using S = Supports;
constexpr auto field_table = std::to_array<Field>({
    extent<&P::b>("b", 1 << 12, count_edges, &S::b, "samples")
        .with(&Field::origin, "b0")
        .told(13)
        .worded(1, batch_word),
    extent<&P::l>("l", most_tokens, token_edges, &S::l, "tokens of x")
        .with(&Field::origin, "l0")
        .told(11)
        .worded(2, tokens_word),
    extent<&P::m>("m", most_tokens, token_edges, &S::m, "tokens of memory, which are attended")
        .with(&Field::origin, "m0")
        .told(10)
        .worded(3, long_word),
    extent<&P::e>("e", most_width, width_edges, &S::e, "width of a token").told(14).worded(4, wide_word),
    extent<&P::heads>("heads", 1 << 9, count_edges, &S::heads, "query heads")
        .option(of_heads)
        .told(15)
        .worded(5, groups_word),
    extent<&P::kv_heads>("kv_heads", 1 << 9, count_edges, &S::kv_heads, "key/value heads, which divide heads")
        .told(16)
        .worded(6, heads_word),
    extent<&P::head_dim>("head_dim", 1 << 10, width_edges, &S::head_dim, "width of a head").told(17),
    Rows::stepped<&P::dtype>("dtype", format, format_names, dtype_steps, "of every tensor").printed().undrawn().told(2),
    Rows::flag<&P::self>("self", shape, "memory is x")
        .with(&Field::simplest, Index{1})
        .weighs(self_weights)
        .simplifies(self_steps)
        .with(&Field::idle, unequal)
        .told(3)
        .worded(7, cross_word),
    Rows::flag<&P::packed>("packed", layouts, "w_q, w_k, w_v and their biases lie in one buffer")
        .weighs(packed_weights)
        .simplifies(flag_steps)
        .option(given)
        .told(4)
        .worded(25, own_word),
    Rows::real<&P::scale>("scale", scaling, 0, "of the scores; 1/sqrt(head_dim) where it is left out")
        .with(&Field::in_effect, scale_in_effect)
        .option(of_scale)
        .told(12)
        .worded(8, scale_word),
    Rows::flag<&P::causal>("causal", masks, "token i attends tokens up to its place")
        .weighs(causal_weights)
        .simplifies(flag_steps)
        .supported("causal", &S::causal)
        .option(given)
        .told(7)
        .worded(15, causal_word),
    Rows::stepped<&P::align>("align", masks, align_names, none_steps, "where the diagonal of a causal mask lies")
        .where(diagonal)
        .weighs(align_weights)
        .told(8),
    Rows::stepped<&P::padding>("padding", masks, padding_names, padding_steps, "which tokens of memory may be attended")
        .weighs(padding_weights)
        .option(of_padding)
        .told(6)
        .worded(16, padding_word),
    Rows::stepped<&P::bias>("bias", masks, bias_names, bias_steps, "what is added to scores, in x's type")
        .weighs(bias_weights)
        .supported("bias", &S::bias)
        .option(of_bias)
        .told(9)
        .worded(17, own_word),
    Rows::stepped<&P::biases>("biases", masks, biases_names, biases_steps,
                              "which of b_q, b_k, b_v (in) and b_out there are")
        .printed()
        .weighs(biases_weights)
        .option(of_biases)
        .with(&Field::reset_to, Index{0})
        .told(5)
        .worded(18, biases_word),
    layout<&P::x_layout>("x_layout", layout_count, tokens_weights, "how x lies in memory")
        .option(of_tokens_layout)
        .told(21)
        .worded(20, Rows::layout_word<Layout>),
    layout<&P::memory_layout>("memory_layout", layout_count, tokens_weights, "how memory lies in memory")
        .where(crossed)
        .option(of_tokens_layout)
        .told(22)
        .worded(21, Rows::layout_word<Layout>),
    layout<&P::weight_layout>("weight_layout", matrix_layout_count, matrix_weights,
                              "how the four matrices lie in memory, and their biases")
        .told(23)
        .worded(22, Rows::layout_word<Layout>),
    layout<&P::out_layout>("out_layout", layout_count - 1, out_weights, "how out lies in memory; never a broadcast")
        .told(24)
        .worded(23, Rows::layout_word<Layout>),
    Rows::integer<&P::threads>("threads", outputs, 0, 1024, 0, "at most; 0 as the block likes")
        .breaks_at(few_threads)
        .weighs(thread_weights)
        .option(given)
        .told(25)
        .worded(9, own_word),
    Rows::stepped<&P::weights>("weights", values, weights_names, weights_steps, "how the weight matrices are made")
        .printed()
        .weighs(weights_weights)
        .with(&Field::reset_to, Index{3})  // integers: the plainest under which rows still differ
        .told(1),
    Rows::real<&P::amplitude>("amplitude", values, 1, "of x and memory, where they are no integers").told(18),
    Rows::seed<&P::seed>("seed", values, "of every value"),
    origin_of<&P::b0>("b0", "first sample, in the problem this one was cut from"),
    origin_of<&P::l0>("l0", "first token of x there"),
    origin_of<&P::m0>("m0", "first token of memory there"),
});

}  // namespace

std::span<const Field> fields() noexcept { return field_table; }

const Field* find_field(std::string_view name) noexcept {
  const auto found = std::ranges::find(field_table, name, &Field::name);
  return found == field_table.end() ? nullptr : &*found;
}

}  // namespace attest::mha
