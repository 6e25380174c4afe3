#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>
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
    if (one.sequence) step.refuse("it gathers sequences");
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
  for (std::size_t i = 2; i < step.input_count(); ++i) carried.push_back(step.any(i));
  if (body.inputs.size() != carried.size() + 2 || body.outputs.size() < carried.size() + 1)
    step.refuse("its graph does not take and give what it carries");
  std::vector<std::vector<Array>> gathered(body.outputs.size() - carried.size() - 1);
  for (Index i = 0; i < times && goes_on; ++i) {
    std::vector<Array> given{integers(Type::i64, {}, {i}), integers(Type::boolean, {}, {1})};
    std::ranges::move(carried, std::back_inserter(given));
    std::vector<Array> got = step.evaluated(body, std::move(given));
    const Array& condition = got[0];
    if (condition.sequence || condition.type != Type::boolean || condition.size() != 1)
      step.refuse("its graph gives no condition");
    goes_on = condition.integers[0] != 0;
    if (std::ranges::any_of(condition.integers, [&](std::int64_t one) { return (one != 0) != goes_on; }))
      step.refuse("how often it goes round depends on computed floats");
    std::move(got.begin() + 1, got.begin() + 1 + std::ssize(carried), carried.begin());
    for (std::size_t k = 0; k < gathered.size(); ++k) gathered[k].push_back(std::move(got[carried.size() + 1 + k]));
  }
  step.outputs = std::move(carried);
  for (const auto& one : gathered) step.outputs.push_back(stacked(step, one));
}

// States are handed on from turn to turn; inputs that are scanned are handed over in slices along an axis of each.
void scan(Step& step) {
  if (step.opset() < 9) step.refuse("Scan is evaluated from version 9 on");
  const Body& body = step.body("body");
  const Index scans = step.integer("num_scan_inputs", 0), states = static_cast<Index>(step.input_count()) - scans;
  const Index results = std::ssize(body.outputs) - states;
  if (scans < 1 || states < 0 || results < 0 || body.inputs.size() != step.input_count())
    step.refuse("its graph does not take and give what it carries");
  const auto listed = [&](std::string_view attribute, Index count) {
    auto list = step.integers(attribute).value_or(std::vector<Index>(static_cast<std::size_t>(count), 0));
    if (std::ssize(list) != count) step.refuse(fmt::format("its {} are not as many as it has", attribute));
    return list;
  };
  std::vector<Index> axes = listed("scan_input_axes", scans);
  const auto turned = listed("scan_input_directions", scans), to = listed("scan_output_axes", results),
             turned_out = listed("scan_output_directions", results);
  std::vector<Array> carried;
  for (Index i = 0; i < states; ++i) carried.push_back(step.any(static_cast<std::size_t>(i)));
  Index times = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& shape = step.shape(static_cast<std::size_t>(states) + i);
    axes[i] = step.axis(axes[i], std::ssize(shape));
    const Index length = shape[static_cast<std::size_t>(axes[i])];
    if (i > 0 && length != times) step.refuse(fmt::format("it scans {} and {} times", times, length));
    times = length;
  }
  std::vector<std::vector<Array>> gathered(static_cast<std::size_t>(results));
  for (Index t = 0; t < times; ++t) {
    std::vector<Array> given = std::move(carried);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const Array& x = step.in(static_cast<std::size_t>(states) + i);
      given.push_back(section(step, x, static_cast<std::size_t>(axes[i]), turned[i] != 0 ? times - 1 - t : t, 1));
      given.back().shape.erase(given.back().shape.begin() + axes[i]);
    }
    std::vector<Array> got = step.evaluated(body, std::move(given));
    for (std::size_t k = 0; k < gathered.size(); ++k)
      gathered[k].push_back(std::move(got[static_cast<std::size_t>(states) + k]));
    got.resize(static_cast<std::size_t>(states));
    carried = std::move(got);
  }
  step.outputs = std::move(carried);
  for (std::size_t k = 0; k < gathered.size(); ++k) {
    if (turned_out[k] != 0) std::ranges::reverse(gathered[k]);
    Array all = stacked(step, gathered[k]);
    std::vector<Index> order(all.shape.size());  // the first axis goes to its place
    std::iota(order.begin(), order.end(), Index{0});
    std::rotate(order.begin(), order.begin() + 1, order.begin() + step.axis(to[k], all.rank()) + 1);
    step.outputs.push_back(transposed(step, all, order));
  }
}

}  // namespace attest::graph
