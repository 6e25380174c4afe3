#include "core/mha/weights.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "core/format.hpp"
#include "core/rng.hpp"

namespace attest::mha {
namespace {

using Row = std::vector<double>;

enum class Of : std::uint64_t { x, memory, w_q, w_k, w_v, w_out, b_q, b_k, b_v, b_out, pairs, order };

class Draw {
 public:
  explicit Draw(const Problem& problem) : p_(problem) {
    // Dense weights keep the size of a token; those of integers are a power of two of about that.
    const double width = std::sqrt(static_cast<double>(p_.e));
    dense_ = 1 / width;
    unit_ = std::ldexp(1.0, -std::ilogb(2.8 * width) - 1);
  }

  Values values() {
    Values v;
    if (p_.weights == Weights::zero) return zeros();
    v.x = tokens(Of::x, p_.l, p_.l0, p_.x_layout);
    if (!p_.self) v.memory = tokens(Of::memory, p_.m, p_.m0, p_.memory_layout);
    const Index q = p_.q_width(), kv = p_.kv_width();
    switch (p_.weights) {
      case Weights::dense:
      case Weights::dense_in:
        v.w_q = dense(Of::w_q, q, p_.e);
        v.w_k = dense(Of::w_k, kv, p_.e);
        v.w_v = dense(Of::w_v, kv, p_.e);
        break;
      case Weights::one_hot:
      case Weights::power_of_two:
      case Weights::dense_out:
        v.w_q = picks(Of::w_q, q, p_.e, p_.weights == Weights::power_of_two);
        v.w_k = picks(Of::w_k, kv, p_.e, p_.weights == Weights::power_of_two);
        v.w_v = picks(Of::w_v, kv, p_.e, p_.weights == Weights::power_of_two);
        break;
      case Weights::integers:
      case Weights::cancelling:
        v.w_q = integers(Of::w_q, q, 2, unit_);
        v.w_k = integers(Of::w_k, kv, 2, unit_);
        v.w_v = integers(Of::w_v, kv, 2, unit_);
        if (p_.weights == Weights::cancelling) cancel(v);
        break;
      case Weights::uniform:
      case Weights::selection:
        probe(v);
        break;
      case Weights::zero:
        break;
    }
    if (v.w_out.empty())
      v.w_out = p_.weights == Weights::dense || p_.weights == Weights::dense_out
                    ? dense(Of::w_out, p_.e, q)
                    : picks(Of::w_out, p_.e, q, p_.weights != Weights::one_hot && p_.weights != Weights::dense_in);
    if (v.b_out.empty()) {
      v.b_q = bias(Of::b_q, q);
      v.b_k = bias(Of::b_k, kv);
      v.b_v = bias(Of::b_v, kv);
      v.b_out = whole() ? integers(Of::b_out, 1, 2, 0.25, p_.e) : bias(Of::b_out, p_.e);
    }
    return v;
  }

 private:
  [[nodiscard]] Values zeros() const {
    const auto of = [](Index n) { return Row(static_cast<std::size_t>(n), 0); };
    const Index q = p_.q_width(), kv = p_.kv_width();
    return {of(p_.b * p_.l * p_.e),
            p_.self ? Row() : of(p_.b * p_.m * p_.e),
            of(q * p_.e),
            of(kv * p_.e),
            of(kv * p_.e),
            of(p_.e * q),
            of(q),
            of(kv),
            of(kv),
            of(p_.e)};
  }
  [[nodiscard]] std::uint64_t bits(Of of, Index i, Index j) const {
    return extend(extend(extend(mix(p_.seed), static_cast<std::uint64_t>(of)), static_cast<std::uint64_t>(i)),
                  static_cast<std::uint64_t>(j));
  }
  // The sample, in the problem that this one was cut from, whose tokens these are; the first where all samples share
  // it.
  [[nodiscard]] Index sample(Index b, Layout layout) const { return layout == Layout::broadcast ? 0 : p_.b0 + b; }
  [[nodiscard]] Layout memory_layout() const { return p_.self ? p_.x_layout : p_.memory_layout; }
  [[nodiscard]] std::uint64_t bits_of_token(Of of, Index b, Index token, Index c) const {
    std::uint64_t key = extend(mix(p_.seed), static_cast<std::uint64_t>(of));
    for (const Index n : {b, token, c}) key = extend(key, static_cast<std::uint64_t>(n));
    return key;
  }
  [[nodiscard]] Index pick_of_token(Of of, Index b, Index token, Index c, Index n) const {
    return static_cast<Index>(below(bits_of_token(of, b, token, c), static_cast<std::uint64_t>(n)));
  }
  [[nodiscard]] Index pick(Of of, Index i, Index j, Index n) const {
    return static_cast<Index>(below(bits(of, i, j), static_cast<std::uint64_t>(n)));
  }
  [[nodiscard]] double stored(double x) const {
    const double rounded = round_to(p_.dtype, x), most = largest_finite(p_.dtype);
    return std::clamp(rounded, -most, most);
  }
  // Tells whether x, the biases and what is projected are small integers times a power of two.
  [[nodiscard]] bool whole() const {
    return p_.weights >= Weights::integers && p_.weights != Weights::dense_in && p_.weights != Weights::dense_out;
  }
  [[nodiscard]] bool probes() const { return p_.weights == Weights::uniform || p_.weights == Weights::selection; }

  [[nodiscard]] Row tokens(Of of, Index count, Index origin, Layout layout) const {
    Row row;
    for (Index b = 0; b < p_.b; ++b)
      for (Index i = origin; i < origin + count; ++i)
        for (Index c = 0; c < p_.e; ++c)
          row.push_back(whole() ? static_cast<double>(pick_of_token(of, sample(b, layout), i, c, 7) - 3)
                                : stored(p_.amplitude * normal(bits_of_token(of, sample(b, layout), i, c))));
    return row;
  }
  [[nodiscard]] Row dense(Of of, Index rows, Index columns) const {
    Row row;
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) row.push_back(stored(dense_ * normal(bits(of, i, j))));
    return row;
  }
  // Integers up to `most` times `unit`.
  [[nodiscard]] Row integers(Of of, Index rows, Index most, double unit, Index columns = 0) const {
    Row row;
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < (columns > 0 ? columns : p_.e); ++j)
        row.push_back(static_cast<double>(pick(of, i, j, 2 * most + 1) - most) * unit);
    return row;
  }
  // Row n picks one column, each as often as any other.
  [[nodiscard]] Row picks(Of of, Index rows, Index columns, bool scaled) const {
    const std::vector<Index> order = permutation(of, columns);
    Row row(static_cast<std::size_t>(rows * columns), 0);
    for (Index i = 0; i < rows; ++i) {
      const double sign = pick(of, i, -1, 2) == 0 ? -1 : 1;
      const int power = scaled ? static_cast<int>(pick(of, i, -2, 4)) - 2 : 0;
      row[static_cast<std::size_t>(i * columns + order[static_cast<std::size_t>(i % columns)])] =
          std::ldexp(sign, power);
    }
    return row;
  }
  [[nodiscard]] std::vector<Index> permutation(Of of, Index n) const {
    std::vector<Index> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), Index{0});
    for (Index i = n - 1; i > 0; --i)
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(pick(of, i, -3, i + 1))]);
    return order;
  }
  [[nodiscard]] Row bias(Of of, Index n) const {
    if (whole()) return integers(of, 1, 8, unit_, n);
    Row row;
    for (Index i = 0; i < n; ++i) row.push_back(stored(0.5 * normal(bits(of, 0, i))));
    return row;
  }

  // Makes elements t and e - 1 - t of every token equal and large, and weights on them opposite: the pair cancels
  // whatever the order of the sum, and takes bits of a narrow accumulator along. Members side by side would cancel
  // before these are lost.
  void cancel(Values& v) const {
    const Index pairs = std::min(p_.e / 2, std::max<Index>(1, p_.e / 16));
    for (const auto& [tokens, count, origin, layout] :
         {std::tuple{&v.x, p_.l, p_.l0, p_.x_layout}, {&v.memory, p_.m, p_.m0, p_.memory_layout}})
      for (std::size_t row = 0; row * static_cast<std::size_t>(p_.e) < tokens->size(); ++row) {
        double* const token = tokens->data() + row * static_cast<std::size_t>(p_.e);
        const Index b = sample(static_cast<Index>(row) / count, layout), i = origin + static_cast<Index>(row) % count;
        for (Index t = 0; t < pairs; ++t)
          token[t] = token[p_.e - 1 - t] =
              64.0 * static_cast<double>(1 + pick_of_token(Of::pairs, b, i, tokens == &v.x ? t : -1 - t, 3));
      }
    for (const auto& [weights, of] : {std::pair{&v.w_q, Of::w_q}, {&v.w_k, Of::w_k}, {&v.w_v, Of::w_v}})
      for (Index n = 0; n * p_.e < static_cast<Index>(weights->size()); ++n)
        for (Index t = 0; t < pairs; ++t) set_pair(*weights, n, p_.e, t, p_.e - 1 - t, sign(of, n, t) * 64 * unit_);
  }
  [[nodiscard]] double sign(Of of, Index i, Index j) const { return pick(of, i, -10 - j, 2) == 0 ? -1 : 1; }
  static void set_pair(Row& matrix, Index row, Index columns, Index one, Index other, double value) {
    matrix[static_cast<std::size_t>(row * columns + one)] = value;
    matrix[static_cast<std::size_t>(row * columns + other)] = -value;
  }

  // Weights of which the result is known (docs/mha.md, "Exact probes").
  void probe(Values& v) const {
    const Index q = p_.q_width(), kv = p_.kv_width(), e = p_.e, d = p_.head_dim;
    const bool selects = p_.weights == Weights::selection;
    Row& memory = p_.self ? v.x : v.memory;
    const auto at = [](Row& row, Index i) -> double& { return row[static_cast<std::size_t>(i)]; };
    const Index first = std::min<Index>(1, e - 1), choosers = std::min<Index>(2, std::max<Index>(1, e - 2));
    v.w_q.assign(static_cast<std::size_t>(q * e), 0);
    v.b_q.assign(static_cast<std::size_t>(q), 0);
    v.w_k = selects ? integers(Of::w_k, kv, 1, 1) : dense(Of::w_k, kv, e);
    v.b_k.assign(static_cast<std::size_t>(kv), 0);
    if (selects) {
      for (Index h = 0; h < p_.heads; ++h) at(v.b_q, h * d) = 1;
      // The large elements of memory stay out of keys: with a scale folded in they would overflow.
      for (Index n = 0; n < kv; ++n) at(v.w_k, n * e) = at(v.w_k, n * e + e - 1) = 0;
      for (Index h = 0; h < p_.kv_heads; ++h) {
        std::fill_n(v.w_k.begin() + h * d * e, e, 0.0);
        at(v.w_k, h * d * e + first + h % choosers) = 1;
      }
      for (Index b = 0; b < p_.b; ++b)
        for (Index t = 0; t < choosers; ++t) {
          std::vector<Index> order(static_cast<std::size_t>(p_.m));
          std::iota(order.begin(), order.end(), Index{0});
          for (Index i = p_.m - 1; i > 0; --i)
            std::swap(order[static_cast<std::size_t>(i)],
                      order[static_cast<std::size_t>(pick(Of::order, sample(b, memory_layout()) * 2 + t, i, i + 1))]);
          for (Index j = 0; j < p_.m; ++j)
            at(memory, (b * p_.m + j) * e + first + t) = -static_cast<double>(order[static_cast<std::size_t>(j)]);
        }
    }
    // Rows of w_v: up to four small integers, and a pair that cancels on the first and the last element.
    const Index inner = first + (selects ? choosers : 0);
    v.w_v.assign(static_cast<std::size_t>(kv * e), 0);
    v.b_v = integers(Of::b_v, 1, 4, 1, kv);
    for (Index n = 0; n < kv; ++n) {
      for (Index t = 0; t < 4 && inner + 1 < e; ++t)
        at(v.w_v, n * e + inner + pick(Of::w_v, n, t, e - 1 - inner)) =
            static_cast<double>(pick(Of::w_v, n, 8 + t, 5) - 2);
      if (e > 2) set_pair(v.w_v, n, e, 0, e - 1, sign(Of::w_v, n, 0) * 64);
    }
    for (Index j = 0; j < p_.b * p_.m && e > 2; ++j)
      at(memory, j * e) = at(memory, j * e + e - 1) =
          64.0 * static_cast<double>(1 + pick_of_token(Of::pairs, sample(j / p_.m, memory_layout()),
                                                       (p_.self ? p_.l0 : p_.m0) + j % p_.m, 0, 3));
    // Rows of w_out: up to six small integers, and a pair on two channels far apart that carry the same values.
    const Index twin_kv = p_.kv_heads - 1 - (p_.kv_heads - 1) % choosers;  // it chooses as the first head does
    const Index twin = ((twin_kv + 1) * p_.group() - 1) * d + d - 1, twin_row = twin_kv * d + d - 1;
    std::copy_n(v.w_v.begin(), e, v.w_v.begin() + twin_row * e);
    at(v.b_v, twin_row) = at(v.b_v, 0);
    v.w_out.assign(static_cast<std::size_t>(e * q), 0);
    for (Index n = 0; n < e; ++n) {
      for (Index t = 0; t < 6; ++t)
        at(v.w_out, n * q + pick(Of::w_out, n, t, q)) = static_cast<double>(pick(Of::w_out, n, 8 + t, 5) - 2);
      if (twin > 0) set_pair(v.w_out, n, q, 0, twin, sign(Of::w_out, n, 0) * 512);
    }
    v.b_out = integers(Of::b_out, 1, 4, 0.25, e);
  }

  const Problem& p_;
  double dense_, unit_;
};

}  // namespace

Values draw_values(const Problem& problem) { return Draw(problem).values(); }

}  // namespace attest::mha
