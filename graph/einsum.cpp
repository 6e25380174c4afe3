#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "graph/operators.hpp"
#include "graph/shapes.hpp"

namespace attest::graph {
namespace {

// A tensor whose axes have letters; those of an ellipsis are characters below ' '.
struct Lettered {
  Array x;
  std::string axes;
};

bool has(std::string_view letters, char one) { return letters.find(one) != std::string_view::npos; }

// "ij,...jk->..." with spaces taken out, and the letters of the ellipsis put in: the last `rank` of them.
std::string with_ellipsis(std::string term, Index rank) {
  std::string letters;
  for (Index k = rank; k-- > 0;) letters.push_back(static_cast<char>(k + 1));
  if (const auto at = term.find("..."); at != std::string::npos) term.replace(at, 3, letters);
  return term;
}

// The axes in the order given; one that x has not is of length 1, one that it has twice its diagonal.
Array ordered(const Step& step, const Lettered& from, std::string_view axes) {
  const auto strides = strides_of(from.x.shape);
  std::vector<Index> shape(axes.size(), 1), steps(axes.size(), 0);
  for (std::size_t k = 0; k < from.axes.size(); ++k) {
    const std::size_t at = axes.find(from.axes[k]);
    if (at == std::string_view::npos) continue;
    const Index length = from.x.shape[k];
    if (steps[at] != 0 && shape[at] != length) step.refuse("axes of one letter differ in length");
    shape[at] = length;
    steps[at] += strides[k];
  }
  return gathered(step, from.x, std::move(shape), 0, steps);
}

// Sums over the axes that are not in `kept`.
Lettered summed(Step& step, Lettered from, std::string_view kept) {
  std::string order, gone;
  for (const char axis : from.axes) {
    std::string& to = has(kept, axis) ? order : gone;
    if (!has(to, axis)) to.push_back(axis);
  }
  const auto left = static_cast<Index>(order.size());
  Array x = ordered(step, from, order + gone);
  if (!gone.empty()) {
    std::vector<std::int64_t> axes(gone.size());
    for (std::size_t k = 0; k < axes.size(); ++k) axes[k] = left + static_cast<Index>(k);
    const Array where = integers(Type::i64, {static_cast<Index>(axes.size())}, axes);
    x = step.part(reduce_sum, {&x, &where}, {{"keepdims", std::int64_t{0}}});
  }
  return {std::move(x), std::move(order)};
}

// A product of matrices: batch axes that both have and that are kept, rows of a, columns of b, and the axes between,
// which both have.
Lettered product(Step& step, Lettered a, Lettered b, std::string_view kept) {
  std::string needed_a = std::string(kept) + b.axes, needed_b = std::string(kept) + a.axes;
  a = summed(step, std::move(a), needed_a);
  b = summed(step, std::move(b), needed_b);
  std::string batch, rows, columns, between;
  for (const char axis : a.axes) (!has(b.axes, axis) ? rows : has(kept, axis) ? batch : between).push_back(axis);
  for (const char axis : b.axes)
    if (!has(a.axes, axis)) columns.push_back(axis);
  std::map<char, Index> length;
  for (const Lettered* const one : {&a, &b})
    for (std::size_t k = 0; k < one->axes.size(); ++k) {
      Index& known = length.emplace(one->axes[k], one->x.shape[k]).first->second;
      if (known == 1) known = one->x.shape[k];
      if (one->x.shape[k] != known && one->x.shape[k] != 1) step.refuse("axes of one letter differ in length");
    }
  std::vector<Index> shape;
  const auto volume = [&](std::string_view axes) {
    Index all = 1;
    for (const char axis : axes) all *= length[axis];
    return all;
  };
  const auto as = [&](const Lettered& from, const std::string& axes, std::vector<Index> flat) {
    std::vector<Index> whole;
    for (const char axis : axes) whole.push_back(length[axis]);
    Array x = broadcast_to(step, ordered(step, from, axes), std::move(whole));
    x.shape = std::move(flat);
    return x;
  };
  const Index m = volume(rows), n = volume(columns), k = volume(between), count = volume(batch);
  const Array left = as(a, batch + rows + between, {count, m, k}),
              right = as(b, batch + between + columns, {count, k, n});
  Array out = k == 1 && between.empty() ? step.part(multiply, {&left, &right}, {})
                                        : step.part(matrix_product, {&left, &right}, {});
  std::string axes = batch + rows + columns;
  for (const char axis : axes) shape.push_back(length[axis]);
  out.shape = std::move(shape);
  return {std::move(out), std::move(axes)};
}

}  // namespace

void einsum(Step& step) {
  std::string equation = step.text("equation", "");
  std::erase(equation, ' ');
  const auto arrow = equation.find("->");
  std::vector<std::string> terms{""};
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back().push_back(c);
  }
  if (terms.size() != step.input_count()) step.refuse(fmt::format("{} inputs of '{}'", step.input_count(), equation));
  Index widest = 0;  // most axes of an ellipsis
  std::vector<Lettered> operands;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const bool open = terms[i].find("...") != std::string::npos;
    const Index rank = step.in(i).rank() - static_cast<Index>(terms[i].size()) + (open ? 3 : 0);
    if (rank < 0 || (rank > 0 && !open) || rank > 20)
      step.refuse(fmt::format("{} as '{}'", shape_text(step.in(i).shape), terms[i]));
    widest = std::max(widest, rank);
    operands.push_back({step.in(i), with_ellipsis(terms[i], rank)});
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = with_ellipsis(equation.substr(arrow + 2), widest);
  } else {  // the ellipsis, and letters that come once, in their order
    std::string all;
    for (const std::string& term : terms) all += term;
    for (char c = 'A'; c <= 'z'; ++c)
      if (std::ranges::count(all, c) == 1) result.push_back(c);
    result.insert(0, with_ellipsis("...", widest));
  }
  for (std::size_t i = 0; i < result.size(); ++i)
    if (std::ranges::none_of(operands, [&](const Lettered& one) { return has(one.axes, result[i]); }) ||
        result.find(result[i], i + 1) != std::string::npos)
      step.refuse(fmt::format("'{}' is no equation of its inputs", equation));
  Lettered all = std::move(operands.front());
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string kept = result;  // axes that the result or a later operand needs
    for (std::size_t later = i + 1; later < operands.size(); ++later) kept += operands[later].axes;
    all = product(step, std::move(all), std::move(operands[i]), kept);
  }
  all = summed(step, std::move(all), result);
  step.outputs.push_back(ordered(step, all, result));
}

}  // namespace attest::graph
