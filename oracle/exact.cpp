#include "oracle/exact.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "oracle/call.hpp"
#include "oracle/lanes.hpp"
#include "oracle/last_bit.hpp"
#include "oracle/numbers.hpp"
#include "oracle/products.hpp"

namespace attest::oracle {
namespace {

double two_to(int exponent) {
  const bool normal = exponent >= -1022 && exponent <= 1023;
  return normal ? std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52) : std::ldexp(1.0, exponent);
}

// Multiples of 2^unit, of magnitude `most` or less. Their sums stay such multiples.
struct Multiples {
  int unit = std::numeric_limits<int>::max();  // that of 0 alone
  double most = 0;

  static Multiples of(double x) {
    Multiples multiples;
    if (x != 0) multiples = {last_bit(x), std::fabs(x)};
    return multiples;
  }
  void take(const products::Grid& numbers) {
    if (numbers.largest == 0) return;
    unit = std::min(unit, last_bit(numbers.lowest_bit));
    most = std::max(most, numbers.largest);
  }
  [[nodiscard]] Multiples times(double power_of_two) const {
    if (most == 0) return {};
    return {unit + std::ilogb(power_of_two), most * std::fabs(power_of_two)};
  }
  [[nodiscard]] Multiples plus(const Multiples& other) const { return {std::min(unit, other.unit), most + other.most}; }
  // Tells whether a format holds all of them, as normal numbers.
  [[nodiscard]] bool fit(Format format) const {
    return most == 0 ||
           (unit >= min_exponent(format) && most <= largest_finite(format) && most < two_to(unit + precision(format)));
  }
  friend bool operator==(const Multiples&, const Multiples&) = default;
};

// Elements of q or k, and the largest sum of magnitudes of a row.
struct Rows {
  Multiples elements;
  double largest_sum = 0;

  friend bool operator==(const Rows&, const Rows&) = default;

  // Takes some rows whose largest sum of magnitudes is `sum`. Returns false where a number is not finite. A sum that is
  // rounded, in whatever order, is too large for any format of so fine a unit.
  bool take(const products::Grid& numbers, double sum) {
    if (!numbers.below_infinity || !numbers.above_infinity) return false;
    elements.take(numbers);
    largest_sum = std::max(largest_sum, sum);
    return true;
  }
};

// Tells whether what a contract may round between q, k and the argument of exp needs no rounding.
class Scores {
 public:
  Scores(const Contract& contract, const Inputs& inputs)
      : how_(contract.arithmetic),
        policy_(contract.policy),
        sigma_(std::fabs(inputs.scale)),
        roots_(how_.fold_sqrt && inputs.scale > 0) {}

  // Tells whether a power of two as a scale changes no significand, its root neither where a contract permits that.
  [[nodiscard]] bool scale_is_exact() const {
    const auto exact = [this](double factor) {
      return is_power_of_two(factor) && fit(Multiples::of(factor), {Stage::scale}) &&
             fit(Multiples::of(1 / factor), {Stage::scale});
    };
    return exact(sigma_) && (!roots_ || exact(std::sqrt(sigma_)));
  }
  // Tells whether elements enter a product as they are, also where they carry the scale.
  [[nodiscard]] bool enters(const Rows& rows, bool scaled) const {
    const Multiples& elements = rows.elements;
    if (how_.flush_to_zero && !fit(elements, {Stage::storage})) return false;  // flushed as they are read
    return fit(elements, {Stage::operand}) && (!(scaled || roots_) || fit(elements, {Stage::scale})) &&
           (!scaled || fit(elements.times(sigma_), {Stage::operand, Stage::scale})) &&
           (!roots_ || fit(elements.times(std::sqrt(sigma_)), {Stage::operand, Stage::scale}));
  }
  // Tells whether q and k enter the product as they are, and so does every partial sum of it, before the scale and
  // after it.
  [[nodiscard]] bool multiply(const Rows& q, const Rows& k) {
    if (!enters(q, how_.fold_q) || !enters(k, how_.fold_k)) return false;
    if (q.elements.most == 0 || k.elements.most == 0) return true;
    raw_ = {q.elements.unit + k.elements.unit,
            std::min(q.largest_sum * k.elements.most, q.elements.most * k.largest_sum)};
    const auto held = [this](const Multiples& sums) {
      return fit(sums, {Stage::qk, Stage::scale, Stage::score, Stage::softmax});
    };
    return held(raw_) && held(raw_.times(sigma_));
  }
  [[nodiscard]] bool add(const Multiples& bias) {
    with_bias_ = raw_.times(sigma_).plus(bias);
    return fit(with_bias_, {Stage::qk, Stage::score, Stage::softmax});
  }
  // A shift is the score of a key where nothing is lazy; a merge and exp(z - lse) have others.
  [[nodiscard]] bool arguments_are_exact(double lazy) const {
    const auto twice = [this](const Multiples& sums) { return fit({sums.unit, 2 * sums.most}, {Stage::softmax}); };
    return lazy == 0 && how_.lse_merge == LseMerge::none && !how_.normalise_lse && twice(raw_) && twice(with_bias_);
  }

 private:
  [[nodiscard]] bool fit(const Multiples& numbers, std::initializer_list<Stage> stages) const {
    return std::ranges::all_of(stages, [&](Stage stage) { return numbers.fit(policy_[stage]); });
  }

  const Arithmetic& how_;
  const Policy& policy_;
  double sigma_;
  bool roots_;  // the scale is a square root that is folded into both q and k
  Multiples raw_, with_bias_;
};

constexpr Index all = std::numeric_limits<Index>::max();

// Reads rows (b, h, first..first+rows) one behind the other.
void read_rows(const attest_tensor& t, Index b, Index h, Index first, Index rows, double* to) {
  const Index width = t.shape[3];
  if (width == 1) return read_column(t, b, h, first, rows, 0, to);
  if (t.strides[3] == 1 && t.strides[2] == width)
    return read_strided(t, element_at(t, b, h, first, 0), 1, rows * width, to);
  for (Index i = first; i < first + rows; ++i, to += width) read_row(t, b, h, i, width, to);
}

double largest_row_sum(const double* row, Index rows, Index width) {
  double largest = 0;
  for (const double* const end = row + rows * width; row != end; row += width) {
    // Several at once: the order is free, see Rows::take().
    std::array<double, lane_count> sums{};
    Index c = 0;
    for (; c + lane_count <= width; c += lane_count)
      for (Index lane = 0; lane < lane_count; ++lane) sums[static_cast<std::size_t>(lane)] += std::fabs(row[c + lane]);
    double sum = 0;
    for (; c < width; ++c) sum += std::fabs(row[c]);
    for (const double lane : sums) sum += lane;
    largest = std::max(largest, sum);
  }
  return largest;
}

// Calls `visit` with the numbers of the rows of a tensor of four axes, some rows at a time and `first` of them at
// first, until it returns false.
template <class Visit>
bool every_row(const Tensor& tensor, Index first, Visit visit) {
  const attest_tensor& view = tensor.view();
  constexpr Index most = 1024;
  const Index rows = view.shape[2], width = view.shape[3],
              at_once = std::clamp<Index>(most / std::max<Index>(width, 1), 1, std::max<Index>(rows, 1));
  std::vector<double> numbers(static_cast<std::size_t>(padded(at_once * width)));
  for (Index b = 0; b < view.shape[0]; ++b)
    for (Index h = 0; h < view.shape[1]; ++h)
      for (Index i = 0, count; i < rows; i += count) {
        count = std::min({at_once, rows - i, first});
        first = at_once;
        read_rows(view, b, h, i, count, numbers.data());
        std::fill(numbers.begin() + count * width, numbers.begin() + padded(count * width), 0.0);
        if (!visit(products::grid(numbers.data(), padded(count * width)),
                   largest_row_sum(numbers.data(), count, width)))
          return false;
      }
  return true;
}

// Tells whether every row can be taken, and what was taken then `holds`. That is asked anew only where rows changed it.
template <class Holds>
bool all_rows(const Tensor& tensor, Rows& rows, Holds holds) {
  bool asked = false;
  return every_row(tensor, all, [&](const products::Grid& numbers, double sum) {
    const Rows before = rows;
    if (!rows.take(numbers, sum)) return false;
    if (asked && rows == before) return true;
    asked = true;
    return holds();
  });
}

// Tells whether the first rows of both tensors alone say that there is no room; more rows only take up more. Most calls
// end here, with nothing else read.
bool first_rows_say_no(Scores scores, const Inputs& inputs) {
  const auto of_first = [](const Tensor& tensor, Rows& rows) {
    return !every_row(tensor, 1, [&](const products::Grid& numbers, double sum) {
      rows.take(numbers, sum);
      return false;
    });
  };
  Rows q, k;
  return of_first(inputs.q, q) && of_first(inputs.k, k) && !scores.multiply(q, k);
}

// Mostly the first element says no.
bool is_zero(const Tensor& tensor) {
  const attest_tensor& view = tensor.view();
  for (Index b = 0; b < view.shape[0]; ++b)
    for (Index h = 0; h < view.shape[1]; ++h)
      for (Index i = 0; i < view.shape[2]; ++i)
        for (Index c = 0; c < view.shape[3]; ++c)
          if (attest_load(&view, b, h, i, c) != 0) return false;
  return true;
}

bool take_bias(const Tensor& tensor, Multiples& bias) {
  return every_row(tensor, all, [&bias](const products::Grid& numbers, double) {
    bias.take(numbers);  // -inf excludes its key
    return numbers.below_infinity;
  });
}

}  // namespace

Exactness exactness(const Contract& contract, const Inputs& inputs) {
  const Arithmetic& how = contract.arithmetic;
  Scores scores(contract, inputs);
  // Where q or k is 0, so is every score, however it is computed.
  if (!inputs.bias.present() && !(inputs.softcap > 0) && (inputs.scale == 0 || is_zero(inputs.q) || is_zero(inputs.k)))
    return {true, scores.arguments_are_exact(contract.lazy_nats())};
  // 2^x multiplies by log2 e; what truncates promises nothing for numbers that need no rounding.
  if (how.exp2 || !how.sums_to_nearest() || inputs.softcap > 0) return {};
  if (inputs.scale != 0) {  // else every score is 0, whatever q and k are
    if (!scores.scale_is_exact() || first_rows_say_no(scores, inputs)) return {};
    Rows q, k;
    if (!all_rows(inputs.q, q, [&] { return scores.enters(q, how.fold_q); })) return {};
    if (!all_rows(inputs.k, k, [&] { return scores.multiply(q, k); })) return {};
  }
  Multiples bias;
  if (inputs.bias.present()) {
    if (!take_bias(inputs.bias, bias)) return {};
    if (!bias.fit(format_of(inputs.bias.dtype())) || !bias.fit(contract.policy[Stage::score])) return {};
  }
  if (!scores.add(bias)) return {};
  return {true, scores.arguments_are_exact(contract.lazy_nats())};
}

}  // namespace attest::oracle
