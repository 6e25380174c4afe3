#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "core/ranges.hpp"

// What two subjects have in common, whatever the operation.
namespace attest {

inline DimRange common(const DimRange& a, const DimRange& b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max),
          std::lcm(std::max<Index>(a.multiple, 1), std::max<Index>(b.multiple, 1))};
}
// Whether some extent is in it.
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

// Those of `all` that lie at `places`, as far as it reaches.
template <class T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<std::size_t>& places) {
  std::vector<T> some;
  for (const std::size_t place : places)
    if (place < all.size()) some.push_back(all[place]);
  return some;
}

}  // namespace attest
