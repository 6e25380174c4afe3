#include "kernels/explicit/explicit.hpp"

#include <limits>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/empty_row.hpp"
#include "kernels/parallel.hpp"
#include "kernels/products.hpp"
#include "kernels/promise.hpp"
#include "kernels/rows.hpp"
#include "kernels/scores.hpp"
#include "kernels/scratch.hpp"
#include "kernels/short_rows.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {
namespace {

constexpr Index chunk = 64;  // keys brought in at once

constexpr Index rows_max = 128;

Index rows_at_once(const Call& call) noexcept {
  constexpr Index materialised = Index{1} << 17;  // scores, and as many weights
  const Index most = call.lk <= 256 ? rows_max : rows_max / 2;
  return std::clamp<Index>(materialised / std::max<Index>(padded(call.lk), 1), 1, std::clamp<Index>(call.lq, 1, most));
}

enum class Weights : std::uint8_t { divided, by_lse };

template <class Real>
struct Explicit {
  const Call& call;
  const Weights how;
  const Index b, h, i0, rows;
  const Index length = call.length(b);
  const Index kv_head = h / call.group();
  const Index width = std::min(chunk, call.lk);
  const Index q_step = padded(call.d), v_step = padded(call.dv), s_step = padded(call.lk);

  Scratch<Real> scratch{rows * (q_step + v_step + 2 * s_step) + padded(width) * (call.d + v_step)};
  Real* const queries = scratch.take(rows * q_step);
  Real* const keys = scratch.take(padded(width) * call.d);
  Real* const values = scratch.take(width * v_step);
  Real* const scores = scratch.take(rows * s_step);
  Real* const weights = scratch.take(rows * s_step);
  Real* const output = scratch.take(rows * v_step);
  bool all_open = true;  // every key to every row

  void score() {
    load_queries(call, b, h, i0, rows, queries);
    for (Index j0 = 0; j0 < length; j0 += chunk) {
      const Index n = std::min(chunk, length - j0);
      load_keys(call, b, kv_head, j0, n, n, keys);
      scaled_dots(call, queries, q_step, rows, keys, n, scores + j0, s_step);
      for (Index r = 0; r < rows; ++r) finish_scores(r, j0, n);
    }
  }

  // From scaled products to masked scores.
  void finish_scores(Index r, Index j0, Index n) {
    Real* s = scores + r * s_step + j0;
    const Index i = i0 + r;
    const Piece piece{b, h, i, j0, n, open_range(call, diagonal(call.align, i, length, call.lq), length)};
    if (call.softcap_before_bias) apply_softcap(call, s, n);
    add_bias(call, piece, s);
    if (!call.softcap_before_bias) apply_softcap(call, s, n);
    apply_mask(call, piece, -std::numeric_limits<Real>::infinity(), s);
    std::fill(s + n, s + padded(n), -std::numeric_limits<Real>::infinity());
  }

  // Weights of row r, normalised and rounded; its log-sum-exp, -inf if no key is open, anything else where nobody asks.
  Real softmax(Index r) {
    const Format format = call[Stage::softmax];
    Real* s = scores + r * s_step;
    Real* w = weights + r * s_step;
    round_all(format, s, length);
    const auto [largest, open] = largest_of(s, length);
    all_open = all_open && open;
    const Real shift = largest == -std::numeric_limits<Real>::infinity() ? Real{0} : largest;
    const Real sum = powers_and_sum(format, s, shift, length, w);
    if (sum == 0) return -std::numeric_limits<Real>::infinity();
    Real lse = 0;
    if (call.lse || how == Weights::by_lse) lse = static_cast<Real>(round_to(format, shift + logarithm(format, sum)));
    if (how == Weights::divided)
      divide_all(format, sum, w, length);
    else
      powers_above(format, Base::e, s, lse, length, w);
    round_all(call[Stage::weights], w, length);
    if (narrower(call[Stage::operand], call[Stage::weights])) round_all(call[Stage::operand], w, length);
    return lse;
  }

  void weigh_values() {
    std::fill(output, output + rows * v_step, Real{0});
    for (Index j0 = 0; j0 < length; j0 += chunk) {
      const Index n = std::min(chunk, length - j0);
      weigh_rows(call, weights + j0, scores + j0, s_step, rows, n, values_of(call, b, kv_head, j0, n, values), all_open,
                 output);
    }
  }

  void run() {
    score();
    std::array<Real, rows_max> lse;
    for (Index r = 0; r < rows; ++r) lse[static_cast<std::size_t>(r)] = softmax(r);
    weigh_values();
    for (Index r = 0; r < rows; ++r) {
      const Real* row_lse = &lse[static_cast<std::size_t>(r)];
      Real* row = output + r * v_step;
      if (*row_lse == -std::numeric_limits<Real>::infinity()) empty_row(call, b, kv_head, length, row);
      write_output(call, b, h, i0 + r, row, row_lse);
    }
  }
};

template <class Real>
void run(const Call& call, Weights how) {
  const Index rows = rows_at_once(call);
  const Index blocks = (call.lq + rows - 1) / rows;
  const Index tasks = call.b * call.hq * blocks;
  for_each_task(tasks, thread_count(call, tasks), [&](Index task) {
    const Index head = task / blocks, i0 = task % blocks * rows;
    const Index b = head / call.hq, h = head % call.hq, here = std::min(rows, call.lq - i0);
    if constexpr (std::is_same_v<Real, float>)
      if (how == Weights::divided && are_short_rows(call, here) && attend_short_rows(call, b, h, i0, here, true))
        return;
    Explicit<Real>{call, how, b, h, i0, here}.run();
  });
}

void run(const attest_attention& attention, const Contract& contract, Weights how) {
  const Call call = make_call(attention, contract);
  computes_in_double(call.policy) ? run<double>(call, how) : run<float>(call, how);
}

}  // namespace

void explicit_attention(const attest_attention& attention, const Contract& contract) {
  run(attention, contract, Weights::divided);
}

void explicit_lse_attention(const attest_attention& attention, const Contract& contract) {
  run(attention, contract, Weights::by_lse);
}

Contract explicit_contract(const Policy& policy) {
  Contract contract = common_promise(policy);
  contract.arithmetic.normalise_after = false;
  contract.arithmetic.normalise_before = true;
  contract.arithmetic.kv_tile_min = Index{1} << 20;  // one tile: the maximum is known before the first weight
  return contract;
}

Contract explicit_lse_contract(const Policy& policy) {
  Contract contract = explicit_contract(policy);
  contract.arithmetic.normalise_before = false;
  contract.arithmetic.normalise_lse = true;
  return contract;
}

}  // namespace attest::kernels
