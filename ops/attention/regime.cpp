#include "ops/attention/regime.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/inputs.hpp"
#include "core/values.hpp"

namespace attest::ops::of_attention {
namespace {

using Coordinates = std::array<Index, 4>;

constexpr Index most_mask_elements = 1 << 14, most_rows = 1024;     // looked at by masking_of()
constexpr Index most_key_elements = 2048, most_products = 1 << 14;  // looked at by scores_of(), of each row and in all
constexpr Index most_value_rows = 512, first_columns = 8;           // looked at by values_of()
constexpr Index drawn_at_once = 4096;

// `count` of the rows that judged_rows() has, which may be too many to list.
std::vector<Index> some_rows(const Problem& p, Index count) {
  const Index all = p.b * p.hq * p.lq, judged = p.rows == 0 ? all : std::min(p.rows, all);
  std::vector<Index> rows = spread(count, judged);
  for (Index& row : rows) row = drawn(row, judged, all, p.seed);
  return rows;
}

// Tells whether an element that was set by hand is at `at`, for a tensor that varies along `axes`.
bool lies_at(const Edit& edit, const Coordinates& at, Index axes) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    if ((axes >> axis & 1) != 0 && edit.index[axis] != at[axis]) return false;
  return true;
}

// One query row after the other: its keys and what is added to their scores.
class RowKeys {
 public:
  explicit RowKeys(const Problem& problem) : p_(problem) {}

  // Draws the row's keys below `width`.
  void look(Index flat, Index width) {
    i_ = flat % p_.lq, h_ = flat / p_.lq % p_.hq, b_ = flat / p_.lq / p_.hq;
    const KeyRange range = key_range(p_, i_, p_.lq, length());
    first_ = range.first, last_ = range.last;
    width_ = std::min(last_, width);
    draw(Edit::Tensor::keep, p_.keep != Keep::none, p_.keep_axes, keep_, draw_keep_row);
    draw(Edit::Tensor::bias, p_.bias != Bias::none, p_.bias_axes, bias_, draw_bias_row);
  }
  [[nodiscard]] bool kept(Index j) const { return j >= first_ && j < width_ && (keep_.empty() || at(keep_, j) != 0); }
  [[nodiscard]] bool open(Index j) const { return kept(j) && bias(j) >= -std::numeric_limits<double>::max(); }
  [[nodiscard]] double bias(Index j) const { return bias_.empty() ? 0 : at(bias_, j); }
  // 0 beyond the keys that were looked at.
  [[nodiscard]] double bias_if_drawn(Index j) const { return bias_.size() > 1 && j >= width_ ? 0 : bias(j); }
  [[nodiscard]] bool whole() const { return width_ == last_; }

  Index b_ = 0, h_ = 0, i_ = 0, first_ = 0, last_ = 0, width_ = 0;

 private:
  [[nodiscard]] static double at(const std::vector<double>& row, Index j) {
    return row[row.size() == 1 ? 0 : static_cast<std::size_t>(j)];
  }
  [[nodiscard]] Index length() const {
    if (p_.lengths == Lengths::none) return p_.lk;
    for (auto edit = p_.edits.rbegin(); edit != p_.edits.rend(); ++edit)
      if (edit->tensor == Edit::Tensor::kv_lengths && edit->index[0] == b_) return static_cast<Index>(edit->value);
    return std::min(draw_length(p_, p_.b0 + b_), p_.lk);
  }
  template <class Draw>
  void draw(Edit::Tensor which, bool present, Index axes, std::vector<double>& row, Draw&& draw_row) {
    row.clear();
    if (!present || width_ == 0) return;
    row.resize((axes & 8) != 0 ? static_cast<std::size_t>(width_) : 1);
    draw_row(p_, (axes & 1) != 0 ? p_.b0 + b_ : 0, (axes & 2) != 0 ? p_.hq0 + h_ : 0, (axes & 4) != 0 ? p_.lq0 + i_ : 0,
             std::span<double>(row));
    for (const Edit& edit : p_.edits)
      if (edit.tensor == which && lies_at(edit, {b_, h_, i_, 0}, axes & 7) && edit.index[3] < width_)
        row[row.size() == 1 ? 0 : static_cast<std::size_t>(edit.index[3])] = edit.value;
  }

  const Problem& p_;
  std::vector<double> keep_, bias_;
};

// The first `width` columns of a row of q, k or v: b, h and l are its place in the tensor.
void operand(const Problem& p, Edit::Tensor which, Index b, Index h, Index l, std::span<double> row) {
  if (row.empty()) return;
  const bool query = which == Edit::Tensor::q, value = which == Edit::Tensor::v;
  const Layout layout = query ? p.q_layout : value ? p.v_layout : p.k_layout;
  const bool one_batch = layout == Layout::broadcast_batch, one_head = layout == Layout::broadcast_heads,
             one_row = layout == Layout::broadcast_rows;
  draw_rows(p, which, one_batch ? 0 : p.b0 + b, one_head ? 0 : (query ? p.hq0 : p.hkv0) + h,
            one_row ? 0 : (query ? p.lq0 : p.lk0) + l, value ? p.dv0 : p.d0, static_cast<Index>(row.size()), row);
  const Index axes = (one_batch ? 0 : 1) | (one_head ? 0 : 2) | (one_row ? 0 : 4);
  for (const Edit& edit : p.edits)
    if (edit.tensor == which && lies_at(edit, {b, h, l, 0}, axes) && edit.index[3] < static_cast<Index>(row.size()))
      row[static_cast<std::size_t>(edit.index[3])] = edit.value;
}

// Sums in a fixed order, four sums at a time.
double dot(std::span<const double> a, std::span<const double> b) {
  std::array<double, 4> sums{};
  std::size_t c = 0;
  for (; c + 4 <= a.size(); c += 4)
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[c + lane] * b[c + lane];
  for (; c < a.size(); ++c) sums[0] += a[c] * b[c];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Some keys of a head, drawn once for all rows that follow each other.
class Keys {
 public:
  explicit Keys(const Problem& problem)
      : p_(problem),
        numbers_(spread(std::max<Index>(most_key_elements / std::max<Index>(p_.d, 1), 8), p_.lk)),
        rows_(numbers_.size() * static_cast<std::size_t>(p_.d)) {}

  void of(Index b, Index h) {
    if (b == b_ && h == h_) return;
    b_ = b, h_ = h;
    for (Index n = 0; n < count(); ++n) operand(p_, Edit::Tensor::k, b, h, number(n), row(n));
  }
  [[nodiscard]] Index count() const { return static_cast<Index>(numbers_.size()); }
  [[nodiscard]] Index number(Index n) const { return numbers_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] std::span<double> row(Index n) {
    const auto width = static_cast<std::size_t>(p_.d);
    return std::span(rows_).subspan(static_cast<std::size_t>(n) * width, width);
  }

 private:
  const Problem& p_;
  std::vector<Index> numbers_;
  std::vector<double> rows_;
  Index b_ = -1, h_ = -1;
};

double finite(double x) {
  constexpr double most = std::numeric_limits<double>::max();
  return std::isnan(x) ? 0 : std::clamp(x, -most, most);
}

double score(const Problem& p, double product, double bias) {
  double s = p.effective_scale() * product;
  if (p.softcap > 0) s = std::clamp(s, -p.softcap, p.softcap);
  return finite(s + bias);
}

}  // namespace

Masking masking_of(const Problem& p) {
  Masking all{.open_keys = static_cast<double>(p.lk)};
  const bool tensors = p.keep != Keep::none || p.bias != Bias::none;
  if (!tensors && !positional(p)) {
    all.last_key = p.b * p.hq * p.lq * p.lk > 0;
    return all;
  }
  RowKeys row(p);
  const Index count =
      tensors ? std::clamp<Index>(most_mask_elements / std::max<Index>(p.lk, 1), 16, most_rows) : most_rows;
  bool biased = false;
  for (const Index flat : some_rows(p, count)) {
    Index open = 0, kept = 0;  // the second but for the bias
    double bias = -std::numeric_limits<double>::max();
    const auto count_open = [&] {
      open = kept = 0;
      for (Index j = row.first_; j < row.width_; ++j) {
        kept += row.kept(j);
        if (!row.open(j)) continue;
        ++open;
        bias = std::max(bias, row.bias(j));
        all.biased = all.biased || row.bias(j) != 0;
      }
    };
    row.look(flat, tensors ? drawn_at_once : 0);
    if (tensors) {
      count_open();
      if (open == 0 && !row.whole()) row.look(flat, row.last_), count_open();
    } else {
      open = kept = row.last_ - row.first_;
    }
    all.last_key = all.last_key || (row.last_ == p.lk && row.first_ < p.lk);
    all.open_keys = std::min(all.open_keys, static_cast<double>(open));
    const auto fewer = [&, all_counted = !tensors || row.whole()](Index keys) {
      return all_counted ? keys < p.lk : keys < row.width_ || row.last_ < p.lk;
    };
    all.closed_keys = all.closed_keys || fewer(open);
    all.mask_closes = all.mask_closes || fewer(kept);
    if (p.bias == Bias::none || open == 0) continue;
    all.least_row_bias = biased ? std::min(all.least_row_bias, bias) : bias;
    biased = true;
  }
  return all;
}

Scores scores_of(const Problem& p) {
  Scores all;
  if (p.lk == 0) return all;
  RowKeys row(p);
  Keys keys(p);
  std::vector<double> q(static_cast<std::size_t>(p.d));
  bool seen = false;
  for (const Index flat :
       some_rows(p, std::clamp<Index>(most_products / (keys.count() * std::max<Index>(p.d, 1)), 4, most_rows))) {
    row.look(flat, p.lk);
    operand(p, Edit::Tensor::q, row.b_, row.h_, row.i_, q);
    keys.of(row.b_, row.h_ / p.group());
    double least = std::numeric_limits<double>::max(), most = -least, most_closed = most;
    for (Index n = 0; n < keys.count(); ++n) {
      const Index j = keys.number(n);
      const double product = finite(dot(q, keys.row(n)));
      if (!row.kept(j)) most_closed = std::max(most_closed, score(p, product, row.bias_if_drawn(j)));
      if (!row.open(j)) continue;
      const double s = score(p, product, row.bias(j));
      all.largest_product = std::max(all.largest_product, std::fabs(product));
      least = std::min(least, s), most = std::max(most, s);
    }
    if (least > most) continue;
    all.least_row_max = seen ? std::min(all.least_row_max, most) : most;
    all.largest_row_max = seen ? std::max(all.largest_row_max, most) : most;
    all.largest_spread = std::max(all.largest_spread, finite(most - least));
    all.closed_lead = std::max(all.closed_lead, finite(most_closed - most));
    seen = true;
  }
  return all;
}

ValueRange values_of(const Problem& p) {
  ValueRange all;
  if (p.dv == 0) return all;
  const Index rows = p.b * p.hkv * p.lk;
  std::vector<double> some(static_cast<std::size_t>(std::min(p.dv, first_columns))),
      whole(static_cast<std::size_t>(p.dv));
  const auto zero = [&p](double x) { return round_to(p.dtype, x) == 0; };
  bool seen = false;
  for (const Index flat : spread(most_value_rows, rows)) {
    const Index b = flat / p.lk / p.hkv, h = flat / p.lk % p.hkv, j = flat % p.lk;
    operand(p, Edit::Tensor::v, b, h, j, some);
    const auto [least, largest] = std::ranges::minmax(some);
    all.least = seen ? std::min(all.least, least) : least;
    all.largest = seen ? std::max(all.largest, largest) : largest;
    seen = true;
    if (all.zero_row || !std::ranges::all_of(some, zero)) continue;
    operand(p, Edit::Tensor::v, b, h, j, whole);
    all.zero_row = std::ranges::all_of(whole, zero);
  }
  return all;
}

}  // namespace attest::ops::of_attention
