#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/format.hpp"
#include "core/index.hpp"

namespace attest::graph {

// The place of a computation in a graph: differs between nodes, and between the parts of one.
using Place = std::uint64_t;

// Sums that a node forms, for who computes them otherwise than exactly.
struct Sums {
  Index terms = 0;                    // in each sum
  Format accumulator = Format::f32;   // the format in which they are added up
  std::span<const double> deviation;  // modelled standard deviation of each sum's error, see sums.hpp
  // The terms of one sum of the run at hand, in the order of the axis that is summed over; `to` has room for them.
  std::function<void(Index sum, std::span<double> to)> terms_of;
};

// The rounding of one run of a graph where numbers do not fit their format: one way in which a correct implementation
// may compute. Each function is handed the exact (float64) results and leaves in their place those of this run. Results
// depend on the arguments alone: the same graph, inputs and arithmetic give the same bits.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;
  // Results of a node, before they are stored in `format`.
  virtual void round(std::span<double> x, Format format, Place place) const = 0;
  // Values of an elementary function that is good to `relative` units of roundoff of the value, and `absolute` units of
  // 1.
  virtual void function(std::span<double> x, Format format, double relative, double absolute, Place place) const = 0;
  virtual void sum(std::span<double> sums, const Sums& how, Place place) const = 0;
  // Inputs and initialisers that are computed with in a `format` narrower than their own: numbers past its range
  // saturate, so that a mask of lowest finite numbers stays finite.
  virtual void convert(std::span<double> x, Format format, Place place) const = 0;
  // Bits of a result that ONNX leaves undefined, such as an integer of a number that its type does not hold: `usual`
  // ones, or any.
  [[nodiscard]] virtual std::uint64_t undefined(std::uint64_t usual, Place /*place*/, std::uint64_t /*element*/) const {
    return usual;
  }
};

// float64, nothing rounded: the reference.
std::unique_ptr<Arithmetic> exact();
// Every result rounded to nearest once, sums and functions exact before.
std::unique_ptr<Arithmetic> nearest();
// A member of the ensemble (docs/graphs.md section 2): results rounded up or down at random, by a hash of seed, place
// and the lower neighbour, so that equal values round alike and exact ones stay; sums and functions off by noise of the
// modelled size. Subnormal results of f32 and bf16 are flushed to zero in every other place. Conversions are rounded at
// random, too, or to nearest. What ONNX leaves undefined is any number.
enum class Conversion : std::uint8_t { at_random, to_nearest };
std::unique_ptr<Arithmetic> member(std::uint64_t seed, Conversion conversion = Conversion::at_random);

}  // namespace attest::graph
