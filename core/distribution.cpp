#include "core/distribution.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/streams.hpp"

namespace attest {
namespace {

using Key = std::uint64_t;
using Kind = Distribution::Kind;
using First = Distribution::First;

// The sign is a bit: no branch.
double with_sign(double magnitude, Key negative) noexcept {
  return std::bit_cast<double>(std::bit_cast<Key>(magnitude) | (negative & 1) << 63);
}

// x where all bits of `mask` are 1, y where none is.
double select(Key mask, double x, double y) noexcept {
  return std::bit_cast<double>((std::bit_cast<Key>(x) & mask) | (std::bit_cast<Key>(y) & ~mask));
}

// Returns the score of a key in nats, less its noise, under Values::levels. Blocks of a length that kernels take, or of
// any length, rise by a step eight times and fall eight times, from anywhere in that; or each lies anywhere in 0, 2 ..
// 30. Every format holds these integers.
double level_of(Key key, Index position) noexcept {
  constexpr Index tiles[] = {16, 32, 64, 128};
  constexpr Key rises = 8;
  const Key any = mix(key);
  const Index octave = Index{1} << (any & 7);
  const Index length =
      key & 1 ? tiles[key >> 1 & 3] : octave + static_cast<Index>(below(any, static_cast<Key>(octave)));
  const Key block = static_cast<Key>(position / length);
  if (key >> 3 & 1) return 2 * static_cast<double>(below(extend(key, block), 16));
  const Key phase = (block + (key >> 4)) % (2 * rises), step = 2 + below(mix(any), 29);
  return static_cast<double>(step * std::min(phase, 2 * rises - phase));
}

template <Kind K>
[[gnu::always_inline]] inline double element(const Distribution& d, Key bits, Index column, Key dominant) noexcept {
  if constexpr (K == Kind::constant) return d.factor;
  if constexpr (K == Kind::lattice) return d.factor * (as_double(below_few(bits, d.choices)) - d.offset) * d.unit;
  if constexpr (K == Kind::octaves) {
    const Key exponent = below_few(bits, d.choices) + 1023 - static_cast<Key>(d.offset);
    return with_sign(std::bit_cast<double>(exponent << 52), bits);
  }
  if constexpr (K == Kind::largest) return with_sign(d.unit * (0.5 + 0.5 * std::fabs(symmetric_uniform(bits))), bits);
  const double n = normal(bits);
  if constexpr (K == Kind::affine) return d.factor * (d.offset + n * d.unit);
  if constexpr (K == Kind::one_sided) return d.factor * (1 + std::fabs(n));
  if constexpr (K == Kind::quotient) return d.factor * n / d.unit;
  if constexpr (K == Kind::outlier || K == Kind::along || K == Kind::peaked) {
    const Key own = extend(d.columns, static_cast<Key>(column));
    if constexpr (K == Kind::outlier) return (one_in_eight(own) ? d.factor : 1) * n;
    const double direction = with_sign(1, ~own), factor = K == Kind::peaked ? d.factor * direction : direction;
    const double aligned = factor * (1 + n * d.unit);
    return K == Kind::peaked ? select(dominant, aligned, d.offset * n) : aligned;
  }
  return n * d.unit * d.factor;
}

// Rows that are drawn together, by their keys.
struct Keys {
  static constexpr Index most = 256;
  std::array<Key, most> rows, dominant;  // the latter all bits, or none
};

// Visits `count` rows of a block from `done` on, head by head. `call` is given the first of the rows of one head, its
// position, their number, and batch and head.
template <class Call>
void by_head(const DrawnBlock& block, Index done, Index count, const Call& call) {
  const Index before = done / block.length;
  Index i = done % block.length, b = before / block.heads, h = before % block.heads;
  for (Index r = 0; r < count; i = 0) {
    const Index some = std::min(count - r, block.length - i);
    call(r, block.position + i, some, static_cast<Key>(block.batch + b), static_cast<Key>(block.head + h));
    r += some;
    if (++h == block.heads) ++b, h = 0;
  }
}

// 2^shift rows that follow each other have one key.
ATTEST_CLONES void fill_keys(Key own, Index position, int shift, Index count, Key* keys) {
  for (Index n = 0; n < count; ++n) keys[n] = extend(own, static_cast<Key>(position + n) >> shift);
}
ATTEST_CLONES void fill_keys(const Key* heads, const Key* positions, int shift, Index count, Key* keys) {
  for (Index n = 0; n < count; ++n) keys[n] = extend(extend(keys[n], heads[n]), positions[n] >> shift);
}
void fill_keys(Key values, const DrawnBlock& block, Index done, Index count, int shift, Key* keys) {
  if (block.length >= 16)
    return by_head(block, done, count, [&](Index r, Index position, Index some, Key b, Key head) {
      fill_keys(extend(extend(values, b), head), position, shift, some, keys + r);
    });
  // The keys of many heads at once, each row's sample first.
  std::array<Key, Keys::most> heads, positions;
  Key sample = ~Key{0}, of_sample = 0;
  by_head(block, done, count, [&](Index r, Index position, Index some, Key b, Key head) {
    if (b != sample) of_sample = extend(values, sample = b);
    for (Index n = 0; n < some; ++n) {
      const auto at = static_cast<std::size_t>(r + n);
      keys[at] = of_sample;
      heads[at] = head;
      positions[at] = static_cast<Key>(position + n);
    }
  });
  fill_keys(heads.data(), positions.data(), shift, count, keys);
}

// One formula per instantiation: the choice is made once a block, not once an element.
template <Kind K>
ATTEST_CLONES void fill(const Distribution& distribution, const Keys& keys, Index count, Index first_column,
                        Index width, double* to) {
  const Distribution d = distribution;  // a copy, which `to` cannot alias
  // A column at a time where that fills wide registers better.
  if (width < 16 && count >= width) {
    for (Index c = 0; c < width; ++c)
      for (Index r = 0; r < count; ++r) {
        const auto at = static_cast<std::size_t>(r);
        to[r * width + c] = element<K>(d, extend(keys.rows[at], static_cast<Key>(first_column + c)), first_column + c,
                                       K == Kind::peaked ? keys.dominant[at] : 0);
      }
    return;
  }
  for (Index r = 0; r < count; ++r) {
    const Key key = keys.rows[static_cast<std::size_t>(r)],
              dominant = K == Kind::peaked ? keys.dominant[static_cast<std::size_t>(r)] : 0;
    for (Index c = 0; c < width; ++c)
      to[r * width + c] = element<K>(d, extend(key, static_cast<Key>(first_column + c)), first_column + c, dominant);
  }
}
using Fill = void (*)(const Distribution&, const Keys&, Index, Index, Index, double*);
// The filling functions by Kind.
constexpr auto fills = []<std::size_t... K>(std::index_sequence<K...>) {
  return std::array<Fill, sizeof...(K)>{fill<static_cast<Kind>(K)>...};
}
(std::make_index_sequence<static_cast<std::size_t>(Kind::peaked) + 1>{});

// Column 0 of a row.
double first_of(const Distribution& d, const Problem& problem, Key level, Key row, Index position) noexcept {
  const double a = problem.amplitude;
  switch (d.first) {
    case First::same:
      break;
    case First::given:
      return d.offset;
    case First::sign:
      return row & 1 ? 1 : -1;
    case First::rising: {
      const double step = problem.values == Values::rising ? a * 0.125 : -a * 0.125;
      return step * static_cast<double>(std::min<Index>(position, 4096));
    }
    case First::choice:
      return 16 * a * static_cast<double>(below(mix(row), 1024));
    case First::end_of_queries:
    case First::end_of_keys: {
      const Key own = mix(row);
      const bool q = d.first == First::end_of_queries;
      // Tells whether the second half of the keys lies at the other end than the first, above it for most queries, as
      // padded or later keys may, so that a mask closes the one and leaves the other; else each key lies at either end.
      const bool rising = mix(level) & 1, above = !rising ? own & 1 : q ? own & 3 : 2 * position >= problem.lk;
      const double sign = above ? 1 : -1;
      if (q) return sign * a;
      // 3/8 to 15/16 of the largest number: the lowest one plus the score of a closed key is above that of an open one.
      return sign * (384 + static_cast<double>(below(mix(own), 577))) * 0x1p-10 * largest_finite(problem.dtype);
    }
    case First::level:
      return a * level_of(level, position);
  }
  return 0;
}

}  // namespace

Distribution distribution_of(const Problem& problem, Edit::Tensor which) noexcept {
  const double a = problem.amplitude;
  const bool q = which == Edit::Tensor::q, v = which == Edit::Tensor::v;
  Distribution d;
  const auto normal_times = [&](double factor, double unit = 1) {
    d.kind = Kind::normal;
    d.factor = factor;
    d.unit = unit;
  };
  const auto affine = [&](double factor, double offset, double unit) {
    d.kind = Kind::affine;
    d.factor = factor;
    d.offset = offset;
    d.unit = unit;
  };
  const auto lattice = [&](Key choices, double offset, double unit) {
    d.kind = Kind::lattice;
    d.choices = choices;
    d.factor = a;
    d.offset = offset;
    d.unit = unit;
  };
  const auto octaves = [&](int reach) {
    d.kind = Kind::octaves;
    d.choices = 2 * static_cast<Key>(reach) + 1;
    d.offset = reach;
  };
  const auto largest = [&] {
    d.kind = Kind::largest;
    d.unit = largest_finite(problem.dtype);
  };
  const auto tiny = [&] { normal_times(0.25, smallest_normal(problem.dtype)); };
  // Sets the formula of column 0, and that of the others.
  const auto first_then = [&](First first, double factor, double unit = 1) {
    normal_times(factor, unit);
    if (factor == 0) d.kind = Kind::constant;
    d.first = first;
  };
  switch (problem.values) {
    case Values::constant:
      d.kind = Kind::constant;
      d.factor = a;
      break;
    case Values::integers:
      lattice(9, 4, 1);
      break;
    case Values::large_integers:
      lattice(129, 64, 1);
      break;
    case Values::uniform:
      lattice(2049, 1024, 0x1p-10);
      break;
    case Values::normal:
      normal_times(a);
      break;
    case Values::duplicated:
      normal_times(a);
      d.in_pairs = !v;
      break;
    case Values::wide:
      octaves(v ? value_reach(problem.dtype) : 6);
      break;
    case Values::wide_value:
      if (v) octaves(value_reach(problem.dtype));
      break;
    case Values::flat:
      if (v) affine(a, 1, 0.125);
      if (q) normal_times(0x1p-6);
      break;
    case Values::outlier:
      if (q) break;
      d.kind = Kind::outlier;
      d.factor = 16 * a;
      d.columns = stream_of(problem, Stream::channel);
      break;
    case Values::offset:
      if (!q) affine(1, 16 * a, 1);
      break;
    case Values::tiny:
      v ? tiny() : normal_times(a);
      break;
    case Values::tiny_scores:
      v ? normal_times(a) : tiny();
      break;
    case Values::huge:
      v ? largest() : normal_times(a);
      break;
    case Values::huge_scores:
      v ? normal_times(a) : largest();
      break;
    case Values::unbalanced:
      if (q) largest();
      if (q || v) break;
      d.kind = Kind::quotient;
      d.factor = a;
      d.unit = largest_finite(problem.dtype);
      break;
    case Values::negative:
      if (v) break;
      d.kind = Kind::one_sided;
      d.factor = q ? a : -a;
      break;
    case Values::rising:
    case Values::falling:
      if (!v) first_then(q ? First::given : First::rising, 1, 0x1p-4);
      d.offset = 1;
      break;
    case Values::peaked:
      if (v) break;
      d.kind = q ? Kind::along : Kind::peaked;
      d.factor = 4 * a;
      d.offset = a;
      d.unit = q ? 0.25 : 0.125;
      d.columns = stream_of(problem, Stream::direction);
      break;
    case Values::selection:
      if (!v) first_then(q ? First::given : First::choice, 0);
      d.offset = 16 * a;
      break;
    case Values::ends:
      if (!v) first_then(q ? First::end_of_queries : First::end_of_keys, 0);
      break;
    case Values::levels:
      if (q) first_then(First::sign, 1);
      if (!q && !v) first_then(First::level, a, 0x1p-4);
      break;
    case Values::file:
      break;
  }
  return d;
}

double largest_magnitude(const Distribution& d) noexcept {
  constexpr double of_normal = 3.5;  // and room for what products are rounded to
  if (d.first != First::same) return std::numeric_limits<double>::infinity();
  const double factor = std::fabs(d.factor), offset = std::fabs(d.offset), unit = std::fabs(d.unit);
  switch (d.kind) {
    case Kind::constant:
      return factor;
    case Kind::lattice:
      return factor * std::max(offset, static_cast<double>(d.choices) - 1) * unit;
    case Kind::normal:
      return of_normal * unit * factor;
    case Kind::affine:
      return factor * (offset + of_normal * unit) * 1.01;
    case Kind::one_sided:
      return factor * (1 + of_normal);
    default:
      return std::numeric_limits<double>::infinity();
  }
}

void draw_from(const Distribution& d, const Problem& problem, Edit::Tensor which, const DrawnBlock& block,
               double* rows) noexcept {
  constexpr Stream streams[] = {Stream::q, Stream::k, Stream::v};
  const Key values = stream_of(problem, streams[static_cast<std::size_t>(which)]);
  const Fill fill_some = fills[static_cast<std::size_t>(d.kind)];
  const bool has_first = d.first != First::same && block.first_column == 0 && block.width > 0;
  const Key level = has_first ? stream_of(problem, Stream::level) : 0;
  const Index all = block.samples * block.heads * block.length;
  Keys keys;
  for (Index done = 0; done < all; done += Keys::most) {
    const Index count = std::min(Keys::most, all - done);
    double* const to = rows + done * block.width;
    if (d.kind != Kind::constant || has_first)
      fill_keys(values, block, done, count, d.in_pairs ? 1 : 0, keys.rows.data());
    if (d.kind == Kind::peaked) {
      fill_keys(stream_of(problem, Stream::peak), block, done, count, 0, keys.dominant.data());
      for (Index r = 0; r < count; ++r) {
        Key& key = keys.dominant[static_cast<std::size_t>(r)];
        key = one_in_eight(key) ? ~Key{0} : 0;
      }
    }
    fill_some(d, keys, count, block.first_column, block.width, to);
    if (has_first)
      by_head(block, done, count, [&](Index r, Index position, Index some, Key, Key) {
        for (Index n = 0; n < some; ++n)
          to[(r + n) * block.width] =
              first_of(d, problem, level, keys.rows[static_cast<std::size_t>(r + n)], position + n);
      });
  }
}

}  // namespace attest
