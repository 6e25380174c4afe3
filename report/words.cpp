// A tiny reproducer in words and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "properties/masks.hpp"
#include "properties/property.hpp"
#include "report/defects.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Entry;

constexpr Index most_keys_in_words = 4, most_rows_in_words = 4;
constexpr Index most_elements = Index{1} << 20;  // in a problem that is materialised for a report
constexpr std::size_t most_runs = 8;

std::string counted(Index n, std::string_view singular, std::string_view plural) {
  constexpr std::array<std::string_view, 5> words{"no", "one", "two", "three", "four"};
  return fmt::format("{} {}", n < 5 ? std::string(words[static_cast<std::size_t>(n)]) : std::to_string(n),
                     n == 1 ? singular : plural);
}

// The witness's row, if the tensors of the problem are worth making for it.
struct WitnessRow {
  Inputs inputs;
  Index b, h, i;
  std::vector<Index> open;
};
std::optional<WitnessRow> witness_row(const Entry& entry) {
  const Problem& p = entry.problem.as<Problem>();
  if (!entry.evidence || p.values == Values::file) return std::nullopt;
  const auto& at = entry.evidence->index;
  if (at[0] < 0 || at[1] < 0 || at[2] < 0 || at[0] >= p.b || at[1] >= p.hq || at[2] >= p.lq) return std::nullopt;
  if (p.b * p.hq * p.lq * p.lk > most_elements || p.b * p.hq * (p.lq + p.lk) * (p.d + p.dv) > most_elements)
    return std::nullopt;
  try {
    WitnessRow row{materialise(p), at[0], at[1], at[2], {}};
    const properties::Masks masks(row.inputs, entry.contract.as<Contract>());
    for (Index j = 0; j < p.lk; ++j)
      if (masks.part(row.b, row.h, row.i, j) == properties::Part::attended) row.open.push_back(j);
    return row;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string runs(const std::vector<Index>& keys) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < keys.size();) {
    std::size_t end = i;
    while (end + 1 < keys.size() && keys[end + 1] == keys[end] + 1) ++end;
    parts.push_back(end == i ? fmt::format("{}", keys[i])
                             : fmt::format("{}{}{}", keys[i], end == i + 1 ? ", " : "..", keys[end]));
    i = end + 1;
  }
  const bool more = parts.size() > most_runs;
  if (more) parts.resize(most_runs);
  return fmt::format("{}{}", fmt::join(parts, ", "), more ? ", ..." : "");
}

std::string options(const Problem& p) {
  std::vector<std::string> parts;
  if (p.causal) parts.emplace_back(p.align == Align::top_left ? "causal" : "causal from the bottom right");
  if (p.window_left >= 0) parts.push_back(fmt::format("{} before the diagonal", counted(p.window_left, "key", "keys")));
  if (p.window_right >= 0)
    parts.push_back(fmt::format("{} behind the diagonal", counted(p.window_right, "key", "keys")));
  if (p.keep != Keep::none) parts.emplace_back("a boolean mask");
  if (p.bias != Bias::none) parts.emplace_back("a bias");
  if (p.lengths != Lengths::none) parts.emplace_back("key lengths");
  if (p.scale) parts.push_back(fmt::format("scale {}", number(*p.scale)));
  if (p.softcap != 0) parts.push_back(fmt::format("softcap {}", number(p.softcap)));
  if (p.dtype != Format::f32) parts.emplace_back(name(p.dtype));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The origin of the wrong number, where one of the usual mistakes gives it exactly.
std::string recognised(double got, const std::vector<double>& v, const std::vector<Index>& open, double expected) {
  if (std::isnan(got)) return {};
  const auto n = static_cast<Index>(v.size());
  double sum = 0;
  for (const double x : v) sum += x;
  if (n > 1 && static_cast<Index>(open.size()) < n && got == sum / static_cast<double>(n))
    return n == 2 ? ", the mean of both" : fmt::format(", the mean of all {}", n);
  for (Index j = 0; j < n; ++j)
    if (got == v[static_cast<std::size_t>(j)] && std::ranges::find(open, j) == open.end())
      return fmt::format(", the value of key {}", j);
  if (n > 1 && got == sum && got != expected) return n == 2 ? ", the sum of both" : ", the sum of all";
  return {};
}

}  // namespace

std::string in_words(const Entry& entry) {
  if (!entry.problem.is<Problem>()) return {};
  const Problem& p = entry.problem.as<Problem>();
  if (entry.seen != VerdictKind::fail || !entry.evidence || entry.evidence->tensor != "out") return {};
  const ops::Law* law = ops::find_law(entry.property);
  if (!law || !law->base_call() || entry.evidence->wrong == Wrong::memory) return {};
  if (p.b != 1 || p.hq != 1 || p.lk > most_keys_in_words || p.lq > most_rows_in_words) return {};
  const std::optional<WitnessRow> row = witness_row(entry);
  if (!row) return {};
  std::vector<double> v;
  const Index column = std::clamp<Index>(entry.evidence->index[3], 0, p.dv - 1);
  for (Index j = 0; j < p.lk; ++j) v.push_back(row->inputs.v.at(0, 0, j, column));
  std::vector<std::string> seen;
  for (const Index j : row->open) seen.push_back(number(v[static_cast<std::size_t>(j)]));
  std::string sees = "no key";
  if (!row->open.empty())
    sees = fmt::format("{} {}{}, v = {}", row->open.size() == 1 ? "key" : "keys", runs(row->open),
                       row->open.size() == 1 && p.lk > 1 ? " alone" : "", fmt::join(seen, ", "));
  const std::string with = options(p);
  const std::string head = fmt::format("{}, {}{}: row {} sees {}", counted(p.lq, "query", "queries"),
                                       counted(p.lk, "key", "keys"), with.empty() ? "" : ", " + with, row->i, sees);
  const double got = entry.evidence->got, expected = entry.evidence->expected;
  if (entry.subject_b) return fmt::format("{}; A gives {}, B {}", head, number(got), number(expected));
  return fmt::format("{}; got {}{}", head, number(got), recognised(got, v, row->open, expected));
}

std::string open_keys(const Entry& entry) {
  if (!entry.problem.is<Problem>()) return {};
  const Problem& p = entry.problem.as<Problem>();
  if (p.keep == Keep::none && !may_exclude(p.bias) && p.lengths == Lengths::none) return {};
  const std::optional<WitnessRow> row = witness_row(entry);
  if (!row) return {};
  return fmt::format("of row [{},{},{}]: {} of {}", row->b, row->h, row->i,
                     row->open.empty() ? std::string("none") : runs(row->open), p.lk);
}

std::string decimals(const ops::Problem& p) {
  std::vector<std::string> parts;
  for (const ops::Field& field : p.op().fields())
    if (field.kind == FieldKind::real && !field.is_default(p))
      parts.push_back(fmt::format("{} {}", field.name, number(*field.get_real(p))));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace attest::report
