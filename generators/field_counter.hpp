#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "generators/coverage.hpp"

// The frequency of each region of a field, whatever the operation. For coverage*.cpp alone.
namespace attest {

// ---- one field ------------------------------------------------------------------------------------------------------

// Octaves with their upper ends: -1, 0, 1, 2, 3..4, 5..8, and so on. The last one has all that is larger.
inline constexpr std::size_t most_octaves = 24;
inline std::size_t octave_of(Index n) {
  if (n < 1) return static_cast<std::size_t>(n + 1);
  return std::min<std::size_t>(2 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n - 1))),
                               most_octaves - 1);
}
inline std::string octave_name(std::size_t octave) {
  if (octave < 4) return std::to_string(static_cast<Index>(octave) - 1);
  const Index end = Index{1} << (octave - 2);
  if (octave == most_octaves - 1) return fmt::format(">={}", end / 2 + 1);
  return fmt::format("{}..{}", end / 2 + 1, end);
}

inline constexpr std::pair<int, const char*> magnitudes[] = {{-16, "<2^-16"}, {-4, "<1/16"}, {0, "<1"},
                                                             {4, "<16"},      {16, "<2^16"}, {1024, ">=2^16"}};
inline constexpr std::size_t real_regions = 4 + std::size(magnitudes);

inline std::size_t region_of(std::optional<double> x) {
  if (!x) return 0;
  if (*x == 0) return 1;
  if (*x < 0) return 2;
  if (*x == 1) return 3;
  std::size_t region = 4;
  for (const auto& [exponent, name] : magnitudes) {
    if (std::ilogb(*x) < exponent) break;
    ++region;
  }
  return std::min(region, real_regions - 1);
}
inline std::string real_name(std::size_t region) {
  constexpr const char* first[] = {"default", "0", "<0", "1"};
  return region < 4 ? first[region] : magnitudes[region - 4].second;
}

// Labels, flags and small integers one by one, other integers by octave.
template <class Problem, class Field>
class FieldCounter {
 public:
  explicit FieldCounter(const Field& field)
      : field_(field), octaves_(field.kind == FieldKind::integer && field.hi > 16) {
    counts_.resize(field.kind == FieldKind::real ? real_regions
                   : octaves_                    ? octave_of(field.hi) + 1
                                                 : static_cast<std::size_t>(field.hi) + 1);
    if (octaves_) missing_.insert(field.edges.begin(), field.edges.end());
  }

  void count(const Problem& problem) {
    if (field_.kind == FieldKind::real) return void(++counts_[region_of(field_.get_real(problem))]);
    const Index value = field_.get(problem);
    ++counts_[octaves_ ? octave_of(value) : static_cast<std::size_t>(value)];
    missing_.erase(value);
  }

  [[nodiscard]] FieldCount result() const {
    FieldCount out{std::string(field_.name), !field_.labels.empty(), {}, {missing_.begin(), missing_.end()}};
    for (std::size_t i = 0; i < counts_.size(); ++i) out.values.emplace_back(name(i), counts_[i]);
    return out;
  }

 private:
  [[nodiscard]] std::string name(std::size_t i) const {
    if (field_.kind == FieldKind::real) return real_name(i);
    if (octaves_) return octave_name(i);
    return field_.labels.empty() ? std::to_string(i) : std::string(field_.labels[i]);
  }

  const Field& field_;
  const bool octaves_;
  std::vector<std::uint64_t> counts_;
  std::set<Index> missing_;
};

// Origins belong to the shrinker, a seed has no regions.
inline bool is_counted(const FieldFacts& field) {
  return field.kind != FieldKind::seed && field.group != FieldGroup::origin;
}

// Counts the problems 0..count-1 of `seed` that an operation's domain draws, field by field of its table.
template <class Problem, class Field, class Domain>
Coverage cover_fields(std::span<const Field> fields, const Domain& domain, std::uint64_t seed, std::uint64_t count) {
  Coverage coverage;
  coverage.problems = count;
  std::vector<FieldCounter<Problem, Field>> counters;
  for (const Field& field : fields)
    if (is_counted(field)) counters.emplace_back(field);
  for (std::uint64_t number = 0; number < count; ++number) {
    const Problem problem = draw_counted(domain, seed, number, 1).problem;
    for (auto& counter : counters) counter.count(problem);
  }
  for (const auto& counter : counters) coverage.fields.push_back(counter.result());
  return coverage;
}

}  // namespace attest
