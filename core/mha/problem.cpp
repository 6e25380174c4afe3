#include "core/mha/problem.hpp"
#include "core/number_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace attest::mha {
namespace {

using Label = std::string_view;

constexpr auto token_edges =
    std::to_array<Index>({1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257});
constexpr auto width_edges =
    std::to_array<Index>({1,  2,  3,   4,   7,   8,   9,   15,  16,  17,  31,  32,  33,  63,  64,
                          65, 96, 127, 128, 129, 192, 255, 256, 257, 511, 512, 513, 768, 1024});
constexpr auto count_edges = std::to_array<Index>({1, 2, 3, 4, 5, 6, 7, 8, 12, 16});
constexpr auto thread_edges = std::to_array<Index>({0, 1, 2, 4});
constexpr std::array<Index, 0> no_edges{};
constexpr auto align_labels = std::to_array<Label>({"top_left", "bottom_right"});
constexpr auto padding_labels = std::to_array<Label>({"none", "ragged", "some_zero", "scattered", "rows"});
constexpr auto bias_labels = std::to_array<Label>({"none", "in", "out", "all"});
constexpr auto weight_labels = std::to_array<Label>(
    {"dense", "one_hot", "power_of_two", "integers", "cancelling", "dense_in", "dense_out", "uniform", "selection"});

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
  if constexpr (std::is_same_v<decltype(problem.*Member), double&>)
    problem.*Member = value.value();
  else
    problem.*Member = value;
}

template <auto Member>
constexpr Field integer(Label name, Index hi, std::span<const Index> edges, Index simplest, Label doc,
                        bool always = true) {
  return {name,
          FieldKind::integer,
          always,
          simplest,
          hi,
          simplest,
          edges,
          {},
          get_member<Member>,
          set_member<Member>,
          nullptr,
          nullptr,
          doc};
}
template <auto Member>
constexpr Field label(Label name, std::span<const Label> labels, Index simplest, bool always, Label doc) {
  return {name,
          FieldKind::label,
          always,
          0,
          static_cast<Index>(labels.size()) - 1,
          simplest,
          no_edges,
          labels,
          get_member<Member>,
          set_member<Member>,
          nullptr,
          nullptr,
          doc};
}
template <auto Member>
constexpr Field flag(Label name, Label doc) {
  return {name,    FieldKind::flag, false, 0, 1, 0, no_edges, {}, get_member<Member>, set_member<Member>,
          nullptr, nullptr,         doc};
}
template <auto Member>
constexpr Field real(Label name, Label doc) {
  return {name,
          FieldKind::real,
          false,
          0,
          0,
          0,
          no_edges,
          {},
          nullptr,
          nullptr,
          get_real_member<Member>,
          set_real_member<Member>,
          doc};
}

constexpr Index most_tokens = 1 << 16, most_width = 1 << 13;
constexpr auto table = std::to_array<Field>({
    integer<&Problem::b>("b", 1 << 12, count_edges, 1, "samples"),
    integer<&Problem::l>("l", most_tokens, token_edges, 1, "tokens of x"),
    integer<&Problem::m>("m", most_tokens, token_edges, 1, "tokens of memory, which are attended"),
    integer<&Problem::e>("e", most_width, width_edges, 1, "width of a token"),
    integer<&Problem::heads>("heads", 1 << 9, count_edges, 1, "query heads"),
    integer<&Problem::kv_heads>("kv_heads", 1 << 9, count_edges, 1, "key/value heads, which divide heads"),
    integer<&Problem::head_dim>("head_dim", 1 << 10, width_edges, 1, "width of a head"),
    label<&Problem::dtype>("dtype", format_names, static_cast<Index>(Format::f32), true, "of every tensor"),
    flag<&Problem::self>("self", "memory is x"),
    flag<&Problem::packed>("packed", "w_q, w_k, w_v and their biases lie in one buffer"),
    real<&Problem::scale>("scale", "of the scores; 1/sqrt(head_dim) where it is left out"),
    flag<&Problem::causal>("causal", "token i attends tokens up to its place"),
    label<&Problem::align>("align", align_labels, 0, false, "where the diagonal of a causal mask lies"),
    label<&Problem::padding>("padding", padding_labels, 0, false, "which tokens of memory may be attended"),
    label<&Problem::biases>("biases", bias_labels, 0, true, "which of b_q, b_k, b_v (in) and b_out there are"),
    label<&Problem::weights>("weights", weight_labels, 0, true, "how the weight matrices are made"),
    real<&Problem::amplitude>("amplitude", "of x and memory, where they are no integers"),
    integer<&Problem::threads>("threads", 1 << 10, thread_edges, 0, "at most; 0 as the block likes", false),
    {"seed",
     FieldKind::seed,
     true,
     0,
     std::numeric_limits<Index>::max(),
     0,
     no_edges,
     {},
     get_member<&Problem::seed>,
     set_member<&Problem::seed>,
     nullptr,
     nullptr,
     "of every value"},
});

std::string joined(std::span<const Label> labels) { return fmt::format("{}", fmt::join(labels, ", ")); }

void read_field(Problem& problem, const Field& field, std::string_view value) {
  const auto refuse = [&](const std::string& allowed) {
    return usage_error(fmt::format("problem: {}={} must be {}", field.name, value, allowed));
  };
  switch (field.kind) {
    case FieldKind::label: {
      const auto found = std::ranges::find(field.labels, value);
      if (found == field.labels.end()) throw refuse("one of " + joined(field.labels));
      return field.set(problem, found - field.labels.begin());
    }
    case FieldKind::real: {
      const auto number = parse_double(value);
      if (!number || !std::isfinite(*number)) throw refuse("a finite number, hexadecimal or decimal");
      return field.set_real(problem, number);
    }
    case FieldKind::seed: {
      const auto seed = parse_whole<std::uint64_t>(value);
      if (!seed) throw refuse("an integer in 0..2^64-1");
      problem.seed = *seed;
      return;
    }
    case FieldKind::integer:
    case FieldKind::flag: {
      const auto number = parse_whole<Index>(value);
      if (!number || *number < field.lo || *number > field.hi)
        throw refuse(fmt::format("an integer in {}..{}", field.lo, field.hi));
      return field.set(problem, *number);
    }
  }
}

std::string value_text(const Problem& problem, const Field& field) {
  if (field.kind == FieldKind::real) return hex_float(*field.get_real(problem));
  const Index value = field.get(problem);
  if (field.kind == FieldKind::label) return std::string(field.labels[static_cast<std::size_t>(value)]);
  return field.kind == FieldKind::seed ? std::to_string(static_cast<std::uint64_t>(value)) : std::to_string(value);
}

bool is_default(const Problem& problem, const Field& field) {
  static const Problem defaults;
  return field.get_real != nullptr ? field.get_real(problem) == field.get_real(defaults)
                                   : field.get(problem) == field.get(defaults);
}

Index saturating(Index a, Index b) {
  Index product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<Index>::max() : product;
}
Index saturating_sum(Index a, Index b) {
  Index sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<Index>::max() : sum;
}

}  // namespace

double Problem::effective_scale() const noexcept {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(head_dim));
}

Index Problem::multiply_adds() const noexcept {
  const Index projections =
      saturating(saturating(saturating_sum(saturating(2 * l, q_width()), saturating(2 * m, kv_width())), e), b);
  const Index attention = saturating(saturating(saturating(b, q_width()), saturating(l, m)), 2);
  return saturating_sum(projections, attention);
}

std::span<const Field> fields() noexcept { return table; }

const Field* find_field(std::string_view name) noexcept {
  const auto found = std::ranges::find(table, name, &Field::name);
  return found == table.end() ? nullptr : &*found;
}

std::string to_text(const Problem& problem) {
  std::string text = "op=mha";
  for (const Field& field : table)
    if (field.always_printed || !is_default(problem, field))
      text += fmt::format(" {}={}", field.name, value_text(problem, field));
  return text;
}

Problem problem_from_text(std::string_view line) {
  Problem problem;
  std::vector<std::string_view> seen;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t\n", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t\n", begin), line.size());
    const std::string_view word = line.substr(begin, at - begin), key = word.substr(0, word.find('='));
    if (key.size() == word.size()) throw usage_error(fmt::format("problem: '{}' is no key=value", word));
    const std::string_view value = word.substr(key.size() + 1);
    if (std::ranges::find(seen, key) != seen.end())
      throw usage_error(fmt::format("problem: {} stands there twice", key));
    seen.push_back(key);
    if (key == "op") {
      if (value != "mha")
        throw usage_error(fmt::format("problem: op={} is another operation: here it must be mha", value));
      continue;
    }
    const Field* field = find_field(key);
    if (field == nullptr) {
      std::vector<Label> names;
      for (const Field& known : table) names.push_back(known.name);
      throw usage_error(fmt::format("problem: unknown key {}: an mha problem has {}", key, joined(names)));
    }
    read_field(problem, *field, value);
  }
  validate(problem);
  return problem;
}

void validate(const Problem& p) {
  for (const Field& field : table) {
    if (field.kind != FieldKind::integer) continue;
    const Index value = field.get(p);
    if (value < field.lo || value > field.hi)
      throw usage_error(
          fmt::format("problem: {}={} must be an integer in {}..{}", field.name, value, field.lo, field.hi));
  }
  if (p.dtype == Format::tf32) throw usage_error("problem: dtype=tf32 never lies in memory: use f16, bf16, f32 or f64");
  if (p.heads % p.kv_heads != 0)
    throw usage_error(fmt::format("problem: heads={} must be a multiple of kv_heads={}", p.heads, p.kv_heads));
  if (p.self && p.m != p.l)
    throw usage_error(fmt::format("problem: self=1 makes memory x: m={} must be l={}", p.m, p.l));
  if (!(p.amplitude > 0)) throw usage_error("problem: amplitude must be above 0");
  constexpr Index most_work = Index{1} << 34, most_elements = Index{1} << 30;
  if (p.multiply_adds() > most_work)
    throw usage_error(fmt::format("problem: {} multiply-adds are more than {}", p.multiply_adds(), most_work));
  for (const Index elements :
       {saturating(saturating(p.b, std::max(p.l, p.m)), std::max({p.e, p.q_width(), p.kv_width()})),
        saturating(p.q_width() + 2 * p.kv_width(), p.e)})
    if (elements > most_elements)
      throw usage_error(fmt::format("problem: a tensor of {} elements is larger than {}", elements, most_elements));
}

}  // namespace attest::mha
