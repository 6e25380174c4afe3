// Column::read(): the values of an element, and the facts found of them.
#include <algorithm>
#include <cmath>

#include "oracle/element.hpp"
#include "oracle/lanes.hpp"

namespace attest::oracle {

// Tells whether the head's values are kept.
bool Column::keep_head(const Call& call, Index b, Index kv_head) {
  constexpr Index most = 1 << 17;  // numbers
  if (!keeps_heads_) return false;
  if (head_.b != b || head_.kv_head != kv_head) {
    head_.b = b;
    head_.kv_head = kv_head;
    head_.reads = 0;
    head_.kept = false;
  }
  const Index stride = padded(call.keys);
  if (head_.kept || ++head_.reads <= call.dv || stride * call.dv > most) return head_.kept;
  head_.values.assign(static_cast<std::size_t>(stride * call.dv), 0);
  all_.resize(static_cast<std::size_t>(call.dv));
  for (Index j = 0; j < call.keys; ++j) {
    read_row(call.v, b, kv_head, j, call.dv, all_.data());
    for (Index c = 0; c < call.dv; ++c)
      head_.values[static_cast<std::size_t>(c * stride + j)] = all_[static_cast<std::size_t>(c)];
  }
  head_.facts.resize(static_cast<std::size_t>(call.dv));
  head_.known.assign(static_cast<std::size_t>(call.dv), 0);
  return head_.kept = true;
}

void Column::read(const Call& call, const Row& row, Index b, Index h, Index column) {
  const Index kv = call.kv_head(h);
  const bool look_at_masked = looks_at_masked(call, row);
  const bool intervals = attest_present(&call.v_radius);
  const bool kept = !look_at_masked && !intervals && keep_head(call, b, kv);
  const bool whole = kept && row.n == call.keys;
  const auto of_column = static_cast<std::size_t>(column);
  const double* const of_head = kept ? &head_.values[of_column * static_cast<std::size_t>(padded(call.keys))] : nullptr;
  padded_ = row.n_padded;
  masked_finite_ = true;
  beyond_operand_ = false;
  if (whole && head_.known[of_column] != 0) {
    radius_.clear();
    v_ = of_head;
    of_ = head_.facts[of_column];
    return;
  }
  const Index first = look_at_masked ? 0 : row.keys.front();
  const Index count = (look_at_masked ? call.keys : row.keys.back() + 1) - first;
  const double* all = kept ? of_head + first : nullptr;
  if (!kept) {
    all_.resize(static_cast<std::size_t>(count));
    read_column(call.v, b, kv, first, count, column, all_.data());
    all = all_.data();
  }
  all_radius_.resize(intervals ? static_cast<std::size_t>(count) : 0);
  if (intervals) read_column(call.v_radius, b, kv, first, count, column, all_radius_.data());
  const auto radius_of = [&](Index j) { return intervals ? all_radius_[static_cast<std::size_t>(j)] : 0.0; };

  if (look_at_masked) {
    auto attended = row.keys.begin();
    for (Index j = 0; j < count; ++j) {
      const double value = all[j];
      const bool takes_part = attended != row.keys.end() && *attended == j;
      if (takes_part) ++attended;
      if (!takes_part && !row.may_read(call, b, j)) continue;
      const double most = std::fabs(value) + radius_of(j);
      if (call.numbers.operand_rounds && most >= call.numbers.overflow_operand) beyond_operand_ = true;
      if (!takes_part && !std::isfinite(most)) masked_finite_ = false;
    }
  }

  own_.resize(static_cast<std::size_t>(padded_));
  std::fill(own_.begin() + std::ssize(row.keys), own_.end(), 0.0);
  radius_.assign(intervals ? own_.size() : 0, 0);
  // Locals that stay in registers: a store to own_ might change any of the members.
  bool finite = true, unknown = false;
  double most = 0, hull_lo = infinity, hull_hi = -infinity;
  const Index* const keys = row.keys.data();
  double* const v = own_.data();
  for (std::size_t t = 0; t < row.keys.size(); ++t) {
    const double value = all[keys[t] - first];
    const double radius = intervals ? radius_of(keys[t] - first) : 0;
    unknown |= radius == infinity;
    finite &= std::fabs(value) < infinity && std::isfinite(radius);
    v[t] = value;
    if (intervals) radius_[t] = radius;
    most = std::max(most, std::fabs(value) + radius);
    hull_lo = std::min(hull_lo, value - radius);
    hull_hi = std::max(hull_hi, value + radius);
  }
  // Near the ends of the range of double, sums would overflow or lose bits: a power of two moves the values away.
  const double unit = !finite || most == 0 ? 1 : most > 0x1p900 ? 0x1p-128 : most < 0x1p-700 ? 0x1p256 : 1;
  if (unit != 1) {
    for (double& value : own_) value *= unit;
    for (double& radius : radius_) radius *= unit;
  }
  v_ = v;
  Lanes total = fill(0);
  for (Index t = 0; t < padded_; t += lane_count) total += magnitudes(static_cast<std::size_t>(t));
  of_ = {unit, sum(total), most * unit, hull_lo, hull_hi, finite, unknown};
  if (!whole || unit != 1) return;
  head_.facts[of_column] = of_;
  head_.known[of_column] = 1;
}

}  // namespace attest::oracle
