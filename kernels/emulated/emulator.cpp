#include "kernels/emulated/emulator.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "core/rng.hpp"
#include "kernels/emulated/machine.hpp"

namespace attest::emulator {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double log2_e = 1.4426950408889634;

struct Partial {
  double maximum = -infinity, total = 0;
  Row sums;
  [[nodiscard]] bool dead() const { return maximum == -infinity && total == 0; }
};

// One row of attention, from scores to output.
class Kernel {
 public:
  // `octaves`: scores come times log2 e.
  Kernel(const Contract& contract, const Variant& variant, bool fused_exponent, bool octaves, double scale)
      : v_(variant),
        m_(contract, variant),
        products_(contract, variant, variant.truncate_pv, variant.blocks_pv),
        sums_(contract, variant, variant.truncate_sum, variant.blocks_sum),
        softmax_(contract.policy[Stage::softmax]),
        pv_(contract.policy[Stage::pv]),
        final_(pv_),
        fused_(fused_exponent),
        octaves_(octaves),
        to_exponent_(m_.round(softmax_, fused_exponent ? scale * log2_e : log2_e)),
        scale_(scale) {}

  struct Result {
    Row out;
    double lse;
  };

  Result run(const Row& z, const std::vector<Row>& values) {
    const Index keys = static_cast<Index>(z.size()), splits = std::max<Index>(1, std::min(v_.splits, keys));
    const auto first = [&](Index s) { return keys * s / splits; };
    if (v_.normalise == Normalise::online) {
      std::vector<Partial> parts;
      for (Index s = 0; s < splits; ++s) parts.push_back(run_split(z, values, first(s), first(s + 1)));
      return merge(parts);
    }
    if (splits == 1) return run_whole(z, values);
    std::vector<Result> parts;
    for (Index s = 0; s < splits; ++s) {
      std::vector<Row> slices;
      for (const Row& column : values) slices.emplace_back(column.begin() + first(s), column.begin() + first(s + 1));
      parts.push_back(run_whole(Row(z.begin() + first(s), z.begin() + first(s + 1)), slices));
    }
    return merge_results(parts);
  }

 private:
  [[nodiscard]] bool base_two() const { return v_.exp2 || fused_; }
  // Brings a number in the unit of scores to the unit of exponents.
  [[nodiscard]] double exponent(double z) const { return octaves_ ? z : m_.round(softmax_, z * to_exponent_); }
  // exp(z - shift), by exp or by exp2 with the shift scaled first.
  [[nodiscard]] double weight(double z, double shift) const {
    if (z == -infinity && v_.guard_empty) return 0;
    if (!base_two()) return m_.exp(m_.round(softmax_, z - shift), false, v_.exp_error);
    return power(z, exponent(shift));
  }
  // 2^(z to_exponent - scaled_shift).
  [[nodiscard]] double power(double z, double scaled_shift) const {
    return m_.exp(v_.fma && !octaves_ ? m_.multiply_add(softmax_, z, to_exponent_, -scaled_shift)
                                      : m_.round(softmax_, exponent(z) - scaled_shift),
                  true, v_.exp_error);
  }
  // exp(z - lse), which needs no division.
  [[nodiscard]] double weight_by_lse(double z, double top, double total) const {
    if (!base_two()) return weight(z, lse_of(top, total));
    if (z == -infinity) return 0;
    return power(z, m_.round(softmax_, exponent(top) + m_.round(softmax_, log(total) * log2_e)));
  }
  [[nodiscard]] double rescale(double from, double to) const {
    if (from == -infinity) return 0;
    if (from == to) return 1;
    const double gap = m_.round(softmax_, from - to);
    return base_two() ? m_.exp(exponent(gap), true, v_.rescale_error) : m_.exp(gap, false, v_.rescale_error);
  }
  [[nodiscard]] double entering(double weight) const { return m_.operand(m_.round(Stage::weights, weight)); }
  [[nodiscard]] double log(double x) const {
    return m_.round(softmax_, softmax_ == Format::f64 ? static_cast<double>(logl(x)) : std::log(x));
  }
  [[nodiscard]] double lse_of(double maximum, double total) const {
    if (total == 0) return -infinity;
    if (octaves_) {
      const double octaves = m_.round(softmax_, maximum + m_.round(softmax_, log(total) * log2_e));
      return m_.round(softmax_, octaves * m_.round(softmax_, std::numbers::ln2));
    }
    const double shift = fused_ ? m_.round(softmax_, maximum * m_.round(softmax_, scale_)) : maximum;
    return m_.round(softmax_, shift + log(total));
  }
  [[nodiscard]] double divide(double x, double total) const {
    return v_.reciprocal ? m_.round(final_, x * m_.round(final_, m_.divide(softmax_, 1, total)))
                         : m_.divide(final_, x, total);
  }

  // Scores kept whole, one pass each for maximum, weights, sum and product.
  Result run_whole(const Row& z, const std::vector<Row>& values) {
    const double top = z.empty() ? -infinity : *std::max_element(z.begin(), z.end());
    if (top == -infinity) return {Row(values.size(), std::nan("")), -infinity};
    Row p, entered;
    for (const double score : z) {
      p.push_back(weight(score, top));
      entered.push_back(entering(p.back()));
    }
    const bool rounded = v_.sum_of_rounded && v_.normalise == Normalise::after;
    const double total = sums_.sum(softmax_, rounded ? entered : p, v_.row_sum);
    const double inverse = m_.divide(softmax_, 1, total);
    if (v_.normalise == Normalise::anew)
      for (std::size_t n = 0; n < p.size(); ++n) p[n] = weight(z[n], top);
    if (v_.normalise == Normalise::before || v_.normalise == Normalise::anew)
      for (std::size_t n = 0; n < p.size(); ++n)
        entered[n] = entering(v_.reciprocal ? m_.round(softmax_, p[n] * inverse) : m_.divide(softmax_, p[n], total));
    if (v_.normalise == Normalise::by_lse)
      for (std::size_t n = 0; n < p.size(); ++n) entered[n] = entering(weight_by_lse(z[n], top, total));
    Result result{{}, lse_of(top, total)};
    for (const Row& column : values) {
      const double x = v_.arrange ? arranged(entered, column, total) : products_.dot(pv_, entered, column, v_.pv);
      result.out.push_back(v_.normalise == Normalise::after ? divide(x, total) : x);
    }
    return result;
  }

  [[nodiscard]] double arranged(const Row& entered, const Row& column, double total) const {
    Row products(entered.size()), ordered;
    for (std::size_t n = 0; n < products.size(); ++n) products[n] = products_.accumulate(pv_, entered[n] * column[n]);
    for (const std::size_t n : v_.arrange(products, total)) ordered.push_back(products[n]);
    return ordered.size() == products.size() ? products_.sum(pv_, ordered, Order::forward)
                                             : products_.dot(pv_, entered, column, v_.pv);
  }

  Partial run_split(const Row& z, const std::vector<Row>& values, Index first, Index last) {
    Partial part{-infinity, 0, Row(values.size(), 0)};
    const Index tiles = std::max<Index>(1, (last - first + v_.tile - 1) / v_.tile);
    for (Index n = 0; n < tiles; ++n) {
      const Index at = first + (v_.reversed ? tiles - 1 - n : n) * std::min(v_.tile, last - first);
      const Index end = std::min(last, at + v_.tile);
      double top = -infinity;
      for (Index j = at; j < end; ++j) top = std::max(top, z[static_cast<std::size_t>(j)]);
      double shift = std::max(part.maximum, top);
      if (shift == -infinity) continue;
      const double lag = (top - part.maximum) * (octaves_ ? std::numbers::ln2 : 1);
      if (v_.lazy > 0 && !fused_ && part.maximum != -infinity && lag <= v_.lazy * (1 - 0x1p-50)) shift = part.maximum;
      double keep = rescale(part.maximum, shift);
      if (v_.defect == Defect::no_rescale && part.maximum != -infinity) keep = 1;
      Row p, entered;
      for (Index j = at; j < end; ++j) {
        p.push_back(weight(z[static_cast<std::size_t>(j)], shift));
        entered.push_back(entering(p.back()));
      }
      const double tile_sum = sums_.sum(softmax_, v_.sum_of_rounded ? entered : p, v_.row_sum);
      part.total = v_.fma ? sums_.multiply_add(softmax_, part.total, keep, tile_sum)
                          : sums_.accumulate(softmax_, sums_.accumulate(softmax_, part.total * keep) + tile_sum);
      const double kept = m_.round(pv_, keep);
      for (std::size_t c = 0; c < values.size(); ++c) {
        const Row slice(values[c].begin() + at, values[c].begin() + end);
        if (products_.in_blocks(pv_)) {
          const double start = products_.accumulate(pv_, part.sums[c] * kept);
          part.sums[c] = products_.blocks_onto(start, pv_, entered, slice, v_.pv);
          continue;
        }
        const double x = products_.dot(pv_, entered, slice, v_.pv);
        part.sums[c] = v_.fma ? products_.multiply_add(pv_, part.sums[c], kept, x)
                              : products_.accumulate(pv_, products_.accumulate(pv_, part.sums[c] * kept) + x);
      }
      part.maximum = shift;
    }
    return part;
  }

  Result merge(const std::vector<Partial>& parts) {
    const std::size_t columns = parts.front().sums.size();
    if (std::all_of(parts.begin(), parts.end(), [](const Partial& p) { return p.dead(); }))
      return {Row(columns, std::nan("")), -infinity};
    Result result{Row(columns, 0), 0};
    if (parts.size() == 1) {
      for (std::size_t c = 0; c < columns; ++c) result.out[c] = divide(parts[0].sums[c], parts[0].total);
      result.lse = lse_of(parts[0].maximum, parts[0].total);
      return result;
    }
    if (v_.merge == Merge::unnormalised) {
      double top = -infinity, total = 0;
      for (const Partial& p : parts) top = std::max(top, p.maximum);
      for (const Partial& p : parts)
        if (const double w = rescale(p.maximum, top); w != 0) {
          total = m_.round(softmax_, total + m_.round(softmax_, p.total * w));
          for (std::size_t c = 0; c < columns; ++c)
            result.out[c] = m_.round(final_, result.out[c] + m_.round(final_, p.sums[c] * m_.round(final_, w)));
        }
      for (double& x : result.out) x = divide(x, total);
      result.lse = lse_of(top, total);
      return result;
    }
    std::vector<Result> results;
    for (const Partial& p : parts) {
      Result& of = results.emplace_back(Result{{}, p.dead() ? -infinity : lse_of(p.maximum, p.total)});
      for (const double sum : p.sums) of.out.push_back(divide(sum, p.total));
    }
    return merge_results(results);
  }

  // Normalised results of splits, by their log-sum-exp.
  Result merge_results(std::vector<Result>& parts) {
    for (Result& part : parts)
      for (double& x : part.out) x = m_.round(Stage::partial, x);
    return v_.merge == Merge::chain || v_.merge == Merge::chain_by_lse ? chain(parts) : merge_flat(parts);
  }

  Result merge_flat(const std::vector<Result>& parts) {
    const std::size_t columns = parts.front().out.size();
    double top = -infinity, total = 0;
    for (const Result& p : parts) top = std::max(top, p.lse);
    if (top == -infinity) return {Row(columns, std::nan("")), -infinity};
    for (const Result& p : parts)
      if (p.lse != -infinity)
        total = m_.round(softmax_, total + m_.exp(m_.round(softmax_, p.lse - top), false, v_.rescale_error));
    const double all = m_.round(softmax_, top + log(total));
    Result result{Row(columns, 0), all};
    for (std::size_t c = 0; c < columns; ++c) {
      double x = 0;
      for (const Result& p : parts) {
        if (p.lse == -infinity) continue;
        const double shift = v_.merge == Merge::by_lse ? all : top;
        const double w = m_.round(final_, m_.exp(m_.round(softmax_, p.lse - shift), false, v_.rescale_error));
        x = m_.round(final_, x + m_.round(final_, w * p.out[c]));
      }
      result.out[c] = v_.merge == Merge::by_lse ? x : m_.divide(final_, x, total);
    }
    return result;
  }

  Result chain(const std::vector<Result>& parts) {
    Result result{Row(parts.front().out.size(), std::nan("")), -infinity};
    for (const Result& p : parts) {
      const double lse = p.lse;
      if (lse == -infinity) continue;
      if (result.lse == -infinity) {
        result = p;
        continue;
      }
      const double top = std::max(result.lse, lse);
      const auto weight = [&](double l, double shift) {
        return m_.exp(m_.round(softmax_, l - shift), false, v_.rescale_error);
      };
      const double total = m_.round(softmax_, weight(result.lse, top) + weight(lse, top));
      const double all = m_.round(softmax_, top + log(total));
      const bool by_lse = v_.merge == Merge::chain_by_lse;
      const double old_weight = m_.round(final_, weight(result.lse, by_lse ? all : top));
      const double new_weight = m_.round(final_, weight(lse, by_lse ? all : top));
      for (std::size_t c = 0; c < result.out.size(); ++c) {
        const double x =
            m_.round(final_, m_.round(final_, old_weight * result.out[c]) + m_.round(final_, new_weight * p.out[c]));
        result.out[c] = m_.round(Stage::partial, by_lse ? x : m_.divide(final_, x, total));
      }
      result.lse = all;
    }
    return result;
  }

  const Variant& v_;
  Machine m_, products_, sums_;
  Format softmax_, pv_, final_;
  bool fused_, octaves_;
  double to_exponent_, scale_;
};

struct Keys {
  Index first, last, length;
};

Keys open_range(const Inputs& in, Index b, Index i, Index rows, Index keys) {
  const Index length = in.kv_lengths.present() ? static_cast<Index>(in.kv_lengths.at(b)) : keys;
  const Index diagonal = in.align == Align::bottom_right ? i + length - rows : i;
  Index first = 0, last = length;
  if (in.causal) last = std::min(last, diagonal + 1);
  if (in.window_left >= 0 && in.window_left < diagonal) first = diagonal - in.window_left;
  if (in.window_right >= 0 && in.window_right < last - diagonal) last = diagonal + in.window_right + 1;
  return {first, last, length};
}

// Lets the processor round double operations in a direction, where some stage is f64.
class ProcessorRounding {
 public:
  ProcessorRounding(const Policy& policy, Direction direction) {
    constexpr int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (std::size_t stage = 0; stage < stage_count; ++stage)
      if (policy[static_cast<Stage>(stage)] == Format::f64) std::fesetround(modes[static_cast<int>(direction)]);
  }
  ~ProcessorRounding() { std::fesetround(before_); }
  ProcessorRounding(const ProcessorRounding&) = delete;
  ProcessorRounding& operator=(const ProcessorRounding&) = delete;

 private:
  int before_ = std::fegetround();
};

// Rows of one call. Keys and values of a head enter once.
class Rows {
 public:
  Rows(const Inputs& in, const Contract& contract, const Variant& variant)
      : in_(in),
        contract_(contract),
        v_(variant),
        m_(contract, variant),
        scores_(contract, variant, variant.truncate_qk, variant.blocks_qk),
        scale_(in.scale * (variant.defect == Defect::scale_one_percent ? 1.01 : 1)),
        fused_(variant.scale_on == ScaleOn::exponent && in.softcap == 0 && !in.bias.present() && factor_fits()),
        octaves_(variant.in_octaves && variant.exp2 && in.softcap == 0 && variant.scale_on != ScaleOn::exponent) {}

  Kernel::Result operator()(const RowIndex& row) {
    const auto [b, h, i] = row;
    const Index rows = in_.q.shape()[2], keys = in_.k.shape()[2], columns = in_.v.shape()[3];
    const auto d = static_cast<std::size_t>(in_.q.shape()[3]);
    enter_head(b, h / (in_.q.shape()[1] / in_.k.shape()[1]));
    const Keys range = open_range(in_, b, i, rows, keys);
    Row q(d), z;
    for (std::size_t c = 0; c < d; ++c) q[c] = scaled_in(in_.q.at(b, h, i, static_cast<Index>(c)), ScaleOn::q);
    for (Index j = range.first; j < range.last; ++j) z.push_back(score(row, q, j));
    std::vector<Row> values(static_cast<std::size_t>(columns));
    if (range.first < range.last)
      for (std::size_t c = 0; c < values.size(); ++c)
        values[c].assign(values_[c].begin() + range.first, values_[c].begin() + range.last);
    if (v_.defect == Defect::last_key_dropped)
      for (std::size_t n = z.size(); n-- > 0;)
        if (z[n] != -infinity) {
          z[n] = -infinity;
          break;
        }
    if (v_.defect == Defect::extra_zero_key) {
      z.push_back(0);
      for (Row& column : values) column.push_back(0);
    }
    const bool empty = std::all_of(z.begin(), z.end(), [](double x) { return x == -infinity; });
    Kernel::Result result = Kernel(contract_, v_, fused_, octaves_, scale_).run(z, values);
    if (empty && contract_.empty_row == EmptyRow::zero) std::fill(result.out.begin(), result.out.end(), 0.0);
    for (double& x : result.out) x = m_.round(Stage::output, x);
    return result;
  }

 private:
  // A factor that the exponent's format makes 0 or infinite would make NaN of closed keys or of scores of 0: a defect.
  [[nodiscard]] bool factor_fits() const {
    const double factor = m_.round(Stage::softmax, scale_ * log2_e);
    return factor != 0 && std::isfinite(factor);
  }
  [[nodiscard]] double enter(double x) const { return m_.operand(m_.round(Stage::storage, x)); }
  [[nodiscard]] double scaled_in(double x, ScaleOn here) const {
    if (v_.scale_on != here && v_.scale_on != ScaleOn::square_roots) return enter(x);
    const double factor = v_.scale_on == here ? rounded_scale_ : root_;
    const double scaled = m_.round(Stage::scale, m_.round(Stage::storage, x) * factor);
    return narrow_ || v_.round_scaled ? m_.operand(scaled) : scaled;
  }
  [[nodiscard]] double softcapped(double x) const {
    if (!(in_.softcap > 0)) return x;
    const double c = m_.round(Stage::softcap, in_.softcap);
    const Format capping = contract_.policy[Stage::softcap];
    const double t = m_.tanh(capping, m_.round(capping, m_.round(capping, x) / c));
    return m_.round(Stage::score, m_.round(Stage::softcap, t * c));
  }

  void enter_head(Index b, Index head) {
    if (b == b_ && head == head_) return;
    b_ = b, head_ = head;
    const Index keys = in_.k.shape()[2], d = in_.k.shape()[3], columns = in_.v.shape()[3];
    keys_.assign(static_cast<std::size_t>(keys), Row(static_cast<std::size_t>(d)));
    values_.assign(static_cast<std::size_t>(columns), Row(static_cast<std::size_t>(keys)));
    for (Index j = 0; j < keys; ++j) {
      const auto at = static_cast<std::size_t>(j);
      for (Index c = 0; c < d; ++c)
        keys_[at][static_cast<std::size_t>(c)] = scaled_in(in_.k.at(b, head, j, c), ScaleOn::k);
      for (Index c = 0; c < columns; ++c)
        values_[static_cast<std::size_t>(c)][at] =
            enter(in_.v.at(b, head, j, v_.defect == Defect::value_shifted ? (c + 1) % columns : c));
    }
  }

  // The score of key j to a query, as the softmax takes it.
  [[nodiscard]] double score(const RowIndex& row, const Row& q, Index j) const {
    const auto [b, h, i] = row;
    const bool open = !in_.keep.present() || in_.keep.at(b, h, i, j) != 0;
    double x = scores_.dot(contract_.policy[Stage::qk], q, keys_[static_cast<std::size_t>(j)], v_.qk);
    const bool plain = v_.scale_on == ScaleOn::score || (v_.scale_on == ScaleOn::exponent && !fused_);
    const bool unscaled = plain && v_.store_unscaled;
    if (unscaled) x = m_.round(Stage::score, x);
    if (plain) x = m_.round(Stage::scale, m_.round(Stage::scale, x) * rounded_scale_);
    if (!unscaled) x = m_.round(Stage::score, x);
    double bias =
        in_.bias.present() ? m_.round(Stage::score, m_.round(format_of(in_.bias.dtype()), in_.bias.at(b, h, i, j))) : 0;
    if (octaves_) bias = m_.round(Stage::score, bias * bias_unit_);
    if (contract_.softcap_before_bias) x = softcapped(x);
    if (in_.bias.present()) x = m_.round(Stage::score, x + bias);
    if (!contract_.softcap_before_bias) x = softcapped(x);
    return open ? m_.round(Stage::softmax, x) : -infinity;
  }

  const Inputs& in_;
  const Contract& contract_;
  const Variant& v_;
  const Machine m_, scores_;
  const double scale_;
  const bool fused_, octaves_;
  const bool narrow_ = narrower(contract_.policy[Stage::operand], contract_.policy[Stage::storage]);
  const double to_unit_ = octaves_ ? log2_e : 1, bias_unit_ = m_.round(Stage::scale, to_unit_);
  const double rounded_scale_ = m_.round(Stage::scale, scale_*to_unit_),
               root_ = m_.round(Stage::scale, std::sqrt(std::fabs(scale_) * to_unit_));
  Index b_ = -1, head_ = -1;
  std::vector<Row> keys_, values_;  // rows of that head, key by key and column by column
};

}  // namespace

void run(const Inputs& in, const Contract& contract, const Variant& variant, Tensor& out, Tensor& lse) {
  const auto shape = in.q.shape();
  const ProcessorRounding processor(contract.policy, variant.rounding);
  Rows rows(in, contract, variant);
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i) {
        const Kernel::Result result = rows({b, h, i});
        for (std::size_t c = 0; c < result.out.size(); ++c) out.set(b, h, i, static_cast<Index>(c), result.out[c]);
        if (lse.present()) lse.set(b, h, i, 0, result.lse);
      }
}

std::vector<double> run_rows(const Inputs& in, const Contract& contract, const Variant& variant,
                             std::span<const RowIndex> rows) {
  const ProcessorRounding processor(contract.policy, variant.rounding);
  Rows of(in, contract, variant);
  std::vector<double> out;
  for (const RowIndex& row : rows) {
    const Kernel::Result result = of(row);
    out.insert(out.end(), result.out.begin(), result.out.end());
  }
  return out;
}

}  // namespace attest::emulator
