// Problems of which the result is known to the last bit (docs/mha.md, "Exact probes").
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "oracle/last_bit.hpp"
#include "oracle/mha/way.hpp"
#include "oracle/numbers.hpp"
#include "properties/mha/laws.hpp"

namespace attest::properties::block {
namespace {

// Returns the bits of sums in `format` that no order of additions rounds: tensor cores keep fewer, and may align terms
// with one more than theirs.
int exact_bits(const mha::Contract& contract, Format format) {
  const std::optional<Mma>& mma = contract.attention.arithmetic.mma;
  return mma ? std::min({precision(format), mma->frac, fraction_bits(mma->out) + 1}) - 1 : precision(format);
}

// A sum of products that no order of additions rounds in `format`; nullopt if some order may.
class ExactSum {
 public:
  ExactSum(const mha::Contract& contract, Format format) : format_(format), bits_(exact_bits(contract, format)) {}
  void add(double x) {
    if (x == 0) return;
    sum_ += x;
    size_ += std::fabs(x);
    last_ = std::min(last_, std::isfinite(x) ? oracle::last_bit(x) : -2000);
  }
  [[nodiscard]] std::optional<double> value() const {
    if (size_ == 0) return 0;
    const bool fits =
        last_ >= min_exponent(format_) && size_ <= std::ldexp(1.0, last_ + bits_) && size_ <= largest_finite(format_);
    return fits ? std::optional(sum_) : std::nullopt;
  }

 private:
  Format format_;
  int bits_;
  double sum_ = 0, size_ = 0;
  int last_ = 2000;
};

// The values of one sample and the output that follows from heads' results, one way of a contract.
class Expected {
 public:
  Expected(const oracle::Way::Block& block, oracle::WayName way)
      : block_(block), way_(way), policy_(oracle::policy_of(block.contract, way.projected, way.heads_rounded)) {
    const oracle::Matrix& tokens = block.remembered();
    for (Index token = 0; token < tokens.rows(); ++token)
      for (Index n = 0; n < block.w_v.rows(); ++n) {
        keys_.push_back(projected(tokens, token, block.w_k, n, block.b_k));
        values_.push_back(projected(tokens, token, block.w_v, n, block.b_v));
      }
  }

  [[nodiscard]] const Policy& policy() const noexcept { return policy_; }
  [[nodiscard]] Index tokens() const noexcept { return block_.call.m(); }
  [[nodiscard]] Index head_dim() const noexcept { return block_.call.head_dim; }
  // Element n of the projected value, and of the key, of a token of any sample.
  [[nodiscard]] std::optional<double> value(Index token, Index n) const { return values_[at(token, n)]; }
  [[nodiscard]] std::optional<double> key(Index token, Index n) const { return keys_[at(token, n)]; }
  [[nodiscard]] double head(double exact) const { return round_to(policy_[Stage::output], exact); }
  // Element e from the concatenated heads, as it is stored; nullopt where a sum may be rounded.
  [[nodiscard]] std::optional<double> out(const std::vector<std::optional<double>>& heads, Index e) const {
    ExactSum sum(block_.contract, block_.contract.gemm);
    for (std::size_t c = 0; c < heads.size(); ++c) {
      const double w = block_.w_out(e, static_cast<Index>(c));
      if (w == 0) continue;
      if (!heads[c]) return {};
      sum.add(w * *heads[c]);
    }
    const double bias = block_.b_out[static_cast<std::size_t>(e)];
    if (way_.projected != mha::Projected::separate) sum.add(bias);
    const auto exact = sum.value();
    if (!exact) return {};
    const double y = way_.projected == mha::Projected::separate ? round_to(block_.storage, *exact) + bias : *exact;
    return round_to(block_.storage, round_to(block_.contract.attention.policy[Stage::output], y));
  }

 private:
  [[nodiscard]] std::size_t at(Index token, Index n) const {
    return static_cast<std::size_t>(token * block_.w_v.rows() + n);
  }
  [[nodiscard]] std::optional<double> projected(const oracle::Matrix& x, Index token, const oracle::Matrix& w, Index n,
                                                const std::vector<double>& bias) const {
    ExactSum sum(block_.contract, block_.contract.gemm);
    for (Index c = 0; c < x.columns(); ++c) sum.add(x(token, c) * w(n, c));
    const double b = bias[static_cast<std::size_t>(n)];
    if (way_.projected != mha::Projected::separate) sum.add(b);
    const auto exact = sum.value();
    if (!exact || way_.projected == mha::Projected::unrounded) return exact;
    const double stored = round_to(block_.storage, *exact);
    return way_.projected == mha::Projected::separate ? round_to(block_.storage, stored + b) : stored;
  }

  const oracle::Way::Block& block_;
  oracle::WayName way_;
  Policy policy_;
  std::vector<std::optional<double>> keys_, values_;
};

// Keys that a row attends.
std::vector<Index> attended(const mha::Call& call, Index b, Index h, Index i) {
  CallOptions options;
  options.causal = call.causal;
  options.align = call.align;
  const Index length = attest_present(&call.kv_lengths) ? static_cast<Index>(load(call.kv_lengths, b)) : call.m();
  const KeyRange range = key_range(options, i, call.l(), length);
  std::vector<Index> keys;
  for (Index j = range.first; j < range.last; ++j)
    if (!attest_present(&call.keep) || load(call.keep, b, h, i, j) != 0) keys.push_back(j);
  return keys;
}

// The mean of no values is none.
bool may_be_nan(const mha::Contract& contract) { return contract.attention.empty_row != EmptyRow::zero; }

// Tells whether `count` weights, each less than any number of softmax, with values no larger than `most`, leave the sum
// of weights 1 and that of values `v`, in any order and wherever they are divided: exp may be off by ulps of a
// subnormal number.
bool is_alone(const Policy& policy, const Arithmetic& how, double count, double most, double v) {
  const Format softmax = policy[Stage::softmax], pv = policy[Stage::pv];
  const double others = count * std::ldexp(how.exp_rel > 0 ? 1 : std::max(how.exp_ulp, 1.0), min_exponent(softmax));
  if (others > std::ldexp(1.0, -precision(softmax) - 2)) return false;
  if (v == 0) return others * most < std::ldexp(0.5, min_exponent(policy[Stage::output]));
  return others * most <= std::ldexp(1.0, std::ilogb(v) - precision(pv) - 2);
}

// Every element that `head_value` and the projection leave exact; a call goes one way, so that one that fits is enough.
// `head_value`(expected, keys, b, kv, n) is element n of the values of a head's result.
template <class HeadValue>
Verdict compare(const BlockTrial& trial, std::string_view note, const HeadValue& head_value) {
  const Tensor& out = trial.out;
  const mha::Call call = trial.inputs.call(out);
  const oracle::Way::Block block(trial.contract, call);
  std::optional<Verdict> first;
  for (const oracle::WayName& way : oracle::ways_of(trial.contract)) {
    const Expected expected(block, way);
    Counts counts;
    std::optional<Evidence> evidence;
    std::vector<std::optional<double>> heads(static_cast<std::size_t>(call.q_width()));
    for (Index b = 0; b < call.b() && !evidence; ++b)
      for (Index i = 0; i < call.l() && !evidence; ++i) {
        bool empty = false;  // a head without keys may be NaN, and is then in every column: 0 times it is no 0
        for (Index h = 0; h < call.heads; ++h) {
          const std::vector<Index> keys = attended(call, b, h, i);
          empty = empty || keys.empty();
          for (Index c = 0; c < call.head_dim; ++c) {
            const Index kv = h / call.group();
            const auto value = head_value(expected, keys, b, kv, kv * call.head_dim + c);
            heads[static_cast<std::size_t>(h * call.head_dim + c)] =
                value ? std::optional(expected.head(*value)) : value;
          }
        }
        for (Index e = 0; e < call.e() && !evidence; ++e) {
          const auto exact = empty && may_be_nan(trial.contract) ? std::nullopt : expected.out(heads, e);
          if (!exact || !std::isfinite(*exact)) {
            ++counts.undetermined;
            continue;
          }
          ++counts.judged;
          const double got = out.at(b, i, e);
          if (got == *exact) continue;
          evidence.emplace();
          evidence->tensor = "out";
          evidence->index = {b, i, e, 0};
          evidence->got = got;
          evidence->expected = evidence->lo = evidence->hi = *exact;
          evidence->ratio = std::numeric_limits<double>::infinity();
          evidence->wrong = std::isnan(got) ? Wrong::nan : std::isinf(got) ? Wrong::infinity : Wrong::finite;
          evidence->note = note;
        }
      }
    if (!evidence) return counts.judged > 0 ? Verdict::pass(counts) : Verdict::vacuous("undetermined", counts);
    if (!first) first = Verdict::fail(std::move(*evidence), counts);
  }
  return *first;
}

}  // namespace

Verdict uniform(const BlockTrial& trial) {
  return compare(
      trial, "every score is 0: the mean of the values, projected",
      [&](const Expected& expected, const std::vector<Index>& keys, Index b, Index, Index n) -> std::optional<double> {
        const auto count = static_cast<std::uint64_t>(keys.size());
        if (!std::has_single_bit(count)) return {};
        const Policy& policy = expected.policy();
        const Format weights = policy[Stage::weights], operand = policy[Stage::operand];
        // Weights of 1 or of 1/n, their sum, and what is divided by it.
        const double least = 1 / static_cast<double>(count);
        if (static_cast<double>(count) >
            std::ldexp(1.0, std::min(precision(policy[Stage::softmax]), precision(operand))))
          return {};
        if (least < smallest_normal(weights) || least < smallest_normal(operand)) return {};
        ExactSum sum(trial.contract, policy[Stage::pv]);
        for (const Index j : keys) {
          const auto v = expected.value(b * expected.tokens() + j, n);
          if (!v || round_to(operand, *v) != *v) return {};
          sum.add(*v * least);
          if (std::fabs(*v) * static_cast<double>(count) > largest_finite(policy[Stage::pv])) return {};
        }
        return sum.value();
      });
}

Verdict selection(const BlockTrial& trial) {
  const double scale = trial.problem().effective_scale(), lazy = trial.contract.attention.lazy_nats();
  return compare(
      trial, "one score stands far above the rest: its value, projected",
      [&](const Expected& expected, const std::vector<Index>& keys, Index b, Index kv,
          Index n) -> std::optional<double> {
        const Policy& policy = expected.policy();
        const double far = policy[Stage::softmax] == Format::f64 ? 800 : 128 + lazy;
        if (keys.empty() || scale < far || !oracle::is_power_of_two(scale)) return {};
        double best = -std::numeric_limits<double>::infinity();
        Index at = -1;
        for (const Index j : keys) {
          const auto key = expected.key(b * expected.tokens() + j, kv * expected.head_dim());
          if (!key) return {};
          if (*key > best) {
            best = *key;
            at = j;
          }
        }
        // A score of 0 stays one in any unit, and no product on the way overflows, wherever the scale is folded in.
        double most = 1;
        for (Index j = 0; j < expected.tokens(); ++j)
          for (Index c = 0; c < expected.head_dim(); ++c) {
            const auto key = expected.key(b * expected.tokens() + j, kv * expected.head_dim() + c);
            if (!key) return {};
            most = std::max(most, std::fabs(*key));
          }
        for (const Stage stage : {Stage::scale, Stage::qk, Stage::score, Stage::softmax, Stage::operand})
          if (most * scale * 1.5 >= largest_finite(policy[stage])) return {};
        if (best != 0) return {};
        const auto v = expected.value(b * expected.tokens() + at, n);
        if (!v || round_to(policy[Stage::operand], *v) != *v) return {};
        double largest = 0;
        for (const Index j : keys) {
          const auto other = expected.value(b * expected.tokens() + j, n);
          if (!other) return {};
          largest = std::max(largest, std::fabs(*other));
        }
        if (!is_alone(policy, trial.contract.attention.arithmetic, static_cast<double>(keys.size()), largest, *v))
          return {};
        ExactSum sum(trial.contract, policy[Stage::pv]);
        sum.add(*v);
        return sum.value();
      });
}

}  // namespace attest::properties::block
