#include "subjects/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace attest {
namespace {

constexpr std::size_t most_listed = 20;

// Levenshtein distance: insertions, deletions and substitutions.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_names(std::span<const std::string> names, std::string_view wanted) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : names) {
    const bool inside = wanted.size() >= 3 && name.find(wanted) != std::string::npos;
    const std::size_t far = inside ? 1 : distance(name, wanted);
    if (far <= std::max<std::size_t>(2, wanted.size() / 3)) near.emplace_back(far, name);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> listed;
  for (const auto& [far, name] : near) listed.push_back(name);
  return listed;
}

std::string nearest(std::span<const std::string> names, std::string_view wanted) {
  std::vector<std::string> listed = near_names(names, wanted);
  const bool guessed = !listed.empty();
  if (!guessed) listed.assign(names.begin(), names.end());
  const std::string tail = listed.size() > most_listed ? ", ..." : "";
  listed.resize(std::min(listed.size(), most_listed));
  return guessed ? fmt::format("did you mean {}{}?", fmt::join(listed, ", "), tail)
                 : fmt::format("there are {}{}", fmt::join(listed, ", "), tail);
}

std::size_t choose(std::span<const std::string> names, std::string_view wanted, const std::string& target) {
  if (wanted.empty()) {
    if (names.size() == 1) return 0;
    throw usage_error(fmt::format("{} has {} subjects, name one as {}:NAME: {}", target, names.size(), target,
                                  fmt::join(names.first(std::min(names.size(), most_listed)), ", ")));
  }
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found == names.end())
    throw Error(Exit::no_subject, fmt::format("{} has no subject {}: {}", target, wanted, nearest(names, wanted)));
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace attest
