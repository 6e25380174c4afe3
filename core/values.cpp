#include "core/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/captured.hpp"
#include "core/rng.hpp"

namespace attest {
namespace {

using Key = std::uint64_t;

// What a key is for; each stream is independent of the others.
enum class Stream : std::uint64_t { q, k, v, bias, keep, kv_lengths, direction, channel, peak, row, level };

Key stream(const Problem& problem, Stream which) noexcept {
  return extend(mix(problem.seed), static_cast<std::uint64_t>(which));
}
Key at(Key key, Index i0, Index i1, Index i2) noexcept {
  return extend(extend(extend(key, static_cast<Key>(i0)), static_cast<Key>(i1)), static_cast<Key>(i2));
}
bool one_in_eight(Key key) noexcept { return (key & 7) == 0; }

double power_of_two(int exponent) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

// +-2^e with e uniform in [-reach, reach].
double wide(Key bits, int reach) noexcept {
  const auto span = 2 * static_cast<std::uint64_t>(reach) + 1;
  const double magnitude = power_of_two(static_cast<int>(below(bits, span)) - reach);
  return (bits & 1) ? -magnitude : magnitude;
}
int value_reach(Format dtype) noexcept {
  switch (dtype) {
    case Format::f16:
      return 12;
    case Format::f64:
      return 200;
    default:
      return 60;
  }
}

// Values::levels: the score of a key in nats, less its noise. Blocks of a length that kernels take, or of any, rise by a step
// eight times and fall eight times, from anywhere in that; or each lies anywhere in 0, 2 .. 30. Integers that any format holds.
double level_of(const Problem& problem, Index position) noexcept {
  constexpr Index tiles[] = {16, 32, 64, 128};
  constexpr Key rises = 8;
  const Key key = stream(problem, Stream::level), any = mix(key);
  const Index octave = Index{1} << (any & 7);
  const Index length =
      key & 1 ? tiles[key >> 1 & 3] : octave + static_cast<Index>(below(any, static_cast<Key>(octave)));
  const Key block = static_cast<Key>(position / length);
  if (key >> 3 & 1) return 2 * static_cast<double>(below(extend(key, block), 16));
  const Key phase = (block + (key >> 4)) % (2 * rises), step = 2 + below(mix(any), 29);
  return static_cast<double>(step * std::min(phase, 2 * rises - phase));
}

// Everything about one row of q, k or v that does not depend on the column.
struct Row {
  const Problem& problem;
  Edit::Tensor which;
  Key key;         // of this row's own numbers
  Index position;  // absolute query or key
  bool dominant;   // peaked: this key is aligned with the queries

  // One distribution per instantiation: the choice is made once a row, not once an element.
  template <Values V>
  [[nodiscard]] double value(Index column) const noexcept {
    const double a = problem.amplitude;
    const Key bits = extend(key, static_cast<Key>(column));
    const bool q = which == Edit::Tensor::q, v = which == Edit::Tensor::v;
    if constexpr (V == Values::constant) return a;
    if constexpr (V == Values::integers) return a * (static_cast<double>(below(bits, 9)) - 4);
    if constexpr (V == Values::large_integers) return a * (static_cast<double>(below(bits, 129)) - 64);
    if constexpr (V == Values::uniform) return a * (static_cast<double>(below(bits, 2049)) - 1024) * 0x1p-10;
    if constexpr (V == Values::wide) return wide(bits, v ? value_reach(problem.dtype) : 6);
    if constexpr (V == Values::wide_value)
      if (v) return wide(bits, value_reach(problem.dtype));
    const double n = normal(bits);
    if constexpr (V == Values::normal || V == Values::duplicated) return a * n;  // duplicated: its pair's
    if constexpr (V == Values::flat) return v ? a * (1 + n * 0.125) : q ? n * 0x1p-6 : n;
    if constexpr (V == Values::outlier) return !q && outlier(column) ? 16 * a * n : n;
    if constexpr (V == Values::offset) return q ? n : 16 * a + n;
    if constexpr (V == Values::tiny || V == Values::tiny_scores)
      return v == (V == Values::tiny) ? n * smallest_normal(problem.dtype) * 0.25 : a * n;
    if constexpr (V == Values::huge || V == Values::huge_scores)
      return v == (V == Values::huge) ? near_largest(bits) : a * n;
    if constexpr (V == Values::unbalanced)
      return q ? near_largest(bits) : v ? n : a * n / largest_finite(problem.dtype);
    if (v) return n;
    if constexpr (V == Values::negative) return (q ? a : -a) * (1 + std::fabs(n));
    if constexpr (V == Values::rising) return along_keys(column, n, a * 0.125);
    if constexpr (V == Values::falling) return along_keys(column, n, -a * 0.125);
    if constexpr (V == Values::peaked) {
      if (q) return direction(column) * (1 + n * 0.25);
      return dominant ? 4 * a * direction(column) * (1 + n * 0.125) : a * n;
    }
    if constexpr (V == Values::selection) {
      if (column != 0) return 0;
      return q ? 16 * a : 16 * a * static_cast<double>(below(mix(key), 1024));
    }
    if constexpr (V == Values::ends) {
      if (column != 0) return 0;
      const Key own = mix(key);
      const bool rising = rising_ends(), above = !rising ? own & 1 : q ? own & 3 : 2 * position >= problem.lk;
      const double sign = above ? 1 : -1;
      if (q) return sign * a;
      // 3/8 to 15/16 of the largest number: the lowest one plus the score of a closed key is above that of an open one.
      return sign * (384 + static_cast<double>(below(mix(own), 577))) * 0x1p-10 * largest_finite(problem.dtype);
    }
    if constexpr (V == Values::levels) {
      if (q) return column != 0 ? n : key & 1 ? 1 : -1;
      return a * (column == 0 ? level_of(problem, position) : n * 0x1p-4);
    }
    return n;
  }

 private:
  [[nodiscard]] double near_largest(Key bits) const noexcept {
    const double magnitude = largest_finite(problem.dtype) * (0.5 + 0.5 * std::fabs(symmetric_uniform(bits)));
    return bits & 1 ? -magnitude : magnitude;
  }
  // Scores that climb (or fall) by `step` per key: column 0 carries them, the others are small noise.
  [[nodiscard]] double along_keys(Index column, double n, double step) const noexcept {
    if (column != 0) return n * 0x1p-4;
    return which == Edit::Tensor::q ? 1 : step * static_cast<double>(std::min<Index>(position, 4096));
  }
  // Values::ends: whether the second half of the keys lies at the other end than the first, above it for most queries, as what is
  // padded or comes later may, so that a mask closes the one and leaves the other; else each at either.
  [[nodiscard]] bool rising_ends() const noexcept { return mix(stream(problem, Stream::level)) & 1; }
  [[nodiscard]] double direction(Index column) const noexcept {
    return extend(stream(problem, Stream::direction), static_cast<Key>(column)) & 1 ? 1 : -1;
  }
  [[nodiscard]] bool outlier(Index column) const noexcept {
    return one_in_eight(extend(stream(problem, Stream::channel), static_cast<Key>(column)));
  }
};

// The hash is 64-bit integer arithmetic, which wide registers do several elements at once, with the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTEST_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_CLONES
#endif

// Rows that are drawn together, and the keys of their tensor's numbers and of which of its keys are dominant.
struct DrawnRows {
  static constexpr Index most = 256;  // at once

  const Problem& problem;
  Edit::Tensor which;
  Key values, peaks;
  const DrawnBlock& block;
};

// `count` of them from `done` on: keys first, and then the elements, in loops without calls, several of which wide registers take at
// once.
template <Values V>
ATTEST_CLONES void fill(const DrawnRows& rows, Index done, Index count, double* to) {
  constexpr bool peaked = V == Values::peaked;
  const bool in_pairs = V == Values::duplicated && rows.which != Edit::Tensor::v;
  const DrawnBlock& block = rows.block;
  std::array<Key, DrawnRows::most> keys;
  std::array<Index, DrawnRows::most> positions;
  std::array<bool, DrawnRows::most> dominant;
  Index h = done / block.length, i = done % block.length;
  for (Index r = 0; r < count; ++h, i = 0) {
    const Index some = std::min(count - r, block.length - i), first = block.position + i;
    const auto b = static_cast<Key>(block.batch + h / block.heads),
               head = static_cast<Key>(block.head + h % block.heads);
    const Key own = extend(extend(rows.values, b), head), peaks = peaked ? extend(extend(rows.peaks, b), head) : 0;
    for (Index n = 0; n < some; ++n) {
      const Index position = first + n;
      const auto at = static_cast<std::size_t>(r + n);
      positions[at] = position;
      keys[at] = extend(own, static_cast<Key>(in_pairs ? position / 2 : position));
      dominant[at] = peaked && one_in_eight(extend(peaks, static_cast<Key>(position)));
    }
    r += some;
  }
  const Index width = block.width, first_column = block.first_column;
  const auto row = [&](Index r) {
    const auto at = static_cast<std::size_t>(r);
    return Row{.problem = rows.problem,
               .which = rows.which,
               .key = keys[at],
               .position = positions[at],
               .dominant = dominant[at]};
  };
  if (width < 8) {
    for (Index c = 0; c < width; ++c)
      for (Index r = 0; r < count; ++r) to[r * width + c] = row(r).template value<V>(first_column + c);
    return;
  }
  for (Index r = 0; r < count; ++r) {
    const Row one = row(r);
    for (Index c = 0; c < width; ++c) to[r * width + c] = one.template value<V>(first_column + c);
  }
}
using Fill = void (*)(const DrawnRows&, Index, Index, double*);
// By Values.
constexpr auto fills = []<std::size_t... V>(std::index_sequence<V...>) {
  return std::array<Fill, sizeof...(V)>{fill<static_cast<Values>(V)>...};
}
(std::make_index_sequence<values_count>{});

Form form_of(const Problem& problem, Edit::Tensor which) noexcept {
  return which == Edit::Tensor::q ? problem.q_form : which == Edit::Tensor::k ? problem.k_form : problem.v_form;
}

double shaped(Form form, double x) noexcept {
  const auto keep_bits = [](double value, int fraction_bits) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) &
                                 ~((std::uint64_t{1} << (52 - fraction_bits)) - 1));
  };
  switch (form) {
    case Form::drawn:
      return x;
    case Form::short_significand:
      return keep_bits(x, 2);
    case Form::power_of_two:
      return keep_bits(x, 0);
    case Form::one:
      return 1;
    case Form::zero:
      return 0;
  }
  return x;
}

}  // namespace

namespace {
ATTEST_CLONES void clamp_all(std::span<double> rows, double most) noexcept {
  for (double& x : rows) x = std::clamp(x, -most, most);
}
}  // namespace

void draw_rows(const Problem& problem, Edit::Tensor which, Index batch, Index head, Index position, Index first_column,
               Index width, std::span<double> rows) noexcept {
  if (!rows.empty())
    draw_block(problem, which,
               {batch, 1, head, 1, position, static_cast<Index>(rows.size()) / width, first_column, width}, rows);
}

void draw_block(const Problem& problem, Edit::Tensor which, const DrawnBlock& block, std::span<double> rows) noexcept {
  if (rows.empty()) return;
  if (problem.values == Values::file) {
    const Captured& captured = load_captured(problem.values_file);
    const auto of_head = static_cast<std::size_t>(block.length * block.width);
    for (Index n = 0; n < block.samples * block.heads; ++n)
      captured.read(which, block.batch + n / block.heads, block.head + n % block.heads, block.position,
                    block.first_column, block.width, rows.subspan(static_cast<std::size_t>(n) * of_head, of_head));
  } else {
    constexpr Stream streams[] = {Stream::q, Stream::k, Stream::v};
    const DrawnRows all{problem, which, stream(problem, streams[static_cast<std::size_t>(which)]),
                        stream(problem, Stream::peak), block};
    const Fill fill_some = fills[static_cast<std::size_t>(problem.values)];
    const Index count = block.samples * block.heads * block.length;
    for (Index done = 0; done < count; done += DrawnRows::most)
      fill_some(all, done, std::min(DrawnRows::most, count - done), rows.data() + done * block.width);
  }
  if (const Form form = form_of(problem, which); form != Form::drawn)
    for (double& x : rows) x = shaped(form, x);
  clamp_all(rows, largest_finite(problem.dtype));
  if (problem.null_key && which != Edit::Tensor::q && block.position <= 0 && block.position + block.length > 0)
    for (Index n = 0; n < block.samples * block.heads; ++n)
      std::fill_n(rows.begin() + (n * block.length - block.position) * block.width, block.width, 0.0);
}

namespace {
// Some of `keys` keys, spread over all of them: small numbers as likely as large ones, none and all included.
class Scattered {
 public:
  Scattered(Key bits, Index keys) noexcept : keys_(keys) {
    if (keys == 0) return;
    const auto octaves = static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(keys)));
    if (const auto octave = below(bits, octaves + 1); octave > 0) {
      const Index least = Index{1} << (octave - 1), most = std::min(keys, 2 * least - 1);
      count_ = least + static_cast<Index>(below(mix(bits), static_cast<std::uint64_t>(most - least + 1)));
    }
    first_ = static_cast<Index>(below(mix(~bits), static_cast<std::uint64_t>(keys)));
    step_ = 1 + static_cast<Index>(below(mix(bits + 1), static_cast<std::uint64_t>(keys)));
    while (std::gcd(step_, keys) != 1) ++step_;
  }
  // x -> step x + first permutes the residues, step being prime to their number.
  [[nodiscard]] bool contains(Index key) const noexcept { return (key * step_ + first_) % keys_ < count_; }

 private:
  Index keys_, count_ = 0, first_ = 0, step_ = 1;
};
}  // namespace

void draw_keep_row(const Problem& problem, Index batch, Index head, Index query, std::span<double> row) noexcept {
  const Key own = at(stream(problem, Stream::keep), batch, head, query);
  const auto keys = static_cast<std::uint64_t>(problem.lk);
  const auto run = static_cast<Index>(below(mix(own), keys + 1));
  const auto chosen = static_cast<Index>(below(mix(own), keys));
  const auto bits = [&](Index key) { return extend(own, static_cast<Key>(problem.lk0 + key)); };
  const auto each = [&](auto open) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = open(static_cast<Index>(j)) ? 1 : 0;
  };
  switch (problem.keep) {
    case Keep::none:
    case Keep::open:
      return each([](Index) { return true; });
    case Keep::half:
      return each([&](Index key) { return (bits(key) & 1) != 0; });
    case Keep::sparse:
      return each([&](Index key) { return one_in_eight(bits(key)); });
    case Keep::dense:
      return each([&](Index key) { return !one_in_eight(bits(key)); });
    case Keep::prefix:
      return each([&](Index key) { return key < run; });
    case Keep::suffix:
      return each([&](Index key) { return key >= problem.lk - run; });
    case Keep::blocks:
      return each([&](Index key) { return (extend(own, static_cast<Key>((problem.lk0 + key) / 16)) & 1) != 0; });
    case Keep::one:
      return each([&](Index key) { return key == chosen; });
    case Keep::counted: {
      const Scattered open(mix(own), problem.lk);
      return each([&](Index key) { return open.contains(key); });
    }
    case Keep::some_empty:
      return each([&](Index key) { return (mix(own) & bits(key) & 1) != 0; });
    case Keep::closed:
      return each([](Index) { return false; });
  }
}

void draw_bias_row(const Problem& problem, Index batch, Index head, Index query, std::span<double> row) noexcept {
  const Key own = at(stream(problem, Stream::bias), batch, head, query);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto bits = [&](Index key) { return extend(own, static_cast<Key>(problem.lk0 + key)); };
  const auto each = [&](auto value) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = value(static_cast<Index>(j));
  };
  const auto sometimes = [&](double value) { each([&](Index key) { return bits(key) & 1 ? value : 0; }); };
  // As sometimes(), and in half of the rows always.
  const auto often = [&](double value) { return mix(own) & 1 ? each([&](Index) { return value; }) : sometimes(value); };
  const double lowest = -largest_finite(problem.bias_format());
  switch (problem.bias) {
    case Bias::none:
    case Bias::zero:
      return each([](Index) { return 0.0; });
    case Bias::normal:
      return each([&](Index key) { return normal(bits(key)); });
    case Bias::alibi: {
      const double slope = power_of_two(-1 - static_cast<int>(head % 8));
      return each([&](Index key) { return -slope * static_cast<double>(std::abs(query - (problem.lk0 + key))); });
    }
    case Bias::minus_inf:
      return sometimes(-infinity);
    case Bias::lowest:
      return sometimes(lowest);
    case Bias::minus_1e4:
      return sometimes(-10000);
    case Bias::padding: {
      const auto run = static_cast<Index>(below(mix(own), static_cast<std::uint64_t>(problem.lk) + 1));
      return each([&](Index key) { return key < run ? 0 : -infinity; });
    }
    case Bias::empty_inf:
      return often(-infinity);
    case Bias::empty_lowest:
      return often(lowest);
    case Bias::large:
      return each([&](Index key) { return static_cast<double>(below(bits(key), 4097)) - 2048; });
  }
}

Index draw_length(const Problem& problem, Index batch) noexcept {
  const Key bits = extend(stream(problem, Stream::kv_lengths), static_cast<Key>(batch));
  const auto keys = static_cast<std::uint64_t>(problem.lk);
  if (keys == 0) return 0;
  switch (problem.lengths) {
    case Lengths::none:
    case Lengths::full:
      return problem.lk;
    case Lengths::ragged:
      return 1 + static_cast<Index>(below(bits, keys));
    case Lengths::some_zero:
      return bits & 1 ? 0 : static_cast<Index>(below(bits, keys + 1));
    case Lengths::one:
      return 1;
  }
  return problem.lk;
}

}  // namespace attest
