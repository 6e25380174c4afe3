#include "oracle/mha/points.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "oracle/last_bit.hpp"

namespace attest::oracle {
namespace {

// Returns the least last bit of an element that is not 0, or a large number; very low if one is not finite. May stop
// below `enough`.
int least_bit(const double* values, Index count, int least, int enough) {
  if (least < enough) return least;
  bool unusual = false;  // subnormal, or no number
  for (Index c = 0; c < count; ++c) {
    const auto bits = std::bit_cast<std::uint64_t>(values[c]);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    const int last = exponent - 1075 + std::countr_zero(bits | std::uint64_t{1} << 52);
    unusual |= exponent == 0x7ff || (exponent == 0 && bits << 1 != 0);
    least = std::min(least, exponent == 0 ? least : last);
  }
  for (Index c = 0; c < count && unusual; ++c)
    if (values[c] != 0) least = std::min(least, std::isfinite(values[c]) ? last_bit(values[c]) : -2000);
  return least;
}
int least_bit(const Matrix& matrix, int enough) {
  int least = 1 << 20;
  for (Index i = 0; i < matrix.rows() && least >= enough; ++i)
    least = least_bit(matrix.row(i), matrix.columns(), least, enough);
  return least;
}

// Returns at least the largest norm of a row's numbers below `smallest`.
double small_norm(const double* values, Index columns, Index stride, Index rows, double smallest) {
  double most = 0;
  for (Index i = 0; i < rows && smallest > 0; ++i) {
    double squares = 0;
    for (Index c = 0; c < columns; ++c) {
      const double x = std::fabs(values[i * stride + c]);
      squares += x < smallest ? x * x : 0;
    }
    most = std::max(most, squares);
  }
  return std::sqrt(most) * (1 + 1e-9);
}
double small_norm(const Matrix& matrix, double smallest) {
  return matrix.rows() == 0 ? 0 : small_norm(matrix.row(0), matrix.columns(), matrix.stride(), matrix.rows(), smallest);
}

Tensor tensor_for(const Matrix& sums, Index tokens, Index heads) {
  const Index width = sums.columns(), d = width / heads;
  return {DType::f64, std::array<Index, 4>{sums.rows() / tokens, heads, tokens, d},
          std::array<Index, 4>{tokens * width, d, width, 1}};
}

double* elements(Tensor& tensor) { return static_cast<double*>(tensor.view().data); }

}  // namespace

products::RoundRule round_rule(Format format) noexcept {
  if (format == Format::f64) return {0, 1};
  return {std::ldexp(1.5, 53 - precision(format)), smallest_normal(format)};
}

Points::Points(const Way::Block& block, mha::Projected projected)
    : block_(block),
      projected_(projected),
      rule_(round_rule(projected == mha::Projected::unrounded ? Format::f64 : block.storage)) {
  norms_ = {largest_norm(block.x),   largest_norm(block.memory), largest_norm(block.w_q),
            largest_norm(block.w_k), largest_norm(block.w_v),    largest_norm(block.w_out)};
  const mha::Call& call = block.call;
  const Matrix& memory = block.remembered();
  const bool self = block.memory.rows() == 0;
  const double memory_norm = self ? norms_.x : norms_.memory;
  const int lowest = -3000, x_last = least_bit(block.x, lowest),
            memory_last = self ? x_last : least_bit(memory, lowest);
  projections_[0].tokens = call.l();
  projections_[0].heads = call.heads;
  projections_[1].tokens = projections_[2].tokens = call.m();
  projections_[1].heads = projections_[2].heads = call.kv_heads;
  inputs_.q = project(projections_[0], block.x, norms_.x, x_last, block.w_q, norms_.w_q, block.b_q);
  inputs_.k = project(projections_[1], memory, memory_norm, memory_last, block.w_k, norms_.w_k, block.b_k);
  inputs_.v = project(projections_[2], memory, memory_norm, memory_last, block.w_v, norms_.w_v, block.b_v);
}

double Points::largest() const noexcept {
  return std::max({projections_[0].extent.largest, projections_[1].extent.largest, projections_[2].extent.largest});
}

// A row of sums with `shift` added to each, as it is stored. `to` has whole lanes.
void Points::store(const Projection& of, Index row, double shift, double* to) const {
  const Index count = of.sums.stride();
  if (projected_ == mha::Projected::separate) {
    products::round_sums(rule_, of.sums.row(row), nullptr, shift, count, to);
    products::round_sums(rule_, to, of.bias.data(), 0, count, to);
  } else {
    products::round_sums(rule_, of.sums.row(row), of.bias.data(), shift, count, to);
  }
}

Tensor Points::project(Projection& to, const Matrix& x, double x_norm, int x_last, const Matrix& w, double w_norm,
                       const std::vector<double>& bias) {
  to.sums = product(x, w);
  to.bias.assign(static_cast<std::size_t>(to.sums.stride()), 0);
  std::ranges::copy(bias, to.bias.begin());
  const Index width = w.rows(), d = width / to.heads;

  // Tells whether every partial sum fits gemm; else what any of them may be off by.
  const Format gemm = block_.contract.gemm;
  const double terms = static_cast<double>(x.columns()) + 4, largest_bias = largest_magnitude(bias);
  const double magnitude = x_norm * w_norm + largest_bias;
  const int bias_last = least_bit(bias.data(), static_cast<Index>(bias.size()), 1 << 20, -3000);
  const int enough = std::isfinite(magnitude) && magnitude > 0
                         ? std::max(min_exponent(gemm), std::ilogb(magnitude) - precision(gemm))
                         : min_exponent(gemm);
  const int last = std::min(x_last + least_bit(w, enough - x_last), bias_last);
  SumRule rule(block_.contract, block_.storage, block_.storage);
  double aligned = magnitude;  // with what units of tensor cores may take for exponents
  if (rule.blocks.any())
    aligned +=
        rule.smallest_factor * (std::sqrt(terms) * (x_norm + w_norm) + largest_bias + terms * rule.smallest_factor);
  const bool exact = last >= min_exponent(gemm) && aligned <= std::ldexp(1.0, last + rule.exact_bits) && last < 1000 &&
                     rule.narrowed == 0 && rule.wide_factors() == 0;
  // The total of the terms of inputs that may be flushed, by norms.
  const double smallest = std::exchange(rule.smallest_input, 0);
  const double flushed = smallest > 0 ? 2 * (small_norm(x, smallest) * w_norm + x_norm * small_norm(w, smallest)) +
                                            std::min(largest_bias, smallest)
                                      : 0;
  if (exact)
    to.error = flushed;
  else if (rule.unusual())
    to.error = rule.most_relative(terms) * magnitude +
               (rule.most_absolute(terms, x_norm + w_norm + largest_bias) + flushed) * (1 + rule.most_relative(terms));
  else
    to.error = compounded(terms, block_.contract.attention.arithmetic.kappa * unit_roundoff(gemm)) * magnitude +
               terms * 2 * half_smallest_subnormal(gemm);

  // Another choice lies no further than twice the error of the sum and its roundings; in a narrow format most choices
  // round to the same number.
  const bool narrow = projected_ == mha::Projected::rounded && precision(block_.storage) < precision(Format::f32);
  const bool counts = narrow && to.error != 0;
  Tensor points = tensor_for(to.sums, to.tokens, to.heads);
  std::vector<double> row(to.bias.size()), above(counts ? row.size() : 0), below(above.size());
  double apart = 0;
  for (Index i = 0; i < x.rows(); ++i) {
    store(to, i, 0, row.data());
    std::copy_n(row.data(), width, elements(points) + i * width);
    if (counts) {
      store(to, i, to.error, above.data());
      store(to, i, -to.error, below.data());
    }
    for (Index first = 0; first < width; first += d) {
      double squares = 0, gaps = 0, top = to.extent.largest;
      for (Index c = first; c < first + d; ++c) {
        const auto at = static_cast<std::size_t>(c);
        squares += row[at] * row[at];
        top = std::max(top, std::fabs(row[at]));
        if (counts) gaps += (above[at] - below[at]) * (above[at] - below[at]);
      }
      to.extent.norm = std::max(to.extent.norm, squares);
      to.extent.largest = top;
      apart = std::max(apart, gaps);
    }
  }
  to.extent.norm = std::sqrt(to.extent.norm) * (1 + 1e-9);
  const double roundings = projected_ == mha::Projected::separate ? 4 : projected_ == mha::Projected::rounded ? 2 : 0;
  const double u = roundings * unit_roundoff(block_.storage), eta = roundings * half_smallest_subnormal(block_.storage);
  const double added = projected_ == mha::Projected::separate ? largest_bias : 0;
  const double each = 2 * to.error + eta + u * (to.error + added);
  to.extent.off =
      (narrow ? std::sqrt(apart) : u * to.extent.norm + each * std::sqrt(static_cast<double>(d))) * (1 + 1e-6);
  return points;
}

void Points::choices_of(const Projection& of, Index first, Index count, Tensor& centre, Tensor& radius) const {
  centre = tensor_for(of.sums, of.tokens, of.heads);
  radius = tensor_for(of.sums, of.tokens, of.heads);
  const Index width = of.sums.columns();
  std::fill_n(elements(centre), of.sums.rows() * width, 0.0);
  std::fill_n(elements(radius), of.sums.rows() * width, 0.0);
  std::vector<double> above(of.bias.size()), below(of.bias.size());
  for (Index i = first; i < first + count; ++i) {
    store(of, i, of.error, above.data());
    store(of, i, -of.error, below.data());
    for (Index c = 0; c < width; ++c) {
      const double hi = above[static_cast<std::size_t>(c)], lo = below[static_cast<std::size_t>(c)];
      const double middle = lo + (hi - lo) / 2;
      elements(centre)[i * width + c] = middle;
      elements(radius)[i * width + c] = std::max(hi - middle, middle - lo) * (1 + 0x1p-51);
    }
  }
}

Points::Choices Points::choices(Index b, Index i) const {
  Choices made;
  const mha::Call& call = block_.call;
  choices_of(projections_[0], b * call.l() + i, 1, made.centres.q, made.radii.q);
  choices_of(projections_[1], b * call.m(), call.m(), made.centres.k, made.radii.k);
  choices_of(projections_[2], b * call.m(), call.m(), made.centres.v, made.radii.v);
  return made;
}

}  // namespace attest::oracle
