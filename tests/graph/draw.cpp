#include "tests/graph/draw.hpp"

#include <cmath>
#include <map>

#include "core/rng.hpp"
#include "graph/read.hpp"

namespace attest::graph::test {

std::uint64_t Draw::bits() { return extend(seed_, count_++); }

Index Draw::below(Index n) { return static_cast<Index>(attest::below(bits(), static_cast<std::uint64_t>(n))); }

namespace {

enum class Regime { normal, normal_again, uniform, offset, big_offset, wide, large, tiny, integers, constant, sparse };

double value(Draw& draw, Regime regime, bool half, double offset, double all) {
  const double x = normal(draw.bits());
  switch (regime) {
    case Regime::uniform:
      return (symmetric_uniform(draw.bits()) + 1) / 2;
    case Regime::offset:
      return x + offset;
    case Regime::big_offset:
      return x + (half ? 500 : 1e4);
    case Regime::wide:
      return std::ldexp(x, static_cast<int>(draw.below(half ? 20 : 24)) - 12);
    case Regime::large:
      return x * (half ? 30 : 100);
    case Regime::tiny:
      return x * (half ? 1e-3 : 1e-20);
    case Regime::integers:
      return static_cast<double>(draw.below(9)) - 4;
    case Regime::constant:
      return all;
    case Regime::sparse:
      return draw.below(5) == 0 ? x : 0;
    default:
      return x;
  }
}

// Kept keys: a tenth, half or most of them, the first one mostly.
Array kept(Draw& draw, std::vector<Index> shape) {
  Array keep = zeros(Type::boolean, std::move(shape));
  const Index share = draw.among({1, 5, 9});
  const auto row = static_cast<std::size_t>(keep.shape.back());
  for (std::size_t i = 0; i < keep.integers.size(); ++i)
    keep.integers[i] = draw.below(10) < share || (i % row == 0 && draw.below(5) > 0) ? 1 : 0;
  return keep;
}

Index length(Draw& draw, const std::string& symbol) {
  if (symbol == "batch") return 1 + draw.below(3);
  if (symbol == "heads") return 1 + draw.below(4);
  if (symbol == "queries") return 1 + draw.below(19);
  if (symbol == "keys") return draw.among({1, 2, 3, 7, 16, 17, 33, 64, 130, 300});
  if (symbol == "dim_v") return draw.among({1, 4, 8, 16, 33});
  return 1 + draw.below(24);  // rows, length
}

Array input(Draw& draw, const std::string& model, const Input& of, const std::vector<Index>& shape) {
  if (of.type == Type::boolean) return kept(draw, shape);
  if (of.name == "mask" && of.type == Type::i64) {  // the first tokens of each sequence
    Array mask = zeros(of.type, shape);
    for (Index b = 0; b < shape[0]; ++b) {
      const Index count = 1 + draw.below(shape[1]);
      std::fill_n(mask.integers.begin() + b * shape[1], count, 1);
    }
    return mask;
  }
  if (of.name == "mask") {  // an addend
    Array keep = kept(draw, shape), mask = zeros(of.type, shape);
    const double out = draw.below(2) == 0 ? -1e4 : -largest_finite(format_of(of.type));
    for (std::size_t i = 0; i < mask.floats.size(); ++i)
      mask.floats[i] = keep.integers[i] != 0 ? 0 : round_to(format_of(of.type), out);
    return mask;
  }
  if (of.type == Type::i64) {
    Array ids = zeros(of.type, shape);
    for (auto& id : ids.integers) id = draw.below(model == "encoder" ? 24 : 1);
    return ids;
  }
  return values(draw, of.type, shape);
}

}  // namespace

Array values(Draw& draw, Type type, std::vector<Index> shape) {
  const auto regime = static_cast<Regime>(draw.below(11));
  const bool half = type == Type::f16;
  const double offset = draw.below(2) == 0 ? 10 : 100, all = normal(draw.bits());
  Array x = zeros(type, std::move(shape));
  for (double& v : x.floats) v = round_to(format_of(type), value(draw, regime, half, offset, all));
  return x;
}

const std::vector<std::string>& models() {
  static const std::vector<std::string> names{
      "attention-queries", "attention-scores", "attention-both", "attention-division", "attention-f16", "norm",
      "norm-op",           "encoder"};
  return names;
}

Model model(const std::string& name) {
  return load_model(std::string(ATTEST_SOURCE_DIR "/tests/graph/models/") + name + ".onnx");
}

Feeds problem(const std::string& name, const Model& model, std::uint64_t seed) {
  Draw draw(seed);
  std::map<std::string, Index> symbols;
  Feeds feeds;
  for (const Input& of : model.inputs) {
    std::vector<Index> shape;
    for (const Dimension& axis : of.shape) {
      if (axis.length) {
        shape.push_back(*axis.length);
        continue;
      }
      const auto [at, fresh] = symbols.try_emplace(axis.symbol, 0);
      if (fresh) at->second = length(draw, axis.symbol);
      shape.push_back(at->second);
    }
    feeds.emplace(of.name, input(draw, name, of, shape));
  }
  return feeds;
}

}  // namespace attest::graph::test
