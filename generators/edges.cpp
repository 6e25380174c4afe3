#include "generators/edges.hpp"

#include <algorithm>
#include <array>

namespace attest {
namespace {

// Tile sizes of kernels in the field.
constexpr auto tile_edges = std::to_array<Index>({16, 32, 64, 128, 192, 256, 512, 768});
constexpr auto primes = std::to_array<Index>(
    {2,   3,   5,   7,   11,  13,  17,  19,  23,  29,  37,   43,   53,   61,   71,   89,   101,   127,   149,  181,
     211, 251, 307, 359, 431, 509, 607, 719, 857, 997, 1213, 1447, 1721, 2039, 4093, 8191, 16381, 32749, 65521});

// The members of ascending `values` that are not above `cap`, at least the first.
std::span<const Index> up_to(std::span<const Index> values, Index cap) {
  const auto count = std::upper_bound(values.begin(), values.end(), cap) - values.begin();
  return values.first(static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 1)));
}

}  // namespace

Index edge_biased(Source& source, std::span<const Index> edges, Index cap) {
  switch (source.below(8)) {
    case 0:
    case 1:
      return source.pick(up_to(edges, cap));
    case 2: {
      const Index power = Index{1} << source.below(bits_of(cap));
      return power + source.between(-1, 1);
    }
    case 3: {
      const Index tile = source.pick(up_to(tile_edges, cap));
      const Index multiple = tile * source.between(1, 4);
      return multiple + source.between(-1, 1);
    }
    case 4:
      return source.pick(up_to(primes, cap));
    case 5:
      return source.chance(1, 2) ? 1 : cap;
    default:
      return source.log_uniform(cap);
  }
}

}  // namespace attest
