#include "row.hpp"

#include <utility>

namespace hostile {
namespace {

std::uint64_t mixed(std::uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool wide_operands(const Scheme& s) { return s.operand.precision > 26 || s.scale.precision > 26; }

}  // namespace

struct Attention::Part {
  double shift = -infinity;  // in the units of weights
  double sum = 0;
  double lse = -infinity;
  std::vector<double> values;
  bool started = false;  // it has a key
};

struct Attention::Work {
  const Head& head;
  const Row& row;
  std::vector<double> z;  // in the softmax format, times log2 e where that is multiplied in before the shift is known
  std::vector<char> taken;
  std::vector<const double*> values;  // rows of v
  std::size_t column = 0;
  double mean = 0;  // the column's, for liberties that look at it
  std::uint64_t random = 0;
};

Attention::Attention(const Scheme& scheme, const Options& options)
    : s_(scheme),
      options_(options),
      power_(scheme.power),
      fold_(scheme.fold),
      dot_(scheme.dot, scheme.qk, wide_operands(scheme), (scheme.flush & flush_sums) != 0, scheme.operand.least),
      sum_(scheme.sum, scheme.softmax, false, (scheme.flush & flush_sums) != 0, scheme.operand.least),
      product_(scheme.product, scheme.pv, scheme.operand.precision > 26, (scheme.flush & flush_sums) != 0,
               scheme.operand.least) {
  // The unscaled score goes straight to the exponential only where nothing stands between.
  if (power_ == Power::unscaled && (options.softcap > 0 || options.has_bias)) power_ = Power::fused;
  if (power_ == Power::folded && options.softcap > 0) power_ = Power::both;
  if (power_ == Power::unscaled) fold_ = Fold::score;
  if (fold_ == Fold::sqrt && !(options.scale > 0)) fold_ = Fold::score;
  log2e_ = nearest(log2_e, s_.softmax);
  const bool with_log2e = power_ == Power::folded || power_ == Power::unscaled;
  double scale = with_log2e
                     ? static_cast<double>(static_cast<long double>(options.scale) * std::numbers::log2e_v<long double>)
                     : options.scale;
  if (with_log2e && s_.round_log2e)
    scale = multiply(nearest(options.scale, s_.scale), nearest(log2_e, s_.scale), s_.scale);
  if (fold_ == Fold::sqrt) scale = std::sqrt(s_.root_of_rounded ? nearest(scale, s_.scale) : scale);
  scale_ = nearest(scale, s_.scale);
  if (s_.flush & flush_scale) scale_ = flushed(scale_, s_.scale);
  if (power_ == Power::fused) unit_ = log2e_;
  if (power_ == Power::unscaled) unit_ = nearest(scale_, s_.softmax);
}

int Attention::side(Side which, const Work& work, std::size_t key) const {
  switch (which) {
    case Side::nearest:
      return 0;
    case Side::up:
      return 1;
    case Side::down:
      return -1;
    case Side::alternate:
      return key % 2 == 0 ? 1 : -1;
    case Side::hashed:
      return (mixed(work.random + key) & 1) != 0 ? 1 : -1;
    case Side::mean:
      return work.head.width != 0 && work.head.v[key * work.head.width + work.column] < work.mean ? -1 : 1;
    case Side::goal:
      return work.row.key_sides.empty() ? 1 : work.row.key_sides[key];
  }
  return 0;
}

/// The side of a number that may be negative: up is away from zero, so that signs stay symmetric; mean is up in value.
int Attention::side_of_value(Side which, double value, std::size_t column, std::span<const int> goals) const {
  const int away = value < 0 ? -1 : 1;
  switch (which) {
    case Side::nearest:
      return 0;
    case Side::up:
      return away;
    case Side::down:
      return -away;
    case Side::alternate:
      return column % 2 == 0 ? away : -away;
    case Side::hashed:
      return (mixed(s_.seed + column) & 1) != 0 ? away : -away;
    case Side::mean:
      return 1;
    case Side::goal:
      return goals.empty() ? 1 : goals[column];
  }
  return 0;
}

/// The keys in tiles, each in the order in which it is taken.
std::vector<std::vector<std::size_t>> Attention::tiles(const Work& work) const {
  const std::size_t keys = work.head.keys;
  std::size_t size = static_cast<std::size_t>(std::min<std::int64_t>(s_.tile, static_cast<std::int64_t>(keys)));
  if (s_.vary) size = std::min(keys, size + mixed(work.random) % (size + 1));
  if (size == 0) size = 1;
  const std::size_t count = (keys + size - 1) / size;
  std::vector<std::vector<std::size_t>> result(count);
  for (std::size_t j = 0; j < keys; ++j) result[s_.tiles == Tiles::strided ? j % count : j / size].push_back(j);
  if (s_.tiles == Tiles::descending) std::reverse(result.begin(), result.end());
  if (s_.tiles == Tiles::shuffled)
    for (std::size_t t = count; t > 1; --t) std::swap(result[t - 1], result[mixed(work.random + t) % t]);
  return result;
}

double Attention::sum_weights(std::span<const double> weights, const double* start, int goal) const {
  std::vector<const double*> rows(weights.size());
  for (std::size_t t = 0; t < rows.size(); ++t) rows[t] = &weights[t];
  // The sum's order goes by what it adds, so that the weights stand as coefficients.
  std::vector<double> ones(weights.size(), 1.0);
  std::vector<const double*> one(weights.size());
  for (std::size_t t = 0; t < one.size(); ++t) one[t] = &ones[t];
  double sum = 0;
  std::vector<double> entering(weights.size());
  for (std::size_t t = 0; t < weights.size(); ++t) entering[t] = nearest(weights[t], s_.softmax);
  sum_(entering, one, 1, start, &sum, 0, std::span<const int>(&goal, 1));
  return sum;
}

void Attention::sum_up(Work& work, std::span<const std::size_t> keys, std::span<const double> weights,
                       const double* start, double* out) const {
  std::vector<const double*> rows(keys.size());
  for (std::size_t t = 0; t < keys.size(); ++t) rows[t] = work.values[keys[t]];
  product_(weights, rows, work.head.width, start, out, work.column, work.row.column_sides);
}

void Attention::take_tile(Work& work, const std::vector<std::size_t>& tile, Part& part) const {
  std::vector<std::size_t> keys;
  double largest = -infinity;
  bool any = false;
  for (const std::size_t j : tile) {
    if (!work.taken[j]) {
      if (s_.touch_masked) keys.push_back(j);
      continue;
    }
    keys.push_back(j);
    if (!std::isnan(work.z[j]) && (!any || before(largest, work.z[j]))) largest = work.z[j];
    any = true;
  }
  if (!any) return;  // a tile without an open key is skipped
  const bool first = !part.started;
  double rescale = 1;
  if (first) {
    part.started = true;
    part.shift = largest;
    part.values.assign(work.head.width, 0.0);
  } else if (before(part.shift, largest) && !(s_.keep_shift && lag(largest, part.shift) <= s_.lazy)) {
    rescale = weight(part.shift, multiplied_shift(largest), side(s_.rescale_side, work, tile.front()));
    part.shift = largest;
    part.sum = sum_.times(part.sum, rescale);
    for (double& x : part.values) x = product_.times(x, rescale);
  }
  const double shift = multiplied_shift(part.shift);
  std::vector<double> weights(keys.size()), added(keys.size());
  for (std::size_t t = 0; t < keys.size(); ++t) {
    const std::size_t j = keys[t];
    const double w = work.taken[j] ? weight(work.z[j], shift, side(s_.exp_side, work, j)) : 0;
    weights[t] = entering(w);
    added[t] = !s_.sum_rounded ? w : s_.sum_operand ? weights[t] : nearest(w, s_.weights);
  }
  if (first || s_.add_to_running) {
    part.sum = sum_weights(added, first ? nullptr : &part.sum, work.row.sum_side);
    std::vector<double> start = part.values;
    sum_up(work, keys, weights, first ? nullptr : start.data(), part.values.data());
  } else {
    part.sum = sum_.sum(part.sum, sum_weights(added, nullptr, work.row.sum_side));
    std::vector<double> own(work.head.width);
    sum_up(work, keys, weights, nullptr, own.data());
    for (std::size_t c = 0; c < own.size(); ++c) part.values[c] = product_.sum(part.values[c], own[c]);
  }
}

/// Weights that are divided by their sum, or whose logarithm it is subtracted from, before they meet the values.
void Attention::divide_first(Work& work, std::span<const std::vector<std::size_t>> tiles, Part& part) const {
  std::vector<std::size_t> keys;
  for (const auto& tile : tiles)
    for (const std::size_t j : tile)
      if (work.taken[j] || s_.touch_masked) keys.push_back(j);
  const double shift = s_.normalise == Normalise::lse ? part.lse : multiplied_shift(part.shift);
  std::vector<double> weights(keys.size());
  for (std::size_t t = 0; t < keys.size(); ++t) {
    const std::size_t j = keys[t];
    double w = work.taken[j] ? weight(work.z[j], shift, side(s_.exp_side, work, j)) : 0;
    if (s_.normalise == Normalise::before)
      w = divide(w, part.sum, s_.div_side == Side::nearest ? 0 : side(s_.div_side, work, j), s_.softmax);
    weights[t] = entering(w);
  }
  sum_up(work, keys, weights, nullptr, part.values.data());
}

Attention::Part Attention::part(Work& work, std::span<const std::vector<std::size_t>> tiles) const {
  Part part;
  if (s_.normalise == Normalise::before && !s_.two_passes) {
    // One tile: the same weights are summed and divided.
    std::vector<std::size_t> all;
    for (const auto& tile : tiles) all.insert(all.end(), tile.begin(), tile.end());
    take_tile(work, all, part);
  } else {
    for (const auto& tile : tiles) take_tile(work, tile, part);
  }
  if (!part.started) return part;
  part.lse = add(multiplied_shift(part.shift), logarithm(part.sum), s_.softmax);
  if (s_.normalise != Normalise::after) divide_first(work, tiles, part);
  return part;
}

/// sum c_s o_s / sum c_s over partial results, or sum e^(lse_s - lse) o_s.
Attention::Part Attention::merge_flat(const Work& work, std::vector<Part>& parts) const {
  double largest = -infinity;
  const bool by_lse = s_.merge_by_lse || s_.merge_weights_lse || s_.normalise == Normalise::lse;
  for (const Part& p : parts) {
    const double at = by_lse ? p.lse : multiplied_shift(p.shift);
    if (p.started && (std::isnan(at) || at > largest)) largest = at;
  }
  std::vector<double> weights(parts.size());
  std::vector<const double*> rows(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int off = side(s_.rescale_side, work, i % std::max<std::size_t>(work.head.keys, 1));
    weights[i] =
        by_lse ? merged_weight(parts[i].lse, largest, off)
               : multiply(parts[i].sum, merged_weight(multiplied_shift(parts[i].shift), largest, off), s_.softmax);
    rows[i] = parts[i].values.data();
  }
  Part all;
  all.sum = sum_weights(weights, nullptr, work.row.sum_side);
  all.lse = add(largest, logarithm(all.sum), s_.softmax);
  if (s_.merge_weights_lse)
    for (std::size_t i = 0; i < parts.size(); ++i)
      weights[i] = merged_weight(parts[i].lse, all.lse, side(s_.exp_side, work, i % work.head.keys));
  all.values.resize(work.head.width);
  product_(weights, rows, work.head.width, nullptr, all.values.data(), work.column, work.row.column_sides);
  if (!s_.merge_weights_lse)
    for (std::size_t c = 0; c < all.values.size(); ++c)
      all.values[c] =
          quotient(all.values[c], all.sum, side_of_value(s_.div_side, all.values[c], c, work.row.column_sides));
  return all;
}

Attention::Part Attention::merge_chain(const Work& work, std::vector<Part>& parts) const {
  Part all = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Part& next = parts[i];
    const double largest = std::isnan(next.lse) || next.lse > all.lse ? next.lse : all.lse;
    const int off = side(s_.rescale_side, work, i % work.head.keys);
    double mine = merged_weight(all.lse, largest, off), theirs = merged_weight(next.lse, largest, off);
    const double sum = sum_.sum(mine, theirs);
    const double lse = add(largest, logarithm(sum), s_.softmax);
    if (s_.merge_weights_lse) {
      mine = merged_weight(all.lse, lse, off);
      theirs = merged_weight(next.lse, lse, off);
    }
    for (std::size_t c = 0; c < all.values.size(); ++c) {
      double x = product_.sum(product_.times(mine, all.values[c]), product_.times(theirs, next.values[c]));
      if (!s_.merge_weights_lse) x = quotient(x, sum, side_of_value(s_.div_side, x, c, work.row.column_sides));
      all.values[c] = nearest(x, s_.partial);
    }
    all.lse = lse;
  }
  return all;
}

/// Writes what was merged or is left to be divided, and returns the log-sum-exp in nats.
double Attention::finish(const Work& work, Part& part, double* out) const {
  for (std::size_t c = 0; c < work.head.width; ++c) {
    double x = options_.rounds_output ? nearest(part.values[c], s_.output) : part.values[c];
    if (options_.rounds_output && (s_.flush & flush_output) != 0) x = flushed(x, s_.output);
    out[c] = x;
  }
  if (power_ == Power::none || power_ == Power::argument) return part.lse;
  return multiply(part.lse, nearest(std::numbers::ln2, s_.softmax), s_.softmax);
}

double Attention::empty_row(const Head& head, const Row& row, double* out) const {
  const double fill = s_.empty == Empty::zero ? 0 : std::nan("");
  std::fill(out, out + head.width, fill);
  const std::size_t values = s_.empty == Empty::mean_all ? head.keys : row.length;
  if ((s_.empty == Empty::mean_v || s_.empty == Empty::mean_all) && values > 0) {
    Options plain = options_;
    plain.scale = 0;
    plain.softcap = 0;
    plain.has_bias = false;
    Row equal = row;
    equal.q.assign(head.depth, 0.0);
    equal.bias.clear();
    for (std::size_t j = 0; j < head.keys; ++j) equal.open[j] = j < values;
    Head blank = head;
    std::fill(blank.k.begin(), blank.k.end(), 0.0);
    Attention(s_, plain).attend(blank, equal, out);
  }
  return -infinity;
}

double Attention::attend(const Head& head, const Row& row, double* out) const {
  Work work{head, row, std::vector<double>(head.keys), std::vector<char>(head.keys), {}, 0, 0, 0};
  work.random = mixed(s_.seed + (s_.vary ? row.number : 0));
  work.column = head.width == 0 ? 0 : mixed(work.random) % head.width;
  std::vector<const double*> rows(head.depth);
  for (std::size_t d = 0; d < head.depth; ++d) rows[d] = head.k.data() + d * head.keys;
  std::vector<double> dots(head.keys);
  std::vector<int> dot_sides = row.key_sides;
  if (options_.scale < 0)
    for (int& side : dot_sides) side = -side;
  dot_(row.q, rows, head.keys, nullptr, dots.data(), 0, dot_sides);
  bool any = false;
  for (std::size_t j = 0; j < head.keys; ++j) {
    if (!row.open[j] && !s_.mask_added) continue;
    const double stored = score(dots[j], row.bias.empty() ? 0 : row.bias[j], j);
    if (!row.open[j]) {
      work.z[j] = stored + -infinity;  // a NaN, or nothing
      work.taken[j] = std::isnan(work.z[j]);
      any = any || work.taken[j];
      continue;
    }
    // A bias of -infinity excludes a key, unless a softcap follows, which makes a number of it.
    const bool excluded = !row.bias.empty() && row.bias[j] == -infinity &&
                          (s_.softcap_before_bias || !(options_.softcap > 0)) && !std::isnan(stored);
    if (excluded) continue;
    work.z[j] = to_softmax(stored);
    work.taken[j] = 1;
    if (work.z[j] == -infinity && power_ != Power::unscaled) work.taken[j] = 0;
    any = any || work.taken[j];
  }
  if (!any) return empty_row(head, row, out);
  for (std::size_t j = 0; j < head.keys; ++j) work.values.push_back(head.v.data() + j * head.width);
  if (head.width != 0) {
    double total = 0, weights = 0, largest = -infinity;
    const double direction = power_ == Power::unscaled && scale_ < 0 ? -1 : 1;
    for (std::size_t j = 0; j < head.keys; ++j)
      if (work.taken[j]) largest = std::fmax(largest, direction * work.z[j]);
    for (std::size_t j = 0; j < head.keys; ++j)
      if (work.taken[j]) {
        const double w = std::exp(direction * work.z[j] - largest);
        total += w * head.v[j * head.width + work.column];
        weights += w;
      }
    work.mean = total / weights;
  }

  const auto all = tiles(work);
  auto splits = static_cast<std::size_t>(std::min<std::int64_t>(s_.splits, static_cast<std::int64_t>(all.size())));
  if (s_.vary && splits > 1) splits = 1 + mixed(work.random + 1) % splits;
  if (splits == 1 || s_.merge == Merge::none) {
    Part whole = part(work, all);
    if (s_.normalise == Normalise::after)
      for (std::size_t c = 0; c < whole.values.size(); ++c)
        whole.values[c] =
            quotient(whole.values[c], whole.sum, side_of_value(s_.div_side, whole.values[c], c, work.row.column_sides));
    return finish(work, whole, out);
  }
  std::vector<std::vector<std::vector<std::size_t>>> groups(splits);
  for (std::size_t t = 0; t < all.size(); ++t)
    groups[s_.contiguous_splits ? t * splits / all.size() : t % splits].push_back(all[t]);
  std::vector<Part> parts;
  for (const auto& group : groups) {
    Part one = part(work, group);
    if (!one.started) continue;  // a split without an open key has nothing to merge
    for (std::size_t c = 0; c < one.values.size(); ++c) {
      double& x = one.values[c];
      if (s_.normalise == Normalise::after)
        x = quotient(x, one.sum, side_of_value(s_.div_side, x, c, work.row.column_sides));
      x = nearest(x, s_.partial);
    }
    parts.push_back(std::move(one));
  }
  if (parts.empty()) return empty_row(head, row, out);
  Part merged = parts.size() == 1         ? std::move(parts.front())
                : s_.merge == Merge::flat ? merge_flat(work, parts)
                                          : merge_chain(work, parts);
  return finish(work, merged, out);
}

}  // namespace hostile
