#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "graph/read.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::models::test {

// An attention block as graphs spell it. `wrong` names an error: another graph of the same inputs and outputs, which
// stands for the results of a runtime that computes another function, or for a graph that looks like a block and is
// another one.
struct BlockSpelling {
  graph::Type type = graph::Type::f32;
  // add, gemm (gemm-plain: with weights that are not transposed), packed-split, packed-slice, packed-gather,
  // packed-heads (q, k and v of a head side by side), none (no bias).
  std::string projections = "add";
  std::string heads = "four";    // four axes; three (batch and heads in one), tokens-first (x and out likewise)
  std::string scale = "scores";  // scores, divided, queries, keys, both, early (before heads are split), none
  std::string mask;              // add, where
  std::string core = "spelt";    // spelt, operator
  bool cross = false, shared_kv = false, out_bias = true, cast = false;
  Index kv_heads = 2;  // heads of queries: two
  // Draws another order of the columns of q, k, v and of the heads; an odd one repeats some columns, and omits others.
  std::uint64_t shuffle = 0;
  std::string wrong;
};

constexpr Index block_width = 6, block_heads = 2, block_head = 4;  // heads wider than what is projected

class BlockFile {
 public:
  explicit BlockFile(const BlockSpelling& spelling) : s_(spelling) { make(); }
  graph::test::File file;

 private:
  using Names = std::vector<std::string>;
  using List = std::vector<std::int64_t>;

  static constexpr std::int64_t heads_ = block_heads, d_ = block_head;

  [[nodiscard]] bool is(const char* wrong) const { return s_.wrong == wrong; }

  // Weights by their names, so that a wrong graph has the right one's.
  std::string parameter(std::uint64_t key, const List& shape, double size) {
    std::int64_t count = 1;
    for (const auto n : shape) count *= n;
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(round_to(graph::format_of(s_.type),
                                size * symmetric_uniform(extend(mix(key), static_cast<std::uint64_t>(i)))));
    return file.constant(graph::floats(s_.type, {shape.begin(), shape.end()}, std::move(values)));
  }
  std::string transposed(const std::string& x, const List& order) {
    return file("Transpose", {x}, {graph::test::attr("perm", order)});
  }
  std::string reshaped(const std::string& x, const List& shape) { return file("Reshape", {x, file.axes(shape)}); }
  std::string scaled(const std::string& x, double by) {
    return file("Mul", {x, file.scalar(round_to(graph::format_of(s_.type), by), s_.type)});
  }

  // [.., width] to [.., n].
  std::string linear(std::string x, std::uint64_t key, std::int64_t in, std::int64_t n, bool biased,
                     const char* dropped, const std::string& name = {}) {
    const bool gemm = s_.projections.starts_with("gemm"), transposed_weight = s_.projections == "gemm";
    const std::string w = parameter(key, transposed_weight ? List{n, in} : List{in, n}, 0.9);
    const bool drops = is(dropped);
    const std::string b = biased && !drops ? parameter(key + 100, {n}, 0.5) : "";
    if (!gemm) {
      x = file("MatMul", {x, w}, {}, b.empty() ? name : "");
      return b.empty() ? x : file("Add", {x, b}, {}, name);
    }
    // Rows of all samples are one axis there.
    const std::string shape = file("Shape", {x});
    const std::string leading = file("Slice", {shape, file.axes({0}), file.axes({2})});
    x = file("Gemm", b.empty() ? Names{reshaped(x, {-1, in}), w} : Names{reshaped(x, {-1, in}), w, b},
             {graph::test::attr("transB", std::int64_t{transposed_weight})}, name);
    return file("Reshape",
                {x, file("Concat", {leading, file.axes({n})}, {graph::test::attr("axis", std::int64_t{0})})});
  }

  // The same columns in another order.
  std::string shuffled(const std::string& x, std::uint64_t key, std::int64_t n) {
    if (s_.shuffle == 0) return x;
    List order;
    for (std::int64_t i = 0; i < n; ++i) order.push_back(i);
    for (std::int64_t i = n - 1; i > 0; --i)
      std::swap(order[static_cast<std::size_t>(i)],
                order[below(extend(mix(s_.shuffle + key), static_cast<std::uint64_t>(i)),
                            static_cast<std::uint64_t>(i + 1))]);
    if (s_.shuffle % 2 == 1) order[1] = order[0];
    return file("Gather", {x, file.axes(order)}, {graph::test::attr("axis", std::int64_t{2})});
  }

  // [batch, tokens, heads * d] as attention reads it: heads before tokens.
  std::string split(const std::string& x, std::int64_t heads, bool of_k) {
    if (s_.core == "operator") return x;
    std::string four;
    if (is("rows-mixed")) {  // as if heads came before tokens
      four = reshaped(x, {0, heads, -1, d_});
      return of_k ? transposed(four, {0, 1, 3, 2}) : four;
    }
    if (s_.heads == "three") {
      // Batch and heads in one axis.
      four = transposed(reshaped(x, {0, 0, heads, d_}), {0, 2, 1, 3});
      const std::string three = file("Reshape", {four, three_shape(four)});
      return of_k ? transposed(three, {0, 2, 1}) : three;
    }
    const bool first = s_.heads == "tokens-first";
    four = reshaped(x, {0, 0, heads, d_});
    if (heads < heads_) {  // each head of keys for two of queries
      four = file("Unsqueeze", {four, file.axes({3})});
      four = file("Expand", {four, file.axes({1, 1, 1, heads_ / heads, 1})});
      four = reshaped(four, {0, 0, heads_, d_});
    }
    if (of_k) return transposed(four, first ? List{1, 2, 3, 0} : List{0, 2, 3, 1});
    return transposed(four, first ? List{1, 2, 0, 3} : List{0, 2, 1, 3});
  }
  std::string three_shape(const std::string& four) {
    const std::string shape = file("Shape", {four});
    const std::string rest = file("Slice", {shape, file.axes({2}), file.axes({4})});
    return file("Concat", {file.axes({-1}), rest}, {graph::test::attr("axis", std::int64_t{0})});
  }

  Names projected() {
    const std::int64_t all = heads_ * d_, kv = s_.kv_heads * d_;
    const bool biased = s_.projections != "none";
    const std::string memory = s_.cross ? "memory" : "x";
    if (!s_.projections.starts_with("packed")) {
      const std::uint64_t of_k = s_.shared_kv ? 3 : 2;
      const std::string q = linear("x", 1, block_width, all, biased, "no-b_q"),
                        k = linear(memory, of_k, block_width, kv, biased, "no-b_k"),
                        v = s_.shared_kv ? k : linear(memory, 3, block_width, kv, biased, "no-b_v");
      return is("k-for-v") ? Names{q, k, k} : Names{q, k, v};
    }
    std::string packed = linear("x", 1, block_width, 3 * all, true, "no-b_q");
    const auto piece = [&](std::int64_t n) {
      return file("Slice", {packed, file.axes({n * all}), file.axes({(n + 1) * all}), file.axes({2})});
    };
    const auto picked = [&](const std::string& x, std::int64_t n, std::int64_t axis) {
      return file("Gather", {x, file.constant(graph::integers(graph::Type::i64, {}, {n}))},
                  {graph::test::attr("axis", axis)});
    };
    Names three;
    if (s_.projections == "packed-split") {
      file.nodes.push_back({"Split",
                            {packed, file.axes({all, all, all})},
                            {"part_q", "part_k", "part_v"},
                            {graph::test::attr("axis", std::int64_t{2})},
                            ""});
      three = {"part_q", "part_k", "part_v"};
    }
    if (s_.projections == "packed-slice")
      for (const std::int64_t n : {0, 1, 2}) three.push_back(piece(n));
    if (s_.projections == "packed-gather") {
      packed = transposed(reshaped(packed, {0, 0, 3, all}), {2, 0, 1, 3});
      for (const std::int64_t n : {0, 1, 2}) three.push_back(picked(packed, n, 0));
    }
    if (s_.projections == "packed-heads") {
      packed = reshaped(packed, {0, 0, heads_, 3, d_});
      for (const std::int64_t n : {0, 1, 2}) three.push_back(reshaped(picked(packed, n, 3), {0, 0, all}));
    }
    if (is("packed-misread")) std::swap(three[1], three[2]);
    return three;
  }

  std::string attended(const std::string& q, const std::string& k, const std::string& v) {
    const double scale = 0.40625, root = std::sqrt(scale);
    if (s_.core == "operator") {
      Names names{q, k, v};
      if (!s_.mask.empty()) names.push_back("mask");
      return file("Attention", names,
                  {graph::test::attr("scale", is("scale") ? 0.5 : scale), graph::test::attr("q_num_heads", heads_),
                   graph::test::attr("kv_num_heads", s_.kv_heads)});
    }
    std::string a = s_.scale == "queries" ? scaled(q, scale) : s_.scale == "both" ? scaled(q, root) : q;
    std::string b = s_.scale == "keys" ? scaled(k, scale) : s_.scale == "both" ? scaled(k, root) : k;
    std::string x = file("MatMul", {a, b});
    if (is("mask-before-scale")) x = file("Add", {x, "mask"});
    if (is("scale-twice") || is("scale")) x = scaled(x, 0.75);
    if (s_.scale == "scores") x = scaled(x, scale);
    if (s_.scale == "divided") x = file("Div", {x, file.scalar(2.5, s_.type)});
    if (s_.mask == "add" && !is("mask-before-scale")) x = file("Add", {x, "mask"});
    if (s_.mask == "where") {
      const auto closed =
          file.scalar(s_.type == graph::Type::f16 ? -65504 : -std::numeric_limits<double>::infinity(), s_.type);
      x = file("Where", is("mask-inverted") ? Names{"mask", closed, x} : Names{"mask", x, closed});
    }
    if (s_.cast) x = file("Cast", {x}, {graph::test::attr("to", std::int64_t{1})});
    if (is("softmax-f16")) x = file("Cast", {x}, {graph::test::attr("to", std::int64_t{10})});
    x = file("Softmax", {x}, {graph::test::attr("axis", std::int64_t{-1})});
    if (is("softmax-f16")) x = file("Cast", {x}, {graph::test::attr("to", std::int64_t{1})});
    if (s_.cast) x = file("Cast", {x}, {graph::test::attr("to", std::int64_t{10})});
    return file("MatMul", {x, v});
  }

  std::string joined(std::string o) {
    if (s_.core == "operator") return o;
    const std::int64_t all = heads_ * d_;
    if (s_.heads == "three") o = unfolded(o);
    if (is("merge-mixed"))
      return file("Reshape",
                  {o, file("Concat",
                           {file.axes({0}), file("Slice", {file("Shape", {o}), file.axes({2}), file.axes({3})}),
                            file.axes({all})},
                           {graph::test::attr("axis", std::int64_t{0})})});
    if (is("head-leak")) {  // the second head is the first one, too
      const std::string first = file("Gather", {o, file.axes({0})}, {graph::test::attr("axis", std::int64_t{1})});
      o = file("Concat", {first, first}, {graph::test::attr("axis", std::int64_t{1})});
    }
    if (is("heads-untransposed")) return file("Reshape", {transposed(o, {0, 2, 3, 1}), file.axes({0, 0, all})});
    if (is("heads-swapped")) o = file("Gather", {o, file.axes({1, 0})}, {graph::test::attr("axis", std::int64_t{1})});
    o = transposed(o, s_.heads == "tokens-first" ? List{2, 0, 1, 3} : List{0, 2, 1, 3});
    return reshaped(o, {0, 0, all});
  }
  // [batch * heads, tokens, d] to four axes.
  std::string unfolded(const std::string& x) {
    const std::string shape = file("Slice", {file("Shape", {x}), file.axes({1}), file.axes({2})});
    return file("Reshape", {x, file("Concat", {file.axes({-1, heads_}), shape, file.axes({d_})},
                                    {graph::test::attr("axis", std::int64_t{0})})});
  }

  void make() {
    using graph::test::FileInput;
    if (s_.core == "operator") file.opset = 23;
    const bool first = s_.heads == "tokens-first";
    const std::vector<graph::test::Axis> x{first ? "tokens" : "batch", first ? "batch" : "tokens", block_width},
        memory{first ? "keys" : "batch", first ? "batch" : "keys", block_width};
    const char* const keys = s_.cross ? "keys" : "tokens";
    file.inputs.push_back({"x", s_.type, x});
    if (s_.cross) file.inputs.push_back({"memory", s_.type, memory});
    const bool flags = s_.mask == "where";
    if (!s_.mask.empty() && s_.heads == "three")
      file.inputs.push_back({"mask", flags ? graph::Type::boolean : s_.type, {1, "tokens", keys}});
    else if (!s_.mask.empty())
      file.inputs.push_back({"mask", flags ? graph::Type::boolean : s_.type, {"batch", 1, "tokens", keys}});
    Names three = projected();
    if (s_.scale == "early") three[0] = scaled(three[0], 0.40625);
    const std::int64_t kv = s_.kv_heads;
    for (std::uint64_t n = 0; n < 3; ++n) three[n] = shuffled(three[n], n, n == 0 ? heads_ * d_ : kv * d_);
    std::string o =
        joined(attended(split(three[0], heads_, false), split(three[1], kv, true), split(three[2], kv, false)));
    if (!is("other-order")) o = shuffled(o, 3, heads_ * d_);
    const std::string out = linear(o, 4, heads_ * d_, block_width, s_.out_bias, "no-b_out", "out");
    file("Mul", {out, file.scalar(0.5, s_.type)}, {}, "y");
    file.outputs = {"y"};
  }

  BlockSpelling s_;
};

inline graph::Model block(const BlockSpelling& spelling) {
  return graph::read_model(BlockFile(spelling).file.bytes(), "block");
}

inline std::string described(const BlockSpelling& s) {
  return s.projections + ", " + s.heads + ", " + s.scale + ", " + s.mask + ", " + s.core + (s.cross ? ", cross" : "") +
         (s.kv_heads == 1 ? ", grouped" : "") + ", " + std::string(graph::name(s.type)) +
         (s.wrong.empty() ? "" : ", " + s.wrong);
}

// Every way to spell each thing, in turn with the others.
inline std::vector<BlockSpelling> spellings() {
  std::vector<BlockSpelling> all;
  const auto add = [&all](auto change) {
    BlockSpelling one;
    change(one);
    all.push_back(one);
  };
  for (const char* const projections :
       {"add", "gemm", "gemm-plain", "none", "packed-split", "packed-slice", "packed-gather", "packed-heads"})
    add([&](BlockSpelling& s) {
      s.projections = projections;
      s.mask = "add";
    });
  for (const char* const scale : {"scores", "divided", "queries", "keys", "both", "early", "none"})
    for (const char* const heads : {"four", "three", "tokens-first"})
      add([&](BlockSpelling& s) {
        s.scale = scale;
        s.heads = heads;
        s.mask = s.scale == "divided" ? "where" : s.scale == "queries" ? "" : "add";
        s.cross = s.scale == "keys" || s.scale == "both";
        if (s.cross && s.heads == "tokens-first") s.mask = "";
      });
  for (const char* const mask : {"", "add", "where"})
    for (const Index kv_heads : {1, 2})
      for (const char* const core : {"spelt", "operator"})
        add([&](BlockSpelling& s) {
          s.mask = mask;
          s.kv_heads = kv_heads;
          s.core = core;
          s.cross = s.mask == "where";
          s.out_bias = s.kv_heads == 2;
          if (s.core == "operator") s.scale = "none";
        });
  return all;
}

}  // namespace attest::models::test
