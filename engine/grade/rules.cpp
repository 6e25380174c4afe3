#include "engine/grade/rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace attest::engine {
namespace {

// error / tolerance, where 0 of 0 is no error at all; an infinite tolerance takes any error but a NaN.
double in_units_of(double error, double tolerance) {
  if (std::isnan(error) || std::isnan(tolerance)) return any_multiple;
  if (error == 0 || std::isinf(tolerance)) return 0;
  return tolerance > 0 ? error / tolerance : any_multiple;
}

double distance(double a, double b) {
  return a == b ? 0 : std::fabs(a - b);  // equal infinities differ by nothing
}

// max |a - b|; NaN if one of the elements is.
double largest_distance(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = distance(a[i], b[i]);
    if (!(d <= largest)) largest = d;
    if (std::isnan(largest)) break;
  }
  return largest;
}

// |got - expected| <= atol + rtol |expected| for every element.
double sum_of_tolerances(const Sight& sight, double atol, double rtol) {
  double multiple = 0;
  for (std::size_t i = 0; i < sight.got.size(); ++i) {
    const double expected = sight.expected[i];
    const double tolerance = std::isfinite(expected) ? atol + rtol * std::fabs(expected) : 0;
    multiple = std::max(multiple, in_units_of(distance(sight.got[i], expected), tolerance));
  }
  return multiple;
}

struct Tolerances {
  double atol, rtol;
};

Tolerances torch_defaults(Format type) {
  switch (type) {
    case Format::f16:
      return {1e-5, 1e-3};
    case Format::bf16:
      return {1e-5, 1.6e-2};
    case Format::f64:
      return {1e-7, 1e-7};
    default:
      return {1e-5, 1.3e-6};
  }
}

double assert_close(const Sight& sight) {
  const auto [atol, rtol] = torch_defaults(sight.type);
  return sum_of_tolerances(sight, atol, rtol);
}

double one_per_cent(const Sight& sight) { return sum_of_tolerances(sight, 1e-2, 1e-2); }

double twice_low_precision(const Sight& sight) {
  return in_units_of(largest_distance(sight.got, sight.expected), 2 * largest_distance(sight.low, sight.expected));
}

double fudge(const Sight& sight) {
  const double reference = largest_distance(sight.low, sight.exact), error = largest_distance(sight.got, sight.exact);
  if (std::isnan(reference)) return std::isnan(error) ? 0 : in_units_of(error, 1e-5);  // so does the code that is meant
  return in_units_of(error, std::max(1e-5, 5 * reference));
}

double normalised_mean_square(const Sight& sight) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < sight.got.size(); ++i) {
    const double d = distance(sight.got[i], sight.expected[i]);
    if (!std::isfinite(d)) return any_multiple;
    difference += d * d;
    size += std::isfinite(sight.got[i]) ? sight.got[i] * sight.got[i] : 0;
  }
  return in_units_of(difference, 5e-4 * size);
}

double absolute_or_relative(const Sight& sight) {
  double multiple = 0;
  for (std::size_t i = 0; i < sight.got.size(); ++i) {
    const double expected = sight.expected[i];
    // Infinities do not compare equal unless asked for.
    const double error = std::isfinite(expected) ? distance(sight.got[i], expected) : any_multiple;
    const double size = expected == 0 ? 0x1p-52 : std::fabs(expected);
    multiple = std::max(multiple, std::min(in_units_of(error, 1e-5), in_units_of(error, 1e-5 * size)));
  }
  return multiple;
}

constexpr std::array rules{
    ToleranceRule{
        "assert_close",
        "torch.testing.assert_close: |got - expected| <= atol + rtol |expected|; atol 1e-5 and rtol 1.3e-6 for "
        "f32, 1e-3 for f16, 1.6e-2 for bf16; both 1e-7 for f64",
        assert_close},
    ToleranceRule{"2x",
                  "FlashAttention's tests: max |got - expected| <= 2 max |low - expected|, low from {} in "
                  "the type under test",
                  twice_low_precision},
    ToleranceRule{
        "fudge", "PyTorch's tests of scaled_dot_product_attention: max |got - exact| <= max(1e-5, 5 max |low - exact|)",
        fudge},
    ToleranceRule{"nmse", "ggml's test-backend-ops: sum (got - expected)^2 <= 5e-4 sum got^2", normalised_mean_square},
    ToleranceRule{"1e-2", "allclose: |got - expected| <= 1e-2 + 1e-2 |expected|", one_per_cent},
    ToleranceRule{"polygraphy",
                  "Polygraphy's elemwise default: |got - expected| <= 1e-5, or <= 1e-5 |expected|, for each element",
                  absolute_or_relative},
};

}  // namespace

std::span<const ToleranceRule> tolerance_rules() { return rules; }

std::string doc_of(const ToleranceRule& rule, std::string_view plain) {
  std::string doc(rule.doc);
  constexpr std::string_view place = "{}";
  if (const auto at = doc.find(place); at != std::string::npos) doc.replace(at, place.size(), plain);
  return doc;
}

}  // namespace attest::engine
