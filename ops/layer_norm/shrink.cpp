#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "core/layer_norm/inputs.hpp"
#include "core/supports.hpp"
#include "ops/layer_norm/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Edit;
using attest::layer_norm::Layout;
using attest::layer_norm::Residual;
using attest::layer_norm::Values;
using attest::layer_norm::Weights;

constexpr Index most_elements = 24;  // the elements of x, which are zeroed

bool of_rows(const Edit& edit) { return edit.tensor == Edit::Tensor::x || edit.tensor == Edit::Tensor::residual; }

// Keeps `count` rows, up to and including row `at`, with their edits.
void cut_rows(Problem& p, Index count, Index at) {
  count = std::min(count, p.rows);
  const Index by = window_start(std::min(at, p.rows - 1), count, p.rows);
  p.rows0 += by;
  std::erase_if(p.edits, [&](Edit& edit) { return of_rows(edit) && (edit.row -= by) < 0; });
  p.rows = count;
}

// Keeps `count` columns, up to and including column `at`: every row becomes another, whose values are those that it had
// there.
void cut_columns(Problem& p, Index count, Index at) {
  count = std::min(count, p.hidden);
  const Index by = std::max<Index>(std::min(at, p.hidden - 1) - count + 1, 0);
  p.hidden0 += by;
  std::erase_if(p.edits, [&](Edit& edit) { return (edit.column -= by) < 0; });
  p.hidden = count;
}

Rungs rungs_of_rows(const Problem& p, const Supports& s) { return down_to(p.rows, s.rows.min, s.rows.step()); }
Rungs rungs_of_columns(const Problem& p, const Supports& s) {
  return down_to(p.hidden, s.hidden.min, std::lcm(s.hidden.step(), row_step(s.alignment, p.dtype)));
}

}  // namespace

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> list{
      {"rows", 1, [](const Problem& p) { return p.rows; }, [](Problem& p, Index n) { p.rows = n; }, rungs_of_rows,
       [](Problem p, Index n, const Witness& at) {
         cut_rows(p, n, at[0]);
         return p;
       }},
      {"hidden", 1, [](const Problem& p) { return p.hidden; }, [](Problem& p, Index n) { p.hidden = n; },
       rungs_of_columns,
       [](Problem p, Index n, const Witness& at) {
         cut_columns(p, n, at[1]);
         return p;
       }},
      {"last of hidden", 1, [](const Problem& p) { return p.hidden; },
       [](Problem& p, Index n) { cut_columns(p, n, p.hidden - 1); }, rungs_of_columns, nullptr, true},
      {"threads", 0, [](const Problem& p) { return p.threads; }, [](Problem& p, Index n) { p.threads = n; }},
      {"judged", 0, [](const Problem& p) { return p.judged; }, [](Problem& p, Index n) { p.judged = n; }},
  };
  return list;
}

Problem capped(Problem p, Index most, const std::optional<Witness>& witness, const Supports& s) {
  const Witness at = witness.value_or(Witness{});
  if (p.rows > 0) cut_rows(p, rungs_of_rows(p, s).up(most), at[0]);
  cut_columns(p, rungs_of_columns(p, s).up(most), at[1]);
  return p;
}

// Every column stays: each has a part in the row's statistics.
Problem sliced(Problem p, Index samples, const Witness& witness, const Supports& s) {
  if (p.rows > 0) cut_rows(p, rungs_of_rows(p, s).up(samples), witness[0]);
  return p;
}

void fit(Problem& p, const Supports& s) {
  p.rows = s.rows.nearest(p.rows);
  p.hidden = s.hidden.nearest(p.hidden);
  if (p.residual == Residual::none) p.sum_out = false, p.residual_layout = Layout::contiguous;
  if (p.gamma == Weights::none && p.beta == Weights::none)
    p.param_layout = Layout::contiguous, p.param_type = attest::layer_norm::ParamType::same;
  if (p.judged >= p.rows) p.judged = 0;
  std::erase_if(p.edits, [&](const Edit& edit) {
    const bool absent = (edit.tensor == Edit::Tensor::residual && p.residual == Residual::none) ||
                        (edit.tensor == Edit::Tensor::gamma && p.gamma == Weights::none) ||
                        (edit.tensor == Edit::Tensor::beta && p.beta == Weights::none);
    return absent || edit.column >= p.hidden || edit.row >= (of_rows(edit) ? p.rows : 1);
  });
}

std::vector<ops::Escape> escapes(const Problem& shape, const Problem& original) {
  std::vector<ops::Escape> found;
  const auto add = [&](Problem p, const char* change, bool drawn, bool likely = false) {
    found.push_back({{std::move(p), change}, drawn, likely});
  };
  add(shape, "as it is", false, true);
  Problem plain = reset(shape, FieldGroup::values).as<Problem>();
  plain.values = Values::normal;
  add(plain, "normal values", true, true);
  Problem kept = shape;
  kept.values = original.values;
  kept.amplitude = original.amplitude;
  kept.offset = original.offset;
  kept.seed = original.seed;
  kept.edits = original.edits;
  add(kept, "the values it began with", true);
  Problem reseeded = shape;
  ++reseeded.seed;
  add(reseeded, "another seed", true);
  return found;
}

std::vector<Candidate> with_zeroed_elements(const ops::Problem& problem) {
  const Problem& p = problem.as<Problem>();
  std::vector<Candidate> rows, elements;
  if (p.elements() > most_elements || p.x_layout != Layout::contiguous) return rows;
  const attest::layer_norm::Inputs inputs = materialise(p);
  const auto zero = [](Problem& changed, Index row, Index column) {
    std::erase_if(changed.edits, [&](const Edit& edit) {
      return edit.tensor == Edit::Tensor::x && edit.row == row && edit.column == column;
    });
    changed.edits.push_back({Edit::Tensor::x, row, column, 0});
  };
  for (Index row = 0; row < p.rows; ++row) {
    Problem whole = p;
    int zeroed = 0;
    for (Index column = 0; column < p.hidden; ++column) {
      const double value = inputs.x.at(row, column);
      if (value == 0 || value == 1) continue;
      zero(whole, row, column);
      ++zeroed;
      Problem one = p;
      zero(one, row, column);
      elements.push_back({std::move(one), fmt::format("x[{},{}] -> 0", row, column)});
    }
    if (zeroed > 1) rows.push_back({std::move(whole), fmt::format("x[{},:] -> 0", row)});
  }
  std::ranges::move(elements, std::back_inserter(rows));
  return rows;
}

}  // namespace attest::ops::of_layer_norm
