#include "block.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "row.hpp"

namespace hostile {
namespace {

using Matrix = std::vector<std::vector<double>>;

std::size_t size(std::int64_t extent) { return static_cast<std::size_t>(extent); }
std::int64_t at(std::size_t index) { return static_cast<std::int64_t>(index); }
int sign(double x) { return x < 0 ? -1 : x > 0 ? 1 : 0; }

std::uint64_t mixed(std::uint64_t x) {
  x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  return (x ^ (x >> 29)) * 0x94d049bb133111ebu >> 7;
}

int rounds_up_log2(std::int64_t n) {
  int levels = 0;
  while ((std::int64_t{1} << levels) < n) ++levels;
  return levels;
}

/// The four products of a block: the same unit, and the same promise, for each.
class Gemm {
 public:
  explicit Gemm(const Scheme& scheme) : s_(scheme) {}

  /// False if the chain that is declared is too short for n terms in any order.
  bool allows(std::size_t terms) {
    const auto n = std::max<std::int64_t>(at(terms), 1);
    how_ = s_.gemm_sum;
    if (wide()) how_.blocks.size = 0;
    std::int64_t chain = s_.gemm_chain;
    if (s_.gemm_lanes > 0)
      chain = (n + s_.gemm_lanes * s_.gemm_block - 1) / (s_.gemm_lanes * s_.gemm_block) +
              rounds_up_log2(s_.gemm_lanes) + rounds_up_log2(s_.gemm_block);
    if (chain == 0 || how_.blocks.size > 0 || n - 1 <= chain) return true;
    std::int64_t lanes = 2;
    while (lanes < n && (n + lanes - 1) / lanes - 1 + rounds_up_log2(lanes) > chain) ++lanes;
    if ((n + lanes - 1) / lanes - 1 + rounds_up_log2(lanes) > chain) return false;
    if (how_.order != Order::greedy) how_.order = Order::lanes;
    how_.lanes = lanes;
    how_.lanes_in_pairs = true;
    return true;
  }

  /// x w^T + bias in the accumulator; sides: that to which each of the numbers shall err.
  std::vector<double> operator()(const std::vector<double>& x, const Matrix& w, const std::vector<double>& bias,
                                 std::span<const int> sides) const {
    const std::size_t width = w.size();
    const Summer sum(how_, s_.gemm, wide(), (s_.flush & flush_sums) != 0, std::min(s_.operand.least, s_.storage.least));
    std::vector<double> factors(x.size()), transposed(x.size() * width), result(width);
    std::vector<const double*> rows(x.size());
    for (std::size_t c = 0; c < x.size(); ++c) {
      factors[c] = factor(x[c]);
      rows[c] = transposed.data() + c * width;
      for (std::size_t n = 0; n < width; ++n) transposed[c * width + n] = factor(w[n][c]);
    }
    std::vector<double> start(bias);
    for (double& b : start) b = nearest(b, s_.gemm);
    const bool first = s_.bias_first && !start.empty();
    sum(factors, rows, width, first ? start.data() : nullptr, result.data(), 0, sides);
    if (!first)
      for (std::size_t n = 0; n < start.size(); ++n) result[n] = sum.sum(result[n], start[n]);
    return result;
  }

 private:
  bool wide() const {
    return s_.storage.precision > 26 || s_.operand.precision > 26 ||
           (!s_.heads_rounded && !s_.heads_to_f32 && s_.pv.precision > 26);
  }

  double factor(double x) const {
    if (s_.operand.precision < s_.storage.precision) {
      x = nearest(x, s_.operand);
      if (s_.flush & flush_inputs) x = flushed(x, s_.operand);
    }
    return s_.gemm_first ? nearest(x, s_.gemm) : x;
  }

  const Scheme& s_;
  Summation how_;
};

/// A sample of the block.
class Sample {
 public:
  Sample(const attest_mha& call, const Scheme& scheme, std::int64_t b)
      : call_(call), s_(scheme), inner_(scheme), b_(b), project_(scheme), join_(scheme) {
    if (s_.projections == Projections::unrounded && !is_f64(s_.storage)) {
      // Operands and weights are f32 then; the operands of attention are no inputs.
      inner_.operand = inner_.weights = inner_.storage = formats[3];
    }
    const attest_tensor& memory = attest_present(&call.memory) ? call.memory : call.x;
    l_ = size(call.x.shape[1]);
    m_ = size(memory.shape[1]);
    e_ = size(call.x.shape[2]);
    d_ = size(call.head_dim);
    heads_ = size(call.heads);
    group_ = heads_ / size(call.kv_heads);
    x_ = tokens(call.x, l_);
    memory_ = tokens(memory, m_);
    w_q_ = matrix(call.w_q);
    w_k_ = matrix(call.w_k);
    w_v_ = matrix(call.w_v);
    w_out_ = matrix(call.w_out);
    length_ = attest_present(&call.kv_lengths)
                  ? *static_cast<const std::int32_t*>(attest_at(&call.kv_lengths, b, 0, 0, 0))
                  : at(m_);
  }

  bool run() {
    if (!project_.allows(e_) || !join_.allows(heads_ * d_)) return false;
    Options options;
    options.scale = call_.scale;
    options.has_bias = attest_present(&call_.bias) != 0;
    options.rounds_output = false;  // heads are rounded to storage or not at all
    const Attention attention(inner_, options);
    // Derivatives of exact arithmetic, of one output of each row, tell where every number should go.
    aim();
    const std::vector<double> none;
    q_ = projected(x_, w_q_, vector(call_.b_q), q_sides_);
    k_ = projected(memory_, w_k_, s_.drop_b_k ? none : vector(call_.b_k), k_sides_);
    v_ = projected(memory_, w_v_, vector(call_.b_v), v_sides_);
    give(call_.q, q_);
    give(call_.k, k_);
    give(call_.v, v_);
    Matrix joined(l_, std::vector<double>(heads_ * d_));
    std::unique_ptr<Head> head;
    for (std::size_t h = 0; h < heads_; ++h) {
      if (h % group_ == 0) head = std::make_unique<Head>(load(attention, h / group_));
      for (std::size_t i = 0; i < l_; ++i) attend(attention, *head, h, i, joined[i].data() + h * d_);
    }
    for (std::size_t i = 0; i < l_ && attest_present(&call_.heads_out); ++i)
      for (std::size_t c = 0; c < heads_ * d_; ++c) attest_store(&call_.heads_out, b_, at(i), at(c), 0, joined[i][c]);
    const std::vector<double> b_out = vector(call_.b_out);
    const bool apart = s_.projections == Projections::separate;
    for (std::size_t i = 0; i < l_; ++i) {
      std::vector<int> sides(e_, s_.goal);
      for (std::size_t e = 1; e < e_; e += 2) sides[(target(i) + e) % e_] = -s_.goal;
      std::vector<double> out = join_(joined[i], w_out_, apart ? none : b_out, sides);
      for (std::size_t e = 0; e < e_; ++e) {
        // Rounded to storage before the bias, as the other projections are, and to the output stage after it.
        const double y = apart ? add(stored(out[e]), b_out.empty() ? 0 : b_out[e], s_.output) : out[e];
        attest_store(&call_.out, b_, at(i), at(e), 0, written(y));
      }
    }
    return true;
  }

 private:
  double read(double x) const { return s_.flush & flush_inputs ? flushed(x, s_.storage) : x; }

  double stored(double x) const {
    const double y = nearest(x, s_.storage);
    return s_.flush & flush_output ? flushed(y, s_.storage) : y;
  }

  /// A number of out as the output stage rounds it.
  double written(double x) const {
    const double y = nearest(x, s_.output);
    return stored(s_.flush & flush_output ? flushed(y, s_.output) : y);
  }

  Matrix tokens(const attest_tensor& t, std::size_t rows) const {
    Matrix result(rows, std::vector<double>(e_));
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t c = 0; c < e_; ++c) result[i][c] = read(attest_load(&t, b_, at(i), at(c), 0));
    return result;
  }

  Matrix matrix(const attest_tensor& t) const {
    Matrix result(size(t.shape[0]), std::vector<double>(size(t.shape[1])));
    for (std::size_t n = 0; n < result.size(); ++n)
      for (std::size_t c = 0; c < result[n].size(); ++c) result[n][c] = read(attest_load(&t, at(n), at(c), 0, 0));
    return result;
  }

  std::vector<double> vector(const attest_tensor& t) const {
    std::vector<double> result;
    for (std::int64_t n = 0; attest_present(&t) && n < t.shape[0]; ++n)
      result.push_back(read(attest_load(&t, n, 0, 0, 0)));
    return result;
  }

  Matrix projected(const Matrix& rows, const Matrix& w, const std::vector<double>& bias,
                   const std::vector<std::vector<int>>& sides) const {
    Matrix result;
    const bool apart = s_.projections == Projections::separate;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      result.push_back(project_(rows[i], w, apart ? std::vector<double>() : bias, sides[i]));
      for (std::size_t n = 0; n < w.size(); ++n) {
        double& y = result.back()[n];
        if (s_.projections != Projections::unrounded) y = stored(y);
        if (apart && !bias.empty()) y = stored(add(y, bias[n], s_.storage));
      }
    }
    return result;
  }

  /// [B,heads,tokens,head_dim]
  void give(const attest_tensor& stage, const Matrix& rows) const {
    if (!attest_present(&stage)) return;
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t n = 0; n < rows[i].size(); ++n)
        attest_store(&stage, b_, at(n / d_), at(i), at(n % d_), rows[i][n]);
  }

  bool open(std::size_t h, std::size_t i, std::size_t j) const {
    if (at(j) >= length_) return false;
    const std::int64_t diagonal = call_.align == ATTEST_TOP_LEFT ? at(i) : at(i) + length_ - at(l_);
    if (call_.causal && at(j) > diagonal) return false;
    return !attest_present(&call_.keep) ||
           *static_cast<const std::uint8_t*>(attest_at(&call_.keep, b_, at(h), at(i), at(j))) != 0;
  }

  Head load(const Attention& attention, std::size_t kv) const {
    Head head;
    head.keys = m_;
    head.depth = head.width = d_;
    head.k.resize(d_ * m_);
    head.v.resize(m_ * d_);
    for (std::size_t j = 0; j < m_; ++j)
      for (std::size_t c = 0; c < d_; ++c) {
        head.k[c * m_ + j] = attention.key(k_[j][kv * d_ + c]);
        head.v[j * d_ + c] = attention.value(v_[j][kv * d_ + c]);
      }
    return head;
  }

  void attend(const Attention& attention, const Head& head, std::size_t h, std::size_t i, double* out) const {
    Row row;
    row.length = size(length_);
    row.number = h * 0x10001u + i;
    for (std::size_t c = 0; c < d_; ++c) row.q.push_back(attention.query(q_[i][h * d_ + c]));
    for (std::size_t j = 0; j < m_; ++j) row.open.push_back(open(h, i, j) ? 1 : 0);
    if (attest_present(&call_.bias))
      for (std::size_t j = 0; j < m_; ++j) row.bias.push_back(attest_load(&call_.bias, b_, at(h), at(i), at(j)));
    row.key_sides = key_sides_[h * l_ + i];
    row.column_sides = column_sides(h, i);
    row.sum_side = sum_sides_[h * l_ + i];
    attention.attend(head, row, out);
    for (std::size_t c = 0; c < d_; ++c) {
      if (s_.heads_rounded)
        out[c] = stored(out[c]);
      else if (s_.heads_to_f32 && !is_f64(s_.storage))
        out[c] = nearest(out[c], formats[3]);
    }
  }

  std::size_t target(std::size_t i) const { return e_ == 0 ? 0 : mixed(s_.seed + (s_.vary ? i : 0)) % e_; }

  std::vector<int> column_sides(std::size_t h, std::size_t i) const {
    std::vector<int> sides(d_);
    for (std::size_t c = 0; c < d_; ++c) sides[c] = s_.goal * sign(w_out_[target(i)][h * d_ + c]);
    return sides;
  }

  static Matrix product(const Matrix& x, const Matrix& w, const std::vector<double>& bias) {
    Matrix result(x.size(), std::vector<double>(w.size()));
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t n = 0; n < w.size(); ++n) {
        double sum = bias.empty() ? 0 : bias[n];
        for (std::size_t c = 0; c < x[i].size(); ++c) sum += x[i][c] * w[n][c];
        result[i][n] = sum;
      }
    return result;
  }

  void aim() {
    const Matrix q = product(x_, w_q_, vector(call_.b_q)), k = product(memory_, w_k_, vector(call_.b_k)),
                 v = product(memory_, w_v_, vector(call_.b_v));
    key_sides_.assign(heads_ * l_, std::vector<int>(m_, 1));
    sum_sides_.assign(heads_ * l_, 1);
    q_sides_.assign(l_, std::vector<int>(w_q_.size(), 1));
    k_sides_.assign(m_, std::vector<int>(w_k_.size(), 1));
    v_sides_ = k_sides_;
    if (e_ == 0 || l_ == 0) return;
    // Keys and values serve many rows; those of one row are aimed at.
    const std::size_t chosen = mixed(s_.seed + 1) % l_;
    Matrix by_k(m_, std::vector<double>(w_k_.size())), by_v = by_k;
    std::vector<double> p(m_), moved(m_);
    for (std::size_t h = 0; h < heads_; ++h)
      for (std::size_t i = 0; i < l_; ++i) {
        const std::size_t kv = h / group_ * d_;
        const std::vector<double>& w = w_out_[target(i)];
        double largest = -infinity, total = 0, mean = 0;
        for (std::size_t j = 0; j < m_; ++j) {
          p[j] = -infinity;
          moved[j] = 0;
          if (!open(h, i, j)) continue;
          double score = 0;
          for (std::size_t c = 0; c < d_; ++c) {
            score += q[i][h * d_ + c] * k[j][kv + c];
            moved[j] += w[h * d_ + c] * v[j][kv + c];
          }
          p[j] = score * call_.scale;
          if (attest_present(&call_.bias)) p[j] += attest_load(&call_.bias, b_, at(h), at(i), at(j));
          largest = std::fmax(largest, p[j]);
        }
        for (double& x : p) total += x = std::isfinite(largest) && x > -infinity ? std::exp(x - largest) : 0;
        for (std::size_t j = 0; j < m_ && total > 0; ++j) mean += (p[j] /= total) * moved[j];
        sum_sides_[h * l_ + i] = -s_.goal * sign(mean);
        std::vector<double> by_q(d_);
        for (std::size_t j = 0; j < m_; ++j) {
          key_sides_[h * l_ + i][j] = s_.goal * (moved[j] < mean ? -1 : 1);
          const double gain = s_.goal * p[j] * (moved[j] - mean) * call_.scale;
          for (std::size_t c = 0; c < d_; ++c) {
            by_q[c] += gain * k[j][kv + c];
            if (i != chosen) continue;
            by_k[j][kv + c] += gain * q[i][h * d_ + c];
            by_v[j][kv + c] += s_.goal * p[j] * w[h * d_ + c];
          }
        }
        for (std::size_t c = 0; c < d_; ++c) q_sides_[i][h * d_ + c] = sign(by_q[c]);
      }
    for (std::size_t j = 0; j < m_; ++j)
      for (std::size_t n = 0; n < w_k_.size(); ++n) {
        k_sides_[j][n] = sign(by_k[j][n]);
        v_sides_[j][n] = sign(by_v[j][n]);
      }
  }

  const attest_mha& call_;
  const Scheme& s_;
  Scheme inner_;  // the heads'
  std::int64_t b_, length_ = 0;
  std::size_t l_ = 0, m_ = 0, e_ = 0, d_ = 0, heads_ = 0, group_ = 1;
  Gemm project_, join_;
  Matrix x_, memory_, w_q_, w_k_, w_v_, w_out_, q_, k_, v_;
  std::vector<std::vector<int>> key_sides_, q_sides_, k_sides_, v_sides_;
  std::vector<int> sum_sides_;
};

}  // namespace

bool attend_block(const attest_mha& call, const Scheme& scheme) {
  for (std::int64_t b = 0; b < call.x.shape[0]; ++b)
    if (!Sample(call, scheme, b).run()) return false;
  return true;
}

}  // namespace hostile
