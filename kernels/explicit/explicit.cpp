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
#include "kernels/short_heads.hpp"
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

// Returns the distance from one row of scores to the next: a cache line more where a row is a multiple of half a KiB,
// since the rows of a block would share few sets of the cache.
Index step_of_scores(Index keys) noexcept {
  constexpr Index line = 16;
  return padded(keys) + (padded(keys) % (8 * line) == 0 ? line : 0);
}

enum class Weights : std::uint8_t { divided, by_lse };

// Rows of one head, a block of them at a time.
template <class Real>
struct Explicit {
  const Call& call;
  const Weights how;
  const Index b, h, rows_most;
  const bool several;  // blocks
  const Index length = call.length(b);
  const Index kv_head = h / call.group();
  const Index width = std::min(chunk, call.lk);
  const Index q_step = padded(call.d), v_step = padded(call.dv), s_step = step_of_scores(call.lk);
  // Keys that were turned for one block and fit into the cache serve the next.
  static constexpr Index kept_most = Index{1} << 16;
  const bool keeps = several && (length + chunk) * call.d <= kept_most;
  const Index key_chunks = keeps ? (length + chunk - 1) / chunk : 1;
  const bool plain = call.softcap == 0 && !call.bias && !call.keep && !call.causal && call.window_left < 0 &&
                     call.window_right < 0;  // every key is open, and nothing is added

  Scratch<Real> scratch{rows_most * (q_step + v_step + 2 * s_step) + padded(width) * (key_chunks * call.d + v_step)};
  Real* const queries = scratch.take(rows_most * q_step);
  Real* const keys = scratch.take(padded(width) * key_chunks * call.d);
  Real* const values = scratch.take(width * v_step);
  Real* const scores = scratch.take(rows_most * s_step);
  Real* const weights = scratch.take(rows_most * s_step);
  Real* const output = scratch.take(rows_most * v_step);
  Index i0 = 0, rows = 0;   // the block
  bool all_open = true;     // every key to every row of it
  bool keys_ready = false;  // in `keys`

  void score() {
    const RowsAt<Real> q = queries_of(call, b, h, i0, rows, queries);
    for (Index j0 = 0; j0 < length; j0 += chunk) {
      const Index n = std::min(chunk, length - j0);
      if (rows > 1 || keeps || !scaled_dots_in_place(call, b, kv_head, j0, n, q.data, scores + j0)) {
        Real* const some_keys = keys + (keeps ? j0 * call.d : 0);
        if (!keys_ready) load_keys(call, b, kv_head, j0, n, n, some_keys);
        scaled_dots(call, q.data, q.step, rows, some_keys, n, scores + j0, s_step);
      }
      for (Index r = 0; r < rows && !(plain && padded(n) == n); ++r) finish_scores(r, j0, n);
    }
    keys_ready = keeps;
  }

  // Turns scaled products into masked scores.
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
    round_operands(call, Stage::weights, w, length);
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

  // Rows [begin, begin + count).
  void run(Index begin, Index count) {
    i0 = begin;
    rows = count;
    all_open = true;
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

// A task is some of the blocks of a head: all, but where there are too few heads for the threads.
template <class Real>
void run(const Call& call, Weights how) {
  const Index rows = rows_at_once(call), blocks = (call.lq + rows - 1) / rows, heads = call.b * call.hq;
  const int threads = thread_count(call, heads * blocks);
  if (std::is_same_v<Real, float> && how == Weights::divided && are_short_heads(call))
    return attend_all_short_heads(call, threads, true, [&](Index b, Index h) {
      Explicit<Real>{call, how, b, h, call.lq, false}.run(0, call.lq);
    });
  const Index parts = parts_of_heads(heads, blocks, threads);
  for_each_task(heads * parts, threads, [&](Index task) {
    const Index b = task / parts / call.hq, h = task / parts % call.hq, part = task % parts;
    const Index first = blocks * part / parts * rows, last = std::min(blocks * (part + 1) / parts * rows, call.lq);
    if (std::is_same_v<Real, float> && how == Weights::divided && are_short_rows(call, last - first)) {
      for (Index i0 = first; i0 < last; i0 += rows) {
        const Index here = std::min(rows, last - i0);
        if (!attend_short_rows(call, b, h, i0, here, true)) Explicit<Real>{call, how, b, h, here, false}.run(i0, here);
      }
      return;
    }
    Explicit<Real> some{call, how, b, h, std::min(rows, last - first), last - first > rows};
    for (Index i0 = first; i0 < last; i0 += rows) some.run(i0, std::min(rows, last - i0));
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
