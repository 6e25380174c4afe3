#include "certify/mha/block.hpp"

#include <algorithm>
#include <cmath>

#include "certify/rounding.hpp"

namespace attest::certify::mha {
namespace {

std::vector<double> row_of(const Tensor& tensor, Index first, Index second, bool samples) {
  std::vector<double> row(static_cast<std::size_t>(tensor.shape().back()));
  for (std::size_t c = 0; c < row.size(); ++c) {
    const auto at = static_cast<Index>(c);
    row[c] = samples ? tensor.at(first, second, at) : tensor.at(first, at);
  }
  return row;
}

// Rows [first, first + count) of a matrix of weights, and what is added to each sum of products with it.
struct Factors {
  std::vector<Factor> rows;
  std::vector<double> bias;
  Factors(const Tensor& weights, const Tensor& biases, Index first, Index count) {
    for (Index n = first; n < first + count; ++n) {
      rows.emplace_back(row_of(weights, n, 0, false));
      bias.push_back(biases.present() ? biases.at(n) : 0);
    }
  }
};

Ball upper_end(const Ball& x) {
  Ball end;
  arb_get_ubound_arf(arb_midref(end.get()), x.get(), 2 * working_bits());
  return end;
}

}  // namespace

std::vector<Going> goings_of(const Contract& contract) {
  std::vector<Going> list;
  for (std::size_t how = 0; how < attest::mha::projected_count; ++how)
    for (const bool rounded : {true, false})
      if (contract.projections[how] && (rounded ? contract.heads_rounded : contract.heads_unrounded))
        list.push_back({static_cast<attest::mha::Projected>(how), rounded});
  return list;
}

Block::Block(const Contract& contract, const attest::mha::Inputs& inputs, Going going, double float64_errors)
    : contract_(contract),
      inputs_(inputs),
      going_(going),
      float64_errors_(float64_errors),
      storage_(contract.attention.policy[Stage::storage]),
      flush_(contract.attention.arithmetic.flush_to_zero),
      of_heads_(contract.attention) {
  const Format wide = at_least_f32(storage_);
  heads_ = going.heads_rounded ? storage_ : wide;
  left_ = going.projected == attest::mha::Projected::unrounded ? wide : storage_;
  if (going.projected == attest::mha::Projected::unrounded)
    for (const Stage stage : {Stage::storage, Stage::operand, Stage::weights}) of_heads_.policy.set(stage, wide);
  of_heads_.policy.set(Stage::output, heads_);

  const attest::mha::Problem& p = inputs.problem;
  const Tensor& memory = p.self ? inputs.x : inputs.memory;
  const Index q = p.q_width(), kv = p.kv_width();
  const auto projection = [&](const Tensor& own, const Tensor& bias, Index before, Index width) {
    return p.packed ? Factors(inputs.w_q, inputs.b_q, before, width) : Factors(own, bias, 0, width);
  };
  Factors of_q = projection(inputs.w_q, inputs.b_q, 0, q), of_k = projection(inputs.w_k, inputs.b_k, q, kv),
          of_v = projection(inputs.w_v, inputs.b_v, q + kv, kv);
  if (contract.drops_b_k) std::ranges::fill(of_k.bias, 0);
  const Rule rule(contract, storage_, storage_, float64_errors);
  const auto make = [&](const Tensor& tokens, const Factors& by, Index heads, Intervals& to) {
    const Index count = tokens.shape()[1];
    to.shape = {p.b, heads, count, p.head_dim};
    to.elements.resize(static_cast<std::size_t>(p.b * heads * count * p.head_dim));
    for (Index b = 0; b < p.b; ++b)
      for (Index i = 0; i < count; ++i) {
        const Factor x(row_of(tokens, b, i, true));
        for (std::size_t n = 0; n < by.rows.size(); ++n) {
          const Index h = static_cast<Index>(n) / p.head_dim, c = static_cast<Index>(n) % p.head_dim;
          to.elements[static_cast<std::size_t>(((b * heads + h) * count + i) * p.head_dim + c)] =
              stored(rule, x, by.rows[n], by.bias[n]);
        }
      }
  };
  make(inputs.x, of_q, p.heads, operands_.q);
  make(memory, of_k, p.kv_heads, operands_.k);
  make(memory, of_v, p.kv_heads, operands_.v);
  describe();
}

// Fills in the parts of the call besides the operands that attention's own formulas read.
void Block::describe() {
  const attest::mha::Problem& p = inputs_.problem;
  const auto points = [this](const Intervals& of) {
    Tensor tensor(DType::f64, of.shape);
    std::size_t n = 0;
    for (Index b = 0; b < of.shape[0]; ++b)
      for (Index h = 0; h < of.shape[1]; ++h)
        for (Index i = 0; i < of.shape[2]; ++i)
          for (Index c = 0; c < of.shape[3]; ++c) {
            const Intervals::Element& x = of.elements[n++];
            if (!x.known || arb_is_zero(x.radius.get()) == 0) operands_.exact = false;
            tensor.set(b, h, i, c, arf_get_d(arb_midref(x.centre.get()), ARF_RND_NEAR));
          }
    return tensor;
  };
  call_.q = points(operands_.q);
  call_.k = points(operands_.k);
  scores_are_known_ = operands_.exact;
  call_.v = points(operands_.v);
  if (inputs_.bias.present()) call_.bias = inputs_.bias.clone();
  if (inputs_.keep.present()) call_.keep = inputs_.keep.clone();
  if (inputs_.kv_lengths.present()) call_.kv_lengths = inputs_.kv_lengths.clone();
  call_.scale = p.effective_scale();
  call_.causal = p.causal;
  call_.align = p.align;
}

Block::Range Block::rounded_to(Format format, const Range& range) {
  const Rounding round{format, format, false};
  const Rounding::Ends lo = round(range.lo), hi = round(range.hi);
  uncertain_ = uncertain_ || lo.least != lo.most || hi.least != hi.most;
  double least = lo.least, most = hi.most;
  if (flush_) {  // a result that rounds to less than the smallest normal number may be 0
    const double tiny = smallest_normal(format);
    if (least > 0 && least <= tiny) least = 0;
    if (most < 0 && most >= -tiny) most = 0;
  }
  return {least, most};
}

// Section 1: what is known of a projection once it is stored.
Intervals::Element Block::stored(const Rule& rule, const Factor& x, const Factor& w, double bias) {
  const bool separate = going_.projected == attest::mha::Projected::separate;
  const double added = separate ? 0 : bias;
  const Terms terms = rule.terms(x, w, added);
  Intervals::Element unknown{0, infinity, false};
  if (!x.finite || !w.finite || !std::isfinite(bias) || rule.overflows(terms)) return unknown;
  Ball sum = added;
  for (const std::size_t c : w.nonzero) sum += Ball(x.values[c]) * w.values[c];
  const Ball g = rule.error(terms);
  Range range{sum - g, sum + g};
  if (going_.projected != attest::mha::Projected::unrounded) range = rounded_to(storage_, range);
  if (separate) {
    const bool flushed = std::fabs(bias) < rule.smallest_input();
    const auto finite = [](const Ball& end) { return end.is_finite(); };
    if (!finite(range.lo) || !finite(range.hi)) return unknown;
    range.lo += flushed ? std::min(bias, 0.0) : bias;
    range.hi += flushed ? std::max(bias, 0.0) : bias;
    range = rounded_to(storage_, range);
  }
  if (!range.lo.is_finite() || !range.hi.is_finite()) return unknown;
  return {(range.lo + range.hi) / 2, (range.hi - range.lo) / 2, true};
}

// Section 2: o_c as the last product takes it.
Block::Range Block::as_it_enters(const Enclosure& of) {
  if (going_.heads_rounded) return rounded_to(heads_, {of.lo, of.hi});
  if (arb_equal(of.lo.get(), of.hi.get()) != 0) return {of.lo, of.hi};
  const Unit unit(heads_, flush_);
  return {of.lo - unit.u * abs(of.lo) - unit.eta, of.hi + unit.u * abs(of.hi) + unit.eta};
}

// Returns half an ulp of a number of that magnitude in the format of the concatenated heads, to which it was rounded;
// two halves where it may not have been.
Ball Block::half_step(const Ball& magnitude) const {
  const Ball most = upper_end(max(magnitude, smallest_normal(heads_)));
  Ball step;
  arf_set_si_2exp_si(arb_midref(step.get()), 1, fmpz_get_si(ARF_EXPREF(arb_midref(most.get()))) - 1);
  step = step * unit_roundoff(heads_) * (going_.heads_rounded ? 1 : 2);
  return flush_ ? step + smallest_normal(heads_) : step;
}

// Section 3: what the weighted sum of a head's columns may be, since one set of weights serves them all.
Block::Range Block::joint(const Row& row, Index b, Index h, const Factor& weights, Index first,
                          const std::vector<Enclosure>& columns, const std::vector<Range>& ends) const {
  const Index kv = h / inputs_.problem.group(), d = inputs_.problem.head_dim;
  std::vector<Intervals::Element> values;
  Ball rounded, largest_sum;
  const Enclosure* any = nullptr;
  const auto weight = [&](Index c) { return weights.values[static_cast<std::size_t>(first + c)]; };
  for (const Index j : row.keys) {
    Intervals::Element sum;
    for (Index c = 0; c < d; ++c) {
      if (weight(c) == 0) continue;
      const Intervals::Element& v = operands_.v.at(b, kv, j, c);
      sum.centre += weight(c) * v.centre;
      sum.radius += std::fabs(weight(c)) * v.radius;
    }
    values.push_back(sum);
  }
  for (Index c = 0; c < d; ++c) {
    if (weight(c) == 0) continue;
    const auto at = static_cast<std::size_t>(c);
    any = &columns[at];
    Ball top;
    for (const Index j : row.keys) {
      const Intervals::Element& v = operands_.v.at(b, kv, j, c);
      top = max(top, abs(v.centre) + v.radius);
    }
    largest_sum += std::fabs(weight(c)) * top;
    rounded += std::fabs(weight(c)) * half_step(max(abs(ends[at].lo), abs(ends[at].hi)));
  }
  for (Intervals::Element& v : values) v.radius += float64_errors_ * (Ball(d) + 4) * 0x1p-52 * largest_sum;
  Range range;
  for (std::size_t k = 0; k < any->ways.size(); ++k) {
    const Way& way = any->ways[k];
    const Means means = means_of(row, way.extra, values);
    const Ball shared = expm1(way.shared * (1 + unit_of_last_));
    Ball apart, all, g;
    for (Index c = 0; c < d; ++c) {
      if (weight(c) == 0) continue;
      const Way& of = columns[static_cast<std::size_t>(c)].ways[k];
      const Ball size = std::fabs(weight(c));
      apart += size * of.x_apart;
      all += size * (max(abs(of.means.least), abs(of.means.most)) + of.x);
      g = max(g, of.g);
    }
    const Ball r = apart * (1 + shared) + shared * means.mean_abs + g * all + rounded;
    range.lo = k == 0 ? means.least - r : min(range.lo, means.least - r);
    range.hi = k == 0 ? means.most + r : max(range.hi, means.most + r);
  }
  return range;
}

Enclosure Block::element(Index b, Index i, Index e) {
  const attest::mha::Problem& p = inputs_.problem;
  const Factor weights(row_of(inputs_.w_out, e, 0, false));
  const double bias = inputs_.b_out.present() ? inputs_.b_out.at(e) : 0;
  const bool separate = going_.projected == attest::mha::Projected::separate;
  const double added = separate ? 0 : bias;
  const Rule rule(contract_, heads_, storage_, float64_errors_);
  Constants constants(of_heads_, call_, float64_errors_);
  if (!scores_are_known_) constants.forget_what_is_exact();
  unit_of_last_ = constants.u_final;

  Enclosure out;
  Terms terms;
  terms.products = p.q_width();
  terms.magnitude = std::fabs(added);
  if (added != 0) {
    terms.biased = true;
    terms.count = 1;
    terms.last = std::isfinite(added) ? last_bit(added) : 0;
    if (std::fabs(added) < rule.smallest_input()) terms.flushed += std::fabs(added);
  }
  double largest_weight = 0;
  Ball largest_head;
  out.lo = out.hi = out.y = added;
  out.empty_row = true;
  for (Index h = 0; h < p.heads; ++h) {
    const Row row(constants, of_heads_, call_, {b, h, i}, &operands_);
    out.empty_row = out.empty_row && row.kind == RowKind::empty;
    std::vector<Enclosure> columns(static_cast<std::size_t>(p.head_dim));
    std::vector<Range> ends(columns.size());
    Ball lo, hi;
    Index used = 0;
    bool joins = row.kind == RowKind::ordinary && !row.score_lost;
    for (Index c = 0; c < p.head_dim; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double w = weights.values[static_cast<std::size_t>(h * p.head_dim + c)];
      if (w == 0) {
        if (row.kind != RowKind::ordinary || row.nonfinite || !values_are_known(b, h) || constants.operand_rounds ||
            constants.pv_narrower) {
          out.nonfinite.give("a head whose weight is 0 may be no number, and 0 times that is none");
        } else if (!out.nonfinite) {
          const Enclosure unseen = out_enclosure(constants, of_heads_, call_, row, {b, h, i, c}, &operands_);
          if (unseen.nonfinite || unseen.expect != Expect::number)
            out.nonfinite.give("a head whose weight is 0 may overflow, and 0 times that is no number");
        }
        continue;
      }
      Enclosure& o = columns[at] = out_enclosure(constants, of_heads_, call_, row, {b, h, i, c}, &operands_);
      if (o.nonfinite) out.nonfinite = o.nonfinite;
      if (o.expect != Expect::number) out.nonfinite.give("a head is no number");
      if (o.expect == Expect::nan) out.expect = Expect::nan;
      if (o.undetermined) out.undetermined = o.undetermined;
      if (o.zero_ok) out.undetermined.give("a head may have lost every key");
      if (o.expect == Expect::nonfinite) out.undetermined.give("a head is not finite");
      joins = joins && o.expect == Expect::number && !o.undetermined;
      if (o.expect != Expect::number) continue;
      if (o.undetermined || !o.lo.is_finite() || !o.hi.is_finite()) {
        out.undetermined.give("a head may be anything");
        continue;
      }
      ends[at] = as_it_enters(o);
      const Ball one = w * ends[at].lo, other = w * ends[at].hi, most = max(abs(one), abs(other));
      lo += min(one, other);
      hi += max(one, other);
      out.y += w * o.y;
      if (arb_is_zero(most.get()) != 0) continue;
      ++used;
      ++terms.count;
      const Ball magnitude = max(abs(ends[at].lo), abs(ends[at].hi));
      terms.magnitude += most;
      terms.factors += std::fabs(w) + magnitude;
      largest_weight = std::max(largest_weight, std::fabs(w));
      largest_head = max(largest_head, magnitude);
      if (std::fabs(w) < rule.smallest_input()) terms.flushed += most;
      const bool point = arb_equal(ends[at].lo.get(), ends[at].hi.get()) != 0;
      const double known = arf_get_d(arb_midref(ends[at].lo.get()), ARF_RND_NEAR);
      const int lowest = min_exponent(heads_) - precision(heads_) + 1;
      terms.last = std::min(terms.last, last_bit(w) + (point ? last_bit(known) : lowest));
      if (rule.product_may_round() && !is_power_of_two(w)) terms.rounded = true;
    }
    if (joins && used > 1) {
      const Range range = joint(row, b, h, weights, h * p.head_dim, columns, ends);
      lo = max(lo, range.lo);
      hi = min(hi, range.hi);
    }
    out.lo += lo;
    out.hi += hi;
  }
  if (out.expect == Expect::nan || out.undetermined) {
    out.nonfinite.give("a head may be anything");
    return out;
  }
  terms.largest = largest_head + largest_weight;
  if (rule.overflows(terms)) {
    out.undetermined.give("the output projection may overflow");
    out.nonfinite.give("the output projection may overflow");
    return out;
  }
  const Ball own = terms.count > 1 ? float64_errors_ * (Ball(terms.products) + 4) * 0x1p-52 * terms.magnitude : Ball(0);
  const Ball g = rule.error(terms) + own;
  out.lo = out.lo - g;
  out.hi += g;
  if (separate) {
    const Range range = rounded_to(storage_, {out.lo, out.hi});
    const bool flushed = std::fabs(bias) < rule.smallest_input();
    out.lo = range.lo + (flushed ? std::min(bias, 0.0) : bias);
    out.hi = range.hi + (flushed ? std::max(bias, 0.0) : bias);
    out.y += bias;
  }
  if (may_reach(max(abs(out.lo), abs(out.hi)), overflow_threshold(storage_)))
    out.nonfinite.give("the interval reaches the overflow threshold of out");
  return out;
}

Enclosure Block::head(Index b, Index i, Index column) {
  const Index d = inputs_.problem.head_dim, h = column / d;
  Constants constants(of_heads_, call_, float64_errors_);
  if (!scores_are_known_) constants.forget_what_is_exact();
  const Row row(constants, of_heads_, call_, {b, h, i}, &operands_);
  return out_enclosure(constants, of_heads_, call_, row, {b, h, i, column % d}, &operands_);
}

Enclosure Block::projected(Projection of, const std::array<Index, 4>& index) const {
  const Intervals& all = of == Projection::q ? operands_.q : of == Projection::k ? operands_.k : operands_.v;
  const Intervals::Element& at = all.at(index[0], index[1], index[2], index[3]);
  Enclosure enclosure;
  enclosure.y = at.centre;
  enclosure.lo = at.centre - at.radius;
  enclosure.hi = at.centre + at.radius;
  if (!at.known) {
    enclosure.undetermined.give("a sum of the projection may overflow");
    enclosure.nonfinite.give("a sum of the projection may overflow");
  }
  return enclosure;
}

// Tells whether every value of the head's keys, masked ones too, is known to be finite.
bool Block::values_are_known(Index b, Index h) const {
  const Index kv = h / inputs_.problem.group();
  for (Index j = 0; j < operands_.v.shape[2]; ++j)
    for (Index c = 0; c < operands_.v.shape[3]; ++c)
      if (!operands_.v.at(b, kv, j, c).known) return false;
  return true;
}

}  // namespace attest::certify::mha
