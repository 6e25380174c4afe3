#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/operators.hpp"
#include "graph/shapes.hpp"

// Nodes that evaluate graphs of their own. The graph and the number of its runs must be the same in all lanes.
namespace attest::graph {
namespace {

// A number or truth that decides.
Index decision(const Step& step, std::size_t input) {
  const auto numbers = step.numbers(input);
  if (numbers.size() != 1) step.refuse(fmt::format("input {} is not one number", input));
  return numbers[0];
}

// Results of each time, one behind the other along a new first axis.
Array stacked(const Step& step, const std::vector<Array>& all) {
  if (all.empty()) step.refuse("what it gathers is of a shape that no time shows");
  Index lanes = 1;
  for (const Array& one : all) {
    if (one.shape != all[0].shape || one.type != all[0].type) step.refuse("what it gathers changes its shape");
    lanes = std::max(lanes, one.lanes);
  }
  std::vector<Index> shape = all[0].shape;
  shape.insert(shape.begin(), static_cast<Index>(all.size()));
  Array out = step.make(all[0].type, std::move(shape), lanes);
  for (Index l = 0; l < lanes; ++l) {
    auto to = out.lane(l).begin();
    auto integers_to = out.integer_lane(l).begin();
    for (const Array& one : all) {
      if (is_floating(one.type))
        to = std::ranges::copy(one.lane(l), to).out;
      else
        integers_to = std::ranges::copy(one.integer_lane(l), integers_to).out;
    }
  }
  return out;
}

}  // namespace

void branch(Step& step) {
  step.outputs = step.evaluated(step.body(decision(step, 0) != 0 ? "then_branch" : "else_branch"), {});
}

void loop(Step& step) {
  const Body& body = step.body("body");
  const Index times = step.maybe(0) == nullptr ? step.most() : decision(step, 0);
  if (times > step.most()) step.refuse("it goes round too often");
  bool goes_on = step.maybe(1) == nullptr || decision(step, 1) != 0;
  std::vector<Array> carried;
  for (std::size_t i = 2; i < step.input_count(); ++i) carried.push_back(step.in(i));
  if (body.inputs.size() != carried.size() + 2 || body.outputs.size() < carried.size() + 1)
    step.refuse("its graph does not take and give what it carries");
  std::vector<std::vector<Array>> gathered(body.outputs.size() - carried.size() - 1);
  for (Index i = 0; i < times && goes_on; ++i) {
    std::vector<Array> given{integers(Type::i64, {}, {i}), integers(Type::boolean, {}, {1})};
    std::ranges::move(carried, std::back_inserter(given));
    std::vector<Array> got = step.evaluated(body, std::move(given));
    const Array& condition = got[0];
    if (condition.type != Type::boolean || condition.size() != 1) step.refuse("its graph gives no condition");
    goes_on = condition.integers[0] != 0;
    if (std::ranges::any_of(condition.integers, [&](std::int64_t one) { return (one != 0) != goes_on; }))
      step.refuse("how often it goes round depends on computed floats");
    std::move(got.begin() + 1, got.begin() + 1 + std::ssize(carried), carried.begin());
    for (std::size_t k = 0; k < gathered.size(); ++k) gathered[k].push_back(std::move(got[carried.size() + 1 + k]));
  }
  step.outputs = std::move(carried);
  for (const auto& one : gathered) step.outputs.push_back(stacked(step, one));
}

}  // namespace attest::graph
