#include "kernels/mha/emulated.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/rng.hpp"
#include "kernels/emulated/members.hpp"
#include "kernels/mha/block.hpp"
#include "kernels/mha/sums.hpp"

namespace attest::emulator {
namespace {

using Row = std::vector<double>;

Row numbers(const attest_tensor& tensor) {
  Row row;
  if (!attest_present(&tensor)) return row;
  const Index outer = tensor.ndim > 2 ? tensor.shape[0] : 1, rows = tensor.ndim > 1 ? tensor.shape[tensor.ndim - 2] : 1;
  const Index columns = tensor.shape[tensor.ndim - 1];
  for (Index b = 0; b < outer; ++b)
    for (Index i = 0; i < rows; ++i)
      for (Index c = 0; c < columns; ++c)
        row.push_back(tensor.ndim > 2   ? attest_load(&tensor, b, i, c, 0)
                      : tensor.ndim > 1 ? attest_load(&tensor, i, c, 0, 0)
                                        : attest_load(&tensor, c, 0, 0, 0));
  return row;
}

class Block {
 public:
  Block(const mha::Call& call, const mha::Contract& contract, const BlockVariant& variant)
      : call_(call), contract_(contract), v_(variant), storage_(contract.attention.policy[Stage::storage]) {}

  void run() {
    const Index q = call_.q_width(), kv = call_.kv_width(), e = call_.e();
    Row w[3] = {numbers(call_.w_q), numbers(call_.w_k), numbers(call_.w_v)};
    Row b[3] = {numbers(call_.b_q), numbers(call_.b_k), numbers(call_.b_v)};
    for (int n = 0; n < 3; ++n) b[n].resize(static_cast<std::size_t>(n == 0 ? q : kv), 0);
    if (v_.defect == BlockDefect::no_b_q) b[0].assign(b[0].size(), 0);
    if (v_.defect == BlockDefect::no_b_k || contract_.drops_b_k) b[1].assign(b[1].size(), 0);
    if (v_.defect == BlockDefect::no_b_v) b[2].assign(b[2].size(), 0);
    disorder(w, b);
    const Row x = numbers(call_.x), memory = numbers(call_.memory);
    const Tensor query = projected(x, w[0], b[0], call_.l(), call_.heads);
    const Tensor key = projected(memory, w[1], b[1], call_.m(), call_.kv_heads);
    const Tensor value = projected(memory, w[2], b[2], call_.m(), call_.kv_heads);
    const Row heads = attended(query, key, value);
    kernels::give_stage(call_.stages.q, query);
    kernels::give_stage(call_.stages.k, key);
    kernels::give_stage(call_.stages.v, value);
    for (std::size_t n = 0; n < heads.size() && attest_present(&call_.stages.heads); ++n) {
      const auto at = static_cast<Index>(n);
      attest_store(&call_.stages.heads, at / (call_.l() * q), at / q % call_.l(), at % q, 0, heads[n]);
    }
    Row out_bias = numbers(call_.b_out);
    out_bias.resize(static_cast<std::size_t>(e), 0);
    if (v_.defect == BlockDefect::no_b_out) out_bias.assign(out_bias.size(), 0);
    const Row out = multiply(heads, numbers(call_.w_out), out_bias, q, v_.out,
                             v_.defect == BlockDefect::gemm_out_16 ? narrow() : contract_.gemm, true);
    for (std::size_t n = 0; n < out.size(); ++n) {
      const auto at = static_cast<Index>(n);
      attest_store(&call_.out, at / (call_.l() * e), at / e % call_.l(), at % e, 0, out[n]);
    }
  }

 private:
  [[nodiscard]] Format narrow() const { return storage_ == Format::bf16 ? Format::bf16 : Format::f16; }

  // Wrong orders of the projections: what a kernel makes of a packed buffer that it reads as another.
  void disorder(Row (&w)[3], Row (&b)[3]) const {
    if (v_.defect == BlockDefect::order_swapped) {
      std::swap(w[1], w[2]);
      std::swap(b[1], b[2]);
    } else if (v_.defect == BlockDefect::order_q_k && call_.heads == call_.kv_heads) {
      std::swap(w[0], w[1]);
      std::swap(b[0], b[1]);
    } else if (v_.defect == BlockDefect::order_interleaved && call_.heads == call_.kv_heads) {
      const auto e = static_cast<std::size_t>(call_.e()), d = static_cast<std::size_t>(call_.head_dim),
                 heads = static_cast<std::size_t>(call_.heads);
      Row all, biases;
      for (int n = 0; n < 3; ++n) {
        all.insert(all.end(), w[n].begin(), w[n].end());
        biases.insert(biases.end(), b[n].begin(), b[n].end());
      }
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t n = 0; n < 3; ++n)
          for (std::size_t c = 0; c < d; ++c) {
            const std::size_t from = (h * 3 + n) * d + c, to = h * d + c;
            std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(from * e), e,
                        w[n].begin() + static_cast<std::ptrdiff_t>(to * e));
            b[n][to] = biases[from];
          }
    }
  }

  // rows x^T w + bias, each as it is stored; `last`: as out is.
  [[nodiscard]] Row multiply(const Row& x, const Row& w, const Row& bias, Index width, const Sums& sums, Format format,
                             bool last) const {
    const auto n = static_cast<std::size_t>(width), columns = w.size() / n;
    const bool separate = v_.projected == mha::Projected::separate;
    Row result;
    Sums how = sums;
    for (std::size_t i = 0; i * n < x.size(); ++i)
      for (std::size_t c = 0; c < columns; ++c) {
        how.seed = mix(how.seed);
        if (sums.side == 0) how.side = (how.seed & 1) != 0 ? 1 : -1;
        const double product = sum_of_products(how, format, std::span(x).subspan(i * n, n),
                                               std::span(w).subspan(c * n, n), separate ? 0 : bias[c]);
        const double added = sums.flush && std::fabs(bias[c]) < smallest_normal(storage_) ? 0 : bias[c];
        if (separate)
          result.push_back(stored(sums, stored(sums, product) + added));
        else
          result.push_back(last || v_.projected == mha::Projected::rounded ? stored(sums, product) : product);
      }
    return result;
  }

  [[nodiscard]] double stored(const Sums& sums, double x) const {
    const double rounded = round_to(storage_, x);
    return sums.flush && std::fabs(rounded) < smallest_normal(storage_) ? 0 : rounded;
  }

  [[nodiscard]] Tensor projected(const Row& x, const Row& w, const Row& bias, Index tokens, Index heads) const {
    const Format format = v_.defect == BlockDefect::gemm_16 ? narrow() : contract_.gemm;
    const Row values = multiply(x, w, bias, call_.e(), v_.in, format, false);
    const Index width = heads * call_.head_dim;
    Tensor tensor(DType::f64, std::array{call_.b(), heads, tokens, call_.head_dim});
    for (std::size_t n = 0; n < values.size(); ++n) {
      const auto at = static_cast<Index>(n);
      const Index token = at / width, c = at % width;
      tensor.set(token / tokens, c / call_.head_dim, token % tokens, c % call_.head_dim, values[n]);
    }
    return tensor;
  }

  // The concatenated heads.
  [[nodiscard]] Row attended(const Tensor& query, const Tensor& key, const Tensor& value) const {
    attest::Inputs inputs;
    inputs.q = query.clone();
    inputs.k = key.clone();
    inputs.v = value.clone();
    inputs.scale = call_.scale;
    inputs.causal = call_.causal;
    inputs.align = call_.align;
    copy_masks(inputs);
    attest::Contract contract = contract_.attention;
    const Format wide = at_least_f32(storage_);
    if (v_.projected == mha::Projected::unrounded)
      for (const Stage stage : {Stage::storage, Stage::operand, Stage::weights}) contract.policy.set(stage, wide);
    contract.policy.set(Stage::output, v_.heads_rounded ? storage_ : wide);
    Variant variant = v_.attention;
    if (v_.defect == BlockDefect::softmax_16) {
      contract.policy.set(Stage::softmax, narrow());
      variant.lazy = 0;
    }
    Tensor out(dtype_of(contract.policy[Stage::output]), std::array{call_.b(), call_.heads, call_.l(), call_.head_dim});
    Tensor lse;
    emulator::run(inputs, contract, variant, out, lse);
    Row heads;
    for (Index b = 0; b < call_.b(); ++b)
      if (v_.defect == BlockDefect::no_transpose) {
        for (Index h = 0; h < call_.heads; ++h)
          for (Index i = 0; i < call_.l(); ++i)
            for (Index c = 0; c < call_.head_dim; ++c) heads.push_back(out.at(b, h, i, c));
      } else {
        for (Index i = 0; i < call_.l(); ++i)
          for (Index h = 0; h < call_.heads; ++h)
            for (Index c = 0; c < call_.head_dim; ++c) heads.push_back(out.at(b, h, i, c));
      }
    return heads;
  }
  void copy_masks(attest::Inputs& inputs) const {
    if (attest_present(&call_.bias)) {
      inputs.bias = Tensor(dtype_of(storage_), std::array{call_.b(), call_.heads, call_.l(), call_.m()});
      for (Index b = 0; b < call_.b(); ++b)
        for (Index h = 0; h < call_.heads; ++h)
          for (Index i = 0; i < call_.l(); ++i)
            for (Index j = 0; j < call_.m(); ++j) inputs.bias.set(b, h, i, j, load(call_.bias, b, h, i, j));
    }
    if (attest_present(&call_.keep)) {
      inputs.keep = Tensor(DType::boolean, std::array{call_.b(), call_.heads, call_.l(), call_.m()});
      for (Index b = 0; b < call_.b(); ++b)
        for (Index h = 0; h < call_.heads; ++h)
          for (Index i = 0; i < call_.l(); ++i)
            for (Index j = 0; j < call_.m(); ++j) inputs.keep.set(b, h, i, j, load(call_.keep, b, h, i, j));
    }
    if (attest_present(&call_.kv_lengths)) {
      inputs.kv_lengths = Tensor(DType::i32, std::array{call_.b()});
      for (Index b = 0; b < call_.b(); ++b) inputs.kv_lengths.set(b, 0, 0, 0, load(call_.kv_lengths, b));
    }
  }

  const mha::Call& call_;
  const mha::Contract& contract_;
  const BlockVariant& v_;
  Format storage_;
};

class Draw {
 public:
  Draw(const mha::Contract& contract, std::uint64_t seed, bool hostile)
      : contract_(contract), key_(mix(seed)), hostile_(hostile) {}

  std::uint64_t pick(std::uint64_t n) { return below(key_ = mix(key_), n); }
  Sums sums(Index terms) {
    Sums s;
    s.seed = key_ = mix(key_);
    s.truncate = contract_.attention.arithmetic.kappa >= 3 && (hostile_ || pick(2) != 0);
    s.fma = pick(2) != 0;
    s.bias_first = pick(2) != 0;
    s.side = static_cast<int>(pick(3)) - 1;
    enter(s);
    if (contract_.gemm_chain && !s.mma) {
      chained(s, *contract_.gemm_chain, terms);
      return s;
    }
    constexpr Index lanes[] = {2, 4, 8, 16, 32};
    s.order = hostile_ && pick(4) != 0 ? SumOrder::greedy : static_cast<SumOrder>(pick(6));
    s.lanes = lanes[pick(5)];
    s.block = Index{1} << pick(3);
    s.splits = pick(3) == 0 ? 1 + static_cast<Index>(pick(4)) : 1;
    return s;
  }

 private:
  // Sets the contract's rules for factors, subnormal numbers and tensor cores.
  void enter(Sums& s) {
    const attest::Contract& contract = contract_.attention;
    s.storage = contract.policy[Stage::storage];
    const Format operand = contract.policy[Stage::operand];
    if (precision(operand) < precision(s.storage) || min_exponent(operand) > min_exponent(s.storage))
      s.operand = operand;
    s.mma = contract.arithmetic.mma;
    if (contract.arithmetic.flush_to_zero) s.flush = pick(4) != 0;
    if (s.mma && operand == Format::tf32) s.cut_operand = pick(2) != 0;
    if (s.mma) s.truncate = false;
  }
  // The longest sums that a declared chain permits.
  static void chained(Sums& s, const mha::Chain& chain, Index terms) {
    s.order = SumOrder::lanes;
    if (chain.lanes > 0) {
      s.lanes = chain.lanes;
      s.block = chain.block;
      return;
    }
    for (s.lanes = 1; s.lanes < terms; ++s.lanes)
      if (mha::Chain{0, s.lanes, 1}.depth(terms) <= static_cast<double>(chain.most)) return;
    s.order = SumOrder::pairwise;
  }

  const mha::Contract& contract_;
  std::uint64_t key_;
  bool hostile_;
};

}  // namespace

BlockVariant draw_block_variant(const mha::Contract& contract, const mha::Problem& problem, std::uint64_t seed,
                                bool hostile) {
  Draw draw(contract, seed, hostile);
  BlockVariant v;
  do v.projected = static_cast<mha::Projected>(draw.pick(mha::projected_count));
  while (!contract.projections[static_cast<std::size_t>(v.projected)]);
  v.heads_rounded = contract.heads_rounded && (!contract.heads_unrounded || draw.pick(2) != 0);
  v.in = draw.sums(problem.e);
  v.out = draw.sums(problem.q_width());
  attest::Problem heads;
  heads.scale = problem.effective_scale();
  v.attention = draw_variant(contract.attention, heads, draw.pick(~std::uint64_t{0}));
  return v;
}

BlockVariant member_variant(const mha::Contract& contract, const mha::Problem& problem, std::uint64_t seed, int n) {
  BlockVariant v = draw_block_variant(contract, problem, extend(seed, static_cast<std::uint64_t>(n)));
  for (Sums* sums : {&v.in, &v.out})
    if (sums->order == SumOrder::greedy) sums->order = static_cast<SumOrder>(mix(sums->seed) % 5);
  if (n % 2 == 0) return v;
  attest::Problem heads;
  heads.scale = problem.effective_scale();
  v.attention = member_variant(contract.attention, heads, seed, n / 2);
  return v;
}

void run(const mha::Call& call, const mha::Contract& contract, const BlockVariant& variant) {
  Block(call, contract, variant).run();
}

}  // namespace attest::emulator
