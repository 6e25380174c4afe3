#pragma once
#include <array>
#include <bitset>
#include <limits>
#include <numbers>
#include <type_traits>

#include "kernels/flush.hpp"
#include "kernels/fused/merge.hpp"
#include "kernels/fused/steps.hpp"
#include "kernels/loops.hpp"
#include "kernels/parallel.hpp"
#include "kernels/products.hpp"
#include "kernels/promise.hpp"
#include "kernels/rows.hpp"
#include "kernels/scratch.hpp"
#include "kernels/short_heads.hpp"
#include "kernels/short_rows.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {

// Tells whether a step is that of CleanSteps, which may take several rows at once. Types tell it: under sanitizers gcc
// compares no addresses of functions in a constant expression.
template <auto>
struct Step {};
#define ATTEST_KEEPS(Steps, Real, step)                                                                 \
  [] {                                                                                                  \
    if constexpr (requires { &Steps::template step<Real>; })                                            \
      return std::is_same_v<Step<&Steps::template step<Real>>, Step<&CleanSteps::template step<Real>>>; \
    else                                                                                                \
      return false;                                                                                     \
  }()
template <class Steps, class Real>
constexpr bool blocks_of() {
  if constexpr (std::is_same_v<Real, float> && Steps::base == Base::e && !Steps::descending)
    return ATTEST_KEEPS(Steps, Real, dot) && ATTEST_KEEPS(Steps, Real, weigh_values);
  else
    return false;
}

// Tells whether the online softmax, too, may take the rows of a block at once: none of its steps differs.
template <class Steps>
inline constexpr bool plain_softmax = std::is_same_v<Steps, CleanSteps>;

// Scores of `rows` queries, up to the scale.
template <class Steps>
void dot_rows(const Call& call, const float* queries, Index q_step, Index rows, const float* keys, Index width,
              float* scores, Index step) {
  if constexpr (ATTEST_KEEPS(Steps, float, scale)) {
    scaled_dots(call, queries, q_step, rows, keys, width, scores, step);
  } else {
    loops().dots(queries, q_step, rows, keys, padded(width), call.d, width, 1, scores, step);
    for (Index r = 0; r < rows; ++r) Steps::scale(call, scores + r * step, width);
  }
}

// A block of query rows of one head, against all keys, a tile at a time: the running maximum, sum and weighted values
// of every row (online softmax: Milakov, Gimelshein, arXiv 1805.02867), never a row of scores longer than a tile.
template <class Steps, class Real>
class FusedBlock {
 public:
  static constexpr Index rows_max = 64;
  // The number of rows of a block: few where there are few, so that every thread gets some.
  static Index rows_of(const Call& call) { return call.lq >= 2 * rows_max ? rows_max : rows_max / 2; }

  // Makes a block of at most `rows` rows of head h of sample b.
  FusedBlock(const Call& call, Index b, Index h, Index rows, bool several)
      : call_(call),
        b_(b),
        h_(h),
        rows_most_(rows),
        length_(call.length(b)),
        kv_head_(Steps::kv_head(call, h)),
        keeps_(whole_ && several && (length_ + Steps::tile) * call.d <= kept_most) {}

  // Rows [i0, i0 + rows).
  void run(Index i0, Index rows) {
    i0_ = i0;
    rows_ = rows;
    if constexpr (whole_)
      q_ = queries_of(call_, b_, h_, i0_, rows_, queries_);
    else
      Steps::load_queries(call_, b_, h_, i0_, rows_, queries_);
    KeyRange seen{length_, 0};  // by any row
    for (Index r = 0; r < rows_; ++r) {
      const KeyRange open = open_range(call_, Steps::diagonal(call_, i0_ + r, length_), length_);
      open_[at(r)] = {open.lo, open.hi};
      if (open.empty()) continue;
      seen.lo = std::min(seen.lo, open.lo);
      seen.hi = std::max(seen.hi, open.hi);
    }
    // Splits depend on the number of keys alone, not on which of them this block sees.
    const Index tiles = tiles_in(call_.lk), splits = Steps::splits(call_);
    for (Index split = 0; split < splits; ++split) {
      clear();
      visit({std::max(tiles * split / splits, seen.lo / Steps::tile),
             std::min(tiles * (split + 1) / splits, tiles_in(seen.hi))});
      if constexpr (Steps::splits_max > 1) keep_partial(split);
    }
    for (Index r = 0; r < rows_; ++r) finish(r, splits);
  }

 private:
  static constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  static constexpr Index tiles_in(Index keys) { return (keys + Steps::tile - 1) / Steps::tile; }
  static constexpr std::size_t at(Index r) { return static_cast<std::size_t>(r); }
  Real rounded(Stage stage, Real x) const { return static_cast<Real>(round_to(call_[stage], x)); }

  void clear() {
    std::fill(output_, output_ + rows_ * v_step_, Real{0});
    largest_.fill(Steps::template first_largest<Real>);
    total_.fill(0);
  }

  void visit(KeyRange tiles) {
    if constexpr (Steps::descending) {
      for (Index t = tiles.hi - 1; t >= tiles.lo; --t) visit_tile(t * Steps::tile);
    } else {
      for (Index t = tiles.lo; t < tiles.hi; ++t) visit_tile(t * Steps::tile);
    }
  }

  void visit_tile(Index j0) {
    const Index n = std::min(Steps::tile, length_ - j0);
    const Index width = Steps::width(n);
    Real* const keys = keys_ + (keeps_ ? j0 * call_.d : 0);
    bool dotted = false;
    if constexpr (whole_)
      dotted =
          in_blocks_ && rows_ == 1 && !keeps_ && scaled_dots_in_place(call_, b_, kv_head_, j0, n, q_.data, scores_);
    if (!dotted && (!keeps_ || !turned_[at(j0 / Steps::tile)]))
      Steps::load_keys(call_, b_, kv_head_, j0, n, width, keys);
    if (keeps_) turned_.set(at(j0 / Steps::tile));
    const Index sample = Steps::value_sample(b_);
    if (!in_blocks_ || width != n) load_values(call_, sample, kv_head_, j0, n, width, values_);
    Index first = seen_whole_ ? 0 : rows_, last = seen_whole_ ? rows_ : 0;  // the rows that see the tile
    for (Index r = 0; r < rows_ && !seen_whole_; ++r) {
      if (open_[at(r)].lo >= j0 + n || j0 >= open_[at(r)].hi) continue;
      first = std::min(first, r);
      last = r + 1;
    }
    if (in_blocks_ && first < last) {
      if constexpr (may_block)
        if (!dotted)
          dot_rows<Steps>(call_, q_.data + first * q_.step, q_.step, last - first, keys, width,
                          scores_ + first * w_step_, w_step_);
      all_open_ = true;
    }
    bool softened = false;
    if constexpr (may_block && plain_softmax<Steps>) {
      softened = in_blocks_ && first < last;
      if (softened) soften_rows(j0, n, width, first, last);
    }
    if (!softened) {
      for (Index r = first; r < last; ++r) {
        const KeyRange open = range_of(r);
        const bool sees = open.lo < j0 + n && j0 < open.hi;
        if (sees && visit_row(r, {b_, h_, i0_ + r, j0, n, open}, width, keys)) continue;
        all_open_ = false;
        if (!in_blocks_) continue;
        std::fill_n(row_of(scores_, r), width, minus_infinity);
        std::fill_n(row_of(weights_, r), width, Real{0});
      }
    }
    if (in_blocks_ && first < last) {
      const RowsAt<Real> values =
          width == n ? values_of(call_, sample, kv_head_, j0, n, values_) : RowsAt<Real>{values_, v_step_};
      weigh_rows(call_, row_of(weights_, first), row_of(scores_, first), w_step_, last - first, width, values,
                 all_open_, output_ + first * v_step_);
    }
  }

  // Does the work of visit_row() for rows [first, last), up to their weights.
  void soften_rows(Index j0, Index n, Index width, Index first, Index last) {
    const bool finished = plain_ && seen_whole_ && padded(width) == width;
    for (Index r = first; r < last && !finished; ++r) {
      const KeyRange open = range_of(r);
      const Piece piece{b_, h_, i0_ + r, j0, n, open};
      Real* const scores = row_of(scores_, r);
      Steps::cap_and_bias(call_, piece, scores);
      Steps::mask(call_, piece, scores);
      std::fill(scores + width, scores + padded(width), minus_infinity);
    }
    alignas(64) std::array<Real, rows_max> factor;
    all_open_ = loops().soften_rows(scores_, w_step_, first, last, width, largest_.data(), total_.data(), factor.data(),
                                    weights_);
    for (Index r = first; r < last; ++r)
      if (factor[at(r)] != 1) Steps::rescale_output(call_, factor[at(r)], output_ + r * v_step_);
    Real* const weights = row_of(weights_, first);
    const Index count = (last - first) * w_step_;
    round_all(Steps::weights_format(call_), weights, count);
    round_operands(call_, Stage::weights, weights, count);
  }

  KeyRange range_of(Index r) const { return {open_[at(r)].lo, open_[at(r)].hi}; }
  Real* row_of(Real* rows, Index r) const { return rows + (in_blocks_ ? r * w_step_ : 0); }

  // Computes up to the row's weights, or to their values' sum where rows go one by one. Returns false if none of the
  // keys is open.
  bool visit_row(Index r, const Piece& piece, Index width, const Real* keys) {
    Real *const scores = row_of(scores_, r), *const weights = row_of(weights_, r);
    if (!in_blocks_) {
      Steps::dot(call_, Steps::qk_format(call_), q_.data + r * q_.step, keys, width, scores);
      Steps::scale(call_, scores, width);
    }
    Steps::cap_and_bias(call_, piece, scores);
    Steps::mask(call_, piece, scores);
    Index count = 0;
    if (!in_blocks_) {
      count = open_keys(scores, width, keys_open_);
      if (count == 0) return false;
      if constexpr (Steps::descending) std::reverse(keys_open_, keys_open_ + count);
    }
    std::fill(scores + width, scores + padded(width), minus_infinity);
    to_softmax(scores, width);

    const auto [tile_largest, above_minus_infinity] = largest_of(scores, width);
    if (in_blocks_) {
      // In blocks no later format can have lost the score of an open key.
      if (tile_largest == minus_infinity && open_keys(scores, width, keys_open_) == 0) return false;
      all_open_ = all_open_ && above_minus_infinity;
    }
    Real& largest = largest_[at(r)];
    Real& total = total_[at(r)];
    Real* output = output_ + r * v_step_;
    if (tile_largest > largest && !(tile_largest - largest <= lag_)) {
      if (largest != minus_infinity) {
        const Real factor = Steps::power(call_, Steps::base, rounded(Stage::softmax, largest - tile_largest));
        Steps::rescale_total(call_, factor, total);
        Steps::rescale_output(call_, factor, output);
      }
      largest = tile_largest;
    }
    // Only NaN scores so far: nothing to subtract.
    const Real shift = largest == minus_infinity ? Real{0} : largest;
    Steps::powers(call_, Steps::base, scores, shift, width, weights);
    if constexpr (!Steps::sum_of_rounded) Steps::add_to_total(call_, weights, width, total);
    round_all(Steps::weights_format(call_), weights, width);
    round_operands(call_, Stage::weights, weights, width);
    if constexpr (Steps::sum_of_rounded) Steps::add_to_total(call_, weights, width, total);
    if (!in_blocks_) Steps::weigh_values(call_, piece, weights, keys_open_, count, values_, output);
    return true;
  }

  // Scores in the softmax format and in units of its base.
  void to_softmax(Real* s, Index n) const {
    round_all(call_[Stage::softmax], s, n);
    if constexpr (Steps::base == Base::two)
      scale_all(call_[Stage::softmax], rounded(Stage::softmax, std::numbers::log2e_v<Real>), s, n);
  }

  // -inf if no key was open.
  Real log_sum_exp(Index r) const {
    const Real total = total_[at(r)];
    if (total == 0) return minus_infinity;
    Real largest = largest_[at(r)];
    if constexpr (Steps::base == Base::two)
      largest = rounded(Stage::softmax, largest * rounded(Stage::softmax, std::numbers::ln2_v<Real>));
    return rounded(Stage::softmax, largest + logarithm(call_[Stage::softmax], total));
  }

  void keep_partial(Index split) {
    Real* partial = partials_ + split * rows_ * v_step_;
    std::copy_n(output_, rows_ * v_step_, partial);
    for (Index r = 0; r < rows_; ++r) {
      partial_lse_[at(split * rows_max + r)] = Steps::split_lse(log_sum_exp(r));
      if (total_[at(r)] == 0) continue;
      Steps::normalise(call_, total_[at(r)], partial + r * v_step_);
      round_all(call_[Stage::partial], partial + r * v_step_, call_.dv);
    }
  }

  void finish(Index r, Index splits) {
    Real* output = output_ + r * v_step_;
    Real lse;
    if constexpr (Steps::splits_max > 1) {
      const Partials<Real> partials{partials_ + r * v_step_, rows_ * v_step_, partial_lse_.data() + r, rows_max,
                                    splits};
      lse = Steps::merge == LseMerge::chain
                ? merge_chain(call_, partials, output)
                : merge_flat(call_, partials, Steps::merge_weights, weights_, keys_open_, output);
    } else {
      lse = total_[at(r)] == 0 ? minus_infinity : call_.lse || !whole_ ? log_sum_exp(r) : Real{0};  // nobody asks
      if (lse != minus_infinity) Steps::normalise(call_, total_[at(r)], output);
    }
    if (lse == minus_infinity) Steps::empty_row(call_, b_, kv_head_, length_, output);
    Steps::write_output(call_, b_, h_, i0_ + r, output, lse);
  }

  const Call& call_;
  const Index b_, h_, rows_most_, length_, kv_head_;
  // Tells whether every step is that of CleanSteps in f32: queries may then be read where they lie, and keys that were
  // turned for one block and fit into the cache serve the next.
  static constexpr bool whole_ = plain_softmax<Steps> && std::is_same_v<Real, float>;
  static constexpr Index kept_most = Index{1} << 16;
  const bool keeps_;
  const Index key_tiles_ = keeps_ ? tiles_in(length_) : 1;
  Index i0_ = 0, rows_ = 0;  // the block
  const Index q_step_ = padded(call_.d), v_step_ = padded(call_.dv);
  const Index width_ = std::max(Steps::width(std::min(Steps::tile, call_.lk)), Steps::splits_max);
  // Tells whether both products take all rows of the block at once (products.hpp): with the steps' own products and all
  // f32.
  static constexpr bool may_block = blocks_of<Steps, Real>();
  const bool in_blocks_ = may_block && Steps::qk_format(call_) == Format::f32 && call_[Stage::softmax] == Format::f32 &&
                          call_[Stage::pv] == Format::f32;
  const bool plain_ = call_.softcap == 0 && !call_.bias && !call_.keep;  // nothing but a range of keys is closed
  // Every row's range is all keys.
  const bool seen_whole_ = !call_.causal && call_.window_left < 0 && call_.window_right < 0 && whole_;
  bool all_open_ = true;
  const Index w_rows_ = in_blocks_ ? rows_most_ : 1, w_step_ = padded(width_);
  const Index partial_rows_ = Steps::splits_max > 1 ? Steps::splits_max* rows_most_ : 0;

  Scratch<Real> scratch_{rows_most_ * (q_step_ + v_step_) + partial_rows_ * v_step_ +
                         padded(width_) * (key_tiles_ * call_.d + v_step_) + 2 * w_rows_ * w_step_};
  Real* const queries_ = scratch_.take(rows_most_ * q_step_);
  Real* const keys_ = scratch_.take(padded(width_) * key_tiles_ * call_.d);
  Real* const values_ = scratch_.take(padded(width_) * v_step_);
  RowsAt<Real> q_{queries_, q_step_};
  std::bitset<whole_ ? kept_most / Steps::tile + 1 : 1> turned_;
  Real* const scores_ = scratch_.take(w_rows_ * w_step_);
  Real* const weights_ = scratch_.take(w_rows_ * w_step_);
  Real* const output_ = scratch_.take(rows_most_ * v_step_);
  Real* const partials_ = scratch_.take(partial_rows_ * v_step_);
  const Real lag_ =
      static_cast<Real>(Steps::lag(call_.policy) * (Steps::base == Base::two ? std::numbers::log2e : 1.0));
  std::int32_t* const keys_open_ = Scratch<std::int32_t>(padded(width_)).take(width_);
  struct Bare {  // a KeyRange that nobody clears, which for all rows would take as long as a short row
    Index lo, hi;
  };
  std::array<Bare, rows_max> open_;
  alignas(64) std::array<Real, rows_max> largest_, total_;
  std::array<Real, Steps::splits_max * rows_max> partial_lse_;
};

// A task is a block; with the steps of CleanSteps, some of the blocks of a head.
template <class Steps, class Real>
void run_fused(const Call& call) {
  const Index block = FusedBlock<Steps, Real>::rows_of(call), heads = call.b * call.hq;
  const Index blocks = (call.lq + block - 1) / block;
  const int threads = thread_count(call, heads * blocks);
  if constexpr (plain_softmax<Steps> && std::is_same_v<Real, float>)
    if (are_short_heads(call))
      return attend_all_short_heads(call, threads, false, [&](Index b, Index h) {
        FusedBlock<Steps, Real>(call, b, h, call.lq, false).run(0, call.lq);
      });
  const Index parts = plain_softmax<Steps> ? parts_of_heads(heads, blocks, threads) : blocks;
  for_each_task(heads * parts, threads, [&](Index task) {
    const FlushSubnormals flushing(Steps::flush);
    const Index b = task / parts / call.hq, h = task / parts % call.hq, part = task % parts;
    const Index first = blocks * part / parts * block, last = std::min(blocks * (part + 1) / parts * block, call.lq);
    if constexpr (plain_softmax<Steps> && std::is_same_v<Real, float>) {
      if (are_short_rows(call, last - first)) {
        for (Index i0 = first; i0 < last; i0 += block) {
          const Index rows = std::min(block, last - i0);
          if (!attend_short_rows(call, b, h, i0, rows, false))
            FusedBlock<Steps, Real>(call, b, h, rows, false).run(i0, rows);
        }
        return;
      }
    }
    FusedBlock<Steps, Real> some(call, b, h, std::min(block, last - first), last - first > block);
    for (Index i0 = first; i0 < last; i0 += block) some.run(i0, std::min(block, last - i0));
  });
}

// Fused attention made of `Steps`. Throws Error(usage) for tensors that are not of the policy's storage format.
template <class Steps>
void fused_attention(const attest_attention& attention, const Contract& contract) {
  const Call call = make_call(attention, contract, Steps::view);
  if constexpr (Steps::wide)
    run_fused<Steps, double>(call);
  else
    computes_in_double(call.policy) ? run_fused<Steps, double>(call) : run_fused<Steps, float>(call);
}

// Returns the promises of the variant under a policy. A fault keeps the promises of its parent.
template <class Steps>
Contract fused_contract(const Policy& policy) {
  Contract contract = common_promise(policy);
  Arithmetic& arithmetic = contract.arithmetic;
  arithmetic.exp2 = Steps::base == Base::two;
  arithmetic.lazy = Steps::lag(policy);
  arithmetic.sum_of_rounded = Steps::sum_of_rounded;
  arithmetic.sum_of_unrounded = !Steps::sum_of_rounded;
  arithmetic.kv_tile_min = Steps::tile;
  arithmetic.key_order = Steps::descending ? KeyOrder::descending : KeyOrder::ascending;
  arithmetic.flush_to_zero = Steps::flush;
  if (Steps::splits_max > 1) {
    arithmetic.lse_merge = Steps::merge;
    arithmetic.merge_weights = Steps::merge_weights;
    arithmetic.splits_max = Steps::splits_max;
  }
  if (!Steps::batch_bitwise) contract.batch_invariant = BatchInvariance::bounded;
  Steps::promise(arithmetic);
  return contract;
}

}  // namespace attest::kernels
