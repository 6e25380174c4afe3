#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

// Tiles of kernels end far below.
constexpr Index most_tile = Index{1} << 20;

class Collector {
 public:
  Collector(const Problem& from, const ShrinkLimits& limits) : from_(from), limits_(limits) {}

  void add(Problem changed, std::string change) {
    std::optional<Problem> fitted = fit(from_, std::move(changed), limits_);
    if (!fitted) return;
    const auto same = [&](const Candidate& other) { return other.problem == *fitted; };
    if (std::ranges::none_of(found, same)) found.push_back({std::move(*fitted), std::move(change)});
  }

  std::vector<Candidate> found;

 private:
  const Problem& from_;
  const ShrinkLimits& limits_;
};

void add_dimension(Collector& out, const Problem& p, const Dimension& dimension, const Supports& supports) {
  const Index n = dimension.get(p);
  const Rungs by = dimension.rungs(p, supports);
  const Index least = by.least, unit = by.unit;
  const auto to = [&](Index m) {
    Problem changed = p;
    dimension.set(changed, m);
    out.add(std::move(changed), fmt::format("{}: {} -> {}", dimension.name, n, m));
  };
  if (n == least) return;
  if (dimension.other_way) {
    if (n > least) to(n - unit);
    return;
  }
  to(least);
  if (n < least) return;
  // The same remainder of a tile.
  for (Index tile = 2; tile < n && tile <= most_tile; tile *= 2)
    if (const Index rest = n % tile; rest > least && (rest - least) % unit == 0) to(rest);
  const Index steps = by.steps(n);
  if (steps > 3) to(least + steps / 2 * unit);
  if (steps > 1) to(n - unit);
}

void add_labels(Collector& out, const Problem& p, const Field& field) {
  const Index now = field.get(p);
  for (const Index step : field.ladder) {
    if (step == now) return;
    if (field.idle(p, step)) continue;
    Problem changed = p;
    field.set(changed, step);
    const auto text = [&](Index value) {
      return field.labels.empty() ? std::to_string(value) : std::string(field.labels[static_cast<std::size_t>(value)]);
    };
    out.add(std::move(changed), fmt::format("{}: {} -> {}", field.name, text(now), text(step)));
  }
}

// The difficulty of a number to a reader: 1 before powers of two before two significant bits before anything.
int difficulty(double x) {
  const double magnitude = std::fabs(x);
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  const int sign = x < 0 ? 1 : 0;
  if (magnitude == 0) return 1;
  if (magnitude == 1) return 2 + sign;
  if (fraction == 0.5) return 4 + sign;
  if (fraction == 0.75) return 6 + sign;
  return 8 + sign;
}

void add_real(Collector& out, const Problem& p, const Field& field) {
  const std::optional<double> now = field.get_real(p), simplest = field.get_real(p.op().defaults());
  if (now == simplest) return;
  const auto text = [](std::optional<double> x) { return x ? fmt::format("{}", *x) : std::string("default"); };
  const auto to = [&](std::optional<double> x) {
    Problem changed = p;
    field.set_real(changed, x);
    out.add(std::move(changed), fmt::format("{}: {} -> {}", field.name, text(now), text(x)));
  };
  to(simplest);
  if (!now || !std::isfinite(*now) || *now == 0) return;
  const double power = std::copysign(std::exp2(std::floor(std::log2(std::fabs(*now)))), *now);
  for (const double x : {1.0, -1.0, power, power * 1.5})
    if (difficulty(x) < difficulty(*now)) to(x);
  // A power of two comes nearer to 1 by halves of its exponent, then by one.
  if (power == *now && std::fabs(*now) != 1) {
    const int exponent = std::ilogb(*now);
    for (const int nearer : {exponent / 2, exponent - (exponent > 0 ? 1 : -1)})
      if (nearer != exponent && nearer != 0) to(std::copysign(std::ldexp(1.0, nearer), *now));
  }
}

// The steps behind the dimensions: fields, labels before numbers, and what is no field.
struct Step {
  void (*add_field)(Collector&, const Problem&, const Field&) = nullptr;
  const Field* field = nullptr;
  Op::Neighbours further = nullptr;
};
std::vector<Step> make_steps(const Op& op) {
  std::vector<Step> found;
  for (const Field& field : op.fields())
    if (!field.ladder.empty()) found.push_back({add_labels, &field});
  for (const Field& field : op.fields())
    if (field.kind == FieldKind::real) found.push_back({add_real, &field});
  for (const Op::Neighbours further : op.further_neighbours()) found.push_back({nullptr, nullptr, further});
  return found;
}
const std::vector<Step>& further_steps(const Op& op) {
  static const std::map<const Op*, std::vector<Step>> all = [] {
    std::map<const Op*, std::vector<Step>> steps;
    for (const Op* each : ops::all_ops()) steps[each] = make_steps(*each);
    return steps;
  }();
  return all.at(&op);
}

}  // namespace

std::size_t steps(const Op& op) { return op.dimensions().size() + further_steps(op).size(); }

std::vector<Candidate> neighbours(std::size_t step, const Problem& p, const ShrinkLimits& limits) {
  Collector out(p, limits);
  const std::vector<Dimension>& dimensions = p.op().dimensions();
  if (step < dimensions.size()) {
    add_dimension(out, p, dimensions[step], limits.supports);
  } else if (const Step& further = further_steps(p.op())[step - dimensions.size()]; further.field) {
    further.add_field(out, p, *further.field);
  } else {
    for (Candidate& candidate : further.further(p)) out.add(std::move(candidate.problem), std::move(candidate.change));
  }
  return std::move(out.found);
}

std::vector<Candidate> neighbours(const Problem& p, const ShrinkLimits& limits) {
  std::vector<Candidate> all;
  for (std::size_t step = 0; step < steps(p.op()); ++step)
    for (Candidate& candidate : neighbours(step, p, limits))
      if (std::ranges::none_of(all, [&](const Candidate& other) { return other.problem == candidate.problem; }))
        all.push_back(std::move(candidate));
  return all;
}

}  // namespace attest::engine
