#pragma once
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "graph/array.hpp"
#include "graph/step.hpp"

namespace attest::graph {

// The product of lengths, 1 of none.
inline Index volume(std::span<const Index> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), Index{1}, std::multiplies<>());
}

// Row-major, in elements.
std::vector<Index> strides_of(std::span<const Index> shape);

// The shape that both broadcast to (numpy's rule). Refuses where there is none.
std::vector<Index> broadcast(const Step& step, std::span<const Index> a, std::span<const Index> b);

// The strides with which a tensor of shape `from` is read as one of `to`, which it broadcasts to.
std::vector<Index> broadcast_strides(std::span<const Index> from, std::span<const Index> to);

// The elements at offset + sum_k i_k strides_k of each lane of x, as a tensor of `shape`. None may lie outside.
Array gathered(const Step& step, const Array& x, std::vector<Index> shape, Index offset,
               std::span<const Index> strides);

// The section [from, from + length) of an axis. Refuses what lies outside.
Array section(const Step& step, const Array& x, std::size_t axis, Index from, Index length);

// x read as `shape`, which it broadcasts to.
Array broadcast_to(const Step& step, const Array& x, std::vector<Index> shape);

// Axis k of the result is axis order[k] of x.
Array transposed(const Step& step, const Array& x, std::span<const Index> order);

// Turns [batch, length, heads * width] into [batch, heads, length, width], and back. Refuses a width that heads do not
// share.
Array in_heads(const Step& step, const Array& x, Index heads);
Array out_of_heads(const Step& step, const Array& x);

// x with some axes behind all others, as rows of what lies along these.
struct Rows {
  Array x;
  std::vector<Index> order;  // axis k of x is axis order[k] of the original
  Index length = 1;          // elements of a row
  Index count = 1;           // rows in a lane
};
Rows rows_of(const Step& step, const Array& x, std::span<const Index> axes);
// Undoes the order of rows_of.
Array restored(const Step& step, const Rows& rows);

}  // namespace attest::graph
