#include "kernels/explicit/explicit.hpp"

#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/empty_row.hpp"
#include "kernels/parallel.hpp"
#include "kernels/promise.hpp"
#include "kernels/rows.hpp"
#include "kernels/scores.hpp"
#include "kernels/scratch.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {
namespace {

constexpr Index chunk = 128;  // keys brought in at once

Index rows_at_once(const Call& call) noexcept {
  constexpr Index materialised = Index{1} << 17;  // scores, and as many weights
  return std::clamp<Index>(materialised / std::max<Index>(padded(call.lk), 1), 1, std::clamp<Index>(call.lq, 1, 64));
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
  std::int32_t* const open = Scratch<std::int32_t>(padded(chunk)).take(chunk);

  void score() {
    load_queries(call, b, h, i0, rows, queries);
    for (Index j0 = 0; j0 < length; j0 += chunk) {
      const Index n = std::min(chunk, length - j0);
      load_keys(call, b, kv_head, j0, n, n, keys);
      for (Index r = 0; r < rows; ++r) {
        Real* s = scores + r * s_step + j0;
        const Index i = i0 + r;
        const Piece piece{b, h, i, j0, n, open_range(call, diagonal(call.align, i, length, call.lq), length)};
        dot_keys(call[Stage::qk], queries + r * q_step, keys, padded(n), call.d, n, s);
        apply_scale(call, s, n);
        if (call.softcap_before_bias) apply_softcap(call, s, n);
        add_bias(call, piece, s);
        if (!call.softcap_before_bias) apply_softcap(call, s, n);
        apply_mask(call, piece, -std::numeric_limits<Real>::infinity(), s);
        std::fill(s + n, s + padded(n), -std::numeric_limits<Real>::infinity());
      }
    }
  }

  // Weights of row r, normalised and rounded; its log-sum-exp, -inf if no key is open.
  Real softmax(Index r) {
    const Format format = call[Stage::softmax];
    Real* s = scores + r * s_step;
    Real* w = weights + r * s_step;
    round_all(format, s, length);
    const Real largest = max_of(s, length);
    const Real shift = largest == -std::numeric_limits<Real>::infinity() ? Real{0} : largest;
    powers_above(format, Base::e, s, shift, length, w);
    const Real sum = sum_of(format, w, length);
    if (sum == 0) return -std::numeric_limits<Real>::infinity();
    const auto lse = static_cast<Real>(round_to(format, shift + logarithm(format, sum)));
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
      load_values(call, b, kv_head, j0, n, n, values);
      for (Index r = 0; r < rows; ++r) {
        const Index at = r * s_step + j0;
        const Index count = open_keys(scores + at, n, open);
        add_weighted(call[Stage::pv], weights + at, open, count, values, v_step, call.dv, output + r * v_step);
      }
    }
  }

  void run() {
    score();
    std::array<Real, 64> lse;
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
    Explicit<Real>{call, how, head / call.hq, head % call.hq, i0, std::min(rows, call.lq - i0)}.run();
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
