// Accumulation of each product of a block: ones and two large numbers that cancel, as one row of its weights, at places
// of which an order adds some first, but not all.
#include <array>
#include <memory>
#include <utility>

#include "ops/attention/probe/questions.hpp"
#include "ops/mha/probe/parts.hpp"

namespace attest::ops::of_mha {
namespace {

using of_attention::two_to;
using probing::Shot;
using Shots = std::vector<Shot>;

constexpr const auto& all_formats = finest_first;
constexpr Index terms = 32;
constexpr double kept = terms - 2;

enum class Product : std::uint8_t { q, k, v, out };

// A row of weights of ones and of 2^(bits + 2), or past the range of f16, and what it meets: ones, and where a weight
// cannot be so large its other part.
struct Pair {
  Index plus, minus;
  double weight, token;
};
Pair pair_of(std::pair<Index, Index> places, Format dtype, int bits) {
  const int exponent = bits == 0 ? 21 : bits + 2, in_token = has_short_range(dtype) ? exponent / 2 : 0;
  return {places.first, places.second, two_to(exponent - in_token), two_to(in_token)};
}
void set_weights(Problem& p, Edit::Tensor tensor, const Pair& pair) {
  for (Index c = 0; c < terms; ++c)
    set(p, tensor, {0, c, 0, 0}, c == pair.plus ? pair.weight : c == pair.minus ? -pair.weight : 1);
}
double token_of(const Pair& pair, Index c) { return c == pair.plus || c == pair.minus ? pair.token : 1; }

// Every value of the first head and column is the sum.
std::optional<Problem> of_v(const BlockMaker& maker, const Pair& pair) {
  const Index tokens = maker.supports().m.nearest(1);
  auto p = maker.blank({1, maker.supports().l.nearest(1), tokens, 1, 1, maker.supports().head_dim.nearest(1), terms});
  if (!p) return p;
  for (Index j = 0; j < p->m; ++j)
    for (Index c = 0; c < terms; ++c) set_memory(*p, j, c, token_of(pair, c));
  set_weights(*p, Edit::Tensor::w_v, pair);
  set(*p, Edit::Tensor::w_out, {0, 0, 0, 0}, 1);
  return p;
}

// All columns of the heads are 1, or the pair's other part.
std::optional<Problem> of_out(const BlockMaker& maker, const Pair& pair) {
  const Supports& s = maker.supports();
  for (const Index heads : {1, 2, 4, 8, 3, 6, 12, 16, 32}) {
    const Index d = s.head_dim.nearest((terms + heads - 1) / heads);
    if (heads * d < terms || !s.heads.offers(heads)) continue;
    auto p = maker.blank({1, s.l.nearest(1), s.m.nearest(1), heads, heads, d, 2});
    if (!p) continue;
    for (Index j = 0; j < p->m; ++j) {
      set_memory(*p, j, 0, 1);
      if (pair.token != 1) set_memory(*p, j, 1, pair.token);
    }
    for (Index n = 0; n < terms; ++n) set(*p, Edit::Tensor::w_v, {n, token_of(pair, n) == 1 ? 0 : 1, 0, 0}, 1);
    set_weights(*p, Edit::Tensor::w_out, pair);
    return p;
  }
  return std::nullopt;
}

// The score of the first of two tokens is four times what the sum misses, as a logit against 0: the sum by 4, and a 1
// by -4 times what it should be.
std::optional<Problem> of_score(const BlockMaker& maker, const Pair& pair, Product product) {
  const Index tokens = maker.even_tokens(2), d = maker.supports().head_dim.nearest(4);
  if (tokens == 0 || d < 2) return std::nullopt;
  const Index own = terms, first = product == Product::q && maker.crosses() ? 0 : own;
  auto p = maker.blank({1, maker.supports().l.nearest(1), tokens, 1, 1, d, own + 5});
  if (!p || (!p->scale && d != 4)) return std::nullopt;
  const double unit = 4 / p->effective_scale();
  using enum Edit::Tensor;
  const Index value_at = own + 4;
  if (product == Product::q) {
    // q = (sum, 1) of token 0 of x; keys (unit, -kept unit), or 0.
    for (Index c = 0; c < terms; ++c) set(*p, x, {0, 0, c, 0}, token_of(pair, c));
    set_weights(*p, w_q, pair);
    const Index one = pair.plus != 0 && pair.minus != 0 ? 0 : pair.plus != 1 && pair.minus != 1 ? 1 : 2;
    set(*p, w_q, {1, one, 0, 0}, 1);
    for (Index j = 0; j < p->m; j += 2) {
      set_memory(*p, j, first + 1, unit);
      set_memory(*p, j, first + 2, -kept * unit);
      set_memory(*p, j, value_at, 1);
    }
    set(*p, w_k, {0, first + 1, 0, 0}, 1);
    set(*p, w_k, {1, first + 2, 0, 0}, 1);
  } else {
    // Keys (sum, 1), or 0; q = (unit, -kept unit) of token 0 of x.
    for (Index j = 0; j < p->m; j += 2) {
      for (Index c = 0; c < terms; ++c) set_memory(*p, j, c, token_of(pair, c));
      set_memory(*p, j, own, 1);
      set_memory(*p, j, value_at, 1);
    }
    set_weights(*p, w_k, pair);
    set(*p, w_k, {1, own, 0, 0}, 1);
    set(*p, x, {0, 0, own + 1, 0}, unit);
    set(*p, x, {0, 0, own + 2, 0}, -kept * unit);
    set(*p, w_q, {0, own + 1, 0, 0}, 1);
    set(*p, w_q, {1, own + 2, 0, 0}, 1);
  }
  set(*p, w_v, {0, value_at, 0, 0}, 1);
  set(*p, w_out, {0, 0, 0, 0}, 1);
  return p;
}

Shots of_product(const BlockMaker& maker, Product product, int bits) {
  Shots shots;
  for (const auto& places : probing::pairs(terms)) {
    const Pair pair = pair_of(places, maker.dtype(), bits);
    const bool by_score = product == Product::q || product == Product::k;
    auto p = product == Product::v ? of_v(maker, pair)
             : by_score            ? of_score(maker, pair, product)
                                   : of_out(maker, pair);
    if (!p) return {};
    constexpr double slack = 0.4;
    if (by_score)
      shots.push_back({std::move(*p), of_attention::logistic(-4 * slack), of_attention::logistic(4 * slack)});
    else
      shots.push_back({std::move(*p), kept - slack, kept + slack});
  }
  return shots;
}

constexpr std::pair<Product, std::string_view> products[] = {
    {Product::q, "gemm (q)"}, {Product::k, "gemm (k)"}, {Product::v, "gemm (v)"}, {Product::out, "gemm (out)"}};
constexpr std::string_view asked_of_products =
    "a row of weights of ones and of two large numbers that cancel, at 14 pairs of places";

}  // namespace

std::vector<probing::NarrowQuestion> narrow_questions(const BlockMaker& maker, const Contract& contract) {
  using Calls = std::vector<std::function<std::optional<ops::Problem>()>>;
  std::vector<probing::NarrowQuestion> all;
  for (const auto& [product, part] : products)
    for (const probing::Against& narrow :
         probing::against_promise(probing::narrower_than_f32(maker.dtype(), all_formats), contract.gemm))
      all.push_back({part, asked_of_products, narrow.formats, [&maker, product = product, bits = narrow.bits] {
                       Calls calls;
                       for (Shot& shot : of_product(maker, product, bits))
                         calls.emplace_back([problem = std::move(shot.problem)] { return std::optional(problem); });
                       return calls;
                     }});
  const auto within = std::make_shared<attest::Supports>(attention_within(maker.supports()));
  const auto attention = std::make_shared<of_attention::Maker>(*within, maker.dtype());
  for (probing::NarrowQuestion& question : of_attention::narrow_questions(*attention, contract.attention, 0)) {
    question.calls = [&maker, within, attention, calls = std::move(question.calls)] {
      Calls said;
      for (auto& call : calls())
        said.emplace_back([&maker, call = std::move(call)] {
          const std::optional<ops::Problem> asked = call();
          return asked ? Heart(maker).said(asked->as<attest::Problem>()) : std::nullopt;
        });
      return said;
    };
    all.push_back(std::move(question));
  }
  return all;
}

std::vector<probing::StageQuestions> gemm_questions(const BlockMaker& maker) {
  constexpr int fine_bits = 19;
  const std::vector<probing::Against> below_f32 = probing::narrower_than_f32(maker.dtype(), all_formats);
  std::vector<probing::StageQuestions> all;
  for (const auto& [product, part] : products) {
    const auto make = [&, product = product](int bits) { return of_product(maker, product, bits); };
    auto questions = probing::asked(below_f32, make);
    if (Shots shots = make(fine_bits); !shots.empty())
      questions.push_back({{}, std::move(shots), false, fine_bits + 3});
    all.push_back({gemm_stage, std::string(part), std::string(asked_of_products), std::move(questions),
                   "no width that it takes has 32 terms", false});
  }
  return all;
}

}  // namespace attest::ops::of_mha
