#include <algorithm>
#include <utility>

#include "engine/shrink/candidates.hpp"

namespace attest::engine {
std::vector<Problem> smaller_shapes(const Problem& p, const Supports& supports) {
  std::vector<Problem> to_simplest, halved, by_one, shapes;
  Problem least = p;
  for (const Dimension& dimension : p.op().dimensions()) {
    const Rungs by = dimension.rungs(p, supports);
    Problem shape = p;
    dimension.set(shape, by.least);
    if (dimension.other_way || work_of(shape) >= work_of(p)) continue;
    to_simplest.push_back(std::move(shape));
    dimension.set(least, by.least);
    if (const Index steps = (dimension.get(p) - by.least) / by.unit; steps > 3)
      dimension.set(halved.emplace_back(p), by.least + steps / 2 * by.unit);
    dimension.set(by_one.emplace_back(p), dimension.get(p) - by.unit);
  }
  const auto add = [&](const Problem& shape) {
    if (work_of(shape) < work_of(p) && std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  };
  add(least);
  std::ranges::for_each(to_simplest, add);
  if (const auto telling = p.op().least_telling(least)) add(*telling);
  std::ranges::for_each(halved, add);
  std::ranges::for_each(by_one, add);
  return shapes;
}

}  // namespace attest::engine
