#include "graph/sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/rng.hpp"

namespace attest::graph {
namespace {

constexpr Index most_sampled = 48;

std::vector<Index> sampled(Index sums, Index terms) {
  std::vector<Index> chosen;
  const std::uint64_t key = extend(static_cast<std::uint64_t>(sums), static_cast<std::uint64_t>(terms));
  for (Index i = 0; i < std::min(sums, most_sampled); ++i) {
    const auto drawn = below(extend(key, static_cast<std::uint64_t>(i)), static_cast<std::uint64_t>(sums));
    chosen.push_back(sums <= most_sampled ? i : static_cast<Index>(drawn));
  }
  return chosen;
}

// Counts of equal numbers, in a table that is open to collisions.
class Counts {
 public:
  explicit Counts(Index terms) : slots_(std::bit_ceil(2 * static_cast<std::size_t>(terms))) {}

  // sum_g c_g^2 / n over groups of terms that are equal as float32, 0 apart.
  double coherence(std::span<const double> terms) {
    std::ranges::fill(slots_, Slot{});
    double squares = 0;
    for (const double term : terms) {
      const auto number = static_cast<float>(term);
      if (number == 0) continue;
      std::size_t at = mix(std::bit_cast<std::uint32_t>(number)) & (slots_.size() - 1);
      while (slots_[at].count > 0 && slots_[at].number != number) at = (at + 1) & (slots_.size() - 1);
      slots_[at].number = number;
      squares += 2 * slots_[at].count++ + 1;  // (c + 1)^2 - c^2
    }
    return squares / static_cast<double>(terms.size());
  }

 private:
  struct Slot {
    float number = 0;
    std::uint32_t count = 0;
  };
  std::vector<Slot> slots_;
};

template <class T, class Iterator>
double one_by_one(Iterator first, Iterator last) {
  T sum = 0;
  for (; first != last; ++first) sum = static_cast<T>(sum + static_cast<T>(*first));
  return static_cast<double>(sum);
}

// The sum to about twice the precision (Neumaier, ZAMM 1974).
double summed(std::span<const double> terms) {
  double sum = 0, rest = 0;
  for (const double term : terms) {
    const double next = sum + term;
    rest += std::fabs(sum) >= std::fabs(term) ? (sum - next) + term : (term - next) + sum;
    sum = next;
  }
  return sum + rest;
}

double lost_one_by_one(std::span<const double> terms, Format accumulator) {
  const double truth = summed(terms);
  double forwards = 0, backwards = 0;
  if (accumulator == Format::f32) {
    forwards = one_by_one<float>(terms.begin(), terms.end());
    backwards = one_by_one<float>(terms.rbegin(), terms.rend());
  } else {
    forwards = one_by_one<double>(terms.begin(), terms.end());
    backwards = one_by_one<double>(terms.rbegin(), terms.rend());
  }
  return std::max(std::fabs(forwards - truth), std::fabs(backwards - truth));
}

// Infinities and NaN have no place in what is estimated: those sums are undetermined anyway.
void make_finite(std::span<double> terms) {
  for (double& term : terms)
    if (!std::isfinite(term)) term = std::isnan(term) ? 0 : std::copysign(largest_finite(Format::f64), term);
}

constexpr double least_squares = 1e-290;

}  // namespace

std::vector<double> deviations(std::span<const double> sums, std::span<const double> squares, Index terms,
                               Format accumulator,
                               const std::function<void(Index sum, std::span<double> to)>& terms_of) {
  const auto n = static_cast<double>(terms);
  const auto samples = terms < 3 ? std::vector<Index>{} : sampled(static_cast<Index>(sums.size()), terms);
  std::vector<double> buffer(static_cast<std::size_t>(terms)), lost;
  Counts counts(samples.empty() ? 0 : terms);
  double equal_terms = 1;
  for (const Index sample : samples) {
    terms_of(sample, buffer);
    make_finite(buffer);
    equal_terms = std::max(equal_terms, counts.coherence(buffer));
    lost.push_back(lost_one_by_one(buffer, accumulator));
  }
  const double unit = unit_roundoff(accumulator) / std::sqrt(3.0);
  std::vector<double> deviation(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    // The squares of small numbers of f64 are 0, though the numbers are not.
    const double q = accumulator == Format::f64 && sums[i] != 0 ? std::max(squares[i], least_squares) : squares[i];
    const double walk = (n + 1) * (q / 6 + sums[i] * sums[i] / 3) * equal_terms;
    deviation[i] = unit * std::sqrt(walk + q);
  }
  double factor = 1;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const double ratio = lost[i] / (2.5 * deviation[static_cast<std::size_t>(samples[i])]);
    if (std::isfinite(ratio)) factor = std::max(factor, ratio);
  }
  for (double& one : deviation) one *= factor;
  return deviation;
}

}  // namespace attest::graph
