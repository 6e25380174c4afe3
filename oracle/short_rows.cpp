#include "oracle/short_rows.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/format.hpp"
#include "oracle/quick_scratch.hpp"

namespace attest::oracle {
namespace {

// A row is read number by number: of longer ones, or wider heads, that costs more than it saves.
constexpr Index most_products = 128;
// Fewer rows cost less one by one, as do blocks of which hardly one is settled.
constexpr std::size_t least_rows = 24;
constexpr Index asked_at_least = 64, settled_of = 4;

// Calls work(decode), where decode() reads one element of the tensor from where it lies.
template <class Work>
void with_elements(const attest_tensor& t, const Work& work) {
  with_element(*dtype_of(t.dtype), [&](auto element) {
    if constexpr (element.floating) work([element](const std::byte* at) { return element.load(at); });
  });
}

// Elements (b, h, i, 0..count) of each row.
void load_rows(const attest_tensor& t, std::span<const RowIndex> rows, Index count, double* to, Index stride) {
  with_elements(t, [&](auto element) {
    const Index step = t.strides[3] * (t.dtype.bits / 8);
    for (const RowIndex& row : rows) {
      const std::byte* at = element_at(t, row.b, row.h, row.i, 0);
      for (Index c = 0; c < count; ++c, at += step) to[c * stride] = element(at);
      ++to;
    }
  });
}

// Elements (b, kv_head, 0..keys, 0..count), for each row of that head.
void load_heads(const Call& call, const attest_tensor& t, std::span<const RowIndex> rows, Index count, double* to,
                Index stride) {
  with_elements(t, [&](auto element) {
    const Index bytes = t.dtype.bits / 8, step = t.strides[3] * bytes, key_step = t.strides[2] * bytes;
    for (std::size_t n = 0; n < rows.size();) {
      const Index b = rows[n].b, head = call.kv_head(rows[n].h);
      std::size_t same = 1;
      while (n + same < rows.size() && rows[n + same].b == b && call.kv_head(rows[n + same].h) == head) ++same;
      double* first = to + n;
      const std::byte* key = element_at(t, b, head, 0, 0);
      for (Index j = 0; j < call.keys; ++j, key += key_step) {
        const std::byte* at = key;
        for (Index c = 0; c < count; ++c, at += step, first += stride) {
          const double x = element(at);
          for (std::size_t r = 0; r < same; ++r) first[r] = x;
        }
      }
      n += same;
    }
  });
}

}  // namespace

bool ShortRows::speaks_of(const Quick& quick, const Call& call, std::size_t rows) {
  const Numbers& m = call.numbers;
  // Where merges widen t by a row's scores, or a final softcap may make a score of a bias of -inf, one row says nothing
  // of another.
  return rows >= least_rows && call.keys <= products::short_keys && call.keys * (call.d + call.dv) <= most_products &&
         quick.max_rows() > 0 && !m.merges_widen() && !m.arithmetic.normalise_lse &&
         !(call.has_bias && m.softcap > 0 && !m.softcap_before_bias);
}

ShortRows::ShortRows(Quick& quick, const Call& call, Format out_format, const attest_tensor& out,
                     const attest_tensor& lse)
    : quick_(quick),
      call_(call),
      format_(out_format),
      out_(out),
      lse_(lse),
      masks_(call.has_keep || call.options.causal || call.options.window_left >= 0 || call.options.window_right >= 0 ||
             attest_present(&call.kv_lengths)) {
  const Numbers& m = call.numbers;
  place_buffers();
  rule_.u_softmax = m.u_softmax;
  rule_.a1 = m.a1;
  rule_.a2 = m.a2;
  rule_.a3 = m.a3;
  rule_.spared = quick.spared_;
  rule_.eta_after = quick.before_ ? 0 : m.eta_pv;  // as Quick::weigh() has it
  rule_.unit = unit_roundoff(format_);
  rule_.tiny = format_ == Format::f64 ? 0 : half_smallest_subnormal(format_);
}

void ShortRows::place_buffers() {
  const Index of_heads = call_.keys * (call_.d + call_.dv);
  room_ = of_heads <= most_products / 4 ? most_rows : most_rows / 2;
  const Index numbers = call_.d + of_heads + call_.dv + 4 * call_.keys + 4;
  auto& memory = quick_.scratch_.short_rows;
  if (std::ssize(memory) < numbers * room_) memory.resize(static_cast<std::size_t>(numbers * room_));
  double* next = memory.data();
  const auto take = [&](Index count) { return std::exchange(next, next + count * room_); };
  lanes_.stride = room_;
  lanes_.keys = call_.keys;
  lanes_.d = call_.d;
  lanes_.dv = call_.dv;
  lanes_.q = take(call_.d);
  lanes_.k = take(call_.keys * call_.d);
  lanes_.v = take(call_.keys * call_.dv);
  lanes_.got = take(call_.dv);
  bias_ = take(call_.keys);
  open_ = take(call_.keys);
  if (call_.has_bias) lanes_.bias = bias_;
  if (masks_) lanes_.open = open_;
  lanes_.z = take(call_.keys);
  lanes_.e = take(call_.keys);
  for (double** one : {&lanes_.n, &lanes_.z_max, &lanes_.mass, &lanes_.gain}) *one = take(1);
  lanes_.sound = sound_.data();
  lanes_.settled = settled_.data();
}

bool ShortRows::settles(const Problem& problem, const JudgedRows& rows, std::size_t next, bool knows_empty) {
  if (++block_; block_ >= blocks_.size() || blocks_[block_].next != next) {
    if (asked_ >= asked_at_least && settled_blocks_ * settled_of < asked_) {
      speaks_ = false;
      return false;
    }
    look_at(problem, rows, next, knows_empty);
  }
  ++asked_;
  settled_blocks_ += block().settled;
  return block().settled;
}

void ShortRows::look_at(const Problem& problem, const JudgedRows& rows, std::size_t next, bool knows_empty) {
  blocks_.clear();
  block_ = 0;
  lanes_.rows = 0;
  oracle::Block block;
  while (next < rows.size()) {
    const std::size_t after = block.take(problem, rows, next, quick_.max_rows());
    const auto count = std::ssize(block.rows());
    if (lanes_.rows + count > room_) break;
    std::ranges::copy(block.rows(), at_.begin() + lanes_.rows);
    blocks_.push_back({next, lanes_.rows, count, false});
    lanes_.rows += count;
    next = after;
  }
  load();
  judge(products::short_scores({quick_.score_rule_, call_.numbers.near + 180}, lanes_));
  if (attest_present(&lse_)) judge_lse();
  for (Block& each : blocks_) {
    each.settled = true;
    for (Index n = each.first; n < each.first + each.count && each.settled; ++n)
      each.settled = bit(settled_, n) || (knows_empty && bit(empty_, n) && bit(sound_, n));
  }
}

void ShortRows::load() {
  const std::span<const RowIndex> rows = std::span(at_).first(static_cast<std::size_t>(lanes_.rows));
  const Index stride = lanes_.stride;
  load_rows(call_.q, rows, call_.d, lanes_.q, stride);
  load_heads(call_, call_.k, rows, call_.d, lanes_.k, stride);
  load_heads(call_, call_.v, rows, call_.dv, lanes_.v, stride);
  load_rows(out_, rows, call_.dv, lanes_.got, stride);
  if (call_.has_bias) load_rows(call_.bias, rows, call_.keys, bias_, stride);
  empty_.fill(0);
  if (masks_) load_masks();
  // Rows that fill the last lanes: the last one once more.
  const Index last = lanes_.rows - 1, whole = padded(lanes_.rows);
  if (whole == lanes_.rows) return;
  const double* const end = lanes_.z;
  for (double* row = lanes_.q; row != end; row += stride) std::fill(row + last + 1, row + whole, row[last]);
}

void ShortRows::load_masks() {
  for (Index n = 0; n < lanes_.rows; ++n) {
    const RowIndex& row = at_[static_cast<std::size_t>(n)];
    const KeyRange range = call_.range(row.b, row.i);
    const std::byte* const kept = call_.has_keep ? element_at(call_.keep, row.b, row.h, row.i, 0) : nullptr;
    bool any = false;
    for (Index j = 0; j < call_.keys; ++j) {
      const bool open =
          j >= range.first && j < range.last && (kept == nullptr || kept[j * call_.keep.strides[3]] != std::byte{0});
      open_[j * lanes_.stride + n] = open ? 0 : -infinity;
      any |= open;
    }
    if (!any) empty_[static_cast<std::size_t>(n / lane_count)] |= static_cast<std::uint8_t>(1U << n % lane_count);
  }
}

// Judges by upper bounds of all rows, one for each number of open keys.
void ShortRows::judge(const products::ShortTops& tops) {
  const Numbers& m = call_.numbers;
  const double q_norm = std::sqrt(tops.q_square);
  const double k_norm = std::sqrt(tops.k_square) + 1e-153 * quick_.root_d_;
  const Score top = quick_.largest_score(q_norm * k_norm * (1 + 1e-9), q_norm, tops.bias, k_norm);
  // To a row that masks and a bias of -inf close, no key comes back that they exclude.
  for (Index r = 0; r < lanes_.rows && call_.has_bias && !top.overflow(); ++r)
    if (lanes_.n[r] == 0 && bit(sound_, r))
      empty_[static_cast<std::size_t>(r / lane_count)] |= static_cast<std::uint8_t>(1U << r % lane_count);
  std::array<bool, products::short_keys + 1> asked{};
  for (Index r = 0; r < lanes_.rows; ++r) asked[static_cast<std::size_t>(lanes_.n[r])] = true;
  for (std::size_t n = 1; n <= static_cast<std::size_t>(call_.keys); ++n) {
    rule_.bounded[n] = 0;
    if (!asked[n]) continue;
    Quick::State row{};
    row.n = static_cast<double>(n);
    row.z_max = tops.z;
    row.q_norm = q_norm;
    if (!quick_.bound(row, top)) continue;
    const Quick::ForCount& f = *row.f;
    rule_.bounded[n] = 1;
    rule_.constant[n] = f.every_exp + (quick_.sum_rounded_only_ ? m.u_weights : 0) +
                        m.u_softmax * (f.a2 * (m.lazy + f.ln_least + 1) + m.a3 * m.lazy);
    const double cap = rule_.cap[n] = std::min(0.5, row.d_most);
    rule_.damping[n] = (1 - cap + cap * cap * (0.5 - cap / 6)) * slack;  // <= e^-cap
    rule_.t[n] = f.t + (quick_.sum_rounded_only_ ? 0 : m.u_weights);
    rule_.g[n] = f.g;
    const double products = m.pv_sums.any() ? 0 : row.n;  // blocks of them may lose more
    rule_.absolute_after[n] = products + 2 * f.r + 6;
    rule_.absolute_before[n] = quick_.before_ ? m.eta_pv * (products + 2) : 0;
  }
  products::judge_short(rule_, lanes_);
}

void ShortRows::judge_lse() {
  const Format type = lse_.dtype.bits == 64 ? Format::f64 : Format::f32;
  for (Index r = 0; r < lanes_.rows; ++r) {
    if (!bit(settled_, r)) continue;
    const RowIndex& row = at_[static_cast<std::size_t>(r)];
    if (!quick_.accepts_lse(lanes_.z_max[r], lanes_.mass[r], lanes_.gain[r],
                            rule_.g[static_cast<std::size_t>(lanes_.n[r])], attest_load(&lse_, row.b, row.h, row.i, 0),
                            type))
      settled_[static_cast<std::size_t>(r / lane_count)] &= static_cast<std::uint8_t>(~(1U << r % lane_count));
  }
}

}  // namespace attest::oracle
