#pragma once
#include <cmath>
#include <cstdint>

#include "core/inputs.hpp"
#include "core/rng.hpp"

// Values that bring out one number or choice of a contract (numbers_test.cpp).
namespace attest::testing {

inline void fill(Tensor& tensor, double (*value)(Index position, Index column)) {
  const auto shape = tensor.shape();
  for (Index i = 0; i < shape[2]; ++i)
    for (Index c = 0; c < shape[3]; ++c) tensor.set(0, 0, i, c, value(i, c));
}

inline void rise_of_fourteen(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return 14.0 * static_cast<double>(j); });
}

// Two keys at scores of +-64, that bring a bias of -+64 to 0. The first product of a score is all of it but for 63 that
// are just under an ulp each.
inline void long_sums(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 8.0; });
  fill(in.k, [](Index j, Index c) { return (j == 0 ? 1 : -1) * (c == 0 ? 1 : 0x1.f8p-24); });
  fill(in.bias, [](Index, Index j) { return j == 0 ? -8.0 : 8.0; });
}

// One weight of 1, all others just under an ulp of it.
inline void one_heavy_key(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return j == 0 ? 0 : std::log(0x1.ep-24); });
  fill(in.v, [](Index, Index) { return 1.0; });
}

// Scores of about 0.001, both alike.
inline void a_thousandth(Inputs& in, std::uint64_t seed) {
  fill(in.q, [](Index, Index) { return 1.0; });
  in.q.set(0, 0, 0, 0, 1 + 0.25 * symmetric_uniform(mix(seed)));
  fill(in.k, [](Index, Index) { return 0x1p-10; });
}

inline void rising_scores(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return 0.01 * static_cast<double>(j); });
  fill(in.v, [](Index j, Index) { return j < 32 ? 1.0 : -1.0; });
}
inline void falling_scores(Inputs& in, std::uint64_t) {
  rising_scores(in, 0);
  fill(in.k, [](Index j, Index) { return -0.01 * static_cast<double>(j); });
}

// Makes elements of one factor that are next to nothing, and large ones of the other: a scale that is folded into the
// former underflows.
inline void tiny(Tensor& small, Tensor& large, std::uint64_t seed) {
  const double size = 0x1p-14 * (1.5 + 0.5 * symmetric_uniform(mix(seed)));
  for (Index i = 0; i < small.shape()[2]; ++i)
    for (Index c = 0; c < small.shape()[3]; ++c) small.set(0, 0, i, c, i % 2 == 0 ? size : -size);
  fill(large, [](Index j, Index) { return j % 2 == 0 ? 0x1p14 : -0x1p14; });
}
inline void tiny_queries(Inputs& in, std::uint64_t seed) { tiny(in.q, in.k, seed); }
inline void tiny_keys(Inputs& in, std::uint64_t seed) { tiny(in.k, in.q, seed); }

inline void large_queries(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 60000.0; });
  fill(in.k, [](Index, Index) { return 0x1p-13; });
}
inline void large_keys(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0x1p-13; });
  fill(in.k, [](Index, Index) { return 60000.0; });
}

inline void subnormal_values(Inputs& in, std::uint64_t) {
  fill(in.v, [](Index, Index) { return 0x1.3p-16; });
}
inline void subnormal_bias(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0.0; });
  fill(in.bias, [](Index, Index) { return 0x1.8p-15; });
}
inline void subnormal_weight(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return -11.0 * static_cast<double>(j); });
  fill(in.v, [](Index j, Index) { return 60000.0 * static_cast<double>(j); });
}
inline void subnormal_products(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0x1p-8; });
  fill(in.k, [](Index j, Index) { return j == 0 ? 0 : 0x1.8p-8; });
}
inline void subnormal_mean(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0.0; });
  fill(in.v, [](Index j, Index) { return j == 0 ? 0x1.8p-126 : -0x1p-126; });
}
inline void scores_near_1030(Inputs& in, std::uint64_t) {
  fill(in.bias, [](Index, Index) { return 1030.0; });
}
inline void rise_of_seven(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.k, [](Index j, Index) { return 7.0 * static_cast<double>(j); });
  fill(in.v, [](Index, Index) { return 100.0; });
}
// A weight just above 1/8 beside one of 1, whose value is 0: few other roundings show.
inline void an_eighth(Inputs& in, std::uint64_t seed) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.v, [](Index j, Index) { return static_cast<double>(j); });
  in.k.set(0, 0, 0, 0, 0);
  in.k.set(0, 0, 1, 0, -2.06 + 0.01 * symmetric_uniform(mix(seed)));
}
// The second key has the larger score, and all of the output.
inline void rise_of_less_than_one(Inputs& in, std::uint64_t seed) {
  fill(in.q, [](Index, Index) { return 1.0; });
  fill(in.v, [](Index j, Index) { return static_cast<double>(j); });
  in.k.set(0, 0, 0, 0, 0);
  in.k.set(0, 0, 1, 0, 0.5 + 0.4 * symmetric_uniform(mix(seed)));
}
inline void positive_values(Inputs& in, std::uint64_t) {
  fill(in.v,
       [](Index j, Index c) { return 1.5 + 0.5 * symmetric_uniform(mix(static_cast<std::uint64_t>(j * 997 + c))); });
}
inline void equal_scores(Inputs& in, std::uint64_t) {
  fill(in.q, [](Index, Index) { return 0.0; });
}

}  // namespace attest::testing
