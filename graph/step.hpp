#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/arithmetic.hpp"
#include "graph/model.hpp"
#include "graph/precision.hpp"

namespace attest::graph {

// An input of a node: a tensor, or weights, which become one when they are asked for as such.
struct Operand {
  Operand(const Array* array) : array(array) {}  // nullptr for one that is left out
  Operand(const Stored& weights, bool as_they_are, std::function<Array()> widened)
      : weights(&weights), stored(as_they_are ? &weights : nullptr), widened(std::move(widened)) {}
  const Array* array = nullptr;
  const Stored* weights = nullptr;
  const Stored* stored = nullptr;  // `weights` where this run computes with them as they are
  std::function<Array()> widened;
};

// The evaluation of one node in all lanes: its inputs, its outputs, and the places where numbers leave float64.
class Step {
 public:
  // `lanes`: one arithmetic for each lane; the first is the exact one, from which errors of sums are modelled. All must
  // live as long as this. `most`: elements of a tensor, all lanes together.
  Step(const Node& node, std::size_t number, Index opset, std::span<const Arithmetic* const> lanes,
       const Precision& precision, Index most, std::vector<Operand> inputs);

  std::vector<Array> outputs;
  // Evaluates a graph of the node on its inputs; set where there may be one.
  std::function<std::vector<Array>(const Body& body, std::vector<Array> inputs)> evaluated;
  // Asks whether to go on, and throws Stopped if not; worked() calls it, where it is set.
  std::function<void()> pause;
  // Counts multiply-adds of a node, of which a large one has more than an evaluation may take on end.
  void worked(Index multiply_adds) const {
    if ((worked_ += multiply_adds) < between_pauses || !pause) return;
    worked_ = 0;
    pause();
  }

  [[nodiscard]] Index opset() const noexcept { return opset_; }
  [[nodiscard]] std::size_t input_count() const noexcept { return inputs_.size(); }
  [[nodiscard]] std::size_t output_count() const noexcept { return node_.outputs.size(); }
  [[nodiscard]] bool gives(std::size_t output) const noexcept {  // the output is not left out
    return output < node_.outputs.size() && node_.outputs[output] >= 0;
  }
  [[nodiscard]] const Array& in(std::size_t index) const;     // refuses where it is left out
  [[nodiscard]] const Array* maybe(std::size_t index) const;  // nullptr where it is left out; refuses a sequence
  // A tensor or a sequence, which is moved as it is.
  [[nodiscard]] const Array& any(std::size_t index) const;
  [[nodiscard]] const std::vector<Array>& sequence(std::size_t index) const;  // refuses a tensor
  // Weights that are computed with as they are stored, of which no tensor need be made; nullptr for other inputs.
  [[nodiscard]] const Stored* stored(std::size_t index) const;
  // Refuses where it is left out, and makes no tensor.
  [[nodiscard]] const std::vector<Index>& shape(std::size_t index) const;
  // The numbers of an integer input, which must be the same in all lanes: a shape, axes.
  [[nodiscard]] std::vector<Index> numbers(std::size_t index) const;

  // Attributes. Each refuses one of another kind.
  [[nodiscard]] Index integer(std::string_view attribute, Index otherwise) const;
  [[nodiscard]] double number(std::string_view attribute, double otherwise) const;
  [[nodiscard]] std::string text(std::string_view attribute, std::string_view otherwise) const;
  [[nodiscard]] std::optional<std::vector<Index>> integers(std::string_view attribute) const;
  [[nodiscard]] const Attribute* attribute(std::string_view name) const;
  [[nodiscard]] const Body& body(std::string_view attribute) const;  // refuses where there is none
  // The numbers of input `index`, of `attribute` where operators of that time had one, or nothing.
  [[nodiscard]] std::optional<std::vector<Index>> numbers_or(std::size_t index, std::string_view attribute) const;

  // Throws Error(usage): "node 'x' (Gather): " + why.
  [[noreturn]] void refuse(const std::string& why) const;
  // `axis` of a tensor of `rank` axes, counted from the front. Refuses what lies outside.
  [[nodiscard]] Index axis(Index axis, Index rank) const;

  // Tells if there are runs whose sums have errors, beside the exact one.
  [[nodiscard]] bool has_errors() const noexcept { return lanes_.size() > 1; }

  [[nodiscard]] Index most() const noexcept { return most_; }
  // Zeros. Refuses more than most().
  [[nodiscard]] Array make(Type type, std::vector<Index> shape, Index lanes) const;
  // One lane for each arithmetic.
  void spread(Array& x) const;

  // The first output of another operator, evaluated as a part of this node.
  Array part(void (*evaluate)(Step&), std::vector<const Array*> inputs,
             std::map<std::string, Attribute, std::less<>> attributes);

  // The place of the noise of parts, and a return to it: each turn of a loop is computed alike, and rounds equal
  // numbers alike.
  [[nodiscard]] Place parts() const noexcept { return parts_; }
  void begin_parts(Place at) noexcept { parts_ = at; }

  // Results that are stored: rounded in every lane to the format that their type is computed in. Integers stay.
  void round(Array& x);
  void round(Array& x,
             Format format);  // another format, whatever the precision: coordinates, weights of an interpolation
  // Values of an elementary function, see Arithmetic::function.
  void function(Array& x, double relative, double absolute = 0);
  void function(Array& x, double relative, double absolute, Format format);
  // Elements of an integer tensor, lane by lane as it is held, that ONNX leaves undefined, see Arithmetic::undefined.
  void leave_open(Array& x, std::span<const Index> elements);
  // Sums that are exact so far, `squares` the sums of squares in lane 0, one for each where has_errors(); terms_of as
  // in Sums, of one lane.
  void sum(Array& sums, Index terms, std::span<const double> squares,
           const std::function<void(Index lane, Index sum, std::span<double> to)>& terms_of);

 private:
  [[nodiscard]] const Array* found(std::size_t index) const;
  [[nodiscard]] Format format(const Array& x) const noexcept { return precision_.computed(format_of(x.type)); }
  Place next_place() noexcept { return (static_cast<Place>(number_ + 1) << 32) | place_++; }

  const Node& node_;
  std::size_t number_;
  Index opset_;
  std::span<const Arithmetic* const> lanes_;
  const Precision& precision_;
  Index most_;
  mutable std::vector<Operand> inputs_;
  mutable std::deque<Array> widened_;
  static constexpr Index between_pauses = Index{1} << 28;  // tens of milliseconds
  mutable Index worked_ = 0;
  Place place_ = 0;
  Place parts_ = 0;
};

}  // namespace attest::graph
