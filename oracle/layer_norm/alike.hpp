#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "core/tensor.hpp"

namespace attest::oracle::layer_norm {

// Of two of key(0), .. key(n - 1) at random, how likely it is that they are one.
template <class Key>
double alike_of(Index n, const Key& key) {
  const auto count = static_cast<std::size_t>(n);
  std::vector<std::decay_t<decltype(key(std::size_t{0}))>> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = key(i);
  std::ranges::sort(keys);
  double pairs = 0;
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && keys[end] == keys[begin]) ++end;
    const auto run = static_cast<double>(end - begin);
    pairs += run * run;
  }
  const auto all = static_cast<double>(n);
  return n > 0 ? pairs / all / all : 1;
}

}  // namespace attest::oracle::layer_norm
