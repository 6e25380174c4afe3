#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/shapes.hpp"

// The functions that operators over elements share.
namespace attest::graph {

// x as it is, or read as `shape` into `room`.
inline const Array& as_shape(const Step& step, const Array& x, const std::vector<Index>& shape, Array& room) {
  if (x.shape == shape) return x;
  room = broadcast_to(step, x, shape);
  return room;
}

inline void alike(const Step& step, const Array& a, const Array& b) {
  if (a.type != b.type) step.refuse(fmt::format("{} and {} do not go together", name(a.type), name(b.type)));
}

// Refuses what operators do not compute with, too.
inline void same_types(const Step& step, const Array& a, const Array& b) {
  alike(step, a, b);
  if (is_code(a.type)) step.refuse(fmt::format("{} is converted alone", name(a.type)));
}

inline void floats_alone(const Step& step, const Array& x) {
  if (!is_floating(x.type)) step.refuse(fmt::format("{} is no floating-point type", name(x.type)));
}

// f of floats to floats, or to booleans where `type` says so.
template <class F>
Array map_floats(const Step& step, const Array& x, F f) {
  Array out = step.make(x.type, x.shape, x.lanes);
  std::transform(x.floats.begin(), x.floats.end(), out.floats.begin(), f);
  return out;
}

template <class In, class Out, class F>
void zip(const Array& a, const Array& b, Array& out, In in, Out to, F f) {
  for (Index l = 0; l < out.lanes; ++l) {
    const auto x = in(a, l);
    const auto y = in(b, l);
    const auto z = to(out, l);
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = f(x[i], y[i]);
  }
}
inline constexpr auto float_lane = [](auto& x, Index l) { return x.lane(l); };
inline constexpr auto integer_lane = [](auto& x, Index l) { return x.integer_lane(l); };

// Both operands in the shape that they broadcast to.
struct Pair {
  Pair(const Step& step, const Array& a, const Array& b)
      : shape(broadcast(step, a.shape, b.shape)),
        lanes(std::max(a.lanes, b.lanes)),
        a(as_shape(step, a, shape, room_a)),
        b(as_shape(step, b, shape, room_b)) {}
  Array room_a, room_b;
  std::vector<Index> shape;
  Index lanes;
  const Array &a, &b;
};

template <class F>
Array zip_floats(const Step& step, const Array& a, const Array& b, F f) {
  const Pair pair(step, a, b);
  Array out = step.make(a.type, pair.shape, pair.lanes);
  zip(pair.a, pair.b, out, float_lane, float_lane, f);
  return out;
}

template <class F>
Array zip_integers(const Step& step, const Array& a, const Array& b, Type type, F f) {
  const Pair pair(step, a, b);
  Array out = step.make(type, pair.shape, pair.lanes);
  zip(pair.a, pair.b, out, integer_lane, integer_lane, f);
  return out;
}

// Rounds to nearest, halves to even.
inline double nearest_whole(double x) noexcept {
  const double below = std::floor(x), rest = x - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0);
  return up ? below + 1 : below;
}
inline constexpr auto bits_of = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };

}  // namespace attest::graph
