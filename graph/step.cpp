#include "graph/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "graph/sums.hpp"
#include "graph/zip.hpp"

namespace attest::graph {

Step::Step(const Node& node, std::size_t number, Index opset, std::span<const Arithmetic* const> lanes,
           const Precision& precision, Index most, std::vector<Operand> inputs)
    : node_(node),
      number_(number),
      opset_(opset),
      lanes_(lanes),
      precision_(precision),
      most_(most),
      inputs_(std::move(inputs)) {}

void Step::refuse(const std::string& why) const {
  throw usage_error(fmt::format("{}: {}", described(node_, number_), why));
}

const Array& Step::in(std::size_t index) const {
  const Array* const found = maybe(index);
  if (found == nullptr) refuse(fmt::format("input {} is left out", index));
  return *found;
}

const Array* Step::maybe(std::size_t index) const {
  const Array* const array = found(index);
  if (array == nullptr) return nullptr;
  if (array->sequence) refuse(fmt::format("input {} is a sequence in place of a tensor", index));
  if (array->type == Type::u64 && std::ranges::any_of(array->integers, [](std::int64_t v) { return v < 0; }))
    refuse("numbers of uint64 from 2^63 on are not computed with");
  return array;
}

const Array& Step::any(std::size_t index) const {
  const Array* const array = found(index);
  if (array == nullptr) refuse(fmt::format("input {} is left out", index));
  return *array;
}

const std::vector<Array>& Step::sequence(std::size_t index) const {
  const Array& array = any(index);
  if (!array.sequence) refuse(fmt::format("input {} is a tensor in place of a sequence", index));
  return *array.sequence;
}

const Array* Step::found(std::size_t index) const {
  if (index >= inputs_.size()) return nullptr;
  Operand& one = inputs_[index];
  if (one.array == nullptr && one.weights != nullptr) one.array = &widened_.emplace_back(one.widened());
  return one.array;
}

const Stored* Step::stored(std::size_t index) const { return index < inputs_.size() ? inputs_[index].stored : nullptr; }

const std::vector<Index>& Step::shape(std::size_t index) const {
  const bool of_weights = index < inputs_.size() && inputs_[index].weights != nullptr;
  return of_weights ? inputs_[index].weights->shape : in(index).shape;
}

std::vector<Index> Step::numbers(std::size_t index) const {
  const Array& array = in(index);
  if (is_floating(array.type)) refuse(fmt::format("input {} holds floats in place of integers", index));
  const auto first = array.integer_lane(0);
  for (Index l = 1; l < array.lanes; ++l)
    if (!std::ranges::equal(array.integer_lane(l), first))
      refuse("what it reads, or the shape of its result, depends on computed floats");
  return {first.begin(), first.end()};
}

const Attribute* Step::attribute(std::string_view name) const {
  const auto found = node_.attributes.find(name);
  return found == node_.attributes.end() ? nullptr : &found->second;
}

namespace {

template <class T>
const T* as(const Step& step, std::string_view name, std::string_view kind) {
  const Attribute* const found = step.attribute(name);
  if (found == nullptr) return nullptr;
  if (!std::holds_alternative<T>(*found)) step.refuse(fmt::format("its attribute '{}' is not {}", name, kind));
  return &std::get<T>(*found);
}

}  // namespace

Index Step::integer(std::string_view attribute, Index otherwise) const {
  const auto* const found = as<std::int64_t>(*this, attribute, "an integer");
  return found == nullptr ? otherwise : *found;
}

double Step::number(std::string_view attribute, double otherwise) const {
  const auto* const found = as<double>(*this, attribute, "a number");
  return found == nullptr ? otherwise : *found;
}

std::string Step::text(std::string_view attribute, std::string_view otherwise) const {
  const auto* const found = as<std::string>(*this, attribute, "a text");
  return found == nullptr ? std::string(otherwise) : *found;
}

std::optional<std::vector<Index>> Step::integers(std::string_view attribute) const {
  const auto* const found = as<std::vector<std::int64_t>>(*this, attribute, "a list of integers");
  if (found == nullptr) return std::nullopt;
  return *found;
}

const Body& Step::body(std::string_view attribute) const {
  const auto* const found = as<std::shared_ptr<const Body>>(*this, attribute, "a graph");
  if (found == nullptr) refuse(fmt::format("it has no {}", attribute));
  return **found;
}

std::optional<std::vector<Index>> Step::numbers_or(std::size_t index, std::string_view attribute) const {
  if (maybe(index) != nullptr) return numbers(index);
  return integers(attribute);
}

Index Step::axis(Index axis, Index rank) const {
  if (axis < -rank || axis >= rank) refuse(fmt::format("axis {} of a tensor of {} axes", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

Array Step::make(Type type, std::vector<Index> shape, Index lanes) const {
  elements(shape, most_ / lanes, described(node_, number_));
  return zeros(type, std::move(shape), lanes);
}

void Step::spread(Array& x) const {
  const auto lanes = static_cast<Index>(lanes_.size());
  if (x.lanes == lanes) return;
  Array wide = make(x.type, x.shape, lanes);
  for (Index l = 0; l < lanes; ++l) {
    if (is_floating(x.type))
      std::copy(x.floats.begin(), x.floats.end(), wide.lane(l).begin());
    else
      std::copy(x.integers.begin(), x.integers.end(), wide.integer_lane(l).begin());
  }
  x = std::move(wide);
}

Array Step::part(void (*evaluate)(Step&), std::vector<const Array*> inputs,
                 std::map<std::string, Attribute, std::less<>> attributes) {
  const Node node{node_.name, node_.op, "", {}, {0}, std::move(attributes), 0};
  Step inner(node, number_, opset_, lanes_, precision_, most_, {inputs.begin(), inputs.end()});
  inner.place_ = ++parts_ << 16;  // noise of its own
  inner.parts_ = parts_;
  inner.pause = pause;
  evaluate(inner);
  parts_ = inner.parts_;
  return std::move(inner.outputs.at(0));
}

void Step::round(Array& x) {
  if (is_floating(x.type)) round(x, format(x));
}

void Step::round(Array& x, Format format) {
  spread(x);
  const Place place = next_place();
  for (std::size_t l = 0; l < lanes_.size(); ++l) lanes_[l]->round(x.lane(static_cast<Index>(l)), format, place);
}

void Step::function(Array& x, double relative, double absolute) { function(x, relative, absolute, format(x)); }

void Step::function(Array& x, double relative, double absolute, Format format) {
  spread(x);
  const Place place = next_place();
  for (std::size_t l = 0; l < lanes_.size(); ++l)
    lanes_[l]->function(x.lane(static_cast<Index>(l)), format, relative, absolute, place);
}

void Step::leave_open(Array& x, std::span<const Index> elements) {
  if (elements.empty()) return;
  const Index size = x.size(), copies = x.lanes == 1 ? static_cast<Index>(lanes_.size()) : 1;
  spread(x);
  const Place place = next_place();
  for (const Index first : elements)
    for (Index at = first; at < first + copies * size; at += size) {
      std::int64_t& v = x.integers[static_cast<std::size_t>(at)];
      v = wrapped(x.type, lanes_[static_cast<std::size_t>(at / size)]->undefined(
                              bits_of(v), place, static_cast<std::uint64_t>(at % size)));
    }
}

void Step::sum(Array& sums, Index terms, std::span<const double> squares,
               const std::function<void(Index lane, Index sum, std::span<double> to)>& terms_of) {
  spread(sums);
  const Place place = next_place();
  const Format accumulator = accumulator_of(format(sums));
  std::vector<double> deviation;
  if (has_errors())
    deviation = deviations(sums.lane(0), squares, terms, accumulator,
                           [&](Index sum, std::span<double> to) { terms_of(0, sum, to); });
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const auto lane = static_cast<Index>(l);
    const Sums how{terms, accumulator, deviation,
                   [&, lane](Index sum, std::span<double> to) { terms_of(lane, sum, to); }};
    lanes_[l]->sum(sums.lane(lane), how, place);
  }
}

}  // namespace attest::graph
