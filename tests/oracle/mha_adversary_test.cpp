// An adversary: a block that keeps its contract and, for one element of out at a time, lets every freedom that the
// contract leaves err to the side that moves this element furthest: the order of every sum, each exp and each division
// by all of its ulps, the place of the division, whether biases come first. Written from docs/mha.md and docs/bounds.md
// alone; shares no code with kernels/. No element may lie outside.
//
// ATTEST_MHA_OUTPUTS (6,000) and ATTEST_MHA_SEED (1) choose how many elements are attacked, and which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/directed.hpp"
#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "oracle/mha/mha.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/mha_draw.hpp"
#include "tests/setting.hpp"

namespace attest {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// Arithmetic in a format, to nearest, or toward zero where accumulators truncate; what is subnormal may be flushed.
struct Unit {
  Format format;
  bool truncates = false, flushes = false;

  [[nodiscard]] double operator()(double x) const {
    double y = round_to(format, x);
    if (truncates && std::fabs(y) > std::fabs(x)) y = round_toward(format, x, x < 0);
    return flushes && std::fabs(y) < smallest_normal(format) ? 0 : y;
  }
  [[nodiscard]] double ulp(double x) const {
    return 2 * unit_roundoff(format) *
           std::exp2(std::floor(std::log2(std::max(std::fabs(x), smallest_normal(format)))));
  }
  // The number of the format within `ulps` of x that lies furthest to `side`.
  [[nodiscard]] double pushed(double x, double ulps, int side) const {
    const double reach = x + side * ulps * ulp(x);
    const double there = round_toward(format, reach, side < 0);
    // Never less than rounding to nearest gives.
    const double nearest = round_to(format, x);
    const double best = side > 0 ? std::max(there, nearest) : std::min(there, nearest);
    return flushes && std::fabs(best) < smallest_normal(format) ? 0 : best;
  }
};

// A sum that takes, as often as it can, the term whose rounding moves it furthest to `side`; `lanes` sums where a chain
// is declared.
double greedy(const Unit& unit, Row terms, int side, Index lanes) {
  const auto one = [&](Row of) {
    double sum = of.empty() ? 0 : of.back();
    if (of.empty()) return sum;
    // The first: the smallest or the largest, whatever leaves more to round.
    std::size_t first = 0;
    for (std::size_t t = 0; t < of.size(); ++t)
      if (std::fabs(of[t]) > std::fabs(of[first])) first = t;
    sum = of[first];
    of.erase(of.begin() + static_cast<std::ptrdiff_t>(first));
    while (!of.empty()) {
      std::size_t best = 0;
      double most = -1e308;
      for (std::size_t t = 0; t < of.size(); ++t)
        if (const double off = side * (unit(sum + of[t]) - (sum + of[t])); off > most) {
          most = off;
          best = t;
        }
      sum = unit(sum + of[best]);
      of[best] = of.back();
      of.pop_back();
    }
    return sum;
  };
  if (lanes == 0) return one(std::move(terms));
  // Adds as a chain of `lanes` interleaved sums permits: each in sequence, then a tree.
  Row sums(static_cast<std::size_t>(lanes), 0);
  for (std::size_t t = 0; t < terms.size(); ++t) {
    double& sum = sums[t % sums.size()];
    sum = t < sums.size() ? terms[t] : unit(sum + terms[t]);
  }
  while (sums.size() > 1) {
    Row half;
    for (std::size_t t = 0; t + 1 < sums.size(); t += 2) half.push_back(unit(sums[t] + sums[t + 1]));
    if (sums.size() % 2 != 0) half.push_back(sums.back());
    sums = std::move(half);
  }
  return sums[0];
}

int sign(double x) { return x < 0 ? -1 : 1; }

// The call in plain numbers.
struct Plain {
  Rows x, memory, w_q, w_k, w_v, w_out;
  Row b_q, b_k, b_v, b_out;
  explicit Plain(const mha::Call& call)
      : x(samples(call.x)),
        memory(samples(call.memory)),
        w_q(matrix(call.w_q)),
        w_k(matrix(call.w_k)),
        w_v(matrix(call.w_v)),
        w_out(matrix(call.w_out)),
        b_q(vector(call.b_q, w_q.size())),
        b_k(vector(call.b_k, w_k.size())),
        b_v(vector(call.b_v, w_v.size())),
        b_out(vector(call.b_out, w_out.size())) {}

 private:
  static Rows samples(const attest_tensor& t) {
    Rows rows;
    for (Index b = 0; b < t.shape[0]; ++b)
      for (Index i = 0; i < t.shape[1]; ++i) {
        rows.emplace_back();
        for (Index c = 0; c < t.shape[2]; ++c) rows.back().push_back(attest_load(&t, b, i, c, 0));
      }
    return rows;
  }
  static Rows matrix(const attest_tensor& t) {
    Rows rows;
    for (Index i = 0; i < t.shape[0]; ++i) {
      rows.emplace_back();
      for (Index c = 0; c < t.shape[1]; ++c) rows.back().push_back(attest_load(&t, i, c, 0, 0));
    }
    return rows;
  }
  static Row vector(const attest_tensor& t, std::size_t n) {
    Row row(n, 0);
    for (std::size_t c = 0; c < n && attest_present(&t); ++c) row[c] = attest_load(&t, static_cast<Index>(c), 0, 0, 0);
    return row;
  }
};

class Adversary {
 public:
  Adversary(const mha::Contract& contract, const mha::Problem& problem, const mha::Call& call, std::uint64_t key)
      : contract_(contract),
        how_(contract.attention.arithmetic),
        policy_(contract.attention.policy),
        p_(problem),
        call_(call),
        plain_(call),
        key_(key),
        flush_(how_.flush_to_zero) {
    std::vector<mha::Projected> ways;
    for (std::size_t n = 0; n < mha::projected_count; ++n)
      if (contract.projections[n]) ways.push_back(static_cast<mha::Projected>(n));
    projected_ = ways[pick(ways.size())];
    heads_rounded_ = contract.heads_rounded && (!contract.heads_unrounded || pick(2) != 0);
    storage_ = policy_[Stage::storage];
    truncates_ = how_.kappa >= 3 && pick(2) != 0;
    lanes_ = contract.gemm_chain ? contract.gemm_chain->lanes : 0;
    const Format wide = Format::f32;
    if (projected_ == mha::Projected::unrounded)
      for (const Stage stage : {Stage::storage, Stage::operand, Stage::weights}) policy_.set(stage, wide);
    policy_.set(Stage::output, heads_rounded_ ? storage_ : wide);
    if (contract.drops_b_k) plain_.b_k.assign(plain_.b_k.size(), 0);
    before_ = how_.normalise_before && (!how_.normalise_after || pick(2) != 0);
    if (how_.normalise_lse && !how_.normalise_after) before_ = true;
    sum_of_rounded_ = !before_ && how_.sum_of_rounded && (!how_.sum_of_unrounded || pick(2) != 0);
  }

  // Element e of token i of sample b, pushed to one side. NaN if the row has no key.
  double attack(Index b, Index i, Index e, int side) {
    exactly(b, i, e);
    if (keys_.empty() || keys_of_some_head_are_missing_) return std::nan("");
    Row terms;
    const Unit gemm{contract_.gemm, truncates_, flush_};
    const bool separate = projected_ == mha::Projected::separate;
    for (Index h = 0; h < p_.heads; ++h) {
      const Row heads = attend(b, i, e, h, side);
      for (Index c = 0; c < p_.head_dim; ++c)
        terms.push_back(gemm(enter(heads[at(c)]) * enter(plain_.w_out[at(e)][at(h * p_.head_dim + c)])));
    }
    const double bias = plain_.b_out[at(e)];
    double sum = biased_sum(gemm, terms, separate ? 0 : bias, side);
    if (separate) sum = stored(sum) + bias;
    return stored(sum);
  }

 private:
  static std::size_t at(Index n) { return static_cast<std::size_t>(n); }
  std::uint64_t pick(std::uint64_t n) { return below(key_ = mix(key_), n); }
  [[nodiscard]] double stored(double x) const { return Unit{storage_, false, flush_}(x); }
  // A factor, as the operand's format has it where that is narrower than storage.
  [[nodiscard]] double enter(double x) const {
    if (flush_ && std::fabs(x) < smallest_normal(storage_)) return 0;
    const Format operand = contract_.attention.policy[Stage::operand];
    return precision(operand) < precision(storage_) ? Unit{operand, false, flush_}(x) : x;
  }
  double biased_sum(const Unit& gemm, Row terms, double bias, int side) const {
    if (lanes_ > 0 || bias == 0) {
      const double sum = greedy(gemm, terms, side, lanes_);
      return bias == 0 ? sum : gemm(sum + bias);
    }
    terms.push_back(bias);
    return greedy(gemm, terms, side, 0);
  }
  double project(const Row& x, const Row& w, double bias, int side) const {
    const Unit gemm{contract_.gemm, truncates_, flush_};
    Row terms;
    for (std::size_t c = 0; c < x.size(); ++c)
      if (x[c] != 0 && w[c] != 0) terms.push_back(gemm(enter(x[c]) * enter(w[c])));
    const bool separate = projected_ == mha::Projected::separate;
    const double sum = biased_sum(gemm, terms, separate ? 0 : bias, side);
    if (projected_ == mha::Projected::unrounded) return sum;
    return separate ? stored(stored(sum) + bias) : stored(sum);
  }
  static double dot(const Row& a, const Row& b) {
    double sum = 0;
    for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
    return sum;
  }

  // Finds in float64 which keys are open, and which way each number moves the element.
  void exactly(Index b, Index i, Index e) {
    const Index d = p_.head_dim;
    keys_.clear();
    keys_of_some_head_are_missing_ = false;
    const Index length = attest_present(&call_.kv_lengths) ? static_cast<Index>(load(call_.kv_lengths, b)) : p_.m;
    const Index diagonal = p_.align == Align::bottom_right ? i + length - p_.l : i;
    keys_.resize(at(p_.heads));
    above_ = Rows(at(p_.heads));
    along_ = Rows(at(p_.heads), Row(at(d), 0));
    query_ = Rows(at(p_.heads));
    mean_ = Row(at(p_.heads), 0);
    for (Index h = 0; h < p_.heads; ++h) {
      for (Index j = 0; j < length; ++j)
        if ((!p_.causal || j <= diagonal) && (!attest_present(&call_.keep) || load(call_.keep, b, h, i, j) != 0))
          keys_[at(h)].push_back(j);
      if (keys_[at(h)].empty()) keys_of_some_head_are_missing_ = true;
      const Index kv = h / p_.group();
      for (Index c = 0; c < d; ++c)
        query_[at(h)].push_back(dot(plain_.x[at(b * p_.l + i)], plain_.w_q[at(h * d + c)]) + plain_.b_q[at(h * d + c)]);
      Row z, value;
      double top = -1e308;
      for (const Index j : keys_[at(h)]) {
        double score = 0, v = 0;
        for (Index c = 0; c < d; ++c) {
          score += query_[at(h)][at(c)] * exact_k(b, j, kv, c);
          v += plain_.w_out[at(e)][at(h * d + c)] *
               (dot(plain_.memory[at(b * p_.m + j)], plain_.w_v[at(kv * d + c)]) + plain_.b_v[at(kv * d + c)]);
        }
        z.push_back(score * p_.effective_scale());
        value.push_back(v);
        top = std::max(top, z.back());
      }
      double mass = 0, moment = 0;
      for (std::size_t t = 0; t < z.size(); ++t) {
        mass += std::exp(z[t] - top);
        moment += std::exp(z[t] - top) * value[t];
      }
      mean_[at(h)] = moment / mass;
      for (std::size_t t = 0; t < z.size(); ++t) {
        above_[at(h)].push_back(value[t] - mean_[at(h)]);
        for (Index c = 0; c < d; ++c)
          along_[at(h)][at(c)] += std::exp(z[t] - top) / mass * above_[at(h)][t] * exact_k(b, keys_[at(h)][t], kv, c);
      }
    }
  }
  [[nodiscard]] double exact_k(Index b, Index j, Index kv, Index c) const {
    const auto row = at(kv * p_.head_dim + c);
    return dot(plain_.memory[at(b * p_.m + j)], plain_.w_k[row]) + plain_.b_k[row];
  }

  // The columns of one head.
  Row attend(Index b, Index i, Index e, Index h, int side) {
    const Index d = p_.head_dim, kv = h / p_.group();
    const std::vector<Index>& keys = keys_[at(h)];
    const double scale = p_.effective_scale();
    const Unit acc{policy_[Stage::qk], truncates_, flush_}, sct{policy_[Stage::scale], false, flush_},
        score{policy_[Stage::score], false, flush_}, sm{policy_[Stage::softmax], false, flush_},
        weights{policy_[Stage::weights], false, flush_}, operand{policy_[Stage::operand], false, flush_},
        pv{policy_[Stage::pv], truncates_, flush_}, sum_unit{policy_[Stage::softmax], truncates_, flush_};
    Row q;
    for (Index c = 0; c < d; ++c)
      q.push_back(project(plain_.x[at(b * p_.l + i)], plain_.w_q[at(h * d + c)], plain_.b_q[at(h * d + c)],
                          side * sign(along_[at(h)][at(c)] * scale)));
    Row s;
    for (std::size_t t = 0; t < keys.size(); ++t) {
      const Row& token = plain_.memory[at(b * p_.m + keys[t])];
      const int way = side * sign(above_[at(h)][t]);
      Row products;
      for (Index c = 0; c < d; ++c) {
        const auto row = at(kv * d + c);
        const double k = project(token, plain_.w_k[row], plain_.b_k[row], way * sign(q[at(c)] * scale));
        products.push_back(acc(operand(q[at(c)]) * operand(k)));
      }
      const double raw = greedy(acc, products, way * sign(scale), 0);
      s.push_back(sm(score(sct(raw * sct(scale)))));
    }
    const double top = *std::ranges::max_element(s);
    Row p, entering;
    for (std::size_t t = 0; t < keys.size(); ++t) {
      const double argument = sm(s[t] - top);
      const double value = std::exp(argument);
      p.push_back(argument == 0 ? 1 : std::max(0.0, sm.pushed(value, how_.exp_ulp, side * sign(above_[at(h)][t]))));
    }
    if (!before_)
      for (const double x : p) entering.push_back(operand(weights(x)));
    const double total = greedy(sum_unit, sum_of_rounded_ ? entering : p, -side * sign(mean_[at(h)]), 0);
    if (before_)
      for (std::size_t t = 0; t < p.size(); ++t)
        entering.push_back(operand(weights(sm.pushed(p[t] / total, how_.div_ulp, side * sign(above_[at(h)][t])))));
    Row heads;
    const Unit out{policy_[Stage::output], false, flush_};
    for (Index c = 0; c < d; ++c) {
      const int way = side * sign(plain_.w_out[at(e)][at(h * d + c)]);
      const auto row = at(kv * d + c);
      Row products;
      for (std::size_t t = 0; t < keys.size(); ++t)
        products.push_back(pv(entering[t] * operand(project(plain_.memory[at(b * p_.m + keys[t])], plain_.w_v[row],
                                                            plain_.b_v[row], way))));
      const double sum = greedy(pv, products, way, 0);
      // Divides by a reciprocal of the sum's format where that is the narrower one, whose product with the numerator is
      // pv's.
      const bool by_reciprocal = precision(sm.format) < precision(pv.format);
      const double quotient =
          by_reciprocal ? Unit{pv.format, false, flush_}(sum * sm.pushed(1 / total, how_.div_ulp, way * sign(sum)))
                        : Unit{pv.format, false, flush_}.pushed(sum / total, how_.div_ulp, way);
      heads.push_back(out(before_ ? sum : quotient));
    }
    return heads;
  }

  const mha::Contract& contract_;
  const Arithmetic& how_;
  Policy policy_;  // policy of the heads' attention
  const mha::Problem& p_;
  const mha::Call& call_;
  Plain plain_;
  std::uint64_t key_;
  bool flush_, truncates_ = false, heads_rounded_ = true, before_ = false, sum_of_rounded_ = false;
  bool keys_of_some_head_are_missing_ = false;
  mha::Projected projected_ = mha::Projected::rounded;
  Format storage_ = Format::f32;
  Index lanes_ = 0;
  std::vector<std::vector<Index>> keys_;  // by head: open ones
  Rows above_, along_, query_;            // by head: v' less its mean by key, how a step of q moves the mean by column
  Row mean_;
};

testing::NamedBlockContract contract_at_its_edge(std::uint64_t key) {
  constexpr const char* policies[] = {"f32",           "f16",     "bf16",     "f16,gemm=f16",     "f16-acc16",
                                      "f16-softmax16", "f16-all", "bf16-all", "f32,operand=tf32", "bf16,gemm=bf16",
                                      "f16-scores16"};
  constexpr const char* numbers[] = {
      R"({})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0,"sum_of":"unrounded","normalise":"after"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0,"projections":"separate","sum_of":"rounded","normalise":"after"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0,"projections":"unrounded","heads":"unrounded"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","kappa":3,"projections":"unrounded","heads":"unrounded"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","kappa":3})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","exp_ulp":2,"div_ulp":1,"normalise":"before"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","gemm_chain":{"lanes":4},"projections":"unrounded"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","heads":"unrounded","drops_b_k":true,"div_ulp":2,"normalise":"after"})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","flush_to_zero":true})",
      R"({"projections":["rounded","unrounded","separate"],"heads":["rounded","unrounded"]})"};
  return {policies[below(mix(key), std::size(policies))], numbers[below(mix(key + 1), std::size(numbers))]};
}

mha::Problem small_block(Format dtype, std::uint64_t key) {
  mha::Problem p = testing::draw_block(dtype, key);
  p.bias = mha::Bias::none;  // the adversary knows none
  p.b = 1;
  p.kv_heads = 1;
  p.heads = 1 + static_cast<Index>(below(mix(key + 2), 2));
  p.head_dim = 1 + static_cast<Index>(below(mix(key + 3), 3));
  const std::uint64_t times = below(mix(key + 8), 6) == 0 ? 4 : 1;
  p.e = 1 + static_cast<Index>(below(mix(key + 4), 9 * times));
  p.l = 1 + static_cast<Index>(below(mix(key + 5), 3));
  p.m = 1 + static_cast<Index>(below(mix(key + 6), 5 * times));
  if (p.self) p.m = p.l;
  if (below(mix(key + 7), 2) == 0) p.weights = mha::Weights::dense;
  return p;
}

TEST(MhaAdversary, MovesNoElementOut) {
  const std::uint64_t wanted = setting("ATTEST_MHA_OUTPUTS", 6000), seed = setting("ATTEST_MHA_SEED", 1);
  std::uint64_t attacked = 0, open = 0;
  double furthest = 0;
  for (std::uint64_t n = 0; attacked < wanted && !::testing::Test::HasFailure(); ++n) {
    const std::uint64_t key = mix(seed * 0x9e3779b97f4a7c15u + n);
    const testing::NamedBlockContract named = contract_at_its_edge(key);
    const mha::Contract contract = named.contract();
    mha::Problem problem = small_block(contract.attention.policy[Stage::storage], key);
    if (contract.attention.arithmetic.flush_to_zero && n % 2 == 0) problem = testing::make_small(problem, key);
    const mha::Inputs inputs = mha::materialise(problem);
    const Tensor out = mha::make_out(problem);
    const mha::Call call = inputs.call(out);
    oracle::MhaOracle oracle(contract, call);
    Adversary adversary(contract, problem, call, key);
    const Format storage = problem.dtype;
    const oracle::Rounding round{contract.attention.policy[Stage::output], storage,
                                 contract.attention.arithmetic.flush_to_zero};
    for (Index i = 0; i < problem.l; ++i)
      for (Index e = 0; e < problem.e; ++e)
        for (const int side : {-1, 1}) {
          const double got = adversary.attack(0, i, e, side);
          if (!std::isfinite(got)) continue;
          ++attacked;
          bool inside = false, judged = true;
          oracle::Enclosure first;
          for (std::size_t way = 0; way < oracle.ways() && !inside; ++way) {
            const oracle::Enclosure at = oracle.enclosure(way, 0, i, e);
            if (way == 0) first = at;
            const oracle::Outcome outcome = judge_element(at, round, got);
            inside = outcome != oracle::Outcome::outside;
            judged = judged && outcome != oracle::Outcome::undetermined;
          }
          open += judged ? 0 : 1;
          // The share of an unrounded interval that a result reaches, where it is not a point.
          const double radius = side > 0 ? first.hi - first.y : first.y - first.lo;
          if (judged && oracle.ways() == 1 && storage == Format::f32 && radius > 1e-6 * std::fabs(first.y))
            furthest = std::max(furthest, side * (got - first.y) / radius);
          ASSERT_TRUE(inside) << "seed " << seed << " problem " << n << ' ' << named.policy << ' ' << named.numbers
                              << '\n'
                              << mha::to_text(problem) << "\nout[0," << i << ',' << e << "] = " << got << " pushed "
                              << side << ", expected " << first.y << " in [" << first.lo << ", " << first.hi << ']';
        }
  }
  std::printf("%llu elements attacked, %llu undetermined, the furthest at %.2f of its radius\n",
              static_cast<unsigned long long>(attacked), static_cast<unsigned long long>(open), furthest);
  EXPECT_LT(open, attacked / 4);
}

// Returns how many of some elements it moves out of the enclosures of a contract that it does not keep.
int moved_out(const char* policy, const char* kept_policy, const char* kept, const char* declared,
              mha::Weights weights) {
  const mha::Contract contract = testing::NamedBlockContract{kept_policy, kept}.contract(),
                      other = testing::NamedBlockContract{policy, declared}.contract();
  int count = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    mha::Problem problem = small_block(contract.attention.policy[Stage::storage], mix(n));
    problem.weights = weights;
    problem.scale.reset();
    const mha::Inputs inputs = mha::materialise(problem);
    const Tensor out = mha::make_out(problem);
    const mha::Call call = inputs.call(out);
    oracle::MhaOracle oracle(other, call);
    Adversary adversary(contract, problem, call, n);
    const oracle::Rounding round{other.attention.policy[Stage::output], problem.dtype, false};
    for (const int side : {-1, 1}) {
      const double got = adversary.attack(0, 0, 0, side);
      count +=
          std::isfinite(got) && judge_element(oracle.enclosure(0, 0, 0, 0), round, got) == oracle::Outcome::outside;
    }
  }
  return count;
}

TEST(MhaAdversary, MovesElementsOutOfANarrowerContract) {
  const char* plain = R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0})";
  using mha::Weights;
  EXPECT_GT(moved_out("f32", "f32", R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0,"exp_ulp":64})", plain,
                      Weights::one_hot),
            10);
  EXPECT_GT(moved_out("f32", "f32", R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0,"div_ulp":64})", plain,
                      Weights::one_hot),
            10);
  EXPECT_GT(moved_out("f32", "f32,gemm=f16", plain, plain, Weights::dense), 10);
  EXPECT_GT(moved_out("f32", "f32,softmax=bf16", plain, plain, Weights::one_hot), 10);
  EXPECT_GT(moved_out("f32", "f32,operand=tf32", plain, plain, Weights::dense), 10);
}

}  // namespace
}  // namespace attest
