#include "graph/laws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace attest::graph {
namespace {

constexpr double apart = std::numeric_limits<double>::infinity();

bool same_bits(double a, double b) noexcept {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (std::size_t o = 0; o < a.size(); ++o) {
    if (a[o].integers != b[o].integers) return false;
    const auto same = [](double x, double y) { return same_bits(x, y); };
    if (!std::equal(a[o].floats.begin(), a[o].floats.end(), b[o].floats.begin(), same)) return false;
  }
  return true;
}

std::string mismatch_of(const std::vector<Array>& a, const std::vector<Array>& b) {
  if (a.size() != b.size()) return fmt::format("{} outputs and {}", a.size(), b.size());
  for (std::size_t o = 0; o < a.size(); ++o)
    if (a[o].type != b[o].type || a[o].shape != b[o].shape)
      return fmt::format("output {} is {} {} and {} {}", o, name(a[o].type), shape_text(a[o].shape), name(b[o].type),
                         shape_text(b[o].shape));
  return "";
}

double deviations_apart(double a, double b, double s) noexcept {
  if (std::isfinite(a) && std::isfinite(b)) return std::fabs(a - b) / s;
  return same_bits(a, b) ? 0 : apart;
}

void measure(const Model& model, const std::vector<Spread>& spreads, const std::vector<Array>& a,
             const std::vector<Array>& b, Difference& found) {
  found.deviations = 0;
  found.witness.reset();
  for (std::size_t o = 0; o < a.size(); ++o) {
    const bool floating = is_floating(a[o].type);
    const auto& reference = spreads[o].reference;
    for (std::size_t i = 0; i < spreads[o].deviation.size(); ++i) {
      const double s = spreads[o].deviation[i];
      if (!std::isfinite(s) || (floating && !std::isfinite(reference.floats[i]))) continue;
      const double x = floating ? a[o].floats[i] : static_cast<double>(a[o].integers[i]);
      const double y = floating ? b[o].floats[i] : static_cast<double>(b[o].integers[i]);
      const double by = floating ? deviations_apart(x, y, s) : (a[o].integers[i] == b[o].integers[i] ? 0 : apart);
      if (!(by > found.deviations)) continue;
      found.deviations = by;
      found.witness = Witness{model.outputs[o].name, static_cast<Index>(i), y, x, s};
    }
  }
}

// Tells whether axis `k` of an input is the open axis `batch`.
bool is_batch(const Input& input, std::size_t k, const std::string& batch) {
  return !input.shape[k].length && input.shape[k].symbol == batch;
}

// A part of a tensor along its first axis.
Array rows(const Array& x, Index from, Index count) {
  Array part = x;
  part.shape[0] = count;
  const Index row = x.shape[0] == 0 ? 0 : x.size() / x.shape[0];
  const auto take = [from, count, row](auto& values) {
    if (!values.empty()) values = {values.begin() + from * row, values.begin() + (from + count) * row};
  };
  take(part.floats);
  take(part.integers);
  return part;
}

// `more` behind `x`, along the first axis.
void append(Array& x, const Array& more) {
  x.floats.insert(x.floats.end(), more.floats.begin(), more.floats.end());
  x.integers.insert(x.integers.end(), more.integers.begin(), more.integers.end());
  x.shape[0] += more.shape[0];
}

// The samples `taken`, as one batch.
Feeds samples(const Model& model, const Feeds& feeds, const std::string& batch, const std::vector<Index>& taken) {
  Feeds together;
  for (const Input& input : model.inputs) {
    const Array& given = feeds.at(input.name);
    if (input.shape.empty() || !is_batch(input, 0, batch)) {
      together.emplace(input.name, given);
      continue;
    }
    Array some = rows(given, 0, 0);
    for (const Index i : taken) append(some, rows(given, i, 1));
    together.emplace(input.name, std::move(some));
  }
  return together;
}

std::optional<std::vector<Array>> all_alone(const Model& model, const Feeds& feeds, const std::string& batch,
                                            Index count, const Runtime& ask) {
  std::vector<std::vector<Array>> alone;
  for (Index i = 0; i < count; ++i) alone.push_back(ask(sample(model, feeds, batch, i)));
  return joined(alone);
}

// Results of a batch that was changed, each in the order of the whole: one of a batch that was permuted, two of one
// given twice.
using Results = std::optional<std::vector<std::vector<Array>>>;

Results reordered(BatchChange change, const Model& model, const Feeds& feeds, const std::string& batch, Index count,
                  const Runtime& ask) {
  const bool twice = change == BatchChange::duplicated;
  const Index asked = twice ? 2 * count : count;
  std::vector<Index> order;
  for (Index i = 0; i < asked; ++i) order.push_back(twice ? i % count : (i + 1) % count);
  std::vector<std::vector<Array>> results(twice ? 2 : 1);
  for (const Array& one : ask(samples(model, feeds, batch, order))) {
    if (one.shape.empty() || one.shape[0] != asked) return std::nullopt;
    if (twice) {
      results[0].push_back(rows(one, 0, count));
      results[1].push_back(rows(one, count, count));
    } else {
      results[0].push_back(rows(one, count - 1, 1));
      append(results[0].back(), rows(one, 0, count - 1));
    }
  }
  return results;
}

// The results with samples of zeros behind the batch, whose own results say nothing.
Results padded(const Model& model, const Feeds& feeds, const std::string& batch, Index count, const Runtime& ask) {
  Feeds more = feeds;
  for (const Input& input : model.inputs) {
    if (input.shape.empty() || !is_batch(input, 0, batch)) continue;
    Array& given = more.at(input.name);
    std::vector<Index> shape = given.shape;
    shape[0] = padding_samples;
    append(given, zeros(given.type, shape));
  }
  std::vector<std::vector<Array>> results(1);
  for (const Array& one : ask(more)) {
    if (one.shape.empty() || one.shape[0] != count + padding_samples) return std::nullopt;
    results[0].push_back(rows(one, 0, count));
  }
  return results;
}

Results changed(BatchChange change, const Model& model, const Feeds& feeds, const std::string& batch, Index count,
                const Runtime& ask) {
  if (change == BatchChange::padded) return padded(model, feeds, batch, count, ask);
  if (change != BatchChange::alone) return reordered(change, model, feeds, batch, count, ask);
  auto together = all_alone(model, feeds, batch, count, ask);
  if (!together) return std::nullopt;
  return std::vector<std::vector<Array>>{std::move(*together)};
}

// The larger of the differences between `whole` and each of `results`, and which of them it is.
std::pair<Difference, std::size_t> largest_difference(Ensemble& ensemble, const std::vector<Array>& whole,
                                                      const std::vector<std::vector<Array>>& results) {
  Difference worst;
  std::size_t at = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Difference its = difference(ensemble, whole, results[i]);
    its.bits = its.bits && worst.bits;
    if (its.deviations > worst.deviations || !its.mismatch.empty()) {
      worst = std::move(its);
      at = i;
    } else {
      worst.bits = its.bits;
    }
  }
  return {worst, at};
}

}  // namespace

Difference difference(Ensemble& ensemble, const std::vector<Array>& a, const std::vector<Array>& b) {
  Difference found;
  found.mismatch = mismatch_of(a, b);
  if (!found.mismatch.empty()) return {false, apart, std::nullopt, found.mismatch};
  found.bits = same_bits(a, b);
  if (found.bits) return found;
  const auto& few = ensemble.spreads(few_members);
  for (std::size_t o = 0; o < a.size(); ++o)
    if (o >= few.size() || few[o].reference.shape != a[o].shape || few[o].reference.type != a[o].type)
      return {false, apart, std::nullopt, fmt::format("output {} is not of the graph's shape", o)};
  const Model& model = ensemble.program().model();
  measure(model, few, a, b, found);
  if (!(found.deviations <= agreeing_deviations / most_wider))
    measure(model, ensemble.spreads(many_members), a, b, found);
  return found;
}

std::optional<std::string> batch_axis(const Model& model) {
  std::optional<std::string> batch;
  for (const Input& input : model.inputs) {
    if (input.shape.empty() || input.shape[0].length || input.shape[0].symbol.empty()) continue;
    if (batch && *batch != input.shape[0].symbol) return std::nullopt;
    batch = input.shape[0].symbol;
  }
  if (!batch) return std::nullopt;
  for (const Input& input : model.inputs)
    for (std::size_t k = 1; k < input.shape.size(); ++k)
      if (is_batch(input, k, *batch)) return std::nullopt;
  return batch;
}

Feeds sample(const Model& model, const Feeds& feeds, const std::string& batch, Index index) {
  Feeds alone;
  for (const Input& input : model.inputs) {
    const Array& given = feeds.at(input.name);
    const bool has_batch = !input.shape.empty() && is_batch(input, 0, batch);
    alone.emplace(input.name, has_batch ? rows(given, index, 1) : given);
  }
  return alone;
}

std::optional<std::vector<Array>> joined(const std::vector<std::vector<Array>>& samples) {
  if (samples.empty()) return std::nullopt;
  std::vector<Array> whole = samples.front();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].size() != whole.size()) return std::nullopt;
    for (std::size_t o = 0; o < whole.size(); ++o) {
      const Array& one = samples[i][o];
      auto as_one = whole[o].shape;
      if (as_one.empty() || one.type != whole[o].type) return std::nullopt;
      as_one[0] = 1;
      if (one.shape != as_one) return std::nullopt;
      if (i == 0) continue;
      whole[o].floats.insert(whole[o].floats.end(), one.floats.begin(), one.floats.end());
      whole[o].integers.insert(whole[o].integers.end(), one.integers.begin(), one.integers.end());
      ++whole[o].shape[0];
    }
  }
  return whole;
}

std::string_view name(BatchChange change) noexcept {
  constexpr std::string_view names[] = {"alone", "permuted", "duplicated", "padded"};
  return names[static_cast<int>(change)];
}

BatchLaw batch_law(BatchChange change, const Program& program, Ensemble& ensemble, const Feeds& feeds,
                   const std::vector<Array>& whole, const Runtime& runtime) {
  const Model& model = program.model();
  const auto batch = batch_axis(model);
  if (!batch) return {"no open axis is the first of the inputs alone", {}, {}};
  Index count = 1;
  for (const Input& input : model.inputs)
    if (!input.shape.empty() && is_batch(input, 0, *batch)) count = feeds.at(input.name).shape[0];
  if (count < 2 && (change == BatchChange::alone || change == BatchChange::permuted))
    return {"the batch is one sample", {}, {}};

  // The reference's own difference is none, unless samples do depend on each other.
  const auto by_reference =
      changed(change, model, feeds, *batch, count, [&program](const Feeds& one) { return program.run(one); });
  if (!by_reference ||
      !(largest_difference(ensemble, program.run(feeds), *by_reference).first.deviations <= no_deviation))
    return {"samples of this graph depend on each other", {}, {}};
  auto by_runtime = changed(change, model, feeds, *batch, count, runtime);
  if (!by_runtime) return {"", {false, apart, std::nullopt, "the results of a changed batch have another shape"}, {}};
  auto [worst, at] = largest_difference(ensemble, whole, *by_runtime);
  return {"", std::move(worst), by_runtime->empty() ? std::vector<Array>() : std::move((*by_runtime)[at])};
}

}  // namespace attest::graph
