#include "core/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/captured.hpp"
#include "core/distribution.hpp"
#include "core/streams.hpp"

namespace attest {
namespace {

using Key = std::uint64_t;

Key at(Key key, Index i0, Index i1, Index i2) noexcept {
  return extend(extend(extend(key, static_cast<Key>(i0)), static_cast<Key>(i1)), static_cast<Key>(i2));
}

double power_of_two(int exponent) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

Form form_of(const Problem& problem, Edit::Tensor which) noexcept {
  return which == Edit::Tensor::q ? problem.q_form : which == Edit::Tensor::k ? problem.k_form : problem.v_form;
}

// All bits of a fraction but the first.
ATTEST_CLONES void keep_bits(std::span<double> rows, int fraction_bits) noexcept {
  const std::uint64_t kept = ~((std::uint64_t{1} << (52 - fraction_bits)) - 1);
  for (double& x : rows) x = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & kept);
}

void shape_all(Form form, std::span<double> rows) noexcept {
  switch (form) {
    case Form::drawn:
      return;
    case Form::short_significand:
      return keep_bits(rows, 2);
    case Form::power_of_two:
      return keep_bits(rows, 0);
    case Form::one:
    case Form::zero:
      return std::fill(rows.begin(), rows.end(), form == Form::one ? 1.0 : 0.0);
  }
}

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
  double most = std::numeric_limits<double>::infinity();  // no number is larger
  if (problem.values == Values::file) {
    const Captured& captured = load_captured(problem.values_file);
    const auto of_head = static_cast<std::size_t>(block.length * block.width);
    for (Index n = 0; n < block.samples * block.heads; ++n)
      captured.read(which, block.batch + n / block.heads, block.head + n % block.heads, block.position,
                    block.first_column, block.width, rows.subspan(static_cast<std::size_t>(n) * of_head, of_head));
  } else {
    const Distribution distribution = distribution_of(problem, which);
    most = std::max(largest_magnitude(distribution), 1.0);  // as the forms may make of it
    draw_from(distribution, problem, which, block, rows.data());
  }
  shape_all(form_of(problem, which), rows);
  if (!(most <= largest_finite(problem.dtype))) clamp_all(rows, largest_finite(problem.dtype));
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

ATTEST_CLONES
void draw_keep_row(const Problem& problem, Index batch, Index head, Index query, std::span<double> row) noexcept {
  const Key own = at(stream_of(problem, Stream::keep), batch, head, query);
  const auto keys = static_cast<std::uint64_t>(problem.lk);
  const auto run = static_cast<Index>(below(mix(own), keys + 1));
  const auto chosen = static_cast<Index>(below(mix(own), keys));
  const auto bits = [&](Index key) { return extend(own, static_cast<Key>(problem.lk0 + key)); };
  const auto each = [&](auto open) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = as_double(open(static_cast<Index>(j)) ? 1 : 0);
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

ATTEST_CLONES
void draw_bias_row(const Problem& problem, Index batch, Index head, Index query, std::span<double> row) noexcept {
  const Key own = at(stream_of(problem, Stream::bias), batch, head, query);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto bits = [&](Index key) { return extend(own, static_cast<Key>(problem.lk0 + key)); };
  const auto each = [&](auto value) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = value(static_cast<Index>(j));
  };
  const auto sometimes = [&](double value) { each([&](Index key) { return bits(key) & 1 ? value : 0; }); };
  // Draws as sometimes() does, and in half of the rows always.
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
      return each([&](Index key) { return as_double(below_few(bits(key), 4097)) - 2048; });
  }
}

Index draw_length(const Problem& problem, Index batch) noexcept {
  const Key bits = extend(stream_of(problem, Stream::kv_lengths), static_cast<Key>(batch));
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
