#include "ops/attention/probe/ask.hpp"

#include <algorithm>
#include <cmath>

#include "core/supports.hpp"

namespace attest::ops::of_attention {
Problem Maker::blank(Index lq, Index lk, Index d, Index dv) const {
  if (drawn_ != nullptr) return as_drawn();
  const Supports& s = supports_;
  Problem p;
  p.dtype = dtype_;
  p.b = s.b.nearest(size_.samples);
  p.hkv = s.hkv.nearest(size_.heads);
  p.hq = s.hq.nearest(p.hkv);
  if (p.hq != p.hkv && (!s.gqa || p.hq % p.hkv != 0)) p.hkv = s.hkv.nearest(p.hq);
  p.lq = s.lq.nearest(std::max(lq, size_.rows));
  p.lk = s.lk.nearest(lk);
  const Index step = row_step(s.alignment, dtype_);
  const auto width = [&](const DimRange& range, Index n) { return range.nearest((n + step - 1) / step * step); };
  p.d = width(s.d, s.dv_equals_d ? std::max(d, dv) : d);
  p.dv = s.dv_equals_d ? p.d : width(s.dv, dv);
  p.forms = size_.forms;
  p.values = Values::constant;
  p.q_form = p.k_form = p.v_form = Form::zero;
  if (s.scale != Supports::Scale::only_default) p.scale = 1;
  return p;
}

// The drawn problem without the options that hide elements set by hand; its tensors of masks are there, and open.
Problem Maker::as_drawn() const {
  Problem p = *drawn_;
  for (Layout* layout : {&p.q_layout, &p.k_layout, &p.v_layout})
    if (broadcasts(*layout)) *layout = Layout::bhsd;
  p.values = Values::constant;
  p.values_file.clear();
  p.amplitude = 1;
  p.q_form = p.k_form = p.v_form = Form::zero;
  p.null_key = false;
  p.b0 = p.hq0 = p.hkv0 = p.lq0 = p.lk0 = p.d0 = p.dv0 = 0;
  p.edits.clear();
  p.softcap = 0;
  int exponent = 0;
  const bool power_of_two = std::frexp(p.effective_scale(), &exponent) == 0.5;
  if (supports_.scale != Supports::Scale::only_default && (p.scale || !power_of_two)) p.scale = 1;
  if (p.keep != Keep::none) p.keep = Keep::open;
  if (p.bias != Bias::none) p.bias = Bias::zero;
  if (p.lengths != Lengths::none) p.lengths = Lengths::full;
  return p;
}

std::optional<Problem> Maker::paired(Index lk, Index d) const {
  Problem p = blank(1, lk, d, 1);
  if (drawn_ != nullptr) return p.lk < lk || p.d < d ? std::nullopt : std::optional(std::move(p));
  if (p.lk % 2 != 0) p.lk = supports_.lk.nearest(p.lk + 1);
  if (p.lk % 2 != 0 || p.lk < lk || p.d < d) return std::nullopt;
  if (!p.scale) {
    for (Index four = 4; four <= 1024; four *= 4)
      if (four >= p.d && supports_.d.offers(four) && four % row_step(supports_.alignment, dtype_) == 0) {
        p.d = four;
        if (supports_.dv_equals_d) p.dv = four;
        return p;
      }
    return std::nullopt;
  }
  return p;
}

void set(Problem& problem, Edit::Tensor tensor, std::array<Index, 4> index, double value) {
  problem.edits.push_back({tensor, index, value});
}
void set_q(Problem& problem, Index row, Index column, double value) {
  set(problem, Edit::Tensor::q, {0, 0, row, column}, value);
}
void set_keys(Problem& problem, Index parity, Index column, double value) {
  for (Index j = parity; j < problem.lk; j += 2) set(problem, Edit::Tensor::k, {0, 0, j, column}, value);
}
void set_values(Problem& problem, Index parity, double value) {
  for (Index j = parity; j < problem.lk; j += 2) set(problem, Edit::Tensor::v, {0, 0, j, 0}, value);
}

double logistic(double x) noexcept { return 1 / (1 + std::exp(-x)); }
double logit(double p) noexcept { return std::log(p / (1 - p)); }

}  // namespace attest::ops::of_attention
