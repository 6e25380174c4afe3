#include "oracle/layer_norm/short_rows.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "oracle/decode.hpp"
#include "oracle/layer_norm/lent.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::oracle::layer_norm {
namespace {

// Rows of a matrix one behind the other, zeros behind them.
void read_rows(const Tensor& tensor, Index first, Index rows, std::span<double> to) {
  const attest_tensor view = tensor.view();
  const Index columns = view.shape[1], count = rows * columns;
  if ((view.strides[1] == 1 || columns == 1) && view.strides[0] == columns) {
    decode_padded({view.dtype, attest_at(&view, first, 0, 0, 0), 1, count, count}, to.data(), padded(count));
    std::fill(to.begin() + padded(count), to.end(), 0.0);
    return;
  }
  std::size_t at = 0;
  for (Index r = first; r < first + rows; ++r)
    for (Index i = 0; i < columns; ++i) to[at++] = tensor.at(r, i);
  std::fill(to.begin() + static_cast<Index>(at), to.end(), 0.0);
}

}  // namespace

ShortRows::ShortRows() = default;

ShortRows::~ShortRows() {
  for (auto* row : {&x, &residual, &stored, &got}) LentRows::give(*row);
}

void LayerNormOracle::begin_short_rows(ShortRows& block, const QuickRow& quick) const {
  const bool singles = problem_.hidden == 1 && !numbers_.rms;
  // A few rows of many elements are sooner looked at one by one.
  if (problem_.judged != 0 || problem_.hidden > ShortRule::longest || numbers_.flush ||
      (problem_.hidden > 2 * lane_count && problem_.rows < lane_count))
    return;
  block.rule = quick.short_rule();
  block.speaks = singles || block.rule;
  if (!block.speaks) return;
  block.x = LentRows::take(ShortRows::most);
  block.got = LentRows::take(ShortRows::most);
  if (!inputs_.residual.present()) return;
  block.residual = LentRows::take(ShortRows::most);
  block.stored = LentRows::take(ShortRows::most);
}

// Looks at the block that begins with `row`.
void LayerNormOracle::look_at_short_rows(ShortRows& block, QuickRow& quick, Index row, const Tensor& out,
                                         const Tensor& sum_out) {
  const Index n = problem_.hidden, room = ShortRows::most / n / lane_count * lane_count;
  block.first = row;
  block.rows = std::min(room, problem_.rows - row);
  const Index count = block.rows * n, whole = padded(block.rows) * n;  // in whole lanes of rows
  const auto used = [&](std::vector<double>& of) { return std::span(of).first(static_cast<std::size_t>(whole)); };
  read_rows(inputs_.x, row, block.rows, used(block.x));
  if (inputs_.residual.present()) {
    read_rows(inputs_.residual, row, block.rows, used(block.residual));
    add_rows({contract_.policy[Stage::sum], contract_.policy[Stage::storage]}, block.x.data(), block.residual.data(),
             whole, block.x.data(), block.stored.data());
    if (contract_.arithmetic.sum_of == attest::layer_norm::SumOf::rounded)
      std::ranges::copy(used(block.stored), block.x.begin());
  }
  read_rows(out, row, block.rows, used(block.got));
  for (auto* bits : {&block.held, &block.narrow, &block.open}) std::ranges::fill(*bits, std::uint8_t{0});
  if (block.rule) {
    accept_short(*block.rule, block.x.data(), block.got.data(), block.rows, block.held.data(), block.narrow.data());
  } else {
    // No row has a larger error or is less bounded than the one of the largest number.
    const std::span x = std::span(block.x).first(static_cast<std::size_t>(count));
    if (!std::isfinite(row_sums(x.data(), count, 0).magnitudes)) return;
    const auto largest = std::ranges::max_element(x, {}, [](double value) { return std::fabs(value); });
    enter(row + (largest - x.begin()));
    const QuickRow::Known known = quick.enter(source_);
    if (!known.determined) return;
    quick.accept_singles(used(block.got), count, block.held.data());
    if (known.narrow) std::ranges::fill(block.narrow, std::uint8_t{0xff});
    // The variance is 0, and so is the root's argument.
    for (Index i = 0; numbers_.epsilon_lo <= 0 && i < count; ++i)
      if (const auto at = static_cast<std::size_t>(i); !std::isfinite(block.got[at]))
        block.open[at / 8] |= static_cast<std::uint8_t>(1U << at % 8);
  }
  if (!sum_out.present()) return;
  read_rows(sum_out, row, block.rows, used(block.got));
  for (Index i = 0; i < count; ++i)
    if (block.got[static_cast<std::size_t>(i)] != block.stored[static_cast<std::size_t>(i)]) {
      const auto r = static_cast<std::size_t>(i / n), bit = std::size_t{1} << r % 8;
      block.held[r / 8] &= static_cast<std::uint8_t>(~bit);
      block.open[r / 8] &= static_cast<std::uint8_t>(~bit);
    }
}

}  // namespace attest::oracle::layer_norm
