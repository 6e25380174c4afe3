#include "core/attention/fields.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "core/field_rows.hpp"
#include "core/subject.hpp"

// A namespace of its own, since the names of groups and of columns are those of much else.
namespace attest::rows {
namespace {

using Label = std::string_view;
using Weight = std::uint16_t;
using enum FieldGroup;

// ---- values at which kernels tend to break --------------------------------------------------------------------------

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

// ---- labels, and how often each is drawn ----------------------------------------------------------------------------

constexpr auto align_labels = std::to_array<Label>({"top_left", "bottom_right"});
constexpr auto layout_labels =
    std::to_array<Label>({"bhsd", "bshd", "padded_rows", "odd_base", "spaced", "transposed", "slice", "far",
                          "broadcast_batch", "broadcast_heads", "broadcast_rows"});
constexpr auto keep_labels = std::to_array<Label>({"none", "open", "half", "sparse", "dense", "prefix", "suffix",
                                                   "blocks", "one", "counted", "some_empty", "closed"});
constexpr auto bias_labels = std::to_array<Label>({"none", "zero", "normal", "alibi", "minus_inf", "lowest",
                                                   "minus_1e4", "padding", "empty_inf", "empty_lowest", "large"});
constexpr auto bias_type_labels = [] {
  std::array<Label, bias_formats.size() + 1> labels{"same"};
  std::ranges::transform(bias_formats, labels.begin() + 1, [](Format format) { return name(format); });
  return labels;
}();
constexpr auto lengths_labels = std::to_array<Label>({"none", "full", "ragged", "some_zero", "one"});
constexpr auto lse_labels = std::to_array<Label>({"none", "f32", "f64"});
constexpr auto values_labels = std::to_array<Label>(
    {"constant",    "integers", "large_integers", "uniform",    "normal",     "negative",   "rising", "falling",
     "peaked",      "flat",     "outlier",        "offset",     "duplicated", "wide_value", "wide",   "tiny",
     "tiny_scores", "huge",     "huge_scores",    "unbalanced", "selection",  "levels",     "ends",   "file"});
constexpr auto form_labels = std::to_array<Label>({"drawn", "short_significand", "power_of_two", "one", "zero"});

static_assert(values_labels.size() == values_count + 1 && keep_labels.size() == keep_count &&
              bias_labels.size() == bias_count && bias_type_labels.size() == bias_type_count &&
              layout_labels.size() == layout_count && lengths_labels.size() == lengths_count &&
              form_labels.size() == form_count);

constexpr auto causal_weights = std::to_array<Weight>({65, 35});
constexpr auto null_key_weights = std::to_array<Weight>({3, 1});
constexpr auto align_weights = std::to_array<Weight>({1, 1});
constexpr auto keep_weights = std::to_array<Weight>({66, 2, 5, 3, 4, 5, 4, 3, 2, 3, 2, 1});
constexpr auto bias_weights = std::to_array<Weight>({68, 2, 8, 4, 4, 2, 3, 3, 2, 2, 2});
constexpr auto bias_type_weights = std::to_array<Weight>({4, 4, 1, 1, 1});
constexpr auto lengths_weights = std::to_array<Weight>({76, 4, 11, 6, 3});
constexpr auto layout_weights = std::to_array<Weight>({24, 16, 10, 10, 8, 10, 10, 3, 6, 6, 6});
constexpr auto lse_weights = std::to_array<Weight>({5, 3, 2});
constexpr auto thread_weights = std::to_array<Weight>({70, 20, 4, 2, 2, 0, 0, 0, 2});
constexpr auto values_weights =
    std::to_array<Weight>({40, 85, 25, 115, 200, 50, 50, 40, 60, 45, 50, 40, 45, 15, 8, 20, 12, 5, 5, 20, 30, 40, 40});
constexpr auto form_weights = std::to_array<Weight>({92, 2, 2, 2, 2});

// ---- ladders --------------------------------------------------------------------------------------------------------

template <class... Step>
constexpr auto steps(Step... labels) {
  return std::to_array<Index>({static_cast<Index>(labels)...});
}
constexpr auto flag_ladder = steps(0);
constexpr auto align_ladder = steps(Align::top_left);
constexpr auto axes_ladder = steps(15);
constexpr auto keep_ladder = steps(Keep::none, Keep::open, Keep::prefix, Keep::half);
constexpr auto bias_ladder = steps(Bias::none, Bias::zero, Bias::minus_inf, Bias::lowest, Bias::normal);
constexpr auto bias_type_ladder = steps(BiasType::same, BiasType::f32);
constexpr auto layout_ladder = steps(Layout::bhsd);
constexpr auto lengths_ladder = steps(Lengths::none, Lengths::full, Lengths::one);
constexpr auto lse_ladder = steps(LseOutput::none, LseOutput::f32);
constexpr auto values_ladder = steps(Values::constant, Values::integers, Values::normal);
constexpr auto form_ladder = steps(Form::zero, Form::one, Form::power_of_two, Form::short_significand);

// Numbers in [-4, 4] are short already: forms that keep bits would change nothing worth a call.
bool keeps_plain_values(const Problem& p, Index step) {
  const bool plain = p.values == Values::constant || p.values == Values::integers;
  return plain &&
         (step == static_cast<Index>(Form::power_of_two) || step == static_cast<Index>(Form::short_significand));
}

double scale_in_effect(const Problem& p) { return p.effective_scale(); }

// ---- what fields hang on --------------------------------------------------------------------------------------------

bool kept(const Problem& p) { return p.keep != Keep::none; }
bool biased(const Problem& p) { return p.bias != Bias::none; }
bool masked(const Problem& p) { return kept(p) || biased(p); }

// ---- options --------------------------------------------------------------------------------------------------------

constexpr unsigned bits(bool first, bool second = false, bool third = false) {
  return unsigned{first} | unsigned{second} << 1 | unsigned{third} << 2;
}
unsigned shared_axes(const Field& field, const Problem& p) {
  return field.used(p) ? ~static_cast<unsigned>(field.get(p)) & 15u : 0;
}
unsigned of_layout(const Field& field, const Problem& p) {
  const auto layout = static_cast<Layout>(field.get(p));
  return bits(layout != Layout::bhsd, off_boundary(layout));
}
unsigned of_heads(const Field&, const Problem& p) { return bits(p.hq != p.hkv); }
unsigned of_bias(const Field&, const Problem& p) { return bits(biased(p), closes_keys(p.bias)); }
unsigned of_scale(const Field&, const Problem& p) {
  return bits(p.scale.has_value(), p.effective_scale() == 0, p.effective_scale() < 0);
}

// ---- words of buckets -----------------------------------------------------------------------------------------------

std::string batch_word(const Field&, const Problem& p) { return p.b > 1 ? "batch" : ""; }
std::string groups_word(const Field&, const Problem& p) { return p.hkv > 0 && p.hq > p.hkv ? "grouped" : ""; }
std::string heads_word(const Field&, const Problem& p) { return p.hkv > 1 ? "heads" : ""; }
std::string lengths_differ_word(const Field&, const Problem& p) {
  return p.lq > 1 && p.lk > 1 && p.lq != p.lk ? p.lq < p.lk ? "lq<lk" : "lq>lk" : "";
}
// Keys beyond what a value-dependent failure needs.
std::string long_word(const Field&, const Problem& p) { return p.lk > 8 ? "long" : ""; }
// The class of a factor that products have before masks come, where kernels take a path of their own.
std::string scale_word(const Field&, const Problem& p) {
  const double scale = p.effective_scale();
  return scale == 0 ? "scale=0" : scale < 0 ? "scale<0" : "";
}
std::string threads_word(const Field&, const Problem& p) { return p.threads > 1 ? "threads" : ""; }
std::string causal_word(const Field&, const Problem& p) {
  return !p.causal ? "" : p.align == Align::top_left ? "causal" : "causal-br";
}
std::string window_word(const Field&, const Problem& p) {
  return p.window_left >= 0 || p.window_right >= 0 ? "window" : "";
}
std::string bias_word(const Field&, const Problem& p) {
  if (!biased(p)) return {};
  return may_exclude(p.bias) ? "bias-inf" : closes_keys(p.bias) ? "bias-low" : "bias";
}
// The field's own name, where it is not at its default.
std::string own_word(const Field& field, const Problem& p) {
  return is_default(field, p) ? std::string() : std::string(field.name);
}
// Gaps and order of memory matter as one thing, a broadcast as another, a base off its boundary as a third.
std::string layout_word(const Field& field, const Problem& p) {
  const auto layout = static_cast<Layout>(field.get(p));
  if (layout == Layout::bhsd) return {};
  const std::string tensor(field.name.substr(0, field.name.find('_')));
  return (layout == Layout::odd_base ? "unaligned-" : broadcasts(layout) ? "broadcast-" : "strided-") + tensor;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

using Rows = FieldRows<Problem, Supports>;

constexpr Index most_batch = 65537, most_length = Index{1} << 20, most_width = 1024;
constexpr Index most_origin = Index{1} << 40, most_window = std::numeric_limits<Index>::max();

template <auto Member>
constexpr Rows::Row extent(Label name, Index most, std::span<const Index> edges, DimRange Supports::*extent, int share,
                           Label origin, Label doc) {
  return Rows::integer<Member>(name, shape, 0, most, 1, doc)
      .printed()
      .breaks_at(edges)
      .with(&Field::extent, extent)
      .with(&Field::share, share)
      .with(&Field::origin, origin);
}
template <auto Member>
constexpr Rows::Row window(Label name, Label doc) {
  return Rows::integer<Member>(name, masks, -1, most_window, -1, doc)
      .breaks_at(window_edges)
      .supported("window", &Supports::window)
      .option();
}
template <auto Member>
constexpr Rows::Row axes(Label name, bool (*used)(const Problem&), Label doc) {
  return Rows::integer<Member>(name, masks, 0, 15, 15, doc)
      .where(used)
      .breaks_at(axes_edges)
      .simplifies(axes_ladder)
      .option(shared_axes);
}
// `broadcasting`: how many labels are not for this tensor: those that repeat elements.
template <auto Member>
constexpr Rows::Row layout(Label name, std::size_t broadcasting, Label doc) {
  const std::span<const Weight> weights(layout_weights);
  return Rows::label<Member>(name, layouts, layout_labels, Layout::bhsd, doc)
      .weighs(weights.first(weights.size() - broadcasting), broadcasting)
      .simplifies(layout_ladder)
      .option(of_layout);
}
template <auto Member>
constexpr Rows::Row form(Label name, Label doc) {
  return Rows::label<Member>(name, values, form_labels, Form::zero, doc)
      .weighs(form_weights)
      .simplifies(form_ladder)
      .with(&Field::idle, keeps_plain_values);
}
template <auto Member>
constexpr Rows::Row origin_of(Label name, Label doc) {
  return Rows::integer<Member>(name, FieldGroup::origin, 0, most_origin, 0, doc).undrawn();
}

using P = Problem;
using S = Supports;
constexpr std::size_t broadcast_layouts = 3;

constexpr auto table = std::to_array<Field>({
    extent<&P::b>("b", most_batch, count_edges, &S::b, 1, "b0", "batch size").told(16).worded(1, batch_word),
    extent<&P::hq>("hq", most_batch, count_edges, &S::hq, 1, "hq0", "query heads, a multiple of hkv")
        .option(of_heads)
        .told(17)
        .worded(2, groups_word),
    extent<&P::hkv>("hkv", most_batch, count_edges, &S::hkv, 0, "hkv0", "key/value heads")
        .told(18)
        .worded(3, heads_word),
    extent<&P::lq>("lq", most_length, length_edges, &S::lq, 2, "lq0", "queries per head")
        .told(13)
        .worded(4, lengths_differ_word),
    extent<&P::lk>("lk", most_length, length_edges, &S::lk, 2, "lk0", "keys per head").told(12).worded(5, long_word),
    extent<&P::d>("d", most_width, width_edges, &S::d, 3, "d0", "width of a query and of a key").told(14),
    extent<&P::dv>("dv", most_width, width_edges, &S::dv, 1, "dv0", "width of a value and of an output row").told(15),
    Rows::label<&P::dtype>("dtype", format, format_names, Format::f32, "storage format of q, k, v and out")
        .printed()
        .undrawn()
        .simplifies(dtype_steps)
        .told(3),
    Rows::real<&P::scale>("scale", scaling, 1, "factor on q.k; left out: the default 1/sqrt(d), and the call says so")
        .with(&Field::in_effect, scale_in_effect)
        .option(of_scale)
        .told(2)
        .worded(6, scale_word),
    Rows::real<&P::softcap>("softcap", scaling, 0, "c in s = c tanh(s/c); 0 = none")
        .supported("softcap", &S::softcap)
        .option()
        .told(4)
        .worded(7, own_word),
    Rows::flag<&P::causal>("causal", masks, "key j takes part in row i only if j <= g(i)")
        .weighs(causal_weights)
        .supported("causal", &S::causal)
        .simplifies(flag_ladder)
        .option()
        .told(1)
        .worded(15, causal_word),
    Rows::label<&P::align>("align", masks, align_labels, Align::top_left,
                           "the diagonal g(i): i, or i + keys - lq; causal and windows are measured from it")
        .where(has_diagonal)
        .weighs(align_weights)
        .simplifies(align_ladder)
        .told(19),
    window<&P::window_left>("window_left", "keys before the diagonal that take part; -1 = all")
        .told(8)
        .worded(16, window_word),
    window<&P::window_right>("window_right", "keys after the diagonal that take part; -1 = all").told(9),
    Rows::label<&P::keep>("keep", masks, keep_labels, Keep::none, "boolean mask, true = attend")
        .weighs(keep_weights)
        .supported("keep", &S::keep)
        .simplifies(keep_ladder)
        .option()
        .told(5)
        .worded(17, own_word),
    axes<&P::keep_axes>("keep_axes", kept,
                        "axes along which keep varies: 1 batch + 2 head + 4 query + 8 key; else stride 0"),
    Rows::label<&P::bias>("bias", masks, bias_labels, Bias::none, "additive mask or position bias")
        .weighs(bias_weights)
        .supported("bias", &S::bias)
        .simplifies(bias_ladder)
        .option(of_bias)
        .told(6)
        .worded(18, bias_word),
    axes<&P::bias_axes>("bias_axes", biased, "axes along which bias varies, as keep_axes"),
    Rows::label<&P::bias_type>("bias_type", masks, bias_type_labels, BiasType::same,
                               "bias in q's dtype, or in one of its own")
        .where(biased)
        .weighs(bias_type_weights)
        .simplifies(bias_type_ladder)
        .option()
        .told(25),
    layout<&P::mask_layout>("mask_layout", broadcast_layouts, "how keep and bias lie in memory")
        .where(masked)
        .told(24)
        .worded(14, layout_word),
    Rows::label<&P::lengths>("lengths", masks, lengths_labels, Lengths::none, "kv_lengths: keys that exist per sample")
        .weighs(lengths_weights)
        .supported("kv_lengths", &S::kv_lengths)
        .simplifies(lengths_ladder)
        .option()
        .told(7)
        .worded(19, own_word),
    layout<&P::q_layout>("q_layout", 0, "how q lies in memory").told(20).worded(10, layout_word),
    layout<&P::k_layout>("k_layout", 0, "how k lies in memory").told(21).worded(11, layout_word),
    layout<&P::v_layout>("v_layout", 0, "how v lies in memory").told(22).worded(12, layout_word),
    layout<&P::out_layout>("out_layout", broadcast_layouts, "how out lies in memory; never a broadcast")
        .told(23)
        .worded(13, layout_word),
    Rows::label<&P::lse>("lse", outputs, lse_labels, LseOutput::none, "log-sum-exp output: none, f32 or f64")
        .weighs(lse_weights)
        .supported("lse", &S::lse)
        .simplifies(lse_ladder)
        .option()
        .told(10)
        .worded(8, own_word),
    Rows::integer<&P::threads>("threads", outputs, 0, 1024, 0, "threads the subject may use; 0 = as it likes")
        .breaks_at(thread_edges)
        .weighs(thread_weights)
        .option()
        .told(11)
        .worded(9, threads_word),
    Rows::label<&P::values>("values", values, values_labels, Values::constant,
                            "joint distribution of q, k and v; file:PATH takes captured activations from an .npz")
        .printed()
        .weighs(values_weights, 1)
        .simplifies(values_ladder)
        .with(&Field::reset_to, static_cast<Index>(Values::integers))  // the plainest under which rows still differ
        .told(26),
    Rows::real<&P::amplitude>("amplitude", values, 1, "scales the distribution")
        .with(&Field::joined_to, "values")
        .told(27),
    form<&P::q_form>("q_form", "what happens to q after the distribution").told(28),
    form<&P::k_form>("k_form", "what happens to k after the distribution").told(29),
    form<&P::v_form>("v_form", "what happens to v after the distribution").told(30),
    Rows::flag<&P::null_key>("null_key", values, "the first key and its value are 0: one more in the denominator")
        .weighs(null_key_weights)
        .supported("null_key", &S::null_key)
        .simplifies(flag_ladder)
        .told(31),
    Rows::seed<&P::seed>("seed", values, "key of every random value"),
    origin_of<&P::b0>("b0", "first sample, in the problem this one was cut from"),
    origin_of<&P::hq0>("hq0", "first query head there"),
    origin_of<&P::hkv0>("hkv0", "first key/value head there"),
    origin_of<&P::lq0>("lq0", "first query there"),
    origin_of<&P::lk0>("lk0", "first key there"),
    origin_of<&P::d0>("d0", "first coordinate of q and k there"),
    origin_of<&P::dv0>("dv0", "first coordinate of v there"),
    Rows::integer<&P::rows>("rows", outputs, 0, Index{1} << 40, 0, "output rows that are judged; 0 = all").undrawn(),
});

}  // namespace
}  // namespace attest::rows

namespace attest {

std::span<const Field> attention_fields() noexcept { return rows::table; }

}  // namespace attest
