#include "core/layer_norm/values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/distribution.hpp"
#include "core/rng.hpp"

namespace attest::layer_norm {
namespace {

using Key = std::uint64_t;
enum class Stream : Key { x, residual, gamma, beta, row, hot };

Key stream_of(const Problem& problem, Stream which) noexcept {
  return extend(extend(mix(problem.seed), 0x6c6e), static_cast<Key>(which));  // "ln": no stream of another operation
}
double two_to(int exponent) noexcept { return std::bit_cast<double>(static_cast<Key>(1023 + exponent) << 52); }
double sign_of(Key bits) noexcept { return bits & 1 ? -1.0 : 1.0; }

// +-2^e, e uniform over [-reach, reach].
double wide_number(Key bits, int reach) noexcept {
  const auto span = 2 * static_cast<Key>(reach) + 1;
  return sign_of(bits) * two_to(static_cast<int>(below(bits, span)) - reach);
}
double near_largest(Format format, Key bits) noexcept {
  return sign_of(bits) * largest_finite(format) * (0.5 + 0.5 * std::fabs(symmetric_uniform(bits)));
}
// A row of x, or of a residual that is drawn as x is.
struct XRow {
  const Problem& problem;
  Key key;  // the key of this row's numbers
  Index row;

  [[nodiscard]] double unit(Index column) const noexcept {
    const Key bits = extend(key, static_cast<Key>(column));
    const double n = normal(bits);
    const Format format = problem.dtype;
    switch (problem.values) {
      case Values::constant:
        return 0;
      case Values::row_constant:
        return own();
      case Values::near_constant:
        return own() * (1 + 2 * unit_roundoff(format) * static_cast<double>(below(bits, 5)));
      case Values::integers:
        return static_cast<double>(below(bits, 9)) - 4;
      case Values::uniform:
        return (static_cast<double>(below(bits, 2049)) - 1024) * 0x1p-10;
      case Values::normal:
        return n;
      case Values::alternating:
        return column % 2 == 0 ? 1 : -1;
      case Values::ramp:
        return static_cast<double>(column + 1);
      case Values::one_hot:
        return column == hot() ? 1 : 0;
      case Values::sparse:
        return (mix(bits) & 7) == 0 ? n : 0;
      case Values::outlier:
        return (mix(bits) & 63) == 0 ? 1024 * n : n;
      case Values::heavy:
        return n * two_to(std::min(std::countr_zero(mix(bits)), 20));
      case Values::wide:
        return wide_number(bits, value_reach(format));
      case Values::clusters:
        return sign_of(mix(bits)) + n * 0x1p-7;
      case Values::cancelling:
        return (column % 3 == 0 ? 4096 : -2048) + n * 0.125;
      case Values::roots_large:
        return n * two_to(max_exponent(format) / 2 - static_cast<int>(below(mix(key), 8)));
      case Values::roots_small:
        return n * two_to(min_exponent(format) / 2 - 4 + static_cast<int>(below(mix(key), 8)));
      case Values::tiny:
        return n * smallest_normal(format) * 0.25;
      case Values::huge:
        return near_largest(format, bits) * two_to(-static_cast<int>(below(mix(key), 9)));
    }
    return n;
  }

 private:
  // A constant of this row's own, over six powers of ten.
  [[nodiscard]] double own() const noexcept {
    const Key bits = extend(stream_of(problem, Stream::row), static_cast<Key>(row));
    return normal(bits) * wide_number(mix(bits), 10);
  }
  // Where a one-hot row has its 1: among the first 8, 64, 512 or 4096 columns.
  [[nodiscard]] Index hot() const noexcept {
    const Key bits = extend(stream_of(problem, Stream::hot), static_cast<Key>(row));
    return static_cast<Index>(below(mix(bits), Key{8} << 3 * (bits & 3)));
  }
};

// A value of gamma, or of beta, which lies about 0.
double weight(Weights kind, Format format, double about, Key bits) noexcept {
  const double n = normal(bits);
  switch (kind) {
    case Weights::none:
    case Weights::zero:
      return 0;
    case Weights::one:
      return 1;
    case Weights::near:
      return about + n * 0.125;
    case Weights::normal:
      return n;
    case Weights::sparse:
      return mix(bits) & 1 ? n : 0;
    case Weights::wide:
      return n * wide_number(mix(bits), 12);
    case Weights::tiny:
      return n * smallest_normal(format) * 0.25;
    case Weights::huge:
      return near_largest(format, bits);
  }
  return n;
}

}  // namespace

void draw_row(const Problem& problem, Edit::Tensor which, Index row_index, std::span<double> row) noexcept {
  const bool params = which == Edit::Tensor::gamma || which == Edit::Tensor::beta;
  const Format format = params ? problem.param_format() : problem.dtype;
  const double most = largest_finite(format);
  const auto own_key = [&](Stream stream) { return extend(stream_of(problem, stream), static_cast<Key>(row_index)); };
  const XRow x{problem, own_key(Stream::x), row_index}, like_x{problem, own_key(Stream::residual), row_index};
  const Key gamma_key = stream_of(problem, Stream::gamma), beta_key = stream_of(problem, Stream::beta);
  const auto of_x = [&](const XRow& from, Index column) {
    return problem.amplitude * from.unit(column) + problem.amplitude * problem.offset;
  };
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Index column = problem.hidden0 + static_cast<Index>(i);
    const auto number = static_cast<Key>(column);
    double value = 0;
    if (which == Edit::Tensor::gamma) {
      value = weight(problem.gamma, format, 1, extend(gamma_key, number));
    } else if (which == Edit::Tensor::beta) {
      value = weight(problem.beta, format, 0, extend(beta_key, number));
    } else if (which == Edit::Tensor::x) {
      value = of_x(x, column);
    } else if (problem.residual == Residual::like_x) {
      value = of_x(like_x, column);
    } else if (problem.residual == Residual::cancelling) {
      value = -of_x(x, column) * (1 + 4 * unit_roundoff(format) * like_x.unit(column));
    } else if (problem.residual == Residual::large) {
      value = problem.amplitude * 4096 * normal(extend(like_x.key, number));
    }
    row[i] = std::clamp(std::isnan(value) ? 0 : value, -most, most);
  }
}

}  // namespace attest::layer_norm
