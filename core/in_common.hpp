#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/ranges.hpp"
#include "core/subject.hpp"

// The common part of two subjects' offers, whatever the operation.
namespace attest {

inline DimRange common(const DimRange& a, const DimRange& b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max),
          std::lcm(std::max<Index>(a.multiple, 1), std::max<Index>(b.multiple, 1))};
}
// Tells whether some extent is in it.
inline bool holds_some(const DimRange& dim) {
  return (dim.min + dim.multiple - 1) / dim.multiple * dim.multiple <= dim.max;
}

// Where each of `some` lies among `all`, which has them.
template <class T>
std::vector<std::size_t> places_of(const std::vector<T>& some, const std::vector<T>& all) {
  std::vector<std::size_t> places;
  places.reserve(some.size());
  for (const T& each : some) places.push_back(static_cast<std::size_t>(std::ranges::find(all, each) - all.begin()));
  return places;
}

// Returns the elements of `all` that lie at `places`, as far as it reaches.
template <class T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<std::size_t>& places) {
  std::vector<T> some;
  for (const std::size_t place : places)
    if (place < all.size()) some.push_back(all[place]);
  return some;
}

// Returns the error for a request of problems that two subjects both take.
inline Error nothing_in_common(const SubjectInfo& a, const SubjectInfo& b, std::string_view what) {
  return usage_error(fmt::format("{} and {} take no problem in common: {}", a.name, b.name, what));
}

// Returns both subjects with the common `supports` of an operation that each offers. `narrowed(info)` puts it in. The
// first counts as declaring a policy only where both do.
template <class Offer, class Narrowed>
std::pair<SubjectInfo, SubjectInfo> both_narrowed(const SubjectInfo& a, const SubjectInfo& b,
                                                  std::optional<Offer> SubjectInfo::*offer, Narrowed narrowed) {
  std::pair both{narrowed(a), narrowed(b)};
  bool& declared = (both.first.*offer)->policy_declared;
  declared = declared && (both.second.*offer)->policy_declared;
  return both;
}

}  // namespace attest
